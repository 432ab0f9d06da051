"""Plain English for facts, descriptions, questions and statements.

Every sentence is filled into one of a few templates; `{x}` is a description ("Anna's brother"),
`{a}` an answer ("the drum"), `{d}` the whole description of the answer, `{s}` and `{o}` subject and
object of a fact, `{w}` the kinship, `{b} {t} {p}` a verb's base, third person and participle.
Descriptions branch to the right ("the owner of the thing in Belmere"), so that four hops stay
readable.
"""

import re
from random import Random

from companion.storyworld import lexicon
from companion.storyworld.world import RELATIONS, Fact, Puzzle, Step

_TOWNS = frozenset(lexicon.WORDS["town"])
# A name, or possessives upon a name, may take another 's; a longer phrase would be ambiguous.
_POSSESSIVE = re.compile(r"\w+('s \w+)*")

FACTS = {
    "kin": ("{s}'s {w} is {o}.", "{o} is {s}'s {w}.", "{o} is the {w} of {s}."),
    "social": ("{s} {t} {o}.", "{o} is {p} by {s}."),
    "own": ("{s} owns {o}.", "{o} belongs to {s}.", "{s} is the owner of {o}."),
    "live": ("{s} lives in {o}.", "{s}'s home is in {o}.", "{o} is the home town of {s}."),
    "at": ("{s} is in {o}.", "{s} is kept in {o}.", "{s} can be found in {o}."),
    "job": ("{s} is {o}.", "{s} works as {o}."),
    "mood": ("{s} is {o}.", "{s} feels {o}."),
}

# What may leave a one-hop question open: the same two entities and turn of phrase, another
# relation.
DECOYS = {
    "kin": ("{s}'s {w} knows {o}.", "{o} knows {s}'s {w}.", "{o} knows the {w} of {s}."),
    "social": ("{s} knows {o}.", "{o} is known by {s}."),
    "own": ("{s} wants {o}.", "{o} was made by {s}.", "{s} is the maker of {o}."),
    "live": ("{s} works in {o}.", "{s}'s shop is in {o}.", "{o} is the favourite town of {s}."),
    "at": ("{s} was in {o}.", "{s} was made in {o}.", "{s} can be bought in {o}."),
    "job": ("{s} knows {o}.", "{s} dresses as {o}."),
    "mood": ("{s} was {o}.", "{s} felt {o}."),
}

DESCRIPTIONS = {
    "kin": ("the {w} of {x}",),
    "kin-": ("the person whose {w} is {x}",),
    "social": ("the person {p} by {x}",),
    "social-": ("the person who {t} {x}",),
    "own": ("the thing owned by {x}", "the thing that belongs to {x}"),
    "own-": ("the owner of {x}", "the person who owns {x}"),
    "live": ("the home town of {x}",),
    "live-": ("the person who lives in {x}", "the person whose home is in {x}"),
    "at": ("the town that holds {x}",),
    "at-": ("the thing in {x}", "the thing kept in {x}"),
    "job-": ("{x}",),
    "mood-": ("the person who feels {x}",),
}

QUESTIONS = {
    "kin": ("Who is {d}?",),
    "kin-": ("Who is {d}?", "Whose {w} is {x}?"),
    "social": ("Who is {p} by {x}?", "Whom does {x} {b}?"),
    "social-": ("Who {t} {x}?", "By whom is {x} {p}?"),
    "own": ("What does {x} own?", "Which thing belongs to {x}?"),
    "own-": ("Who owns {x}?", "To whom does {x} belong?", "Who is {d}?"),
    "live": ("Where does {x} live?", "In which town does {x} live?", "What is {d}?"),
    "live-": ("Who lives in {x}?", "Who is {d}?"),
    "at": ("Where is {x}?", "In which town is {x}?"),
    "at-": ("What is {d}?", "Which thing is in {x}?"),
    "job": ("What is the job of {x}?", "What does {x} work as?"),
    "job-": ("Who is {x}?",),
    "mood": ("How does {x} feel?", "What is the mood of {x}?"),
    "mood-": ("Who feels {x}?", "Who is {d}?"),
}

STATEMENTS = {
    "kin": ("{a} is {d}.",),
    "kin-": ("{a} is {d}.", "{x} is {a}'s {w}."),
    "social": ("{x} {t} {a}.", "{a} is {p} by {x}."),
    "social-": ("{a} {t} {x}.", "{x} is {p} by {a}."),
    "own": ("{x} owns {a}.", "{a} belongs to {x}."),
    "own-": ("{a} owns {x}.", "{x} belongs to {a}.", "{a} is {d}."),
    "live": ("{x} lives in {a}.", "The home of {x} is in {a}.", "{a} is {d}."),
    "live-": ("{a} lives in {x}.", "{a} is {d}."),
    "at": ("{x} is in {a}.", "{x} can be found in {a}."),
    "at-": ("{a} is in {x}.", "{a} is {d}."),
    "job": ("{x} is {a}.", "{x} works as {a}."),
    "job-": ("{a} is {x}.",),
    "mood": ("{x} is {a}.", "{x} feels {a}."),
    "mood-": ("{a} feels {x}.", "{a} is {d}."),
}

