"""What the tables hold: the paper's numbers beside ours, their intervals, marks and reasons, row by
row.
"""

from dataclasses import replace
from math import isnan

import example_records as examples
import numpy as np
import pytest
from scipy import stats
from sentences import numbers_in
from transformers import BertConfig, BertForMaskedLM

from companion import tables
from companion.paper import numbers
from companion.records import select
from companion.setup.sizes_and_strengths import SIZES
from companion.setup.tasks_and_metrics import GLUE
from companion.statistics import estimates, holm

MEANS = {
    "gtd": {"mean": 0.7512, "low": 0.7496, "high": 0.7528, "samples": 64.0, "undefined": 0.0},
    "indirect_entropy": {"mean": 2.2, "low": 2.05, "high": 2.35, "samples": 64.0, "undefined": 0.0},
    "clustering_barrat": {
        "mean": 1.0,
        "low": None,
        "high": None,
        "samples": 64.0,
        "undefined": 0.0,
    },
    "betweenness": {"mean": 0.5, "low": 0.4, "high": 0.6, "samples": 60.0, "undefined": 4.0},
}


@pytest.fixture(scope="module")
def records():
    return examples.study(("mini", "small-quarter"), ("original", "high", "low"), (42, 43, 44))


@pytest.fixture(scope="module")
def built(records):
    return {number: tables.table(number, records) for number in tables.TABLES}


def attention(seed=42, **means):
    run = examples.attention(algorithm="high", seed=seed)
    run["metrics"] |= {"graph_nodes": 40, "graph_threshold": 1e-4, "means": MEANS | means}
    return run


def high(number, runs, key="GTD"):
    """The cell of BERT-Mini with High."""
    return tables.table(number, runs).cells[("mini", "high"), key]


def test_table_2_shows_published_beside_ours_marks_differences_and_has_scaled_down_models_in_rows_of_their_sizes(
    records, built
):
    cell = built[2].cells[("mini", "high"), "SQuAD"]
    runs = select(records, "finetune", model="mini", algorithm="high")
    values = [run["metrics"]["tasks"]["squad"]["headline"] for run in runs]
    assert (cell.published, cell.ours.value) == ("24.07", pytest.approx(np.mean(values)))
    assert cell.ours.low < cell.ours.value < cell.ours.high
    assert (cell.ours.seeds, cell.ours.items) == (3, examples.ITEMS)
    assert built[2].cells[("small-quarter", "original"), "GLUE"].published == "54.03"
    assert built[2].cells[("mini", "high"), "RACE_Middle"].differs, "a large difference is marked"
    equal = select(records, model="mini", algorithm="original")
    copies = [run | {"parameters": run["parameters"] | {"algorithm": "high"}} for run in equal]
    assert "*" not in tables.table(2, equal + copies).to_markdown().replace("**", ""), (
        "and none between equals"
    )


def test_a_scaled_down_model_gives_way_to_the_size_itself_unless_its_cost_alone_was_measured():
    runs, timed = [examples.attention("mini-narrow")], [examples.cost("mini")]
    assert estimates.models(runs + timed) == ["mini-narrow"] and estimates.models(timed) == ["mini"]
    both = [examples.pretrain(name) for name in ("small-quarter", "small", "medium-quarter")]
    assert estimates.models(both) == ["small", "medium-quarter"]
    assert estimates.sizes(both) == ["mini", "small", "medium-quarter"]


NAN = {
    "reason": "the loss is nan at step 3",
    "message": "the loss is nan at step 3; last finite checkpoint none",
}


def with_failures(count, tasks=("rte", "sst2")):
    """Of three runs of Mini's High, `count` of whose RTE failed: the table, and the cells of RTE
    and the average.
    """
    runs = [examples.finetune("mini", "high", seed, tasks) for seed in (1, 2, 3)]
    for run in runs[:count]:
        run["metrics"]["tasks"]["rte"] = {"failed": NAN}
    table = tables.table(8, runs)
    return table, *(table.cells[("mini", "high"), key] for key in ("RTE", "Avg"))


