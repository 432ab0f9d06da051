from dataclasses import replace

import example_records as examples
import numpy as np
import pytest

from saobp.study import tables
from saobp.study.beyond import gain_on_hops
from saobp.study.publication import results
from saobp.study.tables.evidence import NO, OPEN, YES, Evidence
from saobp.study.tables.verdicts import evidence as weighed
from saobp.study.training import architectures


def verdict(records, id):
    return next(row for row in tables.verdicts(records).rows if row.id == id)


@pytest.fixture(scope="module")
def records():
    return examples.study(("mini", "small", "medium"), ("original", "high", "elemmul"))


@pytest.mark.parametrize(
    ("low", "high", "twins", "expected"),
    [(0.1, 2, False, YES), (-2, -0.1, False, NO), (-1, 1, False, OPEN), (0.1, 2, True, OPEN)],
)
def test_a_verdict_follows_from_the_interval_alone(low, high, twins, expected):
    assert Evidence("", low, high, twins).verdict() == expected


def test_without_an_interval_nothing_is_decided():
    assert Evidence("no run").verdict() == OPEN


def test_a_large_gain_in_every_cell_is_reproduced():
    row = verdict(examples.study(("mini", "small", "medium"), seeds=range(42, 50)), "Q01")
    assert row.verdict == YES
    assert "over 12 cells; 12 for and 0 against after correction; 8 seeds" in row.evidence


def test_a_statement_that_our_runs_contradict_is_not_reproduced(records):
    assert verdict(records, "Q10").verdict == NO  # the examples' High raises sparsity


def test_one_seed_decides_nothing():
    row = verdict(examples.study(("mini",), seeds=(42,)), "Q01")
    assert row.verdict == OPEN
    assert "one seed" in row.evidence


def test_stand_ins_decide_nothing_about_the_papers_sizes():
    row = verdict(examples.study(("mini-twin",)), "Q01")
    assert row.verdict == OPEN
    assert "stand-ins" in row.evidence
    assert "+1" in row.evidence


def test_no_run_is_said_with_what_it_needs_and_not_decided():
    rows = {row.id: row for row in tables.verdicts([]).rows}
    assert len(rows) == 19
    arithmetic = rows.pop("Q14")
    assert arithmetic.verdict == NO
    assert "Small: 0.078, printed 0.08; Medium: 0.054, printed 0.05" in arithmetic.evidence
    assert (
        "the printed numbers follow, but inversely to size: they are reproduced, the word is not" in arithmetic.evidence
    )
    assert {row.verdict for row in rows.values()} == {OPEN}
    assert len({row.evidence for row in rows.values()}) == 18
    assert all(row.evidence.startswith("these runs do not say; it needs ") for row in rows.values())


def test_strengths_that_grow_with_size_are_not_what_the_ratio_gives(monkeypatch):
    sizes = dict(architectures.SIZES)
    sizes["small"], sizes["medium"] = (replace(sizes[name], strength=0.5) for name in ("small", "medium"))
    monkeypatch.setattr(architectures, "SIZES", sizes)
    row = verdict([], "Q14")
    assert row.verdict == NO and "not by this ratio" in row.evidence and "inversely" not in row.evidence


def test_strengths_that_grow_in_proportion_to_size_are_what_section_6_says(monkeypatch):
    sizes, counts = (
        dict(architectures.SIZES),
        {name: architectures.body_parameters(name, 30522) for name in ("mini", "small", "medium")},
    )
    for name, count in counts.items():
        sizes[name] = replace(sizes[name], strength=round(0.2 * count / counts["mini"], 2))
    monkeypatch.setattr(architectures, "SIZES", sizes)
    assert verdict([], "Q14").verdict == YES


