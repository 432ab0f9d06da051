"""Tasks without a story: one sentence, grammatical or not (CoLA), in a good or bad mood (SST-2); or
two.

Two say the same or do not (MRPC, QQP), or share a number of parts (STS-B).
"""

from dataclasses import replace
from random import Random

from companion.storyworld import language, narrative, world
from companion.storyworld.lexicon import WORDS, article, capitalized, draw, past, plural, third
from companion.storyworld.world import Fact, Step

_MOVABLE = frozenset(
    {"the", "a", "an", "in", "of", "to", "by", "with", "at", "near", "behind", "about"}
)
_GENDERS = ("male", "female")


def cola(random: Random, index: int) -> dict:
    """Return a sentence and whether it is grammatical (1), or has a word moved or a wrong verb form
    (0).
    """
    label = index % 2
    if index // 2 % 2:
        words = _clause(random, agrees=label == 1)
    else:
        words = []
        while not _MOVABLE & set(words[:-1]):
            words = _plain(random).rstrip(".").split()
            words[0] = words[0].lower() if words[0].lower() in _MOVABLE else words[0]
        # an article or preposition behind the word that it belongs before: "lives Belmere in"
        if label == 0:
            at = random.choice([i for i, word in enumerate(words[:-1]) if word in _MOVABLE])
            words[at : at + 2] = words[at + 1], words[at]
    return {"sentence": capitalized(" ".join(words)) + ".", "label": label, "hops": 0}


def _clause(random: Random, agrees: bool) -> list[str]:
    """Return a clause in the present tense whose verb agrees with its subject in number, or does
    not.
    """
    many, motion = random.random() < 0.5, random.random() < 0.5
    noun = draw(random, "subject")
    while plural(noun) == noun:
        noun = draw(random, "subject")
    subject = ["the", draw(random, "trait"), plural(noun) if many else noun]
    # a noun of the other number between subject and verb
    if random.random() < 0.5:
        near = draw(random, "plant")
        subject += [random.choice(("near", "behind")), "the", near if many else plural(near)]
    verb = draw(random, "motion" if motion else "act")
    near = random.choice(["near", "behind", "beside", "past", "by"])
    place = [near, "the", draw(random, "place")]
    end = place if motion else ["the", draw(random, "object")]
    return [*subject, verb if many == agrees else third(verb), *end]


def _plain(random: Random) -> str:
    """Return one sentence of the kinds that stories are made of."""
    if random.random() < 0.5:
        name = draw(random, random.choice(_GENDERS))
        return narrative.scene(random, narrative.PERSON_SCENES + narrative.SCENES, who=name)
    steps = world.draw_steps(random, random.choice((1, 1, 2)))
    ((start,), *_, (end,)) = world.draw_puzzle(random, steps, 1).layers
    return language.chain_sentence(random, language.STATEMENTS, steps, start, end)


# {m} a mood, {n} a person
_MOOD = """{n} was {m} after the {event}.
{n} felt {m} about the {event}.
The {event} made {n} {m}.
The {object} left {n} {m}.
{n} looked {m} when the {event} began.
All day long {n} had been {m}.
With the {colour} {object}, {n} felt {m} again.
The {job} left the {event} in {a_m} mood.
{n} wrote in a letter that the {event} had left everybody {m}.""".splitlines()
_REVERSED = """{n} was anything but {m} after the {event}.
{n} was not {m} about the {event} at all.
The {event} did not make {n} {m}.
Nobody who saw the {object} was {m}.
{n} was no longer {m} when the {event} began.
{n} had never been less {m} than on that day.
Far from {m}, {n} went home with the {colour} {object}.
The {job} did not leave the {event} in {a_m} mood.
{n} hardly felt {m} when the {object} was found.""".splitlines()


def sst2(random: Random, index: int) -> dict:
    """Return a sentence and whether its mood is good (1) or bad (0); half of them turn the word
    round.
    """
    label, turned = index % 2, index // 2 % 2
    mood = draw(random, "good" if label != turned else "bad")
    fields = {"m": mood, "a_m": article(mood)}
    fields |= {slot: draw(random, slot) for slot in ("object", "event", "colour")}
    fields |= {"n": draw(random, random.choice(_GENDERS)), "job": draw(random, "job")}
    template = random.choice(_REVERSED if turned else _MOOD)
    return {"sentence": capitalized(template.format(**fields)), "label": label, "hops": 0}