def test_a_cell_whose_only_runs_failed_says_so_and_why():
    table, cell, average = with_failures(3)
    assert (
        cell.failed
        and NAN["reason"] in cell.reason
        and f"BERT-Mini High, RTE: {cell.reason}" in table.notes()
    )
    assert "| RTE | 51.99 | – | 53.07 | failed |" in examples.narrow(table.to_markdown())
    assert (
        numbers_in(average.reason) == ["1", "9", "3"]
        and "SST2" in average.reason
        and "RTE" in average.reason
    )
    lost = examples.finetune("mini", "high", 3, ("rte",))
    lost["metrics"]["tasks"]["rte"]["scores"] = {"accuracy": None}
    assert high(8, [lost], "RTE").failed and "finite" in high(8, [lost], "RTE").reason


def test_a_failed_run_is_left_out_and_a_cell_or_an_average_says_how_many():
    table, cell, _ = with_failures(2)
    # which names step 3
    assert numbers_in(cell.reason) == ["2", "3", "3"] and NAN["reason"] in cell.reason
    alone = high(8, [examples.finetune("mini", "high", 3, ("rte",))], "RTE")
    assert repr(replace(cell, reason="")) == repr(alone)
    assert all(
        cell.reason in text for text in (table.to_markdown(), table.to_latex(), table.to_csv())
    )
    assert "failed" not in with_failures(0)[0].to_markdown()
    *_, average = with_failures(1, tuple(GLUE))
    assert (average.ours.seeds, average.reason) == (2, "failed runs: 1 of RTE")


def test_an_average_is_none_where_every_task_has_a_run_and_no_seed_has_all_of_them():
    apart = high(
        8,
        [examples.finetune("mini", "high", seed, (task,)) for seed, task in enumerate(GLUE)],
        "Avg",
    )
    assert (apart.ours, apart.reason) == (None, "no seed has all 9 tasks")


@pytest.mark.parametrize(
    ("size", "parameters", "steps"),
    [("small", "28.76M", "150000"), ("medium", "41.37M", "245000")],
)
def test_a_size_without_a_run_has_the_settings_of_the_papers_study(size, parameters, steps):
    alike = examples.study(("mini-narrow",), ("original", "high"), (42,))
    structure, schedule = (tables.table(number, alike).cells for number in (4, 5))
    model = BertForMaskedLM(
        BertConfig(
            num_hidden_layers=SIZES[size].layers,
            hidden_size=SIZES[size].hidden,
            num_attention_heads=SIZES[size].heads,
            intermediate_size=SIZES[size].feedforward,
        )
    )
    counted = sum(weights.numel() for weights in model.bert.parameters())
    counted += SIZES[size].hidden * (SIZES[size].hidden + 1)
    assert structure[(size,), "params"].ours == parameters == f"{counted / 1e6:.2f}M"
    assert schedule[(size,), "max_steps"].ours == steps
    assert all(cell.ours for cell in (*structure.values(), *schedule.values()))


def test_attention_has_its_interval_over_texts_and_the_difference_of_the_seeds_of_both(built):
    table = tables.table(1, [attention()])
    gtd, clustering, between = (table.cells[("mini", "high"), key] for key in ("GTD", "CC", "BC"))
    assert (gtd.ours.low, gtd.ours.high) == pytest.approx((0.7496, 0.7528), abs=1e-5)
    assert (gtd.number(), gtd.count(), between.count()) == ("0.751 ± 0.002", "1×64", "1×60")
    assert clustering.number() == "1.00", "what all texts give alike has no interval"
    assert (
        numbers_in(table.caption_values["graph"]) == ["40", "0.0001"]
        and table.caption_values["graph"] in table.to_markdown()
    )
    nowhere = {"mean": None, "low": None, "high": None, "samples": 0.0, "undefined": 64.0}
    lost = high(1, [attention(betweenness=nowhere)], "BC")
    assert lost.ours is None and lost.reason not in (
        "",
        high(1, [examples.pretrain()], "BC").reason,
    )
    low, plain = (built[1].cells[("mini", name), "GTD"] for name in ("low", "original"))
    expected = np.mean([examples.matrices("low", seed)["gtd"] for seed in (42, 43, 44)])
    assert low.ours.value == pytest.approx(expected) and plain.difference is None
    assert (low.difference.value, low.difference.seeds) == (
        pytest.approx(expected - plain.ours.value),
        3,
    )


