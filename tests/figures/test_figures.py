import hashlib
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import example_records as examples
import matplotlib as mpl
import numpy as np
import pandas as pd
import PIL.Image
import pytest
import torch
from jinja2 import UndefinedError
from scipy import stats
from sentences import numbers_in

import saobp
from companion import figures, tables
from companion import records as records_of
from companion.figures import (
    by_seed,
    drawing,
    grids,
    maps,
    publishing,
    style,
)
from companion.figures import gtd_beside_graph_measures as graphs
from companion.figures.beyond_the_paper import (
    claims,
    decoders,
    gains,
    hops,
    strengths,
)
from companion.publication import results
from companion.results import example_head, table
from companion.setup import labels, paths
from companion.tables import captions

DOSES = examples.dose(lambda strength, length: strength * length)
DECODERS = [examples.decoder(algorithm=name) for name in ("original", "high", "high_all_rows")]


def headings(figure):
    """Each panel's heading on one line, without its letter."""
    plain = (re.sub(r"^\$\\bf\{.\}\$ *", "", ax.get_title("left")) for ax in figure.axes)
    return [re.sub(r"[\n\xa0]", " ", text) for text in plain]


def heading(*given, **numbers):
    """The heading of a name in `captions.yaml`, filled with its numbers."""
    return style.minus(style.heading(*given, **numbers))


def draw(number, records, *, width=style.PAGE):
    frame = figures.data(number, records)
    with style.paper():
        return style.fit(drawing.lookup(number).plot(frame, width))


TRACKED = [n for n in (*figures.FIGURES, "claims") if n != 9]


def draw_tracked(number, width):
    """A figure as it is published, from the CSV beside it."""
    file = paths.figures() / f"{figures.stem(number)}.csv"
    frame = pd.read_csv(file) if number == "claims" else figures.read(number, file)
    plot = claims.plot if number == "claims" else drawing.lookup(number).plot
    with style.paper():
        return style.fit(plot(frame, width))


def texts_of(figure):
    """Every text that is seen: titles, labels, legends, notes, and the ticks within the axes."""
    unseen = set()
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low - 1e-9 <= tick.get_loc() <= high + 1e-9 or not axis.get_visible():
                unseen |= {tick.label1, tick.label2}
    for ax in figure.axes:
        if not ax.axison:
            unseen |= {*ax.xaxis.findobj(mpl.text.Text), *ax.yaxis.findobj(mpl.text.Text)}
    texts = figure.findobj(mpl.text.Text)
    return [
        text
        for text in texts
        if text.get_visible() and text.get_text().strip() and text not in unseen
    ]


@pytest.mark.parametrize("width", [figures.PAGE, figures.COLUMN])
@pytest.mark.parametrize("number", TRACKED)
def test_every_text_of_a_tracked_figure_is_whole_and_readable(number, width):
    figure = draw_tracked(number, width)
    page = figure.bbox.padded(1)
    for text in texts_of(figure):
        box = text.get_window_extent()
        assert all(page.contains(*corner) for corner in (box.min, box.max)), text
        # white stands on dark cells of a map
        if text.get_color() != "white":
            assert style.contrast(text.get_color()) >= style.READABLE, text


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def gtd(algorithm):
    """GTD of BERT-Mini's runs: (seed, layer, head)."""
    return np.array([examples.matrices(algorithm, seed)["gtd"] for seed in (42, 43, 44)])


@pytest.fixture(scope="module")
def records():
    own = [examples.cost(), examples.beyond(), examples.inserted(), *DECODERS, *DOSES]
    return [*examples.study(("mini", "small-quarter"), labels.PAPER_ALGORITHMS), *own]


