"""Which printed cells arithmetic can check, and which of them recompute."""

import dataclasses

import pytest

from saobp.study.paper import numbers, recomputed


@pytest.fixture(scope="module")
def paper():
    return numbers.load()


@pytest.fixture(scope="module")
def found(paper):
    return recomputed.checks(paper)


def altered(paper, number, printed, **keys):
    """The paper with one cell printed otherwise."""
    frame = paper.tables[number].copy()
    row = paper.cell(number, **keys).name
    frame.loc[row, "printed"], frame.loc[row, "value"] = printed, float(printed)
    return dataclasses.replace(paper, tables=paper.tables | {number: frame})


def failing(rows):
    return {(row.table, row.check, row.cell) for row in rows[~rows["recomputes"]].itertuples()}


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("57.40", 57.404, True), ("57.40", 57.396, True), ("53.37", 53.3756, True), ("57.52", 57.404, False),
        ("1.4", 1.47, True), ("1.40", 1.47, False), ("12", 12.6, True), ("12", 13.2, False), ("0", -0.4, True),
    ],
)  # fmt: skip
def test_a_number_agrees_with_what_rounds_or_is_cut_off_to_it(text, value, expected):
    assert recomputed.agrees(text, value) is expected


def test_a_count_of_cells_that_are_each_one_cell_of_the_paper(paper, found):
    totals = recomputed.totals(paper, found)
    assert totals["printed"] == 377
    assert totals["checked"] == len(set(zip(found["table"], found["cell"])))
    assert not found.duplicated(["table", "cell", "check"]).any()
    assert recomputed.by_check(found)["checked"].sum() == len(found)


def test_a_cell_recomputes_only_if_all_its_checks_agree(paper, found):
    totals = recomputed.totals(paper, found)
    assert totals["recompute"] == totals["checked"] - len({(table, cell) for table, _, cell in failing(found)})
    other = altered(paper, 3, "71.65", algorithm="BP-High", metric="QNLI_Acc")  # a count as well, but not BERT-Small's
    rows = recomputed.checks(other)
    assert sorted(rows[(rows["table"] == 3) & rows["cell"].str.contains("High QNLI")]["recomputes"]) == [False, True]
    assert recomputed.totals(other, rows)["recompute"] == totals["recompute"] - 1


def test_the_cells_that_do_not_recompute_are_those_on_the_page(found):
    means, count = "mean of Table 8's nine tasks", "a count of {} items"
    expected = {(2, means, f"Small {name} GLUE") for name in ("Original", "High", "Low", "ElemMul")}
    expected |= {(2, means, "Medium Original GLUE"), (8, means, "Medium Original Avg"), (8, means, "Small Low Avg")}
    expected |= {(2, count.format("RACE-Middle's 1,436"), "Mini ElemMul RACE_Middle")}
    expected |= {
        (3, count.format("QNLI's 5,463"), f"(not stated) {name}-Reg QNLI_Acc") for name in ("Entropy", "Eigen")
    }
    expected |= {
        (7, count.format("RACE-Middle's 1,436"), f"GPT2-{name} RACE_middle_Acc")
        for name in ("Mini Original", "Small High", "Medium Original")
    }
    expected |= {(7, count.format("BoolQ's 3,270"), "GPT2-Small Original BoolQ_Acc")}
    expected |= {(9, "operations of the architecture", "Medium ElemMul inference FLOPs (GFLOPs)")}
    assert failing(found) == expected


HIGH = {"model": "Mini", "algorithm": "High"}
MISPRINTS = [
    (1, "29.54", HIGH | {"metric": "Acc_RACE_Middle"}, ["accuracy is that of Table 2"]),
    (3, "71.64", {"algorithm": "BP-High", "metric": "QNLI_Acc"}, ["BP-High is BERT-Small's", "a count of QNLI's"]),
    (4, "12000000", {"model": "Mini", "metric": "params"}, ["parameters of the architecture"]),
    (
        7,
        "21.75",
        {"model": "GPT2-Mini", "algorithm": "High", "metric": "RACE_middle_Acc"},
        ["a count of RACE-Middle's"],
    ),
    (8, "53.57", HIGH | {"metric": "RTE"}, ["mean of Table 8's nine tasks", "a count of RTE's"]),
    (9, "1.46", HIGH | {"phase": "train", "metric": "FLOPs (GFLOPs)"}, ["operations of the architecture"]),
    (9, "37.50", HIGH | {"phase": "train", "metric": "step_per_s (ms)"}, ["rate × time is 128"]),
    (9, "10.7", HIGH | {"phase": "inference", "metric": "Latency/batch (ms)"}, ["rate × time is 32"]),
    (9, "0.41", HIGH | {"phase": "inference", "metric": "Throughput (Mtok/s)"}, ["128 tokens a sequence"]),
]


@pytest.mark.parametrize(("number", "printed", "keys", "checks"), MISPRINTS)
def test_a_misprint_is_seen_by_every_check_that_binds_its_cell(paper, found, number, printed, keys, checks):
    new = failing(recomputed.checks(altered(paper, number, printed, **keys))) - failing(found)
    seen = sorted({check.partition(" items")[0] for _, check, _ in new})
    assert len(seen) == len(checks) and all(one.startswith(other) for one, other in zip(seen, sorted(checks)))


def test_percentages_of_which_nearly_all_are_counts_are_not_checked(found):
    assert not found["check"].str.contains("MNLI|QQP|HellaSwag").any()
