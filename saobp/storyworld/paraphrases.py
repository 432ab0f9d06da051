"""Pairs of sentences: the same in other words or not (MRPC, QQP), and how much of it is the same (STS-B)."""

from dataclasses import replace
from random import Random

from saobp.storyworld import language, lexicon, world
from saobp.storyworld.world import Fact, Puzzle


def _told(random: Random, facts: tuple[Fact, Fact]) -> str:
    """Say two facts in one sentence, in random order and wording."""
    first, second = random.sample(facts, 2)
    one, two = language.fact_sentence(random, first), language.fact_sentence(random, second)
    if two.startswith("The "):
        two = "the " + two[4:]
    joint = random.choice((" and ", ", and ", ", while "))
    return one.rstrip(".") + joint + two


def _other_facts(random: Random, facts: tuple[Fact, Fact]) -> tuple[Fact, Fact]:
    """Exchange the objects of two facts; of kinship and feelings, or turn one of them round."""
    one, two = facts
    of_blood = one.word in lexicon.BLOOD_MALE + lexicon.BLOOD_FEMALE  # which fixes a gender
    if one.relation in ("kin", "social") and random.random() < 0.5 and not of_blood:
        return replace(one, subject=one.object, object=one.subject), two
    return replace(one, object=two.object), replace(two, object=one.object)


def mrpc(random: Random, index: int) -> dict:
    """Return two sentences of the same words or nearly so, and whether they say the same (1)."""
    puzzle, _ = world.draw_puzzle(random, world.draw_steps(random, 1, allowed=frozenset(world.RELATIONS)), 2)
    facts = puzzle.fact(0, 0), puzzle.fact(0, 1)  # of one relation, about four entities of the same kinds
    first = _told(random, facts)
    label = index % 2
    second = first
    while second == first:
        second = _told(random, facts if label else _other_facts(random, facts))
    return {"sentence1": first, "sentence2": second, "label": label, "hops": 0}


def qqp(random: Random, index: int) -> dict:
    """Return two questions on one person, thing or town, and whether they ask the same (1)."""
    label = index % 2
    while True:
        steps = world.draw_steps(random, random.choice((1, 2, 2)))
        if len(steps) == 1 and steps[0].source not in ("person", "object", "town"):
            continue  # of a job or a mood there is one thing to ask
        if not any(step.word for step in steps) and random.random() < 0.5:
            continue  # more of those that turn round: the words of the two questions stay the same
        puzzle, _ = world.draw_puzzle(random, steps, 1)
        start = puzzle.layers[0][0]
        first = language.question(random, steps, start)
        second = language.question(random, steps if label else _other_steps(random, puzzle), start)
        if second != first:
            return {"question1": first, "question2": second, "label": label, "hops": 0}


def _other_steps(random: Random, puzzle: Puzzle) -> tuple[world.Step, ...]:
    """Return steps of another meaning: two kinships exchanged, one turned round, or other relations."""
    steps = list(puzzle.steps)
    turnable = [i for i, step in enumerate(steps) if step.relation in ("kin", "social")]
    if len(turnable) == 2 and random.random() < 0.5:
        return tuple(reversed(steps))
    if turnable:
        at = random.choice(turnable)
        steps[at] = replace(steps[at], inverse=not steps[at].inverse)
        return tuple(steps)
    while True:
        others = world.draw_steps(random, len(steps))
        if others[0].source == steps[0].source and others != puzzle.steps:
            return others


# agent, verb, object, place, day: the five parts of an event, each of which may be exchanged
_EVENTS = """{n} {v} the {q} {o} in {t} on {d}.
On {d}, {n} {v} the {q} {o} in {t}.
In {t}, the {q} {o} was {v} by {n} on {d}.
The {q} {o} was {v} by {n} in {t} on {d}.
It was {n} who {v} the {q} {o} in {t} on {d}.
On {d}, the {q} {o} was {v} by {n} in {t}.""".splitlines()


def stsb(random: Random, index: int) -> dict:
    """Return two sentences about an event and how many of its five parts they share (0.0 to 5.0)."""
    first, second = _event(random), _event(random)
    shared = index % 6
    parts = ["n", "v", "o", "t", "d"]
    for part in random.sample(parts, shared):
        second[part] = first[part]
        if part == "o":
            second["q"] = first["q"]
    return {
        "sentence1": random.choice(_EVENTS).format(**first),
        "sentence2": random.choice(_EVENTS).format(**second),
        "label": float(sum(first[p] == second[p] for p in parts)),
        "hops": 0,
    }


def _event(random: Random) -> dict[str, str]:
    """Draw the parts of an event."""
    return {
        "n": lexicon.draw(random, random.choice((lexicon.MALE, lexicon.FEMALE))),
        "v": lexicon.past(lexicon.draw(random, lexicon.ACTIONS)),
        "q": lexicon.draw(random, lexicon.QUALITIES),
        "o": lexicon.draw(random, lexicon.OBJECTS),
        "t": lexicon.draw(random, lexicon.TOWNS),
        "d": lexicon.draw(random, lexicon.DAYS),
    }
