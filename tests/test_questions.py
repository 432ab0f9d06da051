"""The stories of the multi-hop study: what they state, what they ask, and that nothing but the facts tells."""

import dataclasses
from collections import Counter
from random import Random

import pytest
import torch

from saobp.study import questions
from saobp.study.profile import MultiHop, Pretraining

PLAN = MultiHop(
    layers=[2], algorithms=["original"], seeds=[0], items=40,
    pretrain=Pretraining(length=160, batch=8, steps=4, learning_rate=1e-3, warmup=1, dropout=0.0),
)  # fmt: skip
WORDS = questions.tokenizer(PLAN.entities)


def sentences(item):
    """The sentences of an item as words, hidden ones put back."""
    tokens = [label if label != -100 else token for token, label in zip(item["input_ids"], item["labels"])]
    numbers = item["token_type_ids"]
    found = [
        [WORDS.convert_ids_to_tokens(token) for token, number in zip(tokens, numbers) if number == wanted]
        for wanted in range(1, max(numbers) + 1)
    ]
    assert all(sentence[-1] == "." for sentence in found)
    return [sentence[:-1] for sentence in found]


def facts(said):
    """The facts behind one-relation sentences, either direction being the same fact."""
    return Counter((relation, *sorted((first, last))) for first, relation, last in short(said))


def short(said):
    """The sentences that name one relation."""
    return [sentence for sentence in said if len(sentence) == 3]


def follow(known, start, relations):
    """Walk from an entity along relations; exactly one fact must fit at each step."""
    for relation in relations:
        fits = [{one, other} - {start} for name, one, other in known if name == relation and start in (one, other)]
        ((start,),) = fits
    return start


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_training_story_says_each_fact_twice_and_its_longer_statements_follow_from_them(hops):
    plan = dataclasses.replace(PLAN, hops=hops)
    for index in range(20):
        said = sentences(questions.Stories(plan, 7, 20)[index])
        known = facts(said)
        assert len(known) == hops * plan.chains and set(known.values()) == {2}
        for sentence in (sentence for sentence in said if len(sentence) > 3):
            for last in range(2, len(sentence), 2):  # each entity on the way follows, not the end alone
                assert follow(known, sentence[0], sentence[1:last:2]) == sentence[last]


def test_one_saying_of_every_fact_is_left_whole():
    for item in (questions.Stories(PLAN, 3, 20)[index] for index in range(20)):
        hidden = {n for n, label in zip(item["token_type_ids"], item["labels"]) if label != -100}
        whole = [s for number, s in enumerate(sentences(item), 1) if number not in hidden]
        assert facts(whole).keys() == facts(sentences(item)).keys()


def test_the_exam_asks_every_chain_at_every_number_of_hops_and_hides_every_entity_but_the_first():
    for item in questions.exam(PLAN, 0):
        said, asked = sentences(item), item["asked"]
        known = facts([sentence for n, sentence in enumerate(said, 1) if n not in numbers_with_hidden(item)])
        assert Counter(hops for _, hops, _ in asked) == {1: 3, 2: 3, 3: 3}
        hidden = [place for place, label in enumerate(item["labels"]) if label != -100]
        assert len(hidden) == 3 * (1 + 2 + 3)
        for which, hops, ends in asked:
            sentence = said[item["token_type_ids"][hidden[which]] - 1]
            assert len(sentence[1::2]) == hops and WORDS.convert_ids_to_tokens(ends[0]) == sentence[-1]
            assert follow(known, sentence[0], sentence[1::2]) == sentence[-1]
            assert len(set(ends)) == PLAN.chains  # the others are ends of the other chains
            assert {WORDS.convert_ids_to_tokens(other) for other in ends} <= {w for fact in known for w in fact}
            number = item["token_type_ids"][hidden[which]]
            here = [place for place, other in enumerate(item["token_type_ids"]) if other == number]
            shown = [place for place in here if place not in hidden]
            assert len(shown) == 1 + hops + 1  # the first entity, the relations, the full stop


