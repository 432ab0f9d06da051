"""The world of one story: parallel chains of facts, of which a question follows one.

Layers of people, objects, towns, jobs and moods are joined by one-to-one relations, so that a chain
of `hops` facts leads from each entity of the first layer to one of the last. All chains of a story
have the same
relations: what a question asks for is told apart from the wrong answers by nothing but the facts.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from random import Random

from companion.storyworld import lexicon

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
WEIGHTS = {"kin": 6, "social": 3, "own": 5, "live": 4, "at": 5, "job": 2, "mood": 2}
WEIGHTS |= {"kin-": 1, "social-": 1, "own-": 4, "live-": 3, "at-": 3, "job-": 2, "mood-": 1}
ANY = frozenset(WEIGHTS)
# Steps with one value by their meaning: a person has one home and one job, a thing one owner and
# one place; who owns a drum may own a lamp too, who has one brother another one, so that neither
# would be contradicted.
FUNCTIONAL = frozenset({"live", "at", "job", "own-"})
FIRST_KINDS = {"person": 10, "object": 4, "town": 4, "job": 2, "mood": 1}
# Tokens of the shortest wording.
COSTS = {"kin": 7, "social": 4, "own": 5, "live": 6, "at": 7, "job": 5, "mood": 4}


@dataclass(frozen=True)
class Step:
    """One relation, read forwards or backwards; `word` is the kinship or the verb where there are
    many.
    """

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


# without their words
STEPS = {name: Step(name.rstrip("-"), name.endswith("-")) for name in WEIGHTS}
# what joins its subject and its object
Fact = tuple[Step, str, str]


@dataclass(frozen=True)
class Puzzle:
    """Parallel chains through the same steps; `layers[i][c]` is the entity of chain c behind i
    steps.

    `broken` is the chain whose facts do not join (None: all join): at `joint` one of its facts
    speaks of the `stranger` instead (of one hop: another relation is stated).
    """

    steps: tuple[Step, ...]
    layers: tuple[tuple[str, ...], ...]
    joint: int = 0
    stranger: str = ""
    broken: int | None = None

    def facts(self) -> list[Fact]:
        """Return all facts of the story in the order of steps and chains."""
        facts = []
        for number, step in enumerate(self.steps):
            for chain, (start, end) in enumerate(zip(self.layers[number], self.layers[number + 1])):
                if chain == self.broken and number == self.joint > 0:
                    start = self.stranger
                facts.append((step, end, start) if step.inverse else (step, start, end))
        return facts


def draw_steps(
    random: Random,
    hops: int,
    allowed: frozenset[str] = ANY,
    *,
    last: frozenset[str] = ANY,
    cost: int = 99,
) -> tuple[Step, ...]:
    """Draw the relations of a chain, each kinship and verb with its word.

    `allowed` limits the steps, `last` those that may end it, `cost` the tokens of its facts
    (`COSTS`).
    Raises ValueError if no chain fits.
    """
    paths, weights = _paths(hops, allowed, last, cost)
    taken: set[str] = set()
    steps = []
    for step in (STEPS[name] for name in random.choices(paths, cum_weights=weights)[0]):
        if step.relation == "social":
            step = replace(step, word=lexicon.draw_new(random, "verb", taken))
        # at most one is of blood: "Anna's brother's sister" may be Anna
        if step.relation == "kin":
            by_role = not taken.isdisjoint(lexicon.WORDS["blood"]) or random.random() < 0.4
            step = replace(
                step, word=lexicon.draw_new(random, "role" if by_role else "blood", taken)
            )
        steps.append(step)
    return tuple(steps)


@cache
def _paths(
    hops: int, allowed: frozenset[str], last: frozenset[str], cost: int
) -> tuple[list, list[float]]:
    """Return all chains of steps that fit together, and the running sum of their weights."""
    paths = {((), kind): weight for kind, weight in FIRST_KINDS.items()}
    for _ in range(hops):
        longer = {}
        for (names, kind), weight in paths.items():
            fit = [name for name in WEIGHTS if name in allowed and STEPS[name].source == kind]
            before = STEPS[names[-1]].relation if names else ""
            # none leads back; each of kinship and feelings has another word
            if before not in ("kin", "social"):
                fit = [name for name in fit if STEPS[name].relation != before]
            total = sum(WEIGHTS[name] for name in fit)
            for name in fit:
                path = ((*names, name), STEPS[name].target)
                longer[path] = weight * WEIGHTS[name] / total
        paths = longer
    kept = {}
    for (names, _), weight in paths.items():
        tokens = sum(COSTS[STEPS[name].relation] for name in names)
        if names[-1] in last and tokens <= cost:
            kept[names] = weight
    if not kept:
        relations = ", ".join(sorted(allowed))
        raise ValueError(f"relations: no chain of {hops} hops fits within {relations}; allow more")
    return list(kept), list(accumulate(kept.values()))


def draw_puzzle(
    random: Random,
    steps: tuple[Step, ...],
    chains: int,
    *,
    stranger: bool = False,
    one_gender: bool = False,
) -> Puzzle:
    """Draw the entities of a puzzle, and a `stranger` of the joint's kind, with whom a chain can be
    broken.

    `one_gender` makes the people of the last layer all men or all women, so that one pronoun fits
    them.
    """
    taken: set[str] = set()
    last = len(steps)
    layers = [
        _layer(random, steps, n, chains, taken, one_gender and n == last) for n in range(last + 1)
    ]
    joint = random.randrange(1, last) if last > 1 else 0
    spare = _layer(random, steps, joint, 1, taken) if stranger else ("",)
    return Puzzle(steps, tuple(layers), joint, *spare)


def _layer(
    random: Random,
    steps: tuple[Step, ...],
    index: int,
    count: int,
    taken: set[str],
    one_gender: bool = False,
) -> tuple[str, ...]:
    """Draw the entities of one layer that the story does not have yet; a kinship beside it may fix
    their gender.
    """
    kind = steps[index].source if index < len(steps) else steps[-1].target
    words = {step.word for step in steps[index : index + 1] if step.inverse}
    words |= {step.word for step in steps[:index][-1:] if not step.inverse}
    if kind != "person":
        slots = [kind] * count
    elif words & {*lexicon.WORDS["kinsman"]}:
        slots = ["male"] * count
    elif words & {*lexicon.WORDS["kinswoman"]}:
        slots = ["female"] * count
    elif one_gender:
        slots = [random.choice(("male", "female"))] * count
    else:
        slots = [random.choice(("male", "female")) for _ in range(count)]
    return tuple(lexicon.draw_new(random, slot, taken) for slot in slots)
