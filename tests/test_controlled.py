"""The controlled studies, read from tracked records: which they are, how large, and drawn with every algorithm."""

import matplotlib.pyplot as plt
import numpy as np
from example_records import DEVICE

from saobp.study.beyond import accuracy_by_hops as hops
from saobp.study.beyond import gain_on_hops
from saobp.study.figures import learning
from saobp.study.publication import controlled
from saobp.study.setup import records
from saobp.study.statistics import mean_interval

PATHS = {"1": ["own", "at"] * 20, "2": ["at own", "own job"] * 20}  # of 40 stories, as JSON keeps them


def record(shares, seeds=(0, 1), steps=(0, 100)):
    """A record of notebook 12 with two strengths and runs of one and two hops, right with some share."""
    exam = []
    for name, share in shares.items():
        for seed in seeds:
            random = np.random.default_rng([seed, len(name)])
            answers = {hops: (random.random(120) < share).astype(int).tolist() for hops in ("1", "2")}
            curve = [{"step": step, "accuracy": {"1": share, "2": share}, "seconds": 3 * step} for step in steps]
            one = {"layers": 2, "algorithm": name, "seed": seed, "chains": 3, "curve": curve, "outcomes": answers}
            exam.append(one | {"failed": None, "steps": 100, "full_rate": 0, "stories": 8})
    shape = {"entropy": 2.0, "gtd": 0.8, "largest_column": 3.0}
    ends = [{"step": 9, "loss": loss, "accuracy": 0.5, "raw": shape, "refined": shape} for loss in (3.0, 2.5)]
    run = {"seed": 42, "failed": None, "device": DEVICE}
    swept = [run | {"strength": 0.2 * n, "curve": [end]} for n, end in enumerate(ends)]
    return {"stage": "beyond", "profile": "stories", "started": "2026-05-04T10:00:00+00:00", "parameters": {},
            "metrics": {"multihop": exam, "strengths": swept, "paths": PATHS}}  # fmt: skip


def test_only_the_tracked_records_of_its_profile_are_read(monkeypatch):
    asked, kept = [], record({"original": 0.9})
    monkeypatch.setattr(records, "load", lambda folder: asked.append(folder) or [{"stage": "audit"}, kept])
    assert controlled.tracked() == [kept]
    assert asked[0].parts[-3:] == ("data", "results", "stories")
    monkeypatch.setattr(records, "load", lambda folder: [])
    assert controlled.tracked() == []


def test_a_record_says_its_size_its_strengths_and_its_hops():
    one = record({"original": 0.3, "high": 1.0}, seeds=(0, 1, 2))
    size = "profile stories, 2026-05-04: 6 encoders of 2 layers, 2 algorithms, 3 seeds, "
    assert controlled.size(one) == size + "100 steps of 8 stories, 0.5 hours of training"
    first, *rest = controlled.sentences(one)
    assert first.startswith("2 layers, 1 hop: ")
    assert "as a mean of seeds, for High (1 of 2); unlike Original after Holm's correction: High +" in first
    assert any("right for the first time: Original in 0 of 3 runs, High at step 0 (0 to 0)" in line for line in rest)
    strength, soon = controlled.summary(one)
    assert soon.startswith("how soon, ")
    assert strength.startswith("Strength: lowest held-out loss at λ = 0.2: 2.5000 nats, 0.5 below the highest")


def test_where_some_algorithms_have_more_seeds_it_says_who_and_what_the_added_seeds_show_alone():
    one, later = (record({"original": 0.3, "high": share}, seeds) for share, seeds in ((0.9, (0, 1)), (0.3, (2, 3, 4))))
    first = one["metrics"]["multihop"]
    assert gain_on_hops.added_words(first) == [] and gain_on_hops.added_words([]) == []
    third = [run | {"algorithm": "low"} for run in first if run["algorithm"] == "high"]
    exam = one["metrics"]["multihop"] = [*first, *third, *later["metrics"]["multihop"]]
    assert "3 algorithms, 5 seeds of Original and High, 2 of the others, 100 steps" in controlled.size(one)
    uniform = [run | {"algorithm": "uniform"} for run in exam if run["algorithm"] == "high" and run["seed"] < 4]
    three = one | {"metrics": one["metrics"] | {"multihop": [*exam, *uniform]}}
    assert "5 seeds of Original and High, 4 of Uniform, 2 of the others, 100 steps" in controlled.size(three)
    (line,) = (line for line in controlled.summary(one) if "added after" in line)
    seen, added = (float(part.split(" [")[0].split()[-1]) for part in line.split("; "))
    gaps = [
        gain_on_hops.difference([run for run in exam if run["seed"] in seeds])[0].value for seeds in ((0, 1), (2, 3, 4))
    ]
    assert [seen, added] == [round(gap, 1) for gap in gaps] and seen > 40 > abs(added)