def test_one_seed_of_several_sizes_or_tasks_decides_nothing():
    runs = [
        examples.attention(model, name, 42, task)
        for model in ("mini", "small", "medium") for name in ("original", "high") for task in ("race", "squad")
    ]  # fmt: skip
    for place, run in enumerate(runs):  # all of them lower, by another amount each
        if run["parameters"]["algorithm"] == "high":
            matrix = run["metrics"]["matrices"]["refined"]
            matrix["sparsity"] = (np.array(matrix["sparsity"]) - 1 - place / 100).tolist()
    row = verdict(runs, "Q10")
    assert row.verdict == OPEN and "sparsity on SQuAD and RACE-Middle" in row.evidence
    assert row.evidence.endswith("one seed and so no interval; to decide it: several seeds")


def test_equal_algorithms_leave_the_gain_open():
    plain = [run for run in examples.study(("mini",)) if run["parameters"]["algorithm"] == "original"]
    copies = [run | {"parameters": run["parameters"] | {"algorithm": "high"}} for run in plain]
    assert verdict(plain + copies, "Q01").verdict == OPEN


def test_cost_counts_as_slight_below_a_tenth():
    quick, slow = examples.cost(), examples.cost()  # High is 6 % slower
    assert verdict([quick], "Q11").verdict == YES and "×1.06" in verdict([quick], "Q11").evidence
    high = slow["metrics"]["ways"]["high"]
    high["train"]["ratio"] = high["train_no_dropout"]["ratio"] = {"median": 1.12, "low": 1.11, "high": 1.13}
    assert verdict([slow], "Q11").verdict == NO
    high["train"]["ratio"] = {"median": 1.1, "low": 1.05, "high": 1.13}
    assert verdict([slow], "Q11").verdict == OPEN


def test_the_cost_of_a_stand_in_is_told_and_decides_nothing_beside_the_papers_sizes():
    quick, slow = examples.cost(), examples.cost("small-twin")
    for phase in ("train", "train_no_dropout"):
        slow["metrics"]["ways"]["high"][phase]["ratio"] = {"median": 1.5, "low": 1.4, "high": 1.6}
    found = weighed([quick, slow], "Q11", "one")
    assert found.verdict() == YES and "BERT-Small (twin)" in found.words and not found.twins
    assert weighed([slow], "Q11", "one").verdict() == OPEN


def test_cost_is_decided_by_training_with_dropout_and_without_and_not_by_inference():
    run = examples.cost()
    high = run["metrics"]["ways"]["high"]
    high["inference"]["ratio"] = {"median": 1.4, "low": 1.3, "high": 1.5}
    assert verdict([run], "Q11").verdict == YES
    high["train_no_dropout"]["ratio"] = {"median": 1.2, "low": 1.15, "high": 1.3}
    assert verdict([run], "Q11").verdict == OPEN


def test_a_cost_that_was_measured_on_a_busy_machine_says_so():
    run = examples.cost()
    run["metrics"] |= {"threads": 2, "load_average": 6.3}
    assert "(The machine was busy: a load of 6.3 where this run has 2 of its own.)" in verdict([run], "Q11").evidence
    run["metrics"]["load_average"] = 2.9
    assert "busy" not in verdict([run], "Q11").evidence


def test_the_words_on_cost_name_model_batch_device_phases_and_kernels():
    run = examples.cost()
    words = verdict([run], "Q11").evidence
    for part in (
        "slight: a training step below ×1.10, which is our bound. ",
        "BERT-Mini, 1 × 128 tokens, cpu, 9 rounds: ",
        "training, dropout (Original without a fused kernel) ×1.06 [1.04, 1.08]",
        "training, no dropout (Original by its fused kernel flash) ×1.06 [1.04, 1.08]",
        "inference (Original by its fused kernel flash) ×1.06 [1.04, 1.08]",
    ):
        assert part in words
    for way in run["metrics"]["ways"].values():
        del way["train_no_dropout"], way["inference"]["kernel"]  # as in older records
    words = verdict([run], "Q11").evidence
    assert "no dropout" not in words and "inference (Original by a kernel that the record does not name)" in words


def test_verdicts_are_written_in_three_formats(records, tmp_path):
    csv, markdown, latex = tables.write_verdicts(tables.verdicts(records), tmp_path)
    assert csv.read_text().count("\n") == 20
    assert markdown.read_text().count("| **") == 19
    assert all(line.count("|") == 5 for line in markdown.read_text().splitlines() if line.startswith("| "))
    typeset = latex.read_text()
    assert typeset.count(r" \\") == 19 + typeset.count(r"\begin{tabular}")  # each part of a cut table has its head


