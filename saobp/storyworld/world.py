"""The world of one story: parallel chains of facts, of which a question follows one.

Layers of people, objects, towns, jobs and moods are joined by one-to-one relations, so that a chain of `hops`
facts leads from each entity of the first layer to one of the last. All chains of a story have the same
relations: what a question asks for is told apart from the wrong answers by nothing but the facts.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from random import Random

from saobp.storyworld import lexicon

# relation -> (kind of its subject, kind of its object)
RELATIONS = {
    "kin": ("person", "person"),
    "social": ("person", "person"),
    "own": ("person", "object"),
    "live": ("person", "town"),
    "at": ("object", "town"),
    "job": ("person", "job"),
    "mood": ("person", "mood"),
}
# How often a chain takes a step, forwards ("kin") or against the fact's direction ("kin-").
WEIGHTS = {
    "kin": 6,
    "social": 3,
    "own": 5,
    "live": 4,
    "at": 5,
    "job": 2,
    "mood": 2,
    "kin-": 1,
    "social-": 1,
    "own-": 4,
    "live-": 3,
    "at-": 3,
    "job-": 2,
    "mood-": 1,
}
# Steps with one value by their meaning: a person has one home and one job, a thing one owner and one place;
# who owns a drum may own a lamp too, who has one brother another one, so that neither would be contradicted.
FUNCTIONAL = frozenset({"live", "at", "job", "own-"})
FIRST_KINDS = {"person": 10, "object": 4, "town": 4, "job": 2, "mood": 1}
# Tokens of the shortest wording.
COSTS = {"kin": 7, "social": 4, "own": 5, "live": 6, "at": 7, "job": 5, "mood": 4}


@dataclass(frozen=True)
class Step:
    """One relation, read forwards or backwards; `word` is the kinship or the verb where there are many."""

    relation: str
    inverse: bool = False
    word: str = ""

    @property
    def name(self) -> str:
        """The step's name in `WEIGHTS`, such as "own" or "own-"."""
        return self.relation + "-" * self.inverse

    @property
    def source(self) -> str:
        """The kind of entity that the step starts from."""
        return RELATIONS[self.relation][self.inverse]

    @property
    def target(self) -> str:
        """The kind of entity that the step leads to."""
        return RELATIONS[self.relation][not self.inverse]


@dataclass(frozen=True)
class Fact:
    """A stated fact: subject, relation (with its word) and object."""

    relation: str
    word: str
    subject: str
    object: str


@dataclass(frozen=True)
class Puzzle:
    """Parallel chains through the same steps; `layers[i][c]` is the entity of chain c behind i steps.

    `broken` is the chain whose facts do not join (None: all join): at `joint` one of its facts speaks of the
    `stranger` instead (of one hop: another relation is stated).
    """

    steps: tuple[Step, ...]
    layers: tuple[tuple[str, ...], ...]
    extra: tuple[Fact, ...] = ()
    broken: int | None = None
    joint: int = 0
    stranger: str = ""

    @property
    def hops(self) -> int:
        """The number of facts between a question and its answer."""
        return len(self.steps)

    @property
    def chains(self) -> int:
        """The number of parallel chains."""
        return len(self.layers[0])

    def fact(self, step: int, chain: int) -> Fact:
        """Return the fact behind one step of one chain."""
        start, end = self.layers[step][chain], self.layers[step + 1][chain]
        if chain == self.broken and step == self.joint:
            start = self.stranger or start
        relation = self.steps[step]
        pair = (end, start) if relation.inverse else (start, end)
        return Fact(relation.relation, relation.word, *pair)

    def facts(self) -> list[Fact]:
        """Return all facts of the story in the order of steps and chains."""
        joined = [self.fact(step, chain) for step in range(self.hops) for chain in range(self.chains)]
        return joined + list(self.extra)


def draw_steps(
    random: Random,
    hops: int,
    allowed: frozenset[str] | None = None,
    *,
    last: frozenset[str] | None = None,
    cost: int | None = None,
) -> tuple[Step, ...]:
    """Draw the relations of a chain.

    `allowed` limits the steps, `last` those that may end it, `cost` the tokens of its facts (`COSTS`).
    """
    paths, weights = _paths(hops, allowed or frozenset(WEIGHTS), last or frozenset(WEIGHTS), cost or 99)
    return _with_words(random, random.choices(paths, cum_weights=weights)[0])


