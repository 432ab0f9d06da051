"""What Table 9 is made of: counts by the formula, medians in turns, peaks that see a matrix; and
its pictures.
"""

import importlib.util
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import example_records as examples
import numpy as np
import pytest
import torch

from companion import records
from companion.cost import cost_tables, length, timing, whole_model
from companion.figures.beyond_the_paper import costs
from companion.paper import arithmetic, comparisons, numbers
from companion.setup import paths
from companion.studies import plan
from companion.studies.cost import run as alternations
from companion.training import architectures
from saobp.fused.tiled import native

SMALL = {"sequences": 2, "length": 16}


@pytest.mark.parametrize("way", whole_model.WAYS)
@pytest.mark.parametrize("training", [True, False])
def test_counted_multiply_accumulates_follow_the_formula(way, training):
    # spelled out, Original has High's
    algorithm = {"original": "Original", "elemmul": "ElemMul"}.get(way, "High")
    counted = whole_model.macs(
        "mini", arithmetic.VOCABULARY, way, arithmetic.LENGTH, training=training
    )
    expected = arithmetic.macs(architectures.SIZES["mini"], algorithm, training=training)
    assert counted == pytest.approx(expected, rel=1e-3)


def test_every_way_of_a_model_computes_what_its_name_says():
    outputs = {}
    for way in whole_model.WAYS:
        network = whole_model.build("mini-quarter", 100, way, dropout=0.0).eval()
        outputs[way] = network.bert(whole_model.batch(2, 16, 100)["input_ids"]).last_hidden_state
    torch.testing.assert_close(outputs["original"], outputs["original_eager"])
    for way in ("high", "low", "elemmul"):
        assert (outputs[way] - outputs["original"]).abs().max() > 1e-6


def test_a_cost_run_has_every_number_of_table_9(monkeypatch):
    # what a process sees is below
    def here(count, peak, setting, model, vocabulary, way):
        return [peak(setting, model, vocabulary, way) if way == "elemmul" else 1.0] * count

    monkeypatch.setattr(timing, "fresh", here)
    # counted above
    monkeypatch.setattr(whole_model, "macs", lambda *given, training: 2.5 if training else 1.5)
    found = whole_model.measure("mini-quarter", 100, rounds=3, **SMALL)
    assert list(found) == list(whole_model.WAYS)
    for way, phase in product(found.values(), whole_model.PHASES):
        # the refinement has no weights
        assert way["parameters"] == found["original"]["parameters"]
        numbers, rate = (
            way[phase],
            "samples_per_second" if phase == "inference" else "tokens_per_second",
        )
        for name in ("milliseconds", "ratio", "ratio_to_eager", rate):
            assert 0 < numbers[name]["low"] <= numbers[name]["median"] <= numbers[name]["high"]
        assert (
            0
            <= numbers["peak_mib"]["low"]
            <= numbers["peak_mib"]["median"]
            <= numbers["peak_mib"]["high"]
        )
        assert numbers["gmacs"] == (1.5 if phase == "inference" else 2.5) and isinstance(
            numbers["kernel"], str
        )
    assert found["original"]["train"]["ratio"]["median"] == 1
    assert found["original_eager"]["train"]["ratio_to_eager"]["median"] == 1


def test_a_planned_alternation_has_the_ratios_and_the_kernels_of_its_setting(tmp_path, monkeypatch):
    monkeypatch.setattr(alternations, "VOCABULARY", 100)
    setting, file = ("train_no_dropout", *SMALL.values()), tmp_path / "timed.json"
    alternations.record(setting, 1, 3, file, tmp_path)
    found = records.read(file)
    high, original = (
        found["metrics"]["ways"][way]["train_no_dropout"] for way in ("high", "original")
    )
    assert (
        found["metrics"]["repeats"] == 3
        and found["parameters"]["threads"] == found["device"]["threads"] == 1
    )
    assert (
        original["ratio"]["median"] == 1
        and original["kernel"]
        and high["ratio_to_eager"]["median"] > 0
    )
    assert {"dropout", "rounds"} <= {entry["matter"] for entry in found["departures"]}