def test_how_often_a_word_is_mentioned_says_nothing_about_its_chain():
    for item in [*(questions.Stories(PLAN, 2, 30)[index] for index in range(30)), *questions.exam(PLAN, 4)]:
        shown, hidden = Counter(item["input_ids"]), Counter(label for label in item["labels"] if label != -100)
        kinds = {}
        for kind, names in questions.NAMES.items():
            tokens = {WORDS.convert_tokens_to_ids(name.lower()) for name in names[: PLAN.entities]}
            kinds[kind] = {(shown[token], hidden[token]) for token in tokens if token in shown or token in hidden}
        assert all(len(found) <= 1 for found in kinds.values()), kinds


def test_a_story_is_told_with_its_answers():
    lines = questions.told(PLAN).splitlines()
    assert len(lines) == 3 * PLAN.chains + 3 * PLAN.chains  # facts, and a question a chain and number of hops
    asked = [line for line in lines if "->" in line]
    assert len(asked) == 9 and all(line.count("[MASK]") == len(line.split("->")[1].split()) for line in asked)


def numbers_with_hidden(item):
    """The numbers of the sentences that hide a word."""
    return {number for number, label in zip(item["token_type_ids"], item["labels"]) if label != -100}


def test_half_of_the_entities_on_the_way_are_hidden_in_training_and_every_end():
    seen = Counter()
    for index in range(200):
        item = questions.Stories(PLAN, 5, 200)[index]
        places = Counter(item["token_type_ids"])
        for number in (n for n in places if places[n] == 6):  # two hops: five words and the full stop
            start = item["token_type_ids"].index(number)
            hidden = [item["labels"][start + place] != -100 for place in range(6)]
            assert hidden[4] and not (hidden[0] or hidden[1] or hidden[3] or hidden[5])
            seen[hidden[2]] += 1
    assert abs(seen[True] / seen.total() - 0.5) < 0.06


def test_the_right_end_is_no_more_often_first_or_last_than_the_others():
    places = Counter()
    for item in questions.exam(dataclasses.replace(PLAN, items=300), 1):
        for _, hops, ends in item["asked"]:
            order = sorted(ends, key=item["input_ids"].index)
            places[hops, order.index(ends[0])] += 1
    for hops in (2, 3):
        shares = torch.tensor([places[hops, place] for place in range(3)]) / 900
        assert (shares - 1 / 3).abs().max() < 0.06


def test_stories_come_from_their_seed_and_index_alone():
    first, again = questions.Stories(PLAN, 1, 5), questions.Stories(PLAN, 1, 500)
    assert first[3] == again[3] != questions.Stories(PLAN, 2, 5)[3]
    assert questions.exam(PLAN, 0)[2] == questions.exam(dataclasses.replace(PLAN, items=3), 0)[2]
    with pytest.raises(IndexError, match="story 5 of 5"):
        first[5]


def test_every_word_has_a_token_of_its_own():
    for index in range(50):
        assert WORDS.unk_token_id not in questions.Stories(PLAN, 0, 50)[index]["input_ids"]
    assert len(set(WORDS.get_vocab().values())) == len(WORDS)


def test_a_puzzle_never_uses_an_entity_or_a_kind_twice():
    for seed in range(50):
        story = questions.puzzle(Random(seed), PLAN)
        flat = [entity for layer in story.layers for entity in layer]
        assert len(set(flat)) == len(flat)
        assert len({story.steps[0].source, *(step.target for step in story.steps)}) == PLAN.hops + 1


def test_a_fact_turned_twice_is_the_fact():
    story = questions.puzzle(Random(0), PLAN)
    fact = questions.path(story, 0, 0, 1)
    assert questions.turned(questions.turned(fact)) == fact != questions.turned(fact)


def test_a_batch_hides_nothing_in_its_padding():
    stories = questions.Stories(PLAN, 0, 3)
    items = [stories[0], questions.exam(PLAN, 0)[0]]
    batch = questions.padded(items)
    short = len(items[1]["input_ids"])
    assert batch["attention_mask"].sum(1).tolist() == [len(item["input_ids"]) for item in items]
    assert (batch["labels"][1, short:] == -100).all() and batch["input_ids"].shape == batch["labels"].shape
