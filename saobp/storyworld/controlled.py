"""Multi-hop questions with an exact number of hops and of facts in the story, for controlled studies."""

from random import Random
from typing import Any

from saobp.storyworld import language, reading, world

RELATIONS = tuple(dict.fromkeys(name.rstrip("-") for name in world.WEIGHTS))


def multihop(
    seed: int,
    hops: int,
    items: int,
    *,
    facts: int | None = None,
    choices: int = 4,
    relations: tuple[str, ...] = RELATIONS,
    split: str = "train",
) -> list[dict[str, Any]]:
    """Return `items` questions that each take `hops` facts of a story that states `facts`.

    The story has facts // hops parallel chains through the same relations, in the shortest words and in
    random order; facts left over speak of others. The options are the ends of `choices` of the chains (of
    all, where there are fewer), each place right equally often. Rows have RACE's columns, `hops`, `facts` and
    `answer_start`, where the story names the answer.

    Args:
        seed: the same seed gives the same rows; another `split` gives other stories.
        facts: None means four chains. The fewest that leave a choice are 2 * hops.
        relations: what facts may be about, of `RELATIONS`; both directions are asked for.

    Raises ValueError if a number is out of range, or no chain of `hops` fits within the relations.
    """
    facts = 4 * hops if facts is None else facts
    _check(hops, items, facts, choices, relations)
    allowed = frozenset(name for name in world.WEIGHTS if name.rstrip("-") in relations)
    random = Random(f"{seed}/multihop/{split}/{hops}/{facts}/{choices}/{','.join(relations)}")
    made = [_item(random, hops, facts, min(choices, facts // hops), allowed, index) for index in range(items)]
    random.shuffle(made)
    return [{"example_id": f"hops{hops}-{split}-{index}.txt", **row} for index, row in enumerate(made)]


def _check(hops: int, items: int, facts: int, choices: int, relations: tuple[str, ...]) -> None:
    """Refuse numbers that no set of questions has."""
    if not 1 <= hops <= 6:
        raise ValueError(f"hops: {hops} is not between 1 and 6")
    if items < 1:
        raise ValueError(f"items: {items} is less than 1")
    if not 2 * hops <= facts <= 60:
        raise ValueError(f"facts: {facts} is not between {2 * hops} (two chains of {hops} hops) and 60")
    if not 2 <= choices <= len(reading.LETTERS):
        raise ValueError(f"choices: {choices} is not between 2 and {len(reading.LETTERS)}")
    if unknown := set(relations) - set(RELATIONS):
        raise ValueError(f"relations: {min(unknown)!r} is none of {', '.join(RELATIONS)}")


def _item(random: Random, hops: int, facts: int, choices: int, allowed: frozenset[str], index: int) -> dict:
    """Make one question; `index` fixes where its answer stands among the options."""
    steps = world.draw_steps(random, hops, allowed)
    puzzle, _ = world.draw_puzzle(random, steps, facts // hops)
    puzzle = world.loose_facts(random, puzzle, facts % hops)
    chain = random.randrange(puzzle.chains)
    start, answer = puzzle.layers[0][chain], puzzle.layers[-1][chain]
    story = " ".join(language.story_sentences(random, puzzle, terse=True))
    options = random.sample([end for end in puzzle.layers[-1] if end != answer], choices - 1)
    options.insert(index % choices, answer)
    return {
        "article": story,
        "question": language.question(random, steps, start),
        "options": [language.named(steps[-1].target, option) for option in options],
        "answer": reading.LETTERS[index % choices],
        "answer_start": reading.span(story, answer),
        "hops": hops,
        "facts": facts,
    }
