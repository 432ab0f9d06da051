"""What the tracked studies cost is counted from their records, and every study of ours has its reading."""

import json
import re
from dataclasses import replace

import example_records as examples
import pytest

from saobp.study.publication import budgets
from saobp.study.setup import paths, records
from saobp.study.setup.studies import load_profile

READ = [path.name for path in sorted(paths.results("smoke").parent.iterdir()) if path.is_dir() and path.name != "smoke"]


def test_runs_are_counted_beside_those_that_the_profile_plans():
    study = load_profile("smoke")
    found = [examples.pretrain("mini-twin"), examples.pretrain("mini-twin", "high"), examples.finetune("mini-twin")]
    for run in found:
        run["metrics"] |= {"steps": 60, "tokens": 2_500_000, "seconds": 1800.0}
    plan = replace(
        study.finetune, groups={"one": ["rte", "race"]}, batch=32, epochs=3, epochs_of={"race": 1}, length=64
    )
    found[2] = examples.finetune("mini-twin", tasks=("rte", "race"))
    found[2]["parameters"]["group"] = "one"
    found[2]["data"]["splits"] = [
        {"role": role, "used": used} for used in (100, 20_000) for role in ("train", "evaluation")
    ]
    encoders, tuned = budgets.budgets(found, replace(study, finetune=plan))
    planned = f"2 of {len(study.pairs()) * len(study.seeds)}"
    assert encoders.cells() == ["encoders", planned, "60", "2.5 million tokens", "1.0"]
    steps, items = 3 * 3 + 594, 3 * 90 + 19_000  # less a tenth, of the second a thousand, that choose the epoch
    assert tuned.cells()[:4] == [
        "fine-tuning, RTE, RACE-Middle",
        f"1 of {len(study.pairs()) * len(study.seeds) * len(plan.seeds)}",
        f"{steps}",
        f"{items:,} items of at most 64 tokens",
    ]
    assert tuned.cells()[4] == "≥ 0.0" and replace(tuned, seconds=7200.0).cells()[4] == "≥ 2.0", "tasks are not timed"
    for scores in found[2]["metrics"]["tasks"].values():
        scores["seconds"] = 3600.0
    assert budgets.budgets(found, replace(study, finetune=plan))[1].cells()[4] == "2.0", "of every sitting"
    longer = replace(study, finetune=replace(plan, length_of={"race": 160, "squad": 200}))
    assert budgets.budgets(found, longer)[1].cells()[3].endswith("of at most 160 tokens"), "of its own tasks"


def test_a_complete_study_names_one_number_and_little_time_is_not_none():
    whole = budgets.Budget("encoders", 4, 4, (10, 1_000), ("1.0 million tokens",), 60.0)
    assert whole.cells() == ["encoders", "4", "10, 1,000", "1.0 million tokens", "<0.1"]
    assert replace(whole, threads=2).cells()[-1] == "<0.1 (2 threads)"


def test_hours_on_more_than_one_thread_say_so_and_runs_made_again_are_told_beside_the_table(tmp_path, monkeypatch):
    study = load_profile("stories")
    found = examples.beyond()
    strengths = found["metrics"]["strengths"]
    for run, device in zip(strengths, ("EPYC, 1 of 2 threads", "EPYC, 2 of 2 threads", "cpu"), strict=False):
        run["device"] = device
        run["curve"][-1]["seconds"] = 1800.0
    kind = budgets._strengths(found["metrics"], study)
    assert kind.threads == 2 and kind.cells()[-1].endswith("(2 threads)")
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    encoder = examples.pretrain("mini-twin")
    encoder["metrics"]["seconds"] = 3600.0
    for record in (encoder, found):
        paths.write_text(tmp_path / "data" / "repeats" / "one" / f"{record['name']}.json", json.dumps(record))
    hours = 1 + sum(run["curve"][-1].get("seconds", 0) for run in strengths if run["curve"]) / 3600
    number = 1 + sum(bool(run["curve"]) for run in strengths)
    said = f"Made again, in no row above: `one` {number} runs of {hours:.1f} hours."
    assert budgets.again_words(["one", "two"]) == [said, ""] and budgets.again_words(["two"]) == []


def test_the_controlled_studies_are_counted_by_encoder():
    study = load_profile("stories")
    found = examples.beyond(layers=(2,))
    for run in found["metrics"]["multihop"]:
        run["stories"] = 64
        run["curve"][-1] |= {"step": 4000, "seconds": 360.0}
    exam = next(kind for kind in budgets.budgets([found], study) if "hops" in kind.what)
    runs = len(found["metrics"]["multihop"])
    assert exam.cells()[1:] == [
        f"{runs} of {len(study.multihop.runs())}",
        "4,000",
        "256,000 stories",
        f"{runs / 10:.1f}",
    ]
    assert budgets.budgets([found], replace(study, multihop=None, beyond=None)) == []


@pytest.mark.parametrize("profile", READ)
def test_every_tracked_study_has_its_paragraph_and_no_number_in_it(profile):
    """Numbers are printed by code from the records; a paragraph says what they come to, the last what would change."""
    _, _, text, _ = budgets.reading(profile)
    heads = re.findall(r"^- \*\*(.+?)\.\*\*", text, re.MULTILINE)
    studies = budgets.budgets(records.load(paths.results(profile)), load_profile(profile))
    kinds = [kind.what.removeprefix("encoders at ").removeprefix("encoders for ") for kind in studies]
    assert {kind.partition(",")[0].capitalize() for kind in kinds} <= set(heads)
    assert heads[-1] == "What would change this" and not re.search(r"\d", text)


def test_the_readme_shows_the_cost_of_every_tracked_study():
    text = "\n".join(budgets.words(READ))
    assert all(
        f"| `{name}` | encoders" in text
        for name in READ
        if records.select(records.load(paths.results(name)), "pretrain")
    )
