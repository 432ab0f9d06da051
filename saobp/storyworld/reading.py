"""Questions on a story: a span of it (SQuAD), one of four options (RACE), yes or no (BoolQ)."""

import re
from random import Random

from saobp.storyworld import inference, language, puzzles

LETTERS = "ABCD"


def squad(random: Random, index: int) -> dict:
    """Return context, question and the one span that answers it."""
    hops = 1 + index % 4
    told = puzzles.tell(random, hops, {1: (3, 4, 5), 2: (3, 4), 3: (3,), 4: (2, 3)}[hops])
    question = language.question(random, told.puzzle.steps, told.start)
    answers = {"text": [told.answer], "answer_start": [span(told.story, told.answer)]}
    return {
        "id": "",
        "title": told.start,
        "context": told.story,
        "question": question,
        "answers": answers,
        "hops": hops,
    }


def span(story: str, answer: str) -> int:
    """Return where a story names an entity of its last layer, which it does once."""
    places = [match.start() for match in re.finditer(rf"\b{re.escape(answer)}\b", story)]
    if len(places) != 1:
        raise ValueError(f"answer: '{answer}' stands {len(places)} times in the story, not once")
    return places[0]


def race(random: Random, index: int) -> dict:
    """Return article, question, four options of one kind and the letter of the right one."""
    hops, position = 1 + index % 4, index // 4 % 4
    told = puzzles.tell(random, hops, 4)
    question = language.question(random, told.puzzle.steps, told.start)
    options = random.sample([end for end in told.ends if end != told.answer], 3)
    options.insert(position, told.answer)
    kind = told.puzzle.steps[-1].target
    return {
        "example_id": "",
        "article": told.story,
        "answer": LETTERS[position],
        "question": question,
        "options": [language.named(kind, option) for option in options],
        "hops": hops,
    }


def boolq(random: Random, index: int) -> dict:
    """Return a question without its mark, whether yes is the answer, and the passage."""
    hops, answer = 1 + index % 4, bool(index // 4 % 2)
    told = puzzles.tell(random, hops, inference.CHAINS[hops])
    end = told.answer if answer else told.other_end(random)
    question = language.yes_no(random, told.puzzle.steps, told.start, end)
    return {"question": question, "answer": answer, "passage": told.story, "hops": hops}
