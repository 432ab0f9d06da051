"""Stories for the corpus: facts with what follows from them, everyday activities, small scenes and
moods.

The facts are worded as in the tasks; half of the stories of facts end in what follows from a chain
of them, so that a language model meets many-hop dependencies in plain text too.
"""

from random import Random

from companion.storyworld import activities, language, lexicon, world
from companion.storyworld.lexicon import WORDS, article, capitalized, draw, past, plural

# Sentences about a person: "{name}" or a pronoun begins them.
PERSON_SCENES = """{who} {act_ed} the {quality} {object} {adverb}.
{who} {motion_ed} to the {place} on {day}.
{who} {motion_ed} {adverb} past the {quality} {place}.
{who} ate {a_food} and a little {dish} for dinner.
{who} {speech_ed} that the {event} was over.
{who} {speech_ed} {adverb} that the {animal} was hungry.
{who} wore {a_colour} {clothes} made of {fabric}.
{who} always wanted to be {a_job}.
{who} was {a_trait} and {trait2} person.
{who} read a book about {topic} near the {place}.
{who} told the {job} a story about {topic}.
{who} saw {number} {animals} near the {place}.
{who} bought {number} {foods} from the {job}.
{who} {act_ed} the {object} with {a_tool}.
{who} felt {good} after the {event}.
{who} was {bad} before the {event}.
{who} thought about {topic} all {season} long.
{who} found {a_quality} {object} behind the {place}.
{who} met {a_trait} {job} at the {place}.
{who} gave the {animal} some {dish}.
{who} liked the {plants} in front of the {place}.
{who} could not find the {colour} {clothes}.
{who} had to leave the {event} before the end.
{who} was looking for {a_colour} {object}.
{who} knew nothing about {topic}.""".splitlines()
# Sentences about nobody: they can stand anywhere.
SCENES = """It was {a_weather} {time}.
The {time} was {weather} and the {place} was quiet.
The {place} was full of {plants}.
{A_animal} slept under the {plant}.
The {animal} {motion_ed} across the {place}.
The {quality} {place} was closed on {day}.
There was {a_event} near the {place}.
Everybody talked about {topic}.
The {job} {act_ed} the {quality} {object}.
The {job} and the {job2} talked about {topic}.
Nobody had seen the {quality} {object} since {day}.
The {event} began at {number} o'clock.
The {plants} by the {place} were {colour}.
The {job} sold {foods}, {foods2} and {dish}.
{Number} {animals} {motion_ed} along the {place}.
The {object} was made of {material}.
The {trait} {job} {speech_ed} that it was {weather}.""".splitlines()
# Fillers for stories with questions: no person, object, job or mood that a question could ask for.
FILLERS = [SCENES[place] for place in (0, 1, 2, 3, 4, 7, 6, 14)]
ENDINGS = """In the end, {who} was {good}.
At last, {who} went home and slept.
That {time}, {who} felt {bad} and {bad2}.
After the {event}, {who} was {good} again.
{who} never forgot that {weather} {time}.""".splitlines()
HEADINGS = """The {quality} {object} of {town}
The {job} and the {animal}
{topic} in {town}
The {event} at the {place}
A history of {topic}
The {colour} {object}""".splitlines()


class Words(dict):
    """The slots of a template, drawn when they are named: food, foods, a_food, A_food, food2,
    act_ed.
    """

    def __init__(self, random: Random, **fixed: str) -> None:
        super().__init__(fixed)
        self.random = random

    def __missing__(self, slot: str) -> str:
        """Draw a word for a slot; the same slot keeps its word."""
        if slot.startswith(("a_", "A_")):
            word = article(self[slot[2:]])
            return word if slot[0] == "a" else capitalized(word)
        if slot[0].isupper():
            return capitalized(self[slot.lower()])
        stem = slot.rstrip("2")
        while True:
            if stem.endswith("_ed"):
                word = past(draw(self.random, stem[:-3]))
            elif stem in WORDS:
                word = draw(self.random, stem)
            else:
                word = plural(draw(self.random, stem[:-1]))
            # not "warm and warm"
            if slot == stem or word != self.get(stem):
                return self.setdefault(slot, word)


def scene(random: Random, templates: list[str] = SCENES, **fixed: str) -> str:
    """Fill one template with words of the lexicon."""
    return capitalized(random.choice(templates).format_map(Words(random, **fixed)))


def story(random: Random) -> str:
    """Tell one story of about 5 to 10 sentences."""
    kind = random.random()
    if kind < 0.5:
        sentences = _facts(random)
    elif kind < 0.75:
        sentences = _activity(random)
    else:
        sentences = _day(random)
    return " ".join(sentences)


def _facts(random: Random) -> list[str]:
    """State the facts of a puzzle among a few scenes; then, half of the time, what follows from
    them.
    """
    hops = random.choice((1, 1, 2, 2, 3, 4))
    chains = random.choice({1: (5, 6, 7), 2: (3, 4), 3: (2, 3), 4: (2,)}[hops])
    puzzle = world.draw_puzzle(random, world.draw_steps(random, hops), chains)
    sentences = language.story_sentences(random, puzzle)
    for _ in range(random.randrange(3)):
        sentences.insert(random.randrange(len(sentences) + 1), scene(random))
    if random.random() < 0.5:
        chain = random.randrange(chains)
        start, end = puzzle.layers[0][chain], puzzle.layers[-1][chain]
        sentences.append(
            language.chain_sentence(random, language.STATEMENTS, puzzle.steps, start, end)
        )
    return sentences


def _activity(random: Random) -> list[str]:
    """Tell an everyday activity in order, with a scene before it or an ending behind."""
    name, who = lexicon.person(random)
    title, steps = activities.telling(random, who)
    first = random.randrange(2)
    lines = [
        f"{name if i == first else who} {step}." for i, step in enumerate(steps[first:], first)
    ]
    start = [f"{name} spent the {draw(random, 'time')} {title}."]
    start = start if random.random() < 0.3 else []
    end = [scene(random, ENDINGS, who=who.lower())] if random.random() < 0.5 else []
    return [*start, *([scene(random)] if random.random() < 0.5 else []), *lines, *end]


def _day(random: Random) -> list[str]:
    """Tell a person's day in scenes."""
    name, who = lexicon.person(random)
    lines = [scene(random, PERSON_SCENES, who=name)]
    for _ in range(random.randrange(4, 8)):
        if random.random() < 0.3:
            lines.append(scene(random))
        else:
            lines.append(scene(random, PERSON_SCENES, who=random.choice((who, who, name))))
    return [*lines, scene(random, ENDINGS, who=who.lower())]
