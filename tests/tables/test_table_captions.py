"""What stands around a table's numbers: intervals over samples, what was corrected, footnotes of its own rows."""

import json
import re

import example_records as examples
import numpy as np
import pytest

from saobp.study import tables
from saobp.study.setup import labels, paths
from saobp.study.statistics import estimates
from saobp.study.tables import context

MEANS = {
    "gtd": {"mean": 0.7512, "low": 0.7496, "high": 0.7528, "samples": 64.0, "undefined": 0.0},
    "indirect_entropy": {"mean": 2.2, "low": 2.05, "high": 2.35, "samples": 64.0, "undefined": 0.0},
    "clustering_barrat": {"mean": 1.0, "low": None, "high": None, "samples": 64.0, "undefined": 0.0},
    "betweenness": {"mean": 0.5, "low": 0.4, "high": 0.6, "samples": 60.0, "undefined": 4.0},
}


def attention(seed=42, means=MEANS, **metrics):
    run = examples.attention(algorithm="high", seed=seed)
    run["metrics"] |= {"graph_nodes": 40, "graph_threshold": 1e-4, "means": means, **metrics}
    return run


def departure(matter, ours, paper, *basis):
    return {"matter": matter, "ours": ours, "paper": paper, **({"basis": basis[0]} if basis else {})}


def finetune(*tasks, departures=()):
    return examples.finetune(tasks=tasks) | {"departures": list(departures)}


def notes(number, runs):
    """What stands below a table."""
    return "; ".join(tables.table(number, runs).notes())


def gtd(runs):
    return tables.table(1, runs).cell("BERT-Mini", "High", column="GTD")


def test_attention_of_one_run_has_its_interval_over_texts():
    cell, text = gtd([attention()]), tables.table(1, [attention()]).to_markdown()
    assert (cell.ours.low, cell.ours.high) == pytest.approx((0.7496, 0.7528), abs=1e-5) and cell.count() == "1×64"
    assert cell.number() == "0.751 ± 0.002"
    assert "| 2.20 ± 0.15 | 1×64 |" in examples.narrow(text) and "| 0.50 ± 0.10 | 1×60 |" in examples.narrow(text)
    assert "n counts runs×texts, of accuracy runs×items." in text


def test_what_all_texts_give_alike_has_no_interval():
    assert tables.table(1, [attention()]).cell("BERT-Mini", "High", column="CC").number() == "1.00"


def test_a_measure_that_no_text_defines_is_empty():
    nowhere = {"mean": None, "low": None, "high": None, "samples": 0.0, "undefined": 64.0}
    run = attention(means=MEANS | {"betweenness": nowhere})
    assert tables.table(1, [run]).cell("BERT-Mini", "High", column="BC").reason == "not measured"


def test_several_seeds_add_their_spread_to_that_of_the_texts():
    levels = {1: 0.76, 2: 0.77, 3: 0.78}
    runs = [attention(seed, MEANS | {"gtd": MEANS["gtd"] | {"mean": mean}}) for seed, mean in levels.items()]
    ours, bare = gtd(runs).ours, estimates.mean_over_runs(levels.values())
    assert (ours.value, ours.seeds, ours.items) == (pytest.approx(0.77), 3, 64)
    assert ours.half_width > 0.9 * bare.half_width > 0.0016
    alike = gtd([attention(seed) for seed in levels]).ours
    assert alike.half_width == pytest.approx(0.0016, rel=1e-3), "the texts' share stays"


@pytest.mark.parametrize(("number", "make", "model"), [(3, "pretrain", "small"), (7, "decoder", "gpt2-mini")])
def test_a_perplexity_has_its_interval_over_sequences(number, make, model):
    run = getattr(examples, make)(model)
    run["metrics"] |= {"perplexity": 50.0, "perplexity_interval": [44.0, 58.5], "sequences": 128}
    cell = tables.table(number, [run]).cell(labels.model_title(model), "Original", column="PPL_WikiText")
    assert (cell.number(), cell.count()) == ("50.00 [44.00, 58.50]", "1×128")