@cache
def _paths(hops: int, allowed: frozenset[str], last: frozenset[str], cost: int) -> tuple[list, list[float]]:
    """Return all chains of steps that fit together, and the running sum of their weights."""
    paths = {((), kind): weight for kind, weight in FIRST_KINDS.items()}
    for _ in range(hops):
        longer = {}
        for (names, kind), weight in paths.items():
            fit = [n for n in _FROM[kind] if n in allowed and not (names and n == _BACK.get(names[-1]))]
            total = sum(WEIGHTS[n] for n in fit)
            longer |= {((*names, n), step(n).target): weight * WEIGHTS[n] / total for n in fit}
        paths = longer
    kept = {
        names: weight
        for (names, _), weight in paths.items()
        if names[-1] in last and sum(COSTS[n.rstrip("-")] for n in names) <= cost
    }
    if not kept:
        relations = ", ".join(sorted(allowed))
        raise ValueError(f"relations: no chain of {hops} hops fits within {relations}; allow more")
    return list(kept), list(accumulate(kept.values()))


def step(name: str) -> Step:
    """Return the step of a name such as "own" or "own-", without a word."""
    return Step(name.rstrip("-"), name.endswith("-"))


_FROM = {kind: [name for name in WEIGHTS if step(name).source == kind] for kind in FIRST_KINDS}
# A step and its reverse; kinship and feelings may turn round, since each step of theirs has another word.
_BACK = {
    name: name.rstrip("-") + "-" * (not name.endswith("-"))
    for name in WEIGHTS
    if not name.startswith(("kin", "social"))
}


def _with_words(random: Random, names: tuple[str, ...]) -> tuple[Step, ...]:
    """Give each kinship and verb its word; at most one is of blood: "Anna's brother's sister" may be Anna."""
    taken: set[str] = set()
    steps = []
    for one in map(step, names):
        if one.relation == "social":
            one = replace(one, word=lexicon.draw_distinct(random, list(lexicon.SOCIAL), 1, taken)[0])
        if one.relation == "kin":
            blood = lexicon.BLOOD_MALE + lexicon.BLOOD_FEMALE
            words = lexicon.ROLES if taken & set(blood) or random.random() < 0.4 else blood
            one = replace(one, word=lexicon.draw_distinct(random, words, 1, taken)[0])
        steps.append(one)
    return tuple(steps)


def draw_puzzle(
    random: Random, steps: tuple[Step, ...], chains: int, *, strangers: int = 0, one_gender: bool = False
) -> tuple[Puzzle, list[str]]:
    """Draw the entities of a puzzle; also return `strangers` more per layer kind-by-kind, for a broken joint.

    `one_gender` makes the people of the last layer all men or all women, so that one pronoun fits them.
    """
    taken: set[str] = set()
    kinds = [steps[0].source] + [step.target for step in steps]
    layers = []
    for index, kind in enumerate(kinds):
        gender = _gender(random, steps, index, one_gender and index == len(steps))
        layers.append(tuple(_draw_entities(random, kind, chains, taken, gender)))
    joint = random.randrange(1, len(steps)) if len(steps) > 1 else 0
    gender = _gender(random, steps, joint, False)
    spare = _draw_entities(random, kinds[joint], strangers, taken, gender)
    return Puzzle(steps, tuple(layers), joint=joint), spare


def _gender(random: Random, steps: tuple[Step, ...], index: int, one: bool) -> str:
    """Return "male", "female" or "" for a layer: a kinship behind or ahead may fix the gender."""
    words = [steps[index - 1].word] if index and not steps[index - 1].inverse else []
    words += [steps[index].word] if index < len(steps) and steps[index].inverse else []
    for word in words:
        if word in lexicon.BLOOD_MALE:
            return "male"
        if word in lexicon.BLOOD_FEMALE:
            return "female"
    return random.choice(("male", "female")) if one else ""


def _draw_entities(random: Random, kind: str, count: int, taken: set[str], gender: str) -> list[str]:
    """Draw entities of a kind that the story does not have yet."""
    if kind != "person":
        lists = {
            "object": lexicon.OBJECTS,
            "town": lexicon.TOWNS,
            "job": lexicon.JOBS,
            "mood": lexicon.MOODS_GOOD + lexicon.MOODS_BAD,
        }
        return lexicon.draw_distinct(random, lists[kind], count, taken)
    lists = {"male": lexicon.MALE, "female": lexicon.FEMALE}
    genders = [gender or random.choice(("male", "female")) for _ in range(count)]
    return [lexicon.draw_distinct(random, lists[g], 1, taken)[0] for g in genders]


def break_chain(puzzle: Puzzle, chain: int, stranger: str) -> Puzzle:
    """Take the joint out of one chain: of its two facts there one speaks of a stranger from now on."""
    return replace(puzzle, broken=chain, stranger=stranger)


def is_male(name: str) -> bool:
    """Say whether a first name is one of the men's."""
    return name in lexicon.MALE