def test_several_seeds_add_their_spread_to_that_of_the_texts_within_the_scale_of_a_measure():
    levels = {1: 0.76, 2: 0.77, 3: 0.78}
    ours = high(
        1, [attention(seed, gtd=MEANS["gtd"] | {"mean": mean}) for seed, mean in levels.items()]
    ).ours
    assert (ours.value, ours.seeds, ours.items) == (pytest.approx(0.77), 3, 64)
    assert ours.half_width > 0.9 * estimates.mean_over_runs(levels.values()).half_width > 0.0016
    alike = high(1, [attention(seed) for seed in levels]).ours
    assert alike.half_width == pytest.approx(0.0016, rel=1e-3), "the texts' share stays"
    # an interval of a positive number stays positive, and one of a share below 1
    levels = {1: (1.0, 0.9), 2: (2.0, 0.99), 3: (40.0, 0.5)}
    bare = {"low": None, "high": None, "samples": 9}
    runs = [
        attention(
            seed,
            betweenness=bare | {"mean": between},
            clustering_barrat=bare | {"mean": clustering},
        )
        for seed, (between, clustering) in levels.items()
    ]
    bc, cc = (high(1, runs, key).ours for key in ("BC", "CC"))
    assert 0 < bc.low < bc.value < bc.high and bc.high - bc.value > bc.value - bc.low
    assert 0 < cc.low < cc.value < cc.high < 1


def test_a_perplexity_has_its_interval_over_sequences_and_its_difference_and_p_of_logarithms_over_seeds_of_both():
    for number, make, model in (
        (3, examples.pretrain, "small"),
        (7, examples.decoder, "gpt2-mini"),
    ):
        run = make(model)
        run["metrics"] |= {
            "perplexity": 50.0,
            "perplexity_interval": [44.0, 58.5],
            "sequences": 128,
        }
        cell = tables.table(number, [run]).cells[(model, "original"), "PPL_WikiText"]
        assert (cell.number(), cell.count()) == ("50.00 [44.00, 58.50]", "1×128")
    runs = [
        examples.pretrain("mini", name, seed) for name in ("original", "high") for seed in (1, 2, 3)
    ]
    for run, perplexity in zip(runs, (20.0, 24.0, 28.0, 21.0, 26.0, 31.0)):
        run["metrics"] |= examples.perplexity(perplexity)
    table = tables.table(3, [*runs, examples.pretrain("mini", "eigen_reg", 9)])
    found = {
        name: table.cells[("mini", name), "PPL_WikiText"].difference
        for name in ("original", "high")
    }
    gaps = np.log([1.05, 26 / 24, 31 / 28])
    assert (found["high"].value, found["high"].seeds, found["original"]) == (
        pytest.approx(gaps.mean()),
        3,
        None,
    )
    test = stats.ttest_1samp(gaps, 0)
    expected = (test.pvalue, *test.confidence_interval(0.95))
    assert (found["high"].p, found["high"].low, found["high"].high) == pytest.approx(expected)
    alone = tables.table(3, [runs[0], runs[3]]).cells[("mini", "high"), "PPL_WikiText"].difference
    assert alone.value == pytest.approx(gaps[0]) and all(
        map(isnan, (alone.low, alone.high, alone.p))
    ), "one seed"
    assert table.cells[("mini", "eigen_reg"), "PPL_WikiText"].difference is None, "no seed of both"


def test_the_column_of_wikitext_is_of_wikitext_where_every_run_was_measured_there_and_the_caption_says_so():
    runs = [examples.pretrain("small", "original", seed) for seed in (1, 2)]
    older = tables.table(3, runs)
    for run in runs:
        text = {"tokens": 8192, "config": "wikitext-103-v1"}
        run["metrics"]["wikitext"] = examples.perplexity(99.0) | text
    # says nothing of a text
    tuned = examples.finetune("small", tasks=("qnli",))
    mixed, newer = (
        tables.table(3, [*runs, other]) for other in (examples.pretrain("small", "high", 7), tuned)
    )
    shown = [
        table.cells[("small", "original"), "PPL_WikiText"].ours for table in (older, mixed, newer)
    ]
    assert (
        shown[0].value == shown[1].value == np.mean([run["metrics"]["perplexity"] for run in runs])
    )
    assert (shown[2].value, shown[2].items) == (99.0, 32)
    assert (
        "8,192" in newer.caption_values["text"]
        and "wikitext-103-v1" in newer.caption_values["text"]
    )
    # measured on none
    joined = tables.table(3, runs, first=[examples.pretrain("mini") | {"study": "paper"}])
    assert joined.cells[("small", "original"), "PPL_WikiText"].ours.value == shown[0].value
    for table in (older, mixed, joined):
        assert (
            table.caption_values["text"]
            == older.caption_values["text"]
            != newer.caption_values["text"]
        )
    assert all(table.caption_values["text"] in table.caption for table in (older, newer))


