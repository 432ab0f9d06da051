import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_hub import word_tokenizer

from companion.data import squad
from companion.data.encoding import encode
from companion.data.squad import best_answers, best_span, exact_match_and_f1
from companion.setup.tasks_and_metrics import TASKS

CONTEXT = "Ada lives in the old town of Elmere. Her friend Ben, a baker, owns the red kite of Ada."
QUESTION = "Who owns the kite?"
TOKENIZER = word_tokenizer(CONTEXT, QUESTION)


def question(answer="Ben", context=CONTEXT, asked=QUESTION):
    start = context.find(answer)
    return {
        "question": asked,
        "context": context,
        "answers": {"text": [answer], "answer_start": [start]},
    }


def windows(*items, length=20):
    rows = datasets.Dataset.from_list(list(items))
    return rows, encode(TASKS["squad"], rows, TOKENIZER, length)


def sure(features, width):
    """Return logits of a model that is sure of each window's gold answer, or else of [CLS]."""
    start, end = (np.zeros((len(features), width)) for _ in range(2))
    for window, row in enumerate(features):
        start[window, row["start_positions"]] = end[window, row["end_positions"]] = 10
    return start, end


def test_answers_are_normalised_as_the_owners_do():
    normal = {
        "The  Cat's\tHat!": "cats hat",
        "a an the": "",
        "Theatre, an anthem": "theatre anthem",
        "U.S.": "us",
    }
    # the owners drop ASCII punctuation alone
    normal |= {"the-end": "theend", "“quoted”": "“quoted”"}
    assert {text: squad.normalize_answer(text) for text in normal} == normal


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("the Cat", ["cat"], 1, 1.0),
        ("dog", ["cat"], 0, 0.0),
        ("", ["cat"], 0, 0.0),
        ("cat", [], 0, 0.0),
        # precision 1/2 and 1, recall 1 and 1/3
        ("black cat", ["cat"], 0, 2 / 3),
        ("cat", ["a big black cat"], 0, 0.5),
        # the nearest gold answer counts
        ("cat", ["dog", "the cat"], 1, 1.0),
        # a word is shared as often as both have it
        ("cat cat", ["cat"], 0, 2 / 3),
        # as the owners' script has it
        ("the", ["a"], 1, 0.0),
    ],
)
def test_exact_match_and_f1_by_hand(prediction, golds, exact, f1):
    assert exact_match_and_f1(prediction, golds) == (exact, pytest.approx(f1))


@given(st.text("ab c", max_size=12), st.lists(st.text("ab c", max_size=12), min_size=1, max_size=3))
def test_f1_is_symmetric_bounded_and_full_for_an_exact_match_with_words(prediction, golds):
    exact, f1 = exact_match_and_f1(prediction, golds)
    assert 0 <= f1 <= 1
    assert exact_match_and_f1(prediction, golds[:1]) == pytest.approx(
        exact_match_and_f1(golds[0], [prediction])
    )
    if exact and squad.normalize_answer(prediction):
        assert f1 == 1


def test_windows_overlap_leave_no_context_token_out_and_without_the_whole_answer_are_unanswerable():
    _, features = windows(question())
    assert len(features) > 1
    seen = [{tuple(span) for span in row["offsets"] if span[0] >= 0} for row in features]
    whole = TOKENIZER(CONTEXT, add_special_tokens=False, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    assert set.union(*seen) == set(whole)
    assert [len(a & b) for a, b in zip(seen, seen[1:])] == [6] * (len(seen) - 1)
    assert all(len(row["input_ids"]) <= 20 for row in features)
    # of which the first and the last have a part
    _, features = windows(question("Ben, a"))
    spans = [(row["offsets"], row["start_positions"], row["end_positions"]) for row in features]
    found = [
        CONTEXT[held[first][0] : held[last][1]] if first or last else None
        for held, first, last in spans
    ]
    assert found == [None, "Ben, a", None]


@pytest.mark.parametrize(
    ("context", "text", "start", "named"),
    [
        # a blank is no token's
        (CONTEXT, " Ben", 47, "Ben"),
        (CONTEXT, "Ben,", 48, "Ben,"),
        # nor is an accent
        ("Ada met Jose\u0301 today.", "Jose\u0301", 8, "Jose"),
        # whole tokens
        (CONTEXT, "own of Elm", 22, "town of Elmere"),
        # it is not there
        (CONTEXT, "the red kite", 0, None),
        (CONTEXT, "Ada.", -4, None),
    ],
)
def test_an_answer_is_the_whole_tokens_of_the_span_where_it_says_it_is(context, text, start, named):
    item = {
        "question": QUESTION,
        "context": context,
        "answers": {"text": [text], "answer_start": [start]},
    }
    (row,) = encode(
        TASKS["squad"], datasets.Dataset.from_list([item]), word_tokenizer(context, QUESTION), 60
    )
    begin, end = row["offsets"][row["start_positions"]][0], row["offsets"][row["end_positions"]][1]
    assert (context[begin:end] if row["start_positions"] else None) == named


@pytest.mark.parametrize("answer", ["Ada", "Ben", "the red kite of Ada", "a baker", "Elmere"])
def test_a_sure_model_gives_back_every_gold_answer_across_windows(answer):
    rows, features = windows(question("old town"), question(answer))
    assert best_answers(*sure(features, 24), features, rows) == ["old town", answer]


def test_the_best_span_is_taken_over_all_windows_and_never_of_the_question_or_padding():
    rows, features = windows(question("Ada"))
    start, end = sure(features, 20)
    last = len(features) - 1
    token = next(t for t, span in enumerate(features[last]["offsets"]) if span[0] >= 0)
    start[last, token] = end[last, token] = 11
    a, b = features[last]["offsets"][token]
    assert best_answers(start, end, features, rows) == [CONTEXT[a:b]]
    start, end = (np.zeros((len(features), 30)) for _ in range(2))
    for window, row in enumerate(features):
        outside = [t for t in range(30) if t >= len(row["offsets"]) or row["offsets"][t][0] < 0]
        start[window, outside] = end[window, outside] = 100
    (answer,) = best_answers(start, end, features, rows)
    assert answer and answer in CONTEXT


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_the_best_span_equals_the_slow_search(seed, tokens):
    random = np.random.default_rng(seed)
    offsets = np.array([[-1, -1]] * 3 + [[n, n + 1] for n in range(tokens)] + [[-1, -1]])
    start, end = random.normal(size=(2, len(offsets) + 4))
    last = 3 + tokens
    spans = [
        (start[i] + end[j], i, j)
        for i in range(3, last)
        for j in range(i, min(i + squad.ANSWER_TOKENS, last))
    ]
    found = best_span(start, end, offsets)
    # only the likeliest starts and ends are paired, so a long window may miss the very best
    assert found[1:] in [s[1:] for s in spans]
    if tokens <= squad.CANDIDATES:
        assert found == pytest.approx(max(spans))
    crossed = best_span(
        np.arange(60.0), -np.arange(60.0), np.array([[n, n + 1] for n in range(60)])
    )
    assert (crossed[0], crossed[2] - crossed[1]) == (0.0, 0), (
        "where the likely starts lie behind the likely ends"
    )


def test_a_long_question_loses_its_end_and_a_length_without_room_for_a_context_is_refused():
    _, features = windows(question(asked="who " * 60), length=24)
    text = TOKENIZER.decode(features[0]["input_ids"])
    assert text.count("who") == 12 and "ada lives" in text
    with pytest.raises(
        ValueError, match="length=12 leaves 4 tokens for a context, of which 4 overlap"
    ):
        windows(question(), length=12)