def test_figure_4_data_are_means_over_heads_and_runs_and_in_the_last_column_the_final_layer_by_head(
    records,
):
    frame = figures.data(4, records)
    levels = frame.query("model == 'mini' and of == 'level' and seed.isna()")
    point = levels.query("algorithm == 'high' and panel == 'gtd' and x == 2").iloc[0]
    assert point["value"] == pytest.approx(gtd("high")[:, 1].mean())
    assert point["low"] < point["value"] < point["high"] and point["runs"] == 3
    last = levels.query("algorithm == 'low' and panel == 'final_entropy'")
    runs = [examples.matrices("low", seed)["entropy"][-1] for seed in (42, 43, 44)]
    assert last["value"].tolist()[1:] == pytest.approx(
        np.mean(np.sort(runs, axis=1), axis=0).tolist()
    )
    # whose heads keep their numbers
    one = figures.data(4, [examples.attention("mini", "low")])
    last = one.query("panel == 'final_entropy' and x > 0")
    assert last["value"].tolist() == pytest.approx(examples.matrices("low", 42)["entropy"][-1])
    assert "BERT-Mini and BERT-Small" in figures.caption(4, frame), "several sizes are named"
    run = examples.attention()
    run["metrics"]["matrices"]["refined"]["gtd"][1] = [None, None]
    found = figures.data(4, [run]).query("panel == 'gtd'")
    assert found["x"].tolist() == [0, 1, 3], "what is undefined leaves a gap and not a zero"
    runs = [examples.attention("mini", "original", seed) for seed in (42, 43)] + [
        examples.attention("mini", "high")
    ]
    for run, heads in zip(runs, ([3.0, 1.0], [3.0, 1.0], [2.0, 4.0])):
        run["metrics"]["matrices"]["refined"]["entropy"] = [heads]
    found = figures.data(4, runs).query(
        "algorithm == 'high' and of == 'difference' and panel == 'final_entropy'"
    )
    assert found.query("x > 0")["value"].tolist() == [1.0, 1.0], (
        "in order where any side has several seeds"
    )


def test_the_change_over_all_layers_is_paired_by_seed_and_has_its_interval(records):
    gaps = (gtd("high") - gtd("original")).mean((1, 2))
    low, high = stats.t.interval(0.95, 2, gaps.mean(), stats.sem(gaps))
    row = (
        grids.changes(figures.data(4, records)).query("model == 'mini' and panel == 'gtd'").iloc[0]
    )
    assert (row["value"], row["low"], row["high"], row["runs"]) == pytest.approx(
        (gaps.mean(), low, high, 3)
    )
    apart = [examples.attention("mini", "high", 42), examples.attention("mini", "original", 43)]
    assert grids.changes(figures.data(4, apart)).empty
    assert style.change(0.032, np.nan, np.nan, 3) == "+0.032", "no direction without an interval"
    forest = draw("differences", records).axes[0]
    dots, mean, *_ = [line for line in forest.lines if len(line.get_xdata()) in (1, 3)]
    # a dot is a seed's, above it their mean
    assert sorted(dots.get_xdata()) == pytest.approx(sorted(gaps))
    assert mean.get_xdata() == pytest.approx([gaps.mean()])


def test_fresh_seeds_stand_in_the_place_of_their_algorithms_first_ones_and_of_no_others():
    first = [examples.attention("mini", name, 42) for name in ("original", "high", "low")]
    fresh = [
        examples.attention("mini", name, 45) | {"study": "scratch"} for name in ("original", "high")
    ]
    shown = drawing.relevant(4, [*first, *fresh])
    seeds = {run["parameters"]["algorithm"]: run["parameters"]["seed"] for run in shown}
    assert seeds == {"original": 45, "high": 45, "low": 42}
    table = tables.table(1, [*first, *fresh])
    assert table.studies == ("smoke", "scratch")
    low = table.cells[("mini", "low"), "GTD"]
    assert low.difference is not None, "what was run on the first seeds is compared on them"
    with pytest.raises(ValueError, match="of several studies"):
        drawing.data(4, [*first, examples.attention() | {"study": "laptop"}])


def test_high_leads_by_the_mean_over_training_of_the_seeds_that_both_have():
    rows = [
        ("high", 1, 60),
        ("original", 1, 50),
        ("high", 2, 40),
        ("original", 2, 46),
        ("high", 3, 90),
    ]
    curves = pd.DataFrame(rows, columns=["algorithm", "seed", "accuracy"]).assign(layers=4, hops=3)
    (lead,) = hops.leads(curves).to_dict("records")
    reach = stats.t.ppf(0.975, 1) * np.std([10, -6], ddof=1) / np.sqrt(2)
    assert (lead["gap"], lead["gap_high"], lead["pairs"]) == pytest.approx((2, 2 + reach, 2))
    assert hops.leads(curves[curves["algorithm"] == "high"]).empty
    exam = examples.beyond(algorithms=("original", "sinkhorn"))
    for run in exam["metrics"]["multihop"]:
        run["chains"] = 2
    axes = draw("learning", [exam]).axes
    assert [line.get_ydata()[0] for line in axes[0].lines if line.get_linestyle() == ":"] == [50]
    assert "not run" in headings(axes[0].figure)[0]


