import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_hub import word_tokenizer

from saobp.study.data import squad
from saobp.study.data.encoding import encode
from saobp.study.data.squad import best_answers, best_span, gold_positions, located, squad_exact_match, squad_f1
from saobp.study.setup.tasks_and_metrics import TASKS

CONTEXT = "Ada lives in the old town of Elmere. Her friend Ben, a baker, owns the red kite of Ada."
QUESTION = "Who owns the kite?"
TOKENIZER = word_tokenizer(CONTEXT, QUESTION)


def question(answer="Ben", context=CONTEXT, asked=QUESTION):
    start = context.find(answer)
    return {"question": asked, "context": context, "answers": {"text": [answer], "answer_start": [start]}}


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
    normal = {"The  Cat's\tHat!": "cats hat", "a an the": "", "Theatre, an anthem": "theatre anthem", "U.S.": "us"}
    normal |= {"the-end": "theend", "“quoted”": "“quoted”"}  # the owners drop ASCII punctuation alone
    assert {text: squad.normalize_answer(text) for text in normal} == normal


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("the Cat", ["cat"], 1, 1.0),
        ("black cat", ["cat"], 0, 2 / 3),  # precision 1/2, recall 1
        ("cat", ["a big black cat"], 0, 0.5),  # precision 1, recall 1/3
        ("dog", ["cat"], 0, 0.0),
        ("cat", ["dog", "the cat"], 1, 1.0),  # the nearest gold answer counts
        ("cat cat", ["cat"], 0, 2 / 3),  # a word is shared as often as both have it
        ("", ["cat"], 0, 0.0),
        ("the", ["a"], 1, 0.0),  # as the owners' script has it
        ("cat", [], 0, 0.0),
    ],
)
def test_exact_match_and_f1_by_hand(prediction, golds, exact, f1):
    assert squad_exact_match(prediction, golds) == exact
    assert squad_f1(prediction, golds) == pytest.approx(f1)


@given(st.text("ab c", max_size=12), st.lists(st.text("ab c", max_size=12), min_size=1, max_size=3))
def test_f1_is_symmetric_bounded_and_full_for_an_exact_match_with_words(prediction, golds):
    f1 = squad_f1(prediction, golds)
    assert 0 <= f1 <= 1
    assert squad_f1(prediction, golds[:1]) == pytest.approx(squad_f1(golds[0], [prediction]))
    if squad_exact_match(prediction, golds) and squad.normalize_answer(prediction):
        assert f1 == 1