def test_both_entropies_of_the_deeper_layers_decide_and_the_weaker_one_sets_the_verdict(monkeypatch):
    def run(algorithm, seed, entropy, indirect):
        matrices = {"refined": {"entropy": [[9.0], [9.0], *entropy], "indirect_entropy": [[9.0], [9.0], *indirect]}}
        parameters = {"model": "mini", "algorithm": algorithm, "seed": seed}
        return {"stage": "attention", "parameters": parameters, "metrics": {"task": "race", "matrices": matrices}}

    found = [run("original", seed, [[1.0], [1.0 + seed / 100]], [[2.0], [2.0]]) for seed in range(3)]
    found += [run("high", seed, [[1.2], [1.2]], [[1.8], [1.9 + seed / 100]]) for seed in range(3)]
    evidence = weighed(found, "Q15", "all")
    assert "entropy, deeper half" in evidence.words and evidence.high < 0
    assert evidence.verdict() == "not reproduced"


def controlled(shares):
    """A record of the multi-hop study with so many right of 100 at two hops, {(algorithm, seed): count}."""
    runs = [
        {"layers": 2, "algorithm": name, "seed": seed, "chains": 2, "curve": [],
         "outcomes": {"1": [1] * 100, "2": [1] * right + [0] * (100 - right)}}
        for (name, seed), right in shares.items()
    ]  # fmt: skip
    return examples.record("beyond", "mini-twin", "high", 42, {"multihop": runs})


@pytest.mark.parametrize(("lift", "expected"), [(10, YES), (-10, NO), (0, OPEN)])
def test_the_controlled_study_judges_by_questions_of_several_hops(lift, expected):
    shares = {("original", seed): 50 for seed in range(5)} | {("high", s): 48 + lift + s for s in range(5)}
    row = verdict([controlled(shares)], "Q18")
    assert row.verdict == expected and "5 seeds" in row.evidence
    assert verdict([controlled({key: v for key, v in shares.items() if key[1] == 0})], "Q18").verdict == OPEN
    assert "do not say" in verdict([controlled({("original", 0): 50})], "Q18").evidence


def test_seeds_added_after_a_first_look_make_further_looks_and_widen_its_interval():
    shares = {("original", seed): 50 for seed in range(8)} | {("high", seed): 52 + seed % 4 for seed in range(8)}
    plain = verdict([controlled(shares)], "Q18").evidence
    later = verdict([controlled(shares | {("low", seed): 50 for seed in range(3)})], "Q18").evidence
    assert "; look 3, after 3 seeds and one on the way): " in later and "; look" not in plain
    ends = [[float(end) for end in said.split("[")[1].split("]")[0].split(", ")] for said in (plain, later)]
    exam = controlled(shares)["metrics"]["multihop"]
    estimate, *_ = gain_on_hops.difference(exam)
    wider = [estimate.value - estimate.error.reach(1 - 0.05 / 3), estimate.value + estimate.error.reach(1 - 0.05 / 3)]
    assert ends == [[round(end, 2) for end in own] for own in ((estimate.low, estimate.high), wider)]


def test_the_published_verdicts_take_the_statement_on_hops_from_the_controlled_studies(records, monkeypatch):
    shares = {("original", seed): 50 + seed for seed in range(5)} | {("high", seed): 70 for seed in range(5)}
    monkeypatch.setattr(
        results.records, "load", lambda folder: [controlled(shares)] if "stories" in str(folder) else []
    )
    rows = {row.id: row for row in results.judged(records).rows}
    assert rows["Q18"].verdict == YES and rows["Q18"].evidence.startswith("profile `stories`: ")
    assert rows["Q01"] == verdict(records, "Q01")
    monkeypatch.setattr(results.records, "load", lambda folder: [])
    assert results.judged(records) == tables.verdicts(records)