def test_every_tracked_form_fits_a_column_or_a_page_and_leaves_room_for_its_caption():
    files = sorted(paths.figures().glob("*.pdf"))
    assert len(files) >= 40
    for file in files:
        box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", file.read_bytes())
        width, height = (float(side) / 72 for side in box.groups())
        most = figures.COLUMN if file.stem.endswith("-column") else figures.PAGE
        assert width <= most + 0.005 and height <= 7.005, file.name


def test_the_same_records_give_the_same_bytes_without_a_date_and_with_fonts_inside(
    records, tmp_path
):
    given = (records, tmp_path, figures.Form(("pdf", "svg", "png")))
    first, second = ([path.read_bytes() for path in figures.write(6, *given)] for _ in range(2))
    assert first == second
    assert (
        b"CreationDate" not in first[0] and b"/FontFile2" in first[0] and b"/Type3" not in first[0]
    )
    assert b"<text" not in first[1] and b"dc:date" not in first[1]


WITHOUT_THREE_HOPS, WITHOUT_LENGTHS = examples.beyond(), examples.cost()
del WITHOUT_LENGTHS["metrics"]["lengths"]
for run in WITHOUT_THREE_HOPS["metrics"]["multihop"]:
    for answers in (run["outcomes"], *(point["accuracy"] for point in run["curve"])):
        answers.pop("3", None)


@pytest.mark.parametrize(
    ("number", "found", "needs"),
    [
        (7, [examples.attention()], "Figure 7: .* attention records of task squad"),
        (
            "glance",
            [examples.attention()],
            "The result at a glance: no run yet, it needs",
        ),
        ("gains", [examples.finetune()], "Gains: .* High and Original fine-tuned on the same task"),
        ("length", [WITHOUT_LENGTHS], "Cost against length: .* a cost record with lengths"),
        ("decoders", DECODERS[:2], "Decoders: .* High with all rows"),
        (
            "hops",
            [examples.beyond(failed=("original", "high", "sinkhorn"))],
            "Accuracy by hops: .* did not diverge",
        ),
        *((name, [WITHOUT_THREE_HOPS], "no run yet") for name in ("hops", "learning")),
    ],
)
def test_a_figure_without_its_runs_says_which_are_missing(number, found, needs):
    with pytest.raises(figures.FigureError, match=needs):
        draw(number, found)


def test_wrong_arguments_are_named(records, tmp_path):
    with pytest.raises(ValueError, match="no Figure 12; .* claims$"):
        draw(12, records)
    with pytest.raises(ValueError, match="width: 0.2 inches"):
        draw(4, records, width=0.2)
    with pytest.raises(ValueError, match="'jpg' is none of"):
        figures.write(4, records, tmp_path, figures.Form(("jpg",)))


@pytest.fixture(scope="module")
def small():
    return [*examples.study(("mini",), seeds=(1, 2)), examples.cost(), examples.decoder()]


def test_the_manifest_traces_every_file_to_its_records_and_their_files_hashes(small, tmp_path):
    # laid out as no record is written
    for run in small[:-1]:
        paths.write_text(tmp_path / f"{run['name']}.json", json.dumps(run, indent=3))
    other, folder = examples.inserted() | {"study": "retrofit"}, tmp_path / "figures"
    beside = figures.Beside(others=[other], hashes={other["name"]: "f00d"})
    written = figures.publish(
        small, folder, records_of.hashes(tmp_path), beside, formats=("svg", "csv")
    )
    made = manifest(folder)
    entry, named = (
        made["entries"]["figure4"],
        {name for one in made["entries"].values() for name in one["files"]},
    )
    assert {path.name for path in written} == named | {"manifest.json"}
    assert set(entry["files"]) == {"figure4.svg", "figure4.csv"}
    assert entry["study"] == "smoke" and made["entries"]["figure-retrofit"]["study"] == "retrofit"
    assert entry["date"] == max(run["started"] for run in small if run["stage"] == "attention")
    assert "no run yet" in made["missing"]["figure7"]
    # of a sentence, not of a run
    assert made["entries"]["figure1"]["records"] == []
    assert made["records"].pop(small[-1]["name"]) is None, "there is no file of it"
    for name, expected in made["records"].items():
        assert hashlib.sha256((tmp_path / f"{name}.json").read_bytes()).hexdigest() == expected, (
            name
        )
    assert made["others"] == {"retrofit": {other["name"]: "f00d"}}