def test_p_values_are_corrected_over_the_whole_table_and_the_rows_of_both_studies(built):
    first = [run | {"study": "paper"} for run in examples.study(("mini",))]
    joined = tables.table(2, examples.study(("mini-narrow",)), first=first)
    for table, compared in ((built[8], 2 * 2 * 10), (joined, 2 * 4)):
        made = [
            (cell.difference.p, cell.adjusted_p) for cell in table.cells.values() if cell.difference
        ]
        given, adjusted = map(list, zip(*made))
        assert len(made) == compared and adjusted == holm(given) != given


def test_a_table_names_its_studies_and_is_of_one_and_its_fresh_seeds():
    runs = [examples.decoder() | {"study": "decoders"}]
    both = tables.table(7, [examples.decoder("gpt2-small")], first=runs)
    assert "study decoders and smoke" in both.to_markdown()
    with pytest.raises(ValueError, match="1 to 9 or claims"):
        tables.table(10, [])
    assert tables.table(7, [*runs, examples.decoder()]).studies == ("smoke", "decoders"), (
        "fresh seeds belong to the study that they train like"
    )
    with pytest.raises(ValueError, match="laptop, smoke"):
        tables.table(7, [examples.decoder() | {"study": "laptop"}, examples.decoder()])


@pytest.mark.parametrize(
    ("right", "chance", "majority", "floor", "flags"),
    [
        (50, 25, 26, 1.0, ("below chance",)),
        # 22 % is less than both, its interval is not
        (66, 25, 26, 1.0, ()),
        (66, 25, 30, 1.0, ("below majority",)),
        (150, 25, 30, 99.0, ("below bag of words",)),
    ],
)
def test_a_score_is_flagged_where_its_whole_interval_lies_below_luck_or_it_below_a_bag_of_words(
    right, chance, majority, floor, flags
):
    run = examples.finetune(tasks=("race",))
    run["metrics"]["tasks"]["race"] |= {
        "outcomes": [1] * right + [0] * (300 - right),
        "chance": chance,
        "majority": majority,
        "scores": {"accuracy": right / 3},
        "floor": {"headline": floor},
    }
    table = tables.table(2, [run])
    assert table.cells[("mini", "original"), "RACE_Middle"].flags == flags
    assert ("¶: " in table.to_markdown()) == (r"\P{} &" in table.to_latex()) == (floor == 99)


def test_a_constant_predictor_is_flagged_and_an_average_against_the_average_of_luck():
    run = examples.finetune(algorithm="low")
    run["metrics"]["tasks"]["stsb"]["constant"] = True
    similar = tables.table(8, [run])
    assert [
        key for (_, key), cell in similar.cells.items() if "constant predictor" in cell.flags
    ] == ["STS-B"]
    assert any(note.startswith("‡: ") for note in similar.notes())
    for entry in run["metrics"]["tasks"].values():
        entry.update(chance=10.0, majority=90.0)
    table = tables.table(2, [run])
    assert table.cells[("mini", "low"), "GLUE"].flags == ("below majority",)
    assert "§: " in table.to_markdown() and r"\S{}: " in table.to_latex()


