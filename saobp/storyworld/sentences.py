"""Single sentences: grammatical or not (CoLA), good or bad mood (SST-2)."""

# ruff: noqa: SIM905  a list of words reads better as text

from random import Random

from saobp.storyworld import language, lexicon, narrative, world

_MOVABLE = frozenset("the a an in of to by with at near behind about".split())
_PREPOSITIONS = "near behind beside past by".split()


def cola(random: Random, index: int) -> dict:
    """Return a sentence and whether it is grammatical (1), or has a word moved or a wrong verb form (0)."""
    label = index % 2
    if index // 2 % 2:
        words, other_verb, verb = _clause(random)
        if label == 0:
            words[verb] = other_verb
        return {"sentence": _joined(words), "label": label, "hops": 0}
    words: list[str] = []
    while not _MOVABLE & set(words[:-1]):
        words = _uncapitalized(_plain(random).rstrip(".").split())
    return {"sentence": _joined(words if label else _moved(random, words)), "label": label, "hops": 0}


def _joined(words: list[str]) -> str:
    return language.capitalized(" ".join(words)) + "."


def _clause(random: Random) -> tuple[list[str], str, int]:
    """Return a clause in the present tense, its verb in the wrong number, and the verb's position."""
    many, motion = random.random() < 0.5, random.random() < 0.5
    noun = lexicon.draw(random, lexicon.ANIMALS + lexicon.JOBS)
    while lexicon.plural(noun) == noun:
        noun = lexicon.draw(random, lexicon.ANIMALS + lexicon.JOBS)
    subject = ["the", lexicon.draw(random, lexicon.TRAITS), lexicon.plural(noun) if many else noun]
    if random.random() < 0.5:  # a noun of the other number between subject and verb
        near = lexicon.draw(random, lexicon.PLANTS)
        subject += [random.choice(("near", "behind")), "the", near if many else lexicon.plural(near)]
    verb = lexicon.draw(random, lexicon.MOTIONS if motion else lexicon.ACTIONS)
    forms = (verb, lexicon.third(verb))
    place = [random.choice(_PREPOSITIONS), "the", lexicon.draw(random, lexicon.LANDMARKS)]
    end = place if motion else ["the", lexicon.draw(random, lexicon.OBJECTS)]
    return [*subject, forms[not many], *end], forms[many], len(subject)


def _plain(random: Random) -> str:
    """Return one sentence of the kinds that stories are made of."""
    if random.random() < 0.5:
        name = lexicon.draw(random, random.choice((lexicon.MALE, lexicon.FEMALE)))
        return narrative.scene(random, narrative.PERSON_SCENES + narrative.SCENES, who=name)
    steps = world.draw_steps(random, random.choice((1, 1, 2)))
    puzzle, _ = world.draw_puzzle(random, steps, 1)
    return language.statement(random, steps, puzzle.layers[0][0], puzzle.layers[-1][0])


def _uncapitalized(words: list[str]) -> list[str]:
    """Return a sentence's words without the capital that only its beginning gives."""
    first = words[0].lower() if words[0].lower() in _MOVABLE else words[0]
    return [first, *words[1:]]


def _moved(random: Random, words: list[str]) -> list[str]:
    """Exchange an article or preposition with the word behind it: "lives Belmere in"."""
    at = random.choice([i for i, word in enumerate(words[:-1]) if word in _MOVABLE])
    return [*words[:at], words[at + 1], words[at], *words[at + 2 :]]


# {m} a mood, {o} an object, {e} an event, {n} a person
_MOOD = """{n} was {m} after the {e}.
{n} felt {m} about the {e}.
The {e} made {n} {m}.
The {o} left {n} {m}.
{n} looked {m} when the {e} began.
All day long {n} had been {m}.
With the {colour} {o}, {n} felt {m} again.
The {job} left the {e} in {a_m} mood.
{n} wrote in a letter that the {e} had left everybody {m}.""".splitlines()
_REVERSED = """{n} was anything but {m} after the {e}.
{n} was not {m} about the {e} at all.
The {e} did not make {n} {m}.
Nobody who saw the {o} was {m}.
{n} was no longer {m} when the {e} began.
{n} had never been less {m} than on that day.
Far from {m}, {n} went home with the {colour} {o}.
The {job} did not leave the {e} in {a_m} mood.
{n} hardly felt {m} when the {o} was found.""".splitlines()


def sst2(random: Random, index: int) -> dict:
    """Return a sentence and whether its mood is good (1) or bad (0); half of them turn the word round."""
    label, turned = index % 2, index // 2 % 2
    mood = lexicon.draw(random, lexicon.MOODS_GOOD if label != turned else lexicon.MOODS_BAD)
    fields = {
        "m": mood,
        "a_m": lexicon.article(mood),
        "o": lexicon.draw(random, lexicon.OBJECTS),
        "e": lexicon.draw(random, lexicon.EVENTS),
        "colour": lexicon.draw(random, lexicon.COLOURS),
        "n": lexicon.draw(random, random.choice((lexicon.MALE, lexicon.FEMALE))),
        "job": lexicon.draw(random, lexicon.JOBS),
    }
    template = random.choice(_REVERSED if turned else _MOOD)
    return {"sentence": language.capitalized(template.format(**fields)), "label": label, "hops": 0}
