"""A story and what is asked of it: entailment (RTE, MNLI), answers (QNLI, BoolQ, SQuAD, RACE), a
pronoun (WNLI).

In every story of RTE, MNLI and QNLI one chain of facts does not join: its middle is about two
people (or things) instead of one, and a statement about it is left open. The relations that end a
statement have one value (a thing has one owner): another contradicts it. `hops` counts the facts
that the statement or question is about, stated or not.
"""

import re
from dataclasses import dataclass, replace
from random import Random

from companion.storyworld import language, lexicon, narrative, world

# of story, question and answer, estimated; with special tokens they fit into 128
TOKENS = 104
CHAINS = {1: (2, 3, 4), 2: (2, 3), 3: (2, 3), 4: (2,)}
PEOPLE = frozenset(name for name, step in world.STEPS.items() if step.target == "person")
ENTAILED, NEUTRAL, CONTRADICTED = 0, 1, 2
_COMMON = frozenset({"the", "a", "an", "is", "was", "of", "in", "by", "near", "under", "it"})
_SCENES = (
    "is talking to",
    "is walking with",
    "is waiting for",
    "is sitting beside",
    "is looking at",
)


@dataclass(frozen=True)
class Told:
    """A story, and the chain that is asked for: from `start` along `steps` to `answer`.

    `others` are the ends of the other chains, of one kind with the answer and mentioned as often.
    """

    story: str
    steps: tuple[world.Step, ...]
    start: str
    answer: str
    others: list[str]


def tell(
    random: Random,
    hops: int,
    chains: int,
    *,
    last: frozenset[str] = world.ANY,
    broken: bool | None = None,
) -> Told:
    """Draw a story of parallel chains, and the chain to ask for; chains that end in `PEOPLE` end in
    those of one gender.

    `broken` None: all chains join. True or False: one chain of the story does not join, and it is
    the one to ask for, or is not; the two stories look alike.
    """
    while True:
        steps = world.draw_steps(random, hops, last=last, cost=(TOKENS - 10 - 3 * hops) // chains)
        puzzle = world.draw_puzzle(
            random, steps, chains, stranger=broken is not None, one_gender=last == PEOPLE
        )
        chain = random.randrange(chains)
        if broken is not None:
            unbroken = random.choice([c for c in range(chains) if c != chain])
            puzzle = replace(puzzle, broken=chain if broken else unbroken)
        sentences = language.story_sentences(random, puzzle, terse=chains * hops >= 12)
        start, ends = puzzle.layers[0][chain], list(puzzle.layers[-1])
        question = language.chain_sentence(random, language.QUESTIONS, steps, start)
        room = TOKENS - language.length(" ".join(sentences)) - language.length(question) - 2
        if room >= 0:
            story = " ".join(_with_filler(random, sentences, room))
            return Told(story, steps, start, ends.pop(chain), ends)


def _with_filler(random: Random, sentences: list[str], room: int) -> list[str]:
    """Put a sentence that says nothing of the facts among them, where there is room."""
    filler = narrative.scene(random, narrative.FILLERS)
    words = set(" ".join(sentences).lower().replace(".", "").split())
    shared = words & set(filler.lower().replace(".", "").split())
    if shared - _COMMON or language.length(filler) + 12 > room or random.random() < 0.5:
        return sentences
    at = random.randrange(len(sentences) + 1)
    return [*sentences[:at], filler, *sentences[at:]]


def _statement(random: Random, hops: int, label: int) -> tuple[str, str]:
    """Return a story and a statement that it entails, leaves open or contradicts."""
    chains = random.choice(CHAINS[hops])
    passage = tell(random, hops, chains, last=world.FUNCTIONAL, broken=label == NEUTRAL)
    end = passage.answer
    if label == CONTRADICTED or (label == NEUTRAL and hops > 1 and random.random() < 0.5):
        end = random.choice(passage.others)
    return passage.story, language.chain_sentence(
        random, language.STATEMENTS, passage.steps, passage.start, end
    )


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
    passage = tell(random, hops, random.choice(CHAINS[hops]), broken=bool(label))
    question = language.chain_sentence(random, language.QUESTIONS, passage.steps, passage.start)
    return {"question": question, "sentence": passage.story, "label": label, "hops": hops}


def wnli(random: Random, index: int) -> dict:
    """Return a story with a last pronoun for one of two people, a reading of it, and if it is right
    (1).
    """
    hops, label, first = 1 + index % 4, index // 4 % 2, index // 8 % 2
    passage = tell(random, hops, 2, last=PEOPLE)
    pair = (
        [passage.answer, *passage.others]
        if label
        else [random.choice(passage.others), passage.answer]
    )
    scene = f"{pair[1 - first]} {random.choice(_SCENES)} {pair[first]}."
    who = "He" if passage.answer in lexicon.WORDS["male"] else "She"
    act = lexicon.draw(random, "doing")
    start = language.named(passage.steps[0].source, passage.start, definite=True)
    reason = language.description(random, start, passage.steps)
    story = f"{passage.story} {scene} {who} {act} because {who.lower()} is {reason}."
    return {"sentence1": story, "sentence2": f"{pair[0]} {act}.", "label": label, "hops": hops}


def boolq(random: Random, index: int) -> dict:
    """Return a question without capital and mark, as BoolQ has it, whether yes is the answer, and
    the passage.
    """
    hops, answer = 1 + index % 4, bool(index // 4 % 2)
    passage = tell(random, hops, random.choice(CHAINS[hops]))
    end = passage.answer if answer else random.choice(passage.others)
    question = language.chain_sentence(random, language.YES_NO, passage.steps, passage.start, end)
    return {
        "question": question[0].lower() + question[1:],
        "answer": answer,
        "passage": passage.story,
        "hops": hops,
    }


def squad(random: Random, index: int) -> dict:
    """Return context, question and the one span that answers it."""
    hops = 1 + index % 4
    passage = tell(random, hops, random.choice({1: (3, 4, 5), 2: (3, 4), 3: (3,), 4: (2, 3)}[hops]))
    # the end of a chain is named once
    (place,) = re.finditer(rf"\b{passage.answer}\b", passage.story)
    question = language.chain_sentence(random, language.QUESTIONS, passage.steps, passage.start)
    answers = {"text": [passage.answer], "answer_start": [place.start()]}
    row = {"id": "", "title": passage.start, "context": passage.story, "question": question}
    return row | {"answers": answers, "hops": hops}


def race(random: Random, index: int) -> dict:
    """Return article, question, four options of one kind and the letter of the right one."""
    hops, position = 1 + index % 4, index // 4 % 4
    passage = tell(random, hops, 4)
    question = language.chain_sentence(random, language.QUESTIONS, passage.steps, passage.start)
    options = random.sample(passage.others, 3)
    options.insert(position, passage.answer)
    options = [language.named(passage.steps[-1].target, option) for option in options]
    return {
        "example_id": "",
        "article": passage.story,
        "answer": "ABCD"[position],
        "question": question,
        "options": options,
        "hops": hops,
    }