@pytest.mark.parametrize("number", [1, 2, 7, 8, 9])
def test_every_row_that_the_paper_prints_is_there_with_its_numbers_and_why_ours_are_not(number):
    paper = numbers.load().tables[number]
    table = tables.table(number, [examples.pretrain("small-quarter", "original")])
    named = [name for _, name in dict.fromkeys(zip(paper["model"], paper["algorithm"]))]
    assert [table.rows[row][1] for row in dict.fromkeys(row for row, _ in table.of_models)] == named
    assert [cell.published for cell in table.of_models.values()] == paper["printed"].tolist()
    assert all(cell.reason for cell in table.of_models.values() if cell.ours is None)


def test_table_9_has_medians_with_quartiles_ratios_to_original_and_rounds_of_what_was_timed():
    table = tables.table(9, [examples.cost()])
    ways = ("high", "original", "original_eager")
    high, plain, eager = (table.cells[("mini", way), "train milliseconds"] for way in ways)
    assert table.rows["mini", "original_eager"] == ("BERT-Mini", "Original (eager)")
    assert (high.ours.low, high.ours.high, high.published, high.count()) == (
        27 * 1.06,
        30 * 1.06,
        "37.40",
        "9",
    )
    assert eager.ours.value == pytest.approx(28 * 1.2) and eager.published == ""
    assert high.published_ratio == pytest.approx(37.40 / 28.03)
    assert (high.ratio.value, high.ratio.low, high.ratio.high) == (1.06, 1.06 - 0.02, 1.06 + 0.02)
    rate, count = (
        table.cells[("mini", "high"), f"train {name}"] for name in ("tokens_per_second", "gmacs")
    )
    assert plain.ratio is None and rate.ratio is None, (
        "of a time alone, and not of Original over itself"
    )
    assert (count.count(), count.number()) == ("", "1.45")
    frame = table.frame().set_index(("", "Quantity"))
    assert [*frame.index[:6]] == [
        "ms/step",
        "ms/step ÷ Original",
        "GMACs",
        "ms/batch",
        "ms/batch ÷ Original",
        "GMACs (inf.)",
    ], "a timing stands there once, its other units in the CSV"
    ratios = frame.iloc[1]
    assert ratios["High"].tolist() == ["×1.33", "×1.06 [1.04, 1.08]"]
    assert ratios["Original"].tolist() == ["·", "·"]
    assert frame.iloc[7]["High"].tolist() == ["×1.41", "–"], "BERT-Small has no run"
    assert "tokens_per_second" in table.to_csv()
    none = tables.table(9, []).cells[("mini", "low"), "train milliseconds"]
    assert none.ours is None and "cost" in none.reason


def test_several_timings_of_a_size_give_the_median_of_their_medians_and_their_range():
    runs = [examples.cost() for _ in range(3)]
    for run, slower in zip(runs, (1.0, 1.3, 1.1)):
        timed = run["metrics"]["ways"]["high"]["train"]
        timed["milliseconds"]["median"] *= slower
        timed["ratio"]["median"] = slower
    table = tables.table(9, runs)
    high = table.cells[("mini", "high"), "train milliseconds"]
    median = 28 * 1.06
    assert high.ours.value == pytest.approx(1.1 * median) and high.count() == "3"
    assert (high.ours.low, high.ours.high) == pytest.approx((median, 1.3 * median))
    assert (high.ratio.value, high.ratio.low, high.ratio.high) == (1.1, 1.0, 1.3)
    assert table.cells[("mini", "high"), "train gmacs"].number() == "1.45"


def test_every_number_of_the_paper_is_counted_once_with_ours_or_with_the_reason_why_not():
    first = [run | {"study": "paper"} for run in examples.study(("mini",), seeds=(42,))]
    runs = examples.study(("mini-narrow",), ("original", "low"), (42,))
    built = [tables.table(number, runs, first=first) for number in tables.TABLES]
    counted = tables.coverage(built)
    printed = {number: len(frame) for number, frame in numbers.load().tables.items()}
    assert counted.groupby("table").size().to_dict() == printed
    assert counted.loc[~counted["ours"], "reason"].ne("").all()
    ran = counted.set_index(["table", "model", "line", "column"])["ours"]
    assert ran[2, "Mini", "Low", "SQuAD"], "of the scaled-down model"
    assert ran[2, "Mini", "High", "SQuAD"], "of the model at the paper's width"
    assert not ran[2, "Mini", "ElemMul", "SQuAD"] and not ran[2, "Small", "Low", "SQuAD"]