def test_the_tracked_manifest_gives_the_hashes_of_the_tracked_files():
    entries = manifest(paths.figures())["entries"].values()
    drawn = {
        paths.figures() / name: mark for entry in entries for name, mark in entry["files"].items()
    }
    others = {paths.figures() / name for name in ("manifest.json", "results.csv", "README.md")}
    assert {*drawn} | others == set(paths.figures().iterdir())
    for path, mark in drawn.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == mark, f"{path}: run `make figures`"


def test_a_tracked_figure_is_drawn_again_from_the_csv_beside_it(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    said = figures.redrawn(6, paths.figures()).data
    assert said == figures.shown(6, paths.figures()).data
    assert PIL.Image.open(io.BytesIO(shown[0].data)).width > 800
    assert figures.redrawn(9, paths.figures()).data.startswith("*Figure 9")


def test_figure_1_is_minilm_s_head_with_the_largest_column_and_its_rows_sum_to_one():
    frame, said = figures.data(1, []), example_head.load()
    assert max(head["raw"] for head in said["heads"]) == pytest.approx(
        maps.numbers(frame)["before"], abs=1e-3
    )
    sums = [side.sum(1) for side in maps.both(frame)]
    assert np.allclose(sums, 1, atol=1e-3)
    raw, refined = (
        torch.tensor(said["map"][side], dtype=torch.float64) for side in ("raw", "refined")
    )
    again = saobp.refine(raw / raw.sum(-1, keepdim=True), said["factor"], said["strength"])
    assert torch.allclose(again, refined, atol=1e-3), (
        "the tracked map is one step of the tracked softmax"
    )
    words = [text.get_text() for text in draw(1, []).axes[3].texts]
    mass = said["map"]["raw"][said["tokens"].index("trophy")][maps.numbers(frame)["place"]]
    assert words[:3] == [
        "trophy",
        f"{mass:.2f}",
        f"×{1 - (1 - np.exp(-said['strength'])) * mass:.2f}",
    ]


def test_r_of_a_seed_is_pearson_s_over_its_heads_and_every_point_is_in_a_cell():
    run = examples.attention("mini", "high", 44)
    matrix = run["metrics"]["matrices"]["refined"]
    matrix["clustering_barrat"] = (np.array(matrix["gtd"]) ** 3 - 0.1).tolist()
    frame = figures.data(5, [run])
    assert frame.columns.tolist() == graphs.COLUMNS
    pairs = np.ravel(matrix["gtd"]), np.ravel(matrix["clustering_barrat"])
    runs = graphs.of_runs(frame).set_index(["measure", "algorithm", "seed"])
    r = runs.loc[("clustering_barrat", "high", 44), "r"]
    assert r == pytest.approx(stats.pearsonr(*pairs).statistic)
    cells = frame[frame["gtd"].notna()].query("measure == 'clustering_barrat'")
    assert cells["n"].sum() == len(run["metrics"]["graph"]["clustering"])


def test_r_over_seeds_is_of_the_algorithms_that_have_the_same_seeds_as_high():
    rows = [("original", 1, 0.2), ("high", 1, 0.4), ("original", 2, 0.1), ("high", 2, 0.5)]
    rows += [("low", 9, -0.9)]
    frame = pd.DataFrame(rows, columns=["algorithm", "seed", "r"])
    frame = frame.assign(measure="betweenness", gtd=np.nan, n=16)
    r = graphs.over_seeds(frame, "betweenness")
    means = [np.arctanh([0.2, 0.4]).mean(), np.arctanh([0.1, 0.5]).mean()]
    assert (r.value, r.seeds) == (pytest.approx(np.tanh(np.mean(means))), 2)


def test_a_bare_figure_keeps_the_letters_of_its_panels_and_no_title(records):
    with style.paper():
        figure = drawing.lookup(4).plot(figures.data(4, records), style.PAGE)
        publishing._bare(figure)
    titles = [ax.get_title("left") for ax in figure.axes]
    assert titles[:2] == [r"$\bf{a}$", r"$\bf{b}$"] and "" not in titles


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("algorithm", "Hgih", "column algorithm: 'Hgih' is none of eigen_reg, .*original"),
        ("task", "mnist", "column task: 'mnist' is none of .*race"),
        ("panel", "colour", "column panel: 'colour' is none of entropy"),
        ("value", "high", "column value: 'high' is no finite number"),
        ("value", "inf", "column value: 'inf' is no finite number"),
        ("value", "", "column value: a cell is empty"),
        ("seed", "45.5", "column seed: '45.5' is no whole number"),
    ],
)
def test_a_wrong_cell_of_somebodys_csv_is_named_with_what_may_stand_there(
    column, value, fault, tmp_path
):
    tracked = pd.read_csv(paths.figures() / "figure4.csv", dtype=str)
    tracked.loc[3, column] = value
    tracked.to_csv(tmp_path / "my.csv", index=False)
    with pytest.raises(ValueError, match=f"my.csv, {fault}") as raised:
        figures.read(4, tmp_path / "my.csv")
    assert "\n" not in str(raised.value)
    tracked[:0].to_csv(tmp_path / "my.csv", index=False)
    with pytest.raises(ValueError, match="my.csv has no rows"):
        figures.read(4, tmp_path / "my.csv")


