"""Does a story entail a statement (RTE, MNLI), answer a question (QNLI), or settle a pronoun (WNLI)?

In every story of RTE, MNLI and QNLI one chain of facts does not join: its middle is about two people (or
things) instead of one. A statement about that chain is left open; only following the facts tells which chain
it is. The relations that end a statement have one value (a thing has one owner): another contradicts it.
`hops` counts the facts that the statement or question is about, stated or not.
"""

# ruff: noqa: SIM905  a list of words reads better as text

from random import Random

from saobp.storyworld import language, lexicon, puzzles, world

CHAINS = {1: (2, 3, 4), 2: (2, 3), 3: (2, 3), 4: (2,)}
PEOPLE = frozenset(name for name in world.WEIGHTS if world.step(name).target == "person")
ENTAILED, NEUTRAL, CONTRADICTED = 0, 1, 2
_SCENES = ("is talking to", "is walking with", "is waiting for", "is sitting beside", "is looking at")
_ACTS = "smiles laughs waves nods sings leaves sighs hums yawns coughs blushes whistles".split()


def _statement(random: Random, hops: int, label: int) -> tuple[str, str]:
    """Return a story and a statement that it entails, leaves open or contradicts."""
    told = puzzles.tell(random, hops, CHAINS[hops], last=world.FUNCTIONAL, broken=label == NEUTRAL)
    end = told.answer
    if label == CONTRADICTED or (label == NEUTRAL and hops > 1 and random.random() < 0.5):
        end = told.other_end(random)
    return told.story, language.statement(random, told.puzzle.steps, told.start, end)


def mnli(random: Random, index: int) -> dict:
    """Return premise, hypothesis and label (0 entailment, 1 neutral, 2 contradiction)."""
    hops, label = 1 + index % 4, index // 4 % 3
    premise, hypothesis = _statement(random, hops, label)
    return {"premise": premise, "hypothesis": hypothesis, "label": label, "hops": hops}


def rte(random: Random, index: int) -> dict:
    """Return two sentences and label (0 entailment, 1 not: contradicted or left open)."""
    hops, label = 1 + index % 4, index // 4 % 2
    kind = (NEUTRAL, CONTRADICTED)[index // 8 % 2] if label else ENTAILED
    story, statement = _statement(random, hops, kind)
    return {"sentence1": story, "sentence2": statement, "label": label, "hops": hops}


def qnli(random: Random, index: int) -> dict:
    """Return question, text and label (0 the text answers it, 1 it does not)."""
    hops, label = 1 + index % 4, index // 4 % 2
    told = puzzles.tell(random, hops, CHAINS[hops], broken=bool(label))
    question = language.question(random, told.puzzle.steps, told.start)
    return {"question": question, "sentence": told.story, "label": label, "hops": hops}


def wnli(random: Random, index: int) -> dict:
    """Return a story with a last pronoun for one of two people, a reading of it, and if it is right (1)."""
    hops, label, first = 1 + index % 4, index // 4 % 2, index // 8 % 2
    told = puzzles.tell(random, hops, 2, last=PEOPLE, one_gender=True)
    claimed = told.answer if label else told.other_end(random)
    pair = [claimed, *(end for end in told.ends if end != claimed)]
    scene = f"{pair[1 - first]} {random.choice(_SCENES)} {pair[first]}."
    act = lexicon.draw(random, _ACTS)
    who = "He" if world.is_male(claimed) else "She"
    reason = language.description(random, told.puzzle.steps, told.start)
    story = f"{told.story} {scene} {who} {act} because {who.lower()} is {reason}."
    return {"sentence1": story, "sentence2": f"{claimed} {act}.", "label": label, "hops": hops}