@pytest.mark.parametrize("compiled", [True, False])
def test_the_plan_names_each_setting_once_per_thread_count_and_says_how_high_was_worked_out(
    monkeypatch, compiled
):
    monkeypatch.setattr(native, "passes", lambda: compiled or None)
    names = [
        name
        for name, *_ in alternations.records_of(plan.section(plan.file(), "cost", plan.Question))
    ]
    assert len(set(names)) == len(names) == len(alternations.THREADS) * len(alternations.SETTINGS)
    assert {name.endswith("-one-call") for name in names} == {compiled}
    assert {name.removesuffix("-one-call").rpartition("-")[2] for name in names} == {"1", "2"}


def test_ways_take_turns_and_are_compared_within_a_round():
    order = []
    ways = {name: lambda name=name: order.append(name) for name in "abc"}
    found = timing.interleaved(ways, rounds=6, against=("c",))
    rounds = [order[start : start + 3] for start in range(0, len(order), 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in rounds)
    # nobody is always first
    assert len({turn[0] for turn in rounds}) == 3
    assert found["a"]["ratio"] == 1 and found["b"]["rounds"] == 6
    assert found["c"]["ratio_to_c"] == {"median": 1, "low": 1, "high": 1}
    # a median with quartiles, its ratio round by round
    found = timing.summary([2.0, 4.0, 12.0], [1.0, 1.0, 4.0])
    assert (found["median_ms"], found["quartiles_ms"], found["fastest_ms"]) == (4, [2, 12], 2)
    assert (found["ratio"], found["ratio_quartiles"]) == (3, [2, 4])


def test_what_is_kept_for_backward_is_counted_once_and_without_the_weights():
    # 1 MiB each
    weight, given = torch.ones(2**18, requires_grad=True), torch.ones(2**18)
    # the input; nothing needs the weight itself
    assert timing.kept_for_backward(lambda: weight * given) == 1
    assert timing.kept_for_backward(lambda: (weight * given) * given) == 1
    # and the result of exp
    assert timing.kept_for_backward(lambda: (weight * given).exp(), but=[weight]) == 2


def peak_of_ones(count):
    return timing.peak_above_now(lambda: torch.ones(count).sum())


def peak_where_more_was_freed(count):
    # the first call of all loads code, which counts
    peak_of_ones(16)
    # the first teaches malloc to take such blocks from its heap, the second leaves one there
    for extra in (2**10, 0):
        torch.ones(2 * count + extra)
    return peak_of_ones(count)


def fresh_peak(count):
    return timing.fresh(1, peak_where_more_was_freed, count)[0]


def fresh_peak_beside_a_server_that_keeps(count):
    """The same in a process whose server of forks runs already, and gives nothing back."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as executor:
        executor.submit(len, ()).result()
    return fresh_peak(count)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU counts for itself")
@pytest.mark.parametrize("peak", [fresh_peak, fresh_peak_beside_a_server_that_keeps])
def test_the_peak_sees_memory_that_fills_what_was_freed_before(peak, monkeypatch):
    monkeypatch.delenv(timing.RETURNED, raising=False)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        # MiB; the ones are 12
        assert 11.5 < executor.submit(peak, 3 * 2**20).result() < 14


def peaks_here():
    attention = [length.peak(way, (1, 4, 1024, 64)) for way in ("high", "materialised")]
    return *attention, whole_model.peak(
        whole_model.Setting("train", 4, 128), "mini-quarter", 30522, "high"
    )


def test_fused_attention_needs_a_fraction_of_the_matrix_and_a_step_peaks_above_what_it_keeps_for_backward():
    # NaN where nobody counts
    high, matrix, step = timing.fresh(1, peaks_here)[0]
    network = whole_model.build("mini-quarter", 30522, "high", dropout=0.1).train()
    inputs = whole_model.batch(4, 128, 30522)
    kept = timing.kept_for_backward(lambda: network(**inputs), network.parameters())
    assert not high >= 0.5 * matrix and not step < kept


def test_materialised_attention_stops_where_it_would_fill_the_memory_and_a_peak_is_a_median(
    monkeypatch,
):
    monkeypatch.setattr(timing, "fresh", lambda count, *given: [5.0, 9.0, 6.0])
    rows = length.by_length(
        [16, 32], ways := ("sdpa", "high", "materialised"), 3, longest_materialised=16
    )
    assert [(row["length"], row["way"]) for row in rows] == [
        *product([16], ways),
        *product([32], ways[:2]),
    ]
    assert all(row["peak_mib"] == {"median": 6, "low": 5, "high": 9} for row in rows)
    assert {"ratio_to_sdpa", "ratio_to_materialised"} <= rows[
        1
    ].keys() and "ratio_to_materialised" not in rows[4]
    assert rows[0]["kernel"] and not rows[2]["kernel"]


def phase(milliseconds):
    ratio = {"median": milliseconds / 10, "low": milliseconds / 11, "high": milliseconds / 9}
    eager = {name: value / 2 for name, value in ratio.items()}
    time, peak = {"median": milliseconds}, {"median": 2 * milliseconds + 1}
    return {"milliseconds": time, "ratio": ratio, "ratio_to_eager": eager, "peak_mib": peak}


def test_ways_stand_beside_each_other_with_both_ratios():
    times = zip(whole_model.WAYS, (10, 20, 15, 14, 30))
    # there is no backward pass in inference
    training = ("train", "train_no_dropout")
    ways = {
        way: dict.fromkeys(training, phase(ms) | {"kept_mib": ms}) | {"inference": phase(ms)}
        for way, ms in times
    }
    table = cost_tables.beside(ways)
    assert len(table) == len(whole_model.WAYS) * len(whole_model.PHASES)
    assert table.loc[("training, dropout", "High")].tolist() == [15, 1.5, 0.75, 15, 31]
    assert table.loc[("inference", "Original, eager"), "kept (MiB)"] == 0


def test_what_high_counts_above_original_are_originals_own_products(monkeypatch):
    # of which the smallest size is counted here
    every = comparisons.operations(numbers.load())
    monkeypatch.setattr(
        cost_tables.comparisons, "operations", lambda paper: every[every["model"] == "Mini"].copy()
    )
    above = cost_tables.surplus(cost_tables.operations(None))
    assert len(above) == 2 and above.iloc[0, 0] > 0
    np.testing.assert_allclose(above.iloc[:, 0], above.iloc[:, 1], atol=1e-6)


def test_the_picture_of_cost_against_length_has_the_quartiles_and_ends_of_every_way():
    rows = examples.lengths((128, 256), held=256)
    of_ways = [row for way in cost_tables.LENGTH_WAYS for row in rows if row["way"] == way]
    figure = costs.length_figure(costs.measured(rows))
    times, peaks = (
        [path.vertices[:, 1].tolist() for bar in ax.collections for path in bar.get_paths()]
        for ax in figure.axes
    )
    assert times == [row["quartiles_ms"] for row in of_ways]
    assert peaks == [[row["peak_mib"]["low"], row["peak_mib"]["high"]] for row in of_ways]
    figure.canvas.draw()
    for ax in figure.axes:
        low, high = ax.get_ylim()
        assert sum(low <= tick <= high for tick in ax.get_yticks()) >= 3


@pytest.mark.parametrize(
    "name",
    [
        "attention",
        "attention_statistics",
        "diagnostics",
        "gpu",
        "minutes",
        "operations",
        "pretraining",
        "table",
    ],
)
def test_every_benchmark_can_be_read_and_two_of_them_measure(name, monkeypatch):
    # of a GPU it reads that of attention
    monkeypatch.syspath_prepend(paths.root() / "benchmarks")
    spec = importlib.util.spec_from_file_location(
        f"benchmark_{name}", paths.root() / "benchmarks" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert callable(module.main)
    if name == "table":
        readme = (module.HERE / "README.md").read_text()
        assert readme.partition(module.MARK)[2].strip() == module.table().strip()
        for alone in module.ALONE:
            text = (module.HERE / f"{alone}.csv").read_text()
            assert text == module.attention_alone(alone).to_csv(index=False)
    if name == "operations":
        found = module.operations(
            lambda query, key, value: torch.mul(query, key), (1, 1, 4, 2), backward=False
        )
        assert found["aten::mul"][0] == 1 and module.OWN in found
    if name == "pretraining":
        monkeypatch.setattr(module.pretraining, "texts", lambda *given: (None, None, None))
        for call, found in (("trainer", None), ("seconds_a_step", 2.0), ("seconds_a_batch", 0.5)):
            monkeypatch.setattr(module, call, lambda *given, found=found: found)
        assert module.measure()["loading_share_of_a_step"] == 0.25