def test_figure_6_pairs_the_seeds_of_both_sides_and_its_caption_gives_their_means():
    runs = [
        examples.attention("mini", name, seed) for name in ("original", "high") for seed in (42, 43)
    ]
    for run in runs:
        low = 0.25 if run["parameters"]["algorithm"] == "high" else 0.75
        run["metrics"]["matrices"]["refined"]["sparsity"] = [[low, 0.5]] * examples.LAYERS
    # has no Original beside it
    runs.append(examples.attention("mini", "high", 44))
    frame = figures.data(6, runs)
    assert by_seed.pairs(frame).to_numpy().tolist() == [[0.625, 0.375]] * 2
    assert numbers_in(figures.caption(6, frame))[-4:] == ["2", "2", "0.375", "0.625"]
    assert by_seed.difference(frame).value == pytest.approx(-0.25)


def test_a_difference_is_of_the_seeds_that_have_every_task():
    rows = [
        ("race", 1, 5.0),
        ("squad", 1, 1.0),
        ("race", 2, 2.0),
        ("squad", 2, 4.0),
        ("race", 3, 90.0),
    ]
    frame = pd.DataFrame(rows, columns=["task", "seed", "value"]).assign(model="mini")
    both = [frame.assign(algorithm="high"), frame.assign(algorithm="original", value=0.0)]
    found = by_seed.difference(pd.concat(both))
    assert (found.value, found.seeds) == (3.0, 2)


def test_the_glance_has_a_seed_once_and_each_planned_effect_of_the_table_of_results():
    runs = [
        examples.attention("mini", name, seed, task)
        for name in ("original", "high")
        for seed in (42, 43)
        for task in ("race", "sst2")
    ]
    for run in runs:
        run["metrics"]["matrices"]["refined"]["column_mass_maximum"] = [[2.0, 4.0]]
    frame = figures.data("glance", runs)
    assert len(frame[frame["panel"] == "b"]) == 4, "a seed and side, the mean of its tasks"
    effects = frame[frame["panel"] == "c"].set_index("name")
    planned = table.read().query("planned == 'primary'")
    steps = planned.query("study == 'learning'").iloc[0]
    first = effects.iloc[0]
    assert first["value"] == pytest.approx((1 - steps["estimate"]) / steps["margin"])
    assert first["word"] == steps["outcome"]
    spared = planned.query("study == 'spare' and unit == 'points'").iloc[0]
    mean = effects.loc[effects.index.str.endswith("spared")].iloc[0]
    assert mean["value"] == pytest.approx(spared["estimate"] / spared["margin"])
    decoder = table.find("decoders/log-perplexity/high-original")
    gain = effects.loc["Loss of a decoder"]
    assert gain["value"] == pytest.approx(-decoder["estimate"] / decoder["margin"], rel=1e-4)
    assert gain["low"] < gain["value"] < gain["high"], "less loss is better"
    words = figures.caption("glance", frame)
    assert f"{len(effects)} effects in margins" in words