def test_controls_stand_between_high_and_original():
    exam = record({"original": 0.3, "high": 0.9, "uniform": 0.6})["metrics"]["multihop"]
    assert gain_on_hops.control_words([run for run in exam if run["algorithm"] != "uniform"]) == []
    (line,) = gain_on_hops.control_words([*exam, *(run | {"algorithm": "shuffled"} for run in exam[2:4])])
    uniform, shuffled = line.split("95 % by itself: ")[1].split("; ")
    pairs = {
        "High − Uniform": ("high", "uniform"),
        "Uniform − Original": ("uniform", "original"),
        "High − Original": (),
    }
    found = {said: gain_on_hops.difference(exam, *pair)[0] for said, pair in pairs.items()}
    assert uniform == "over 2 seeds " + ", ".join(f"{said} {hops.points(gap)}" for said, gap in found.items())
    assert all(gap.value > 20 for gap in found.values())
    assert shuffled.startswith("over 2 seeds High − Shuffled +0.0 (alike), Shuffled − Original +")
    (alone,) = gain_on_hops.control_words([run for run in exam if (run["algorithm"], run["seed"]) != ("uniform", 1)])
    one = gain_on_hops.difference([run for run in exam if run["seed"] == 0])[0]
    assert "over 1 seed High − Uniform" in alone and alone.endswith(f"High − Original {hops.points(one)}"), "the same"


def test_how_soon_is_a_mean_over_the_checks_of_training():
    exam = record({"original": 0.3, "high": 0.9}, seeds=(0, 1, 2))["metrics"]["multihop"]
    exam[0]["curve"][0] = exam[0]["curve"][0] | {"accuracy": {"1": 0.3, "2": 0.9}}  # of two checks, as far as High
    gaps = [(0 + 60) / 2, 60, 60]
    (line,) = gain_on_hops.along_words(exam)
    assert line.endswith(f": High − Original {hops.points(mean_interval(gaps))} over 3 seeds")
    assert gain_on_hops.along_words([]) == []


def test_paths_are_named_as_the_record_keeps_them():
    one = record({"high": 1.0}, seeds=(0,))
    one["metrics"]["multihop"][0]["outcomes"]["2"] = [1, 1, 1, 1, 0, 0] * 20  # one chain in three of every second story
    assert set(controlled.by_path(one).query("hops == 2")["path"]) == {"at own", "own job"}
    (said,) = (line for line in controlled.summary(one) if "know some of" in line)
    assert "know some of 2 paths" in said and said.endswith("of these others 1 of 1 are at chance")


def test_every_algorithm_has_its_panel_with_a_line_a_run_and_number_of_hops_and_chance_is_marked():
    one = record({"original": 0.4, "high": 1.0, "shuffled": 0.8})
    one["metrics"]["multihop"][-1]["curve"] += [{"step": 400, "accuracy": {"1": 0.2, "2": 0.2}, "seconds": 9}]
    figure = learning.accuracy(hops.curves(one["metrics"]["multihop"]), 100 / 3)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["2 layers, Original", "2 layers, High", "2 layers, Shuffled"]
    for ax, end in zip(figure.axes, (40, 100, 80)):
        lines = [line.get_ydata() for line in ax.lines if len(line.get_xdata())]
        assert sum(np.allclose(line, 100 / 3) for line in lines) == 1
        runs = [line for line in lines if not np.allclose(line, 100 / 3)]
        assert len(runs) == 2 * 2 and all(line[0] == end for line in runs)  # two seeds, two numbers of hops
    longer = [line for line in figure.axes[2].lines if 400 in line.get_xdata()]
    assert len(longer) == 2 and all(line.get_ydata()[-1] == 20 for line in longer), "nobody is averaged with it"
    plt.close(figure)