def test_the_column_of_wikitext_is_of_wikitext_where_every_run_was_measured_there_and_the_caption_says_so():
    runs = [examples.pretrain("small", name) for name in ("original", "high")]
    older = tables.table(3, runs)
    for run in runs:
        run["metrics"]["wikitext"] = {
            "perplexity": 99.0, "perplexity_interval": [90.0, 108.9], "sequences": 64, "tokens": 8192,
            "split": "validation", "config": "wikitext-103-v1", "note": "half of it",
        }  # fmt: skip
    tuned = examples.finetune("small", tasks=("qnli",))  # says nothing of a text
    mixed, newer = (tables.table(3, [*runs, other]) for other in (examples.pretrain("small", "high", 7), tuned))
    shown = [table.cell("BERT-Small", "Original", column="PPL_WikiText").ours for table in (older, mixed, newer)]
    assert shown[0].value == shown[1].value == runs[0]["metrics"]["perplexity"]
    assert (shown[2].value, shown[2].items) == (99.0, 64)
    assert "Perplexity is of the first 8,192 tokens of wikitext-103-v1;" in newer.caption
    for table in (older, mixed):
        assert "Perplexity is of the held-out part of the training text;" in table.caption


@pytest.mark.parametrize(
    ("right", "chance", "majority", "flags"),
    [
        (50, 25, 26, ("below chance",)),
        (66, 25, 26, ()),  # 22 % is less than both, its interval is not
        (66, 25, 30, ("below majority",)),
        (150, 25, 30, ()),
    ],
)
def test_a_score_is_flagged_where_its_whole_interval_lies_below_luck(right, chance, majority, flags):
    run = finetune("race")
    entry = run["metrics"]["tasks"]["race"]
    entry.update(outcomes=[1] * right + [0] * (300 - right), chance=chance, majority=majority, below_chance=True)
    entry["scores"] = {"accuracy": right / 3}
    assert tables.table(2, [run]).cell("BERT-Mini", "Original", column="RACE_Middle").flags == flags


@pytest.mark.parametrize(("spread", "flags"), [(2e-5, ("constant predictor",)), (1.0, ())])
def test_similarities_that_hardly_differ_are_flagged_though_the_record_is_older(spread, flags):
    run = finetune("stsb")
    entry = run["metrics"]["tasks"]["stsb"]
    gold = np.linspace(0, 5, 300)
    entry |= {"scores": {"pearson": 90.0}, "chance": 0.0, "constant": False}
    entry.update(outcomes=(3 + spread * gold).tolist(), labels=gold.tolist(), majority=0.0)
    table = tables.table(8, [run])
    assert table.cell("BERT-Mini", "Original", column="STS-B").flags == flags
    assert ("‡: one answer to all items" in notes(8, [run])) == bool(flags)


def test_an_average_is_flagged_against_the_average_of_luck():
    run = examples.finetune(algorithm="low")
    for entry in run["metrics"]["tasks"].values():
        entry.update(chance=10.0, majority=90.0)
    table = tables.table(2, [run])
    assert table.cell("BERT-Mini", "Low", column="GLUE").flags == ("below majority",)
    assert "§: the whole interval is below the most frequent answer" in table.to_markdown()
    assert r"\S{}: the whole interval" in table.to_latex()


def test_a_departure_of_another_stage_than_pretraining_names_it():
    trained = examples.pretrain() | {"departures": [departure("batch", 16, None)]}
    tuned = finetune("race", departures=[departure("batch", 8, None), departure("epochs", 2, None) | {"task": "race"}])
    assert context.departures([trained, tuned]) == [
        "batch: 16; the paper gives none",
        "fine-tuning, batch: 8; the paper gives none",
        "fine-tuning, race, epochs: 2; the paper gives none",
    ]


def test_values_on_one_matter_stand_together_with_their_models():
    runs = [examples.pretrain(size) | {"departures": [departure("steps", 20, steps)]} for size, steps in
            (("mini", 60000), ("medium", 245000))]  # fmt: skip
    assert context.departures(runs) == ["steps: 20, not 245000 (BERT-Medium) | 20, not 60000 (BERT-Mini)"]


def test_every_tracked_caption_has_two_sentences_at_most_and_under_sixty_words():
    entries = json.loads((paths.figures() / "manifest.json").read_text(encoding="utf-8"))["entries"]
    said = {name: entry["caption"] for name, entry in entries.items() if "caption" in entry}
    for file in paths.figures().glob("*.tex"):
        said[file.name] = re.search(r"\\caption\{(.+)\}\n", file.read_text(encoding="utf-8"))[1]
    assert len(said) > 20
    for name, caption in said.items():
        assert len(caption.split()) < 60 and len(re.findall(r"\.(?=\s|$)", caption)) <= 2, name
