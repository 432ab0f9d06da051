"""What the refinement changes, with samples as the unit."""

import itertools

import datasets
import numpy as np
import pandas as pd
import pytest
from small_hub import race_rows, word_tokenizer
from small_models import RandomText, network
from transformers import BertForMaskedLM

from companion.data.task_rows import Task
from companion.evaluation import attention
from companion.setup.labels import ATTENTION_MEASURES, GRAPH_MEASURES
from companion.setup.tasks_and_metrics import TASKS
from companion.training import regularizers
from saobp.measure.capture import capture


def test_the_interval_is_that_of_the_change_or_of_the_refined_matrix_with_samples_and_not_heads_as_the_unit(
    tmp_path,
):
    # 40 samples and 4 heads; the refinement adds about 0.1 to each measure, and one GTD is
    # undefined
    columns, parquet = ["sample", "matrix", "head"], tmp_path / "capture.parquet"
    frame = pd.DataFrame(
        itertools.product(range(40), ("raw", "refined"), range(4)), columns=columns
    )
    change = (0.1 + 0.001 * (frame["sample"] % 5)) * (frame["matrix"] == "refined")
    level = 0.5 + 0.01 * frame["sample"] + 0.1 * frame["head"] + change
    frame = frame.assign(**dict.fromkeys((*ATTENTION_MEASURES, *GRAPH_MEASURES), level))
    frame.loc[frame["sample"] == 3, "gtd"] = None
    frame.to_parquet(parquet)
    found = attention.changes(parquet)
    entropy = found.loc["entropy"]
    assert entropy["change"] == pytest.approx(0.102) == entropy["refined"] - entropy["softmax"]
    # levels differ by 0.4 between samples
    assert 0.101 < entropy["low"] < 0.102 < entropy["high"] < 0.103
    assert (
        list(found["samples"][["entropy", "gtd"]]) == [40, 39]
        and found.loc["gtd", "undefined"] == 1
    )
    found = attention.means(parquet)
    assert set(found.index) == {*ATTENTION_MEASURES, *GRAPH_MEASURES}
    entropy = found.loc["entropy"]
    assert entropy["mean"] == pytest.approx(0.5 + 0.195 + 0.15 + 0.102)
    levels = 0.01 * np.arange(40) + 0.001 * (np.arange(40) % 5)
    assert entropy["high"] - entropy["low"] == pytest.approx(
        2 * 1.96 * levels.std(ddof=1) / np.sqrt(40), rel=0.1
    )
    # what is the same in every sample has a mean and no interval
    pd.read_parquet(parquet).assign(betweenness=0.0, clustering_barrat=float("nan")).to_parquet(
        parquet
    )
    found = attention.means(parquet)
    assert found.loc["betweenness", "mean"] == 0 and np.isnan(found.loc["betweenness", "low"])
    assert (
        np.isnan(found.loc["clustering_barrat", "mean"])
        and found.loc["clustering_barrat", "undefined"] == 40
    )


@pytest.mark.parametrize(
    ("algorithm", "refined"), [("high", True), ("entropy_reg", False), ("eigen_reg", False)]
)
def test_attention_is_measured_where_a_penalty_on_the_loss_leaves_it_plain(
    tmp_path, algorithm, refined
):
    model = regularizers.attach(network(algorithm), algorithm, 0.1)
    regularizers.detach(model)
    model.save_pretrained(tmp_path)
    path, texts = tmp_path / "capture.parquet", [{"input_ids": RandomText(4).tokens}]
    capture(BertForMaskedLM.from_pretrained(tmp_path), texts, path)
    found = attention.changes(path)
    assert set(found.index) == set(ATTENTION_MEASURES) and found["change"].any() == refined


def test_an_item_that_the_length_cannot_hold_uncut_is_left_out_and_said():
    tokenizer = word_tokenizer("what colour is the hat a long red blue green word")
    # their first options
    asked = zip(race_rows(4), ("red", "a long long long long long hat", "blue", "red"))
    rows = [{**row, "options": [first, "red", "blue", "green"], "label": 0} for row, first in asked]
    rows = datasets.Dataset.from_list(rows)
    task = Task(TASKS["race"], rows, rows, rows, [])
    kept, lost = attention.fitting(task, tokenizer, 12)
    assert [row["options"][0] for row in kept.evaluation] == ["red", "blue", "red"]
    assert lost == 1
    batches = attention.inputs(kept, tokenizer, 12, samples=3, batch=2)
    assert [len(batch["input_ids"]) for batch in batches] == [2, 1]
    with pytest.raises(ValueError, match="length=5 holds no item of race: give at least"):
        attention.fitting(task, tokenizer, 5)


def test_a_span_shows_its_first_window_alone_and_no_label():
    answers = {"text": ["hat"], "answer_start": [0]}
    rows = datasets.Dataset.from_list(
        [{"question": "what", "context": "hat " * 40, "answers": answers}] * 3
    )
    task = Task(TASKS["squad"], rows, rows, rows, [])
    kept, lost = attention.fitting(task, word_tokenizer("what hat"), 24)
    (batch,) = attention.inputs(kept, word_tokenizer("what hat"), 24, samples=2, batch=4)
    assert batch["input_ids"].shape == (2, 24) and "labels" not in batch and lost == 0
