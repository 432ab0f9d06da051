import datasets
import pytest
import torch
from small_hub import race_rows, word_tokenizer

from companion.data.encoding import collator, encode
from companion.setup.tasks_and_metrics import TASKS

PAIRS = [
    {"sentence1": "one two three four five six seven eight", "sentence2": "nine ten", "label": 1},
    {"sentence1": "one", "sentence2": "two", "label": 0},
]
ARTICLE = " ".join(f"word{n}" for n in range(30))
WORDS = "what colour is the hat red blue green black long"
TOKENIZER = word_tokenizer(ARTICLE, WORDS, PAIRS[0]["sentence1"], PAIRS[0]["sentence2"])
rows = datasets.Dataset.from_list


def labelled_race(count, **changes):
    return rows(
        [{**row, "label": "ABCD".index(row["answer"]), **changes} for row in race_rows(count)]
    )


def test_a_pair_is_cut_in_its_longer_text():
    features = encode(TASKS["rte"], rows(PAIRS), TOKENIZER, 9)
    text = TOKENIZER.decode(features[0]["input_ids"])
    assert text == "[CLS] one two three four [SEP] nine ten [SEP]"
    assert features["labels"][:] == [1, 0]
    assert set(features.column_names) == {"input_ids", "token_type_ids", "attention_mask", "labels"}


def test_an_option_fills_the_questions_blank_or_follows_it_and_the_article_alone_loses_words():
    features = encode(TASKS["race"], labelled_race(2, article=ARTICLE), TOKENIZER, 20)
    for row, asked in zip(features, ("the hat is {} .", "what colour is the hat ? {}")):
        for ids, option in zip(row["input_ids"], ("red", "blue", "green", "black")):
            first, second, _ = TOKENIZER.decode(ids).split(" [SEP]")
            assert second.strip() == asked.format(option).replace(" ?", "?").replace(" .", ".")
            assert ARTICLE.startswith(first.removeprefix("[CLS] "))
            assert len(ids) == 20


def test_a_context_keeps_the_end_that_every_option_goes_on_from():
    options = ["red", "blue green black", "long", "hat is"]
    items = rows([{"ctx": ARTICLE, "endings": options, "label": 1}])
    (row,) = encode(TASKS["hellaswag"], items, TOKENIZER, 15)["input_ids"]
    assert {TOKENIZER.decode(ids).split(" [SEP]")[0] for ids in row} == {
        "[CLS] " + " ".join(ARTICLE.split()[-9:])
    }
    (whole,) = encode(TASKS["hellaswag"], items, TOKENIZER, 36)["input_ids"]
    assert [TOKENIZER.decode(ids) for ids in whole] == [
        f"[CLS] {ARTICLE} [SEP] {option} [SEP]" for option in options
    ]


def test_a_length_that_would_cut_a_question_or_option_is_refused():
    features = labelled_race(
        2, options=["red", "blue", "green", "a long long long long long black"]
    )
    with pytest.raises(
        ValueError, match=r"length=10 cannot hold question and option whole .* at least 17"
    ):
        encode(TASKS["race"], features, TOKENIZER, 10)
    assert len(encode(TASKS["race"], features, TOKENIZER, 17)) == 2


def test_a_batch_of_choices_has_an_axis_of_options():
    features = encode(TASKS["race"], labelled_race(3), TOKENIZER, 40)
    batch = collator(TASKS["race"], TOKENIZER)(list(features))
    assert batch["input_ids"].shape[:2] == (3, 4)
    assert batch["labels"].tolist() == [0, 1, 2]
    for item, row in enumerate(features):
        for option, ids in enumerate(row["input_ids"]):
            real = batch["attention_mask"][item, option].bool()
            assert batch["input_ids"][item, option][real].tolist() == ids


def test_a_batch_is_padded_to_its_longest_the_padding_is_masked_and_a_similarity_stays_a_number():
    pairs = rows([pair | {"label": 2.5} for pair in PAIRS])
    batch = collator(TASKS["stsb"], TOKENIZER)(list(encode(TASKS["stsb"], pairs, TOKENIZER, 40)))
    assert batch["labels"].dtype == torch.float32 and batch["labels"].tolist() == [2.5, 2.5]
    assert batch["input_ids"].shape == (2, 13)
    assert batch["attention_mask"].sum(1).tolist() == [13, 5]
    assert (batch["input_ids"][1, 5:] == TOKENIZER.pad_token_id).all()


def test_a_batch_of_windows_holds_only_what_a_model_takes():
    item = {
        "question": "what?",
        "context": ARTICLE,
        "answers": {"text": ["word3"], "answer_start": [18]},
    }
    features = encode(TASKS["squad"], rows([item] * 2), TOKENIZER, 20)
    assert {"item", "offsets"} <= set(features.column_names)
    batch = collator(TASKS["squad"], TOKENIZER)(list(features))
    assert set(batch) == {
        "input_ids",
        "token_type_ids",
        "attention_mask",
        "start_positions",
        "end_positions",
    }
    assert len(batch["start_positions"]) == len(features) > 2