def test_every_figure_has_a_caption_and_one_without_its_number_is_refused():
    assert captions.of(style.CAPTIONS).keys() == {*drawing.FIGURES, "claims"}
    with pytest.raises(UndefinedError, match="'moved' is undefined"):
        style.heading(1, 1)


def test_the_exam_shows_every_seed_and_counts_who_solved_three_hops():
    study = examples.beyond()
    frame = figures.data("hops", [study])
    assert len(frame) == 2 * 3 * 2 * 3 and set(frame["chance"].round(1)) == {33.3}
    lines = draw("hops", [study]).axes[1].lines
    dots = next(line for line in lines if line.get_color() == style.LOOKS["original"].colour)
    own = frame.query("layers == 4 and algorithm == 'original' and hops == 3")
    assert sorted(dots.get_xdata()) == sorted(own["accuracy"])
    whole = figures.data("hops", [examples.beyond(failed=("high",))])
    assert set(whole["algorithm"]) == {"original", "sinkhorn"}
    alike = {
        "layers": 4,
        "algorithm": "high",
        "hops": 3,
        "chance": 33.3,
        "accuracy": [33.0, 99.0, 99.5, 100.0],
    }
    lines = hops.plot_ends(pd.DataFrame(alike).assign(seed=range(4)), 6).axes[0].lines
    (places,) = (line.get_ydata() for line in lines if line.get_marker() == "o")
    assert places[0] == 0 and len(set(places[1:])) == 3, (
        "dots that would cover each other stand apart"
    )


def test_gains_set_the_paper_s_difference_beside_ours_where_both_algorithms_were_run():
    runs = [
        examples.finetune("mini", name, seed) for name in ("original", "high") for seed in (42, 43)
    ]
    frame = figures.data("gains", runs)
    ours, paper = (frame[frame["of"] == name].set_index("task") for name in ("ours", "paper"))
    table = tables.table(2, runs).cells[("mini", "high"), "RACE_Middle"].difference
    assert ours.loc["RACE-Middle", ["gain", "low", "high"]].tolist() == [
        table.value,
        table.low,
        table.high,
    ]
    assert paper.loc["QQP", "gain"] == 4.48 and paper.loc["QQP", "low"] > 3
    assert np.isnan(paper.loc[["CoLA", "STS-B"], "low"]).all(), "correlations, without an error"
    assert (
        draw("gains", runs)
        .axes[0]
        .get_yticklabels()[0]
        .get_text()
        .startswith(ours["gain"].idxmax())
    )
    assert gains.numbers(frame)["ours_above"] == (ours["low"] > 0).sum()
    assert drawing.relevant("gains", [*runs, examples.finetune("mini", "low", 42)]) == runs


def test_strengths_are_compared_over_the_seeds_that_all_have_on_one_kind_of_processor():
    runs, other = (
        examples.strengths((0.0, 0.1, 1.0), seeds=(42, 43, 44)),
        {"device": {"name": "a GPU"}},
    )
    lost = [run for run in runs if (run["strength"], run["seed"]) != (1.0, 44)]
    moved = [run | other if (run["strength"], run["seed"]) == (0.1, 43) else run for run in lost]
    assert [sorted(set(strengths.of(some)["seed"])) for some in (runs, lost, moved)] == [
        [42, 43, 44],
        [42, 43],
        [42],
    ]


def test_the_leak_is_the_mean_over_sequences_and_a_loss_stands_beside_that_of_the_same_seed_s_original():
    second = examples.decoder(seed=43)
    second["metrics"]["curve"][-1]["loss"] = 5.0
    with pytest.raises(figures.FigureError, match="decoder records of one seed"):
        figures.data("decoders", [*DECODERS[1:], second])
    said = decoders.numbers(figures.data("decoders", [*DECODERS, second]))
    plain, high, leaky = (np.log(run["metrics"]["perplexity"]) for run in DECODERS)
    assert (said["high"].value, said["high"].seeds) == (pytest.approx(high - plain), 1)
    assert (said["leaky"].value, said["leaky"].seeds) == (pytest.approx(leaky - plain), 1)
    expected = {"leak": 5.0, "prefixes": 9.0, "untrained": 8.0, "places": 4, "leaks": 3}
    assert said.items() >= (expected | {"sequences": 2}).items()
    losses, passes, leak = draw("decoders", [*DECODERS, second]).axes
    assert [line.get_ydata()[-1] for line in losses.lines] == [4.5, 4.0, 2.0]
    ends = [
        path.vertices[:, 0].tolist() for lines in passes.collections for path in lines.get_paths()
    ]
    assert ends == [[4.0, 4.0], [4.0, 4.0], [4.0, 9.0]]
    assert leak.lines[0].get_xydata().tolist() == [[2, 0], [3, 4], [4, 6], [5, 10]]