YES_NO = {
    "kin": ("is {a} {d}",),
    "kin-": ("is {a} {d}",),
    "social": ("does {x} {b} {a}", "is {a} {p} by {x}"),
    "social-": ("does {a} {b} {x}", "is {x} {p} by {a}"),
    "own": ("does {x} own {a}", "does {a} belong to {x}"),
    "own-": ("does {a} own {x}", "does {x} belong to {a}"),
    "live": ("does {x} live in {a}", "is {a} {d}"),
    "live-": ("does {a} live in {x}", "is {a} {d}"),
    "at": ("is {x} in {a}", "can {x} be found in {a}"),
    "at-": ("is {a} in {x}", "is {a} {d}"),
    "job": ("is {x} {a}", "does {x} work as {a}"),
    "job-": ("is {a} {x}",),
    "mood": ("is {x} {a}", "does {x} feel {a}"),
    "mood-": ("does {a} feel {x}", "is {a} {d}"),
}


def named(kind: str, word: str, definite: bool = False) -> str:
    """Return an entity as a noun phrase: Anna, the drum, Belmere, a baker (definite: the baker),
    happy.
    """
    if kind == "object" or (kind == "job" and definite):
        return f"the {word}"
    return lexicon.article(word) if kind == "job" else word


def _words(step: Step) -> dict[str, str]:
    """Return the template's words for a kinship or a verb."""
    if step.relation == "social":
        return {"b": step.word, "t": lexicon.third(step.word), "p": lexicon.past(step.word)}
    return {"w": step.word}


def fact_sentence(random: Random, fact: Fact, templates: tuple[str, ...]) -> str:
    """State a fact by one of some templates."""
    step, subject, object_name = fact
    kinds = RELATIONS[step.relation]
    fields = {"s": named(kinds[0], subject), "o": named(kinds[1], object_name), **_words(step)}
    return lexicon.capitalized(random.choice(templates).format(**fields))


def story_sentences(random: Random, puzzle: Puzzle, *, terse: bool = False) -> list[str]:
    """State all facts of a puzzle in random order, in the shortest words if `terse`.

    A one-hop chain has no joint, so it is broken by another relation between the same two.
    """
    sentences = []
    for index, fact in enumerate(puzzle.facts()):
        decoy = len(puzzle.steps) == 1 and index == puzzle.broken
        templates = (DECOYS if decoy else FACTS)[fact[0].relation]
        sentences.append(fact_sentence(random, fact, templates[:1] if terse else templates))
    random.shuffle(sentences)
    return sentences


def description(random: Random, start: str, steps: tuple[Step, ...]) -> str:
    """Describe the entity that steps lead to from a noun phrase: "the thing owned by Anna's
    brother".
    """
    for step in steps:
        if step.name == "kin" and _POSSESSIVE.fullmatch(start) and random.random() < 0.7:
            start = f"{start}'s {step.word}"
        else:
            start = random.choice(DESCRIPTIONS[step.name]).format(x=start, **_words(step))
    return start


def chain_sentence(
    random: Random,
    templates: dict[str, tuple[str, ...]],
    steps: tuple[Step, ...],
    start: str,
    end: str = "?",
) -> str:
    """Ask for the end of a chain by one of `QUESTIONS`, or name it by one of `STATEMENTS` or
    `YES_NO`.
    """
    last = steps[-1]
    template = random.choice(templates[last.name])
    inner = description(random, named(steps[0].source, start, definite=True), steps[:-1])
    fields = {"x": inner, "a": named(last.target, end), **_words(last)}
    if last.name in DESCRIPTIONS:
        fields["d"] = random.choice(DESCRIPTIONS[last.name]).format(**fields)
        if last.name == "kin" and _POSSESSIVE.fullmatch(inner) and random.random() < 0.7:
            fields["d"] = f"{inner}'s {last.word}"
    return lexicon.capitalized(template.format(**fields))


def length(text: str) -> int:
    """Estimate a text's WordPiece tokens: words and marks, and one more for each town's second
    half.
    """
    tokens = re.findall(r"\w+|[^\w\s]", text)
    return len(tokens) + sum(token in _TOWNS for token in tokens)