def test_windows_overlap_and_leave_no_context_token_out():
    _, features = windows(question())
    assert len(features) > 1
    seen = [{tuple(span) for span in row["offsets"] if span[0] >= 0} for row in features]
    whole = TOKENIZER(CONTEXT, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert set.union(*seen) == set(whole)
    assert [len(a & b) for a, b in zip(seen, seen[1:])] == [6] * (len(seen) - 1)
    assert all(len(row["input_ids"]) <= 20 for row in features)


def test_a_window_without_the_answer_is_unanswerable():
    _, features = windows(question("red kite"))
    assert (features[0]["start_positions"], features[0]["end_positions"]) == (0, 0)
    held = [(row["offsets"], row["start_positions"], row["end_positions"]) for row in features]
    assert {CONTEXT[spans[first][0] : spans[last][1]] for spans, first, last in held if first} == {"red kite"}


def test_half_an_answer_in_a_window_is_no_answer():
    assert gold_positions([[-1, -1], [0, 3], [4, 7]], (0, 11)) == (0, 0)
    assert gold_positions([[-1, -1], [0, 3], [4, 7]], (0, 7)) == (1, 2)
    assert gold_positions([[-1, -1], [0, 3]], None) == (0, 0)


@pytest.mark.parametrize(
    ("context", "text", "start", "named"),
    [
        (CONTEXT, " Ben", 44, "Ben"),  # a blank before, behind
        (CONTEXT, "Ben,", 45, "Ben,"),
        ("Ada met Ben \n today.", "Ben \n", 8, "Ben"),
        ("Ada met\nBen today.", "\nBen", 7, "Ben"),
        ("Ada met \u200bBen\u200b today.", "\u200bBen\u200b", 8, "Ben"),
        ("Ada met Ben today.", "Ben\u200b", 8, "Ben"),  # only the answer has it
        ("Ada met B\u200ben today.", "Ben", 8, "B\u200ben"),
        ("Ada met Jose\u0301 today.", "Jose\u0301", 8, "Jose"),  # the accent is no token's
        ("Ada met Jose\u0301 today.", "José", 8, "Jose"),
        ("Ada met José today.", "Jose\u0301", 8, "José"),
        ("Ada met Ben, then Ben left.", "Ben", 17, "Ben"),
        ("Ada met Ben\xa0Roe today.", "Ben Roe", 8, "Ben\xa0Roe"),
        ("Ada met Ben  Roe today.", "Ben Roe", 8, "Ben  Roe"),
        (CONTEXT, "own of Elm", 23, "town of Elmere"),  # whole tokens
        (CONTEXT, "the red kite", 0, "the red kite"),  # wrong offsets
        (CONTEXT, "the red kite", 10_000, "the red kite"),
        (CONTEXT, "the red kite", -1, "the red kite"),
        ("The artist made art.", "art", 1, "art"),
    ],
)
def test_an_answer_is_the_span_that_its_text_names(context, text, start, named):
    item = {"question": QUESTION, "context": context, "answers": {"text": [text], "answer_start": [start]}}
    tokenizer = word_tokenizer(context, QUESTION)
    features = encode(TASKS["squad"], datasets.Dataset.from_list([item]), tokenizer, 60)
    (row,) = features
    begin, end = row["offsets"][row["start_positions"]][0], row["offsets"][row["end_positions"]][1]
    assert row["start_positions"] and context[begin:end] == named


def test_a_wrong_offset_means_the_nearest_occurrence_and_a_right_one_itself():
    context = "Ben saw Ben and Ben."
    found = [located(context, "Ben", start)[0] for start in (0, 8, 16, 1, 7, 18)]
    assert found == [0, 8, 16, 0, 8, 16]
    assert located("a  a", "  a", 1) == (1, 4)
    assert located(context, "Ada", 0) is None and located(context, "\u200b", 0) is None


@given(st.text("ab \u0301é\u200b", max_size=20), st.data())
def test_every_stretch_of_a_context_is_found_again_where_it_lies(context, data):
    begin = data.draw(st.integers(0, len(context)))
    end = data.draw(st.integers(begin, len(context)))
    if context[begin:end].strip():
        assert located(context, context[begin:end], begin) == (begin, end)


@pytest.mark.parametrize("answer", ["Ada", "Ben", "the red kite of Ada", "a baker", "Elmere"])
def test_a_sure_model_gives_back_every_gold_answer_across_windows(answer):
    rows, features = windows(question("old town"), question(answer))
    assert best_answers(*sure(features, 24), features, rows) == ["old town", answer]


def test_the_best_span_is_taken_over_all_windows():
    rows, features = windows(question("Ada"))
    start, end = sure(features, 20)
    last = len(features) - 1
    token = next(t for t, span in enumerate(features[last]["offsets"]) if span[0] >= 0)
    start[last, token] = end[last, token] = 11
    a, b = features[last]["offsets"][token]
    assert best_answers(start, end, features, rows) == [CONTEXT[a:b]]


def test_question_and_padding_are_never_the_answer():
    rows, features = windows(question())
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
    spans = [
        (start[i] + end[j], i, j)
        for i in range(3, 3 + tokens)
        for j in range(i, min(i + squad.ANSWER_TOKENS, 3 + tokens))
    ]
    found = best_span(start, end, offsets)
    # only the likeliest starts and ends are paired, so a long window may miss the very best
    assert found[1:] in [s[1:] for s in spans]
    if tokens <= squad.CANDIDATES:
        assert found == pytest.approx(max(spans))


def test_a_window_whose_likely_starts_lie_behind_its_likely_ends_still_answers():
    offsets = np.array([[n, n + 1] for n in range(60)])
    start, end = np.arange(60.0), -np.arange(60.0)
    score, first, last = best_span(start, end, offsets)
    assert (score, last - first) == (0.0, 0)


def test_a_long_question_loses_its_end_and_a_length_without_room_for_a_context_is_refused():
    _, features = windows(question(asked="who " * 60), length=24)
    text = TOKENIZER.decode(features[0]["input_ids"])
    assert text.count("who") == 12 and "ada lives" in text
    with pytest.raises(ValueError, match="length=12 leaves 4 tokens for a context, of which 4 overlap"):
        windows(question(), length=12)
