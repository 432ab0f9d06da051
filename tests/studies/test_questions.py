"""The stories of the multi-hop study: what they state, what they ask, and that nothing but the
facts tells.
"""

from collections import Counter
from contextlib import suppress
from itertools import permutations
from random import Random

import pytest
import torch

from companion.setup.recipes import MultiHop, Pretraining
from companion.studies.hops import questions

PLAN = MultiHop(
    layers=[2],
    algorithms=["original"],
    seeds=[0],
    items=40,
    pretrain=Pretraining(length=18, batch=8, steps=4, learning_rate=1e-3, warmup=1, dropout=0.0),
)
WORDS = questions.tokenizer(PLAN.entities)


def sentences(item, kind):
    """The sentences of an item of one kind, as lists of words, padding left out."""
    rows = ([token for token in row if token != WORDS.pad_token_id] for row in item["input_ids"])
    return [
        WORDS.convert_ids_to_tokens(row)
        for row, own in zip(rows, item["token_type_ids"])
        if own == kind
    ]


def asked(item):
    """The questions of an item, each with its hops and the tokens of all ends."""
    return [(words, *of) for words, of in zip(sentences(item, 1), item["asked"], strict=True)]


def follow(known, start, relations):
    """Walk from an entity along relations; exactly one fact must fit at each step."""
    for relation in relations:
        fits = [
            {one, other} - {start}
            for one, name, other in known
            if name == relation and start in (one, other)
        ]
        ((start,),) = fits
    return start


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_every_question_of_a_story_follows_from_its_facts(hops):
    plan = PLAN.changed(hops=hops, pretrain=PLAN.pretrain.changed(length=6 * hops))
    for item in (questions.Stories(plan, 7, 20)[index] for index in range(20)):
        known, ends = sentences(item, 0), iter(item["asked"])
        assert item["labels"] == [
            next(ends)[1][0] if kind == 1 else -100 for kind in item["token_type_ids"]
        ]
        assert len(known) == hops * plan.chains and {len(words) for words in known} == {3}
        assert Counter(steps for _, steps, _ in asked(item)) == {
            steps: 3 for steps in range(1, hops + 1)
        }
        for words, steps, ends in asked(item):
            assert len(words) == steps + 2 and words[-1] == "[MASK]"
            assert follow(known, words[0], words[1:-1]) == WORDS.convert_ids_to_tokens(ends[0])
            # the others are ends of the other chains
            assert len(set(ends)) == plan.chains
            assert {WORDS.convert_ids_to_tokens(end) for end in ends} <= {
                word for fact in known for word in fact
            }


def test_a_question_tells_its_first_entity_and_no_other_and_the_order_of_its_words_tells_nothing():
    for item in questions.exam(PLAN):
        known = sentences(item, 0)
        entities = {word for fact in known for word in (fact[0], fact[2])}
        for words, _, ends in asked(item):
            assert set(words) & entities == {words[0]}
            ways = set()
            for order in permutations(words[1:-1]):
                # no fact fits, so nothing can be unpacked
                with suppress(ValueError):
                    ways.add(follow(known, words[0], order))
            assert ways == {WORDS.convert_ids_to_tokens(ends[0])}


def test_how_often_a_word_is_mentioned_says_nothing_about_its_chain():
    for item in [
        *(questions.Stories(PLAN, 2, 30)[index] for index in range(30)),
        *questions.exam(PLAN),
    ]:
        shown = Counter(token for row in item["input_ids"] for token in row)
        for names in questions.NAMES.values():
            tokens = {WORDS.convert_tokens_to_ids(name.lower()) for name in names[: PLAN.entities]}
            assert len({shown[token] for token in tokens if token in shown}) <= 1


def test_a_story_is_told_with_its_answers_and_its_paths_are_those_asked_about():
    said, paths = (
        [line.split(" -> ") for line in questions.as_text(PLAN).splitlines()],
        questions.paths(PLAN),
    )
    asked = [words[0].split()[1:-1] for words in said if len(words) == 2]
    # facts, and a question a chain and hops
    assert (len(said), len(asked)) == (6 * PLAN.chains, 3 * PLAN.chains)
    assert list(paths) == [1, 2, 3] and all(len(each) == PLAN.items for each in paths.values())
    assert all(paths[len(relations)][0] == " ".join(relations) for relations in asked)


def test_the_right_end_is_no_more_often_first_or_last_than_the_others():
    places = Counter()
    for item in questions.exam(PLAN.changed(items=300)):
        flat = [token for row in item["input_ids"] for token in row]
        for hops, ends in item["asked"]:
            order = sorted(ends, key=flat.index)
            places[hops, order.index(ends[0])] += 1
    for hops in (2, 3):
        shares = torch.tensor([places[hops, place] for place in range(3)]) / 900
        assert (shares - 1 / 3).abs().max() < 0.06


def test_stories_come_from_their_seed_and_index_alone():
    first, again = questions.Stories(PLAN, 1, 5), questions.Stories(PLAN, 1, 500)
    assert first[3] == again[3] != questions.Stories(PLAN, 2, 5)[3]
    assert questions.exam(PLAN)[2] == questions.exam(PLAN.changed(items=3))[2]
    with pytest.raises(IndexError, match="story 5 of 5"):
        first[5]


def test_a_puzzle_never_uses_an_entity_or_a_kind_twice():
    assert len(set(WORDS.get_vocab().values())) == len(WORDS), "every word has a token of its own"
    for seed in range(50):
        assert all(
            WORDS.unk_token_id not in row
            for row in questions.Stories(PLAN, seed, 1)[0]["input_ids"]
        )
        story = questions.puzzle(Random(seed), PLAN)
        flat = [entity for layer in story.layers for entity in layer]
        assert len(set(flat)) == len(flat)
        assert len({story.steps[0].source, *(step.target for step in story.steps)}) == PLAN.hops + 1