def mrpc(random: Random, index: int) -> dict:
    """Return two sentences of the same words or nearly so, and whether they say the same (1)."""
    label, steps = index % 2, world.draw_steps(random, 1, frozenset(world.RELATIONS))
    # of one relation, about four entities of the same kinds
    facts = world.draw_puzzle(random, steps, 2).facts()
    (step, giver, taker), (_, second_giver, second_taker) = facts
    second = first = _both(random, facts)
    while second == first:
        pair = facts
        # objects exchanged; or one fact turned round, of feelings and of kinship that fixes no
        # gender
        if not label:
            pair = [(step, giver, second_taker), (step, second_giver, taker)]
            turnable = step.relation in ("kin", "social")
            if turnable and random.random() < 0.5 and step.word not in WORDS["blood"]:
                pair = [(step, taker, giver), facts[1]]
        second = _both(random, pair)
    return {"sentence1": first, "sentence2": second, "label": label, "hops": 0}


def _both(random: Random, facts: list[Fact]) -> str:
    """Say two facts in one sentence, in random order and wording."""
    first, second = (
        language.fact_sentence(random, fact, language.FACTS[fact[0].relation])
        for fact in random.sample(facts, 2)
    )
    if second.startswith("The "):
        second = "the " + second[4:]
    return first.rstrip(".") + random.choice((" and ", ", and ", ", while ")) + second


def qqp(random: Random, index: int) -> dict:
    """Return two questions on one person, thing or town, and whether they ask the same (1)."""
    label = index % 2
    while True:
        steps = world.draw_steps(random, random.choice((1, 2, 2)))
        if len(steps) == 1 and steps[0].source not in ("person", "object", "town"):
            # of a job or a mood there is one thing to ask
            continue
        if not any(step.word for step in steps) and random.random() < 0.5:
            # more of those that turn round: the words of the two questions stay the same
            continue
        start = world.draw_puzzle(random, steps, 1).layers[0][0]
        first = language.chain_sentence(random, language.QUESTIONS, steps, start)
        if not label:
            steps = _other_steps(random, steps)
        second = language.chain_sentence(random, language.QUESTIONS, steps, start)
        if second != first:
            return {"question1": first, "question2": second, "label": label, "hops": 0}


def _other_steps(random: Random, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return steps of another meaning: two kinships exchanged, one turned round, or other
    relations.
    """
    turnable = [i for i, step in enumerate(steps) if step.relation in ("kin", "social")]
    if len(turnable) == 2 and random.random() < 0.5:
        return steps[::-1]
    if turnable:
        at = random.choice(turnable)
        turned = replace(steps[at], inverse=not steps[at].inverse)
        return (*steps[:at], turned, *steps[at + 1 :])
    while True:
        others = world.draw_steps(random, len(steps))
        if others[0].source == steps[0].source and others != steps:
            return others


# agent, verb, object, place, day: the five parts of an event, each of which may be exchanged
_EVENTS = """{n} {v} the {q} {o} in {t} on {d}.
On {d}, {n} {v} the {q} {o} in {t}.
In {t}, the {q} {o} was {v} by {n} on {d}.
The {q} {o} was {v} by {n} in {t} on {d}.
It was {n} who {v} the {q} {o} in {t} on {d}.
On {d}, the {q} {o} was {v} by {n} in {t}.""".splitlines()


def stsb(random: Random, index: int) -> dict:
    """Return two sentences about an event and how many of its five parts they share (0.0 to
    5.0).
    """
    slots, events = {"q": "quality", "o": "object", "t": "town", "d": "day"}, []
    for _ in range(2):
        event = {"n": draw(random, random.choice(_GENDERS)), "v": past(draw(random, "act"))}
        events.append(event | {part: draw(random, slot) for part, slot in slots.items()})
    first, second = events
    parts = list("nvotd")
    for part in random.sample(parts, index % 6):
        second[part] = first[part]
        if part == "o":
            second["q"] = first["q"]
    shared = float(sum(first[part] == second[part] for part in parts))
    left, right = (random.choice(_EVENTS).format(**event) for event in events)
    return {"sentence1": left, "sentence2": right, "label": shared, "hops": 0}