def test_decoders_of_fresh_seeds_are_drawn_and_the_form_without_any_keeps_its_own_original():
    fresh = [
        examples.decoder(algorithm=name, seed=seed) | {"study": "decoders"}
        for name in ("original", "high")
        for seed in (44, 45)
    ]
    frame = figures.data("decoders", [*DECODERS, *fresh])
    drawn = frame[frame["of"] == "curve"].groupby("algorithm")["seed"].agg(set).to_dict()
    assert drawn == {"original": {44, 45}, "high": {44, 45}, "high_all_rows": {42}}
    said = decoders.numbers(frame)
    assert (said["high"].seeds, said["leaky"].seeds) == (2, 1)


def test_a_figure_is_of_its_own_records_else_of_another_study_s(small):
    controlled, own = examples.beyond() | {"study": "stories"}, examples.beyond()
    assert figures.origin("hops", small, [controlled]) == [controlled]
    assert figures.origin("hops", [*small, own], [controlled]) == [own]
    assert figures.origin("hops", [*small, examples.beyond(algorithms=())], [controlled]) == [
        controlled
    ], "no exam"
    assert figures.origin("length", small, [controlled])[0]["study"] == "smoke"


def test_the_tracked_figures_are_what_the_tracked_records_give(tmp_path, monkeypatch):
    """Every table, figure, caption and its data are made again; pictures are laid out, and not
    rendered.
    """
    monkeypatch.setattr(
        publishing, "ProcessPoolExecutor", lambda count, mp_context: ThreadPoolExecutor(1)
    )
    monkeypatch.setattr(figures, "publish", partial(figures.publish, formats=("csv",)))
    results.draw(tmp_path)
    drawn, tracked = (
        {
            path.name
            for path in folder.iterdir()
            if path.suffix in (".csv", ".md", ".tex") and path.name != "README.md"
        }
        for folder in (tmp_path, paths.figures())
    )
    assert drawn == tracked
    for name in sorted(drawn):
        assert (tmp_path / name).read_bytes() == (paths.figures() / name).read_bytes(), (
            f"{name}: run `make figures`"
        )
    made, kept = (manifest(folder) for folder in (tmp_path, paths.figures()))
    for name, entry in kept["entries"].items():
        files, pictures = (
            set(entry.pop("files")),
            {f"{name}.{kind}" for kind in ("pdf", "svg", "png")} | {f"{name}-column.pdf"},
        )
        if name == "figure-glance":
            pictures.add("figure-glance-column.png")
        assert files - set(made["entries"][name].pop("files")) == (
            pictures if f"{name}.png" in files else set()
        )
    assert made == kept


def test_the_dose_is_drawn_over_strength_and_over_strength_times_length_once_both_models_are_there():
    frame = figures.data("dose", DOSES)
    assert len(frame) == 2 * 5 * 6
    figure = draw("dose", DOSES)
    over_strength, over_dose = figure.axes[:2]
    for number, length in enumerate((16, 32, 64, 128, 256, 512)):
        of_length = frame.query("model == 'minilm' and length == @length").sort_values("strength")
        for ax, factor in ((over_strength, 1), (over_dose, length)):
            line = ax.lines[number]
            assert line.get_xdata() == pytest.approx(of_length["strength"] * factor)
            assert line.get_ydata() == pytest.approx(of_length["sink"])
    share = figures.FIGURES["dose"].numbers(frame)["minilm_sink_dose"]
    assert f"R² = {share:.2f}" in headings(figure)[1]
    alone = [record for record in DOSES if record["parameters"]["model"] == "minilm"]
    with pytest.raises(figures.FigureError, match="the plan's section dose"):
        figures.data("dose", alone)
