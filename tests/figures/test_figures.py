import hashlib
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import example_records as examples
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
    gtd_beside_graph_measures,
    maps,
    publishing,
    style,
)
from companion.figures.beyond_the_paper import (
    claims,
    costs,
    decoders,
    gains,
    hops,
    inserted,
    strengths,
)
from companion.publication import results
from companion.setup import labels, paths
from companion.tables import captions

# 7 to 9 are drawn as 3 and 4
DRAWN = [n for n in figures.FIGURES if n not in (7, 8, 9, "glance", "tokens")]
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
        return drawing.found(number).plot(frame, width)


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
    assert figures.caption(4, frame).count("RACE-Middle, BERT-Mini, ") == 1, (
        "several sizes are named"
    )
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
    mean, dots = [
        line
        for line in draw(4, records).axes[0].lines
        if line.get_color() == style.LOOKS["high"].colour
    ]
    # a dot is a seed's, the line their mean
    gaps = (gtd("high") - gtd("original")).mean(2)
    assert sorted(dots.get_ydata()) == pytest.approx(sorted(np.ravel(gaps)))
    assert mean.get_ydata() == pytest.approx(gaps.mean(0))


def test_high_leads_in_the_seeds_whose_mean_over_training_is_higher_and_chance_is_that_of_the_number_of_chains():
    rows = [
        ("high", 1, 60),
        ("original", 1, 50),
        ("high", 2, 40),
        ("original", 2, 50),
        ("high", 3, 90),
    ]
    curves = pd.DataFrame(rows, columns=["algorithm", "seed", "accuracy"]).assign(layers=4, hops=3)
    assert hops.leads(curves).to_dict("records") == [{"layers": 4, "ahead": 1, "pairs": 2}]
    assert hops.leads(curves[curves["algorithm"] == "high"]).empty
    exam = examples.beyond(algorithms=("original", "sinkhorn"))
    for run in exam["metrics"]["multihop"]:
        run["chains"] = 2
    axes = draw("learning", [exam]).axes
    assert [line.get_ydata()[0] for line in axes[0].lines if line.get_linestyle() == ":"] == [50]
    assert headings(axes[0].figure)[0] == heading("learning", 0, layers=2, ahead=0, pairs=0)


def test_no_two_algorithms_look_alike_and_the_paper_s_form_of_figure_4_has_a_line_an_algorithm(
    records,
):
    colours, markers, _ = zip(*style.LOOKS.values())
    assert len({*colours}) == len({*markers}) == len(colours)
    expected = [style.LOOKS[name].colour for name in labels.PAPER_ALGORITHMS]
    assert [[line.get_color() for line in ax.lines] for ax in draw("4-paper", records).axes] == [
        expected
    ] * 8


@pytest.mark.parametrize("width", [style.LEAST, style.NARROW - 0.01, figures.PAGE])
@pytest.mark.parametrize("number", DRAWN)
def test_no_label_is_cut_off(number, width, records):
    figure = draw(number, records, width=width)
    assert figure.get_figwidth() == width
    figure.draw_without_rendering()
    page, texts = figure.bbox.padded(1), figure.legends[:1]
    for ax in figure.axes:
        texts += [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            texts += [
                tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high
            ]
    for text in texts:
        box = text.get_window_extent()
        assert box.width == 0 or all(page.contains(*corner) for corner in (box.min, box.max)), text


@pytest.mark.parametrize("width", [figures.PAGE, figures.COLUMN])
def test_the_forest_has_a_row_a_claim_in_the_look_of_its_outcome_and_the_papers_tick(width):
    rows = [
        ("a", "A", "x", "supported", 1.5, 1.0, 2.0, -3.0),
        ("b", "B", "y", "open", -0.5, -1.0, 0.2, np.nan),
    ]
    ax = claims.plot(pd.DataFrame(rows, columns=claims.COLUMNS), width).axes[0]
    supported, paper, undecided = [line for line in ax.lines if len(line.get_xdata()) == 1]
    assert supported.get_color() == claims.OUTCOME_LOOKS["supported"].colour
    assert (supported.get_xdata(), paper.get_xdata()) == ([1.5], [-3.0])
    assert undecided.get_markerfacecolor() == "white"
    assert numbers_in(headings(ax.figure)[0]) == ["2", "1", "0", "0", "1", "0"]


def test_the_tracked_forest_fits_a_page_with_every_title_whole():
    frame = pd.read_csv(paths.figures() / "figure-claims.csv")
    for width in (figures.PAGE, figures.COLUMN):
        forest = claims.plot(frame, width)
        assert forest.get_figheight() <= 7, "inches"
        forest.draw_without_rendering()
        texts = [*forest.axes[0].texts, *forest.axes[0].get_yticklabels()]
        assert min(text.get_window_extent().x0 for text in texts) >= 0


def test_the_same_records_give_the_same_bytes_without_a_date_and_with_fonts_inside(
    records, tmp_path
):
    given = (records, tmp_path, ("pdf", "svg", "png"))
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
            [examples.attention(), examples.pretrain()],
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
        (
            "strength",
            [examples.beyond() | {"metrics": {"strengths": []}}],
            "Other strengths: no run yet",
        ),
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
        figures.write(4, records, tmp_path, formats=("jpg",))


@pytest.fixture(scope="module")
def small():
    return [*examples.study(("mini",), seeds=(1, 2)), examples.cost(), examples.decoder()]


def test_the_manifest_traces_every_file_to_its_records_and_their_files_hashes(small, tmp_path):
    # laid out as no record is written
    for run in small[:-1]:
        paths.write_text(tmp_path / f"{run['name']}.json", json.dumps(run, indent=3))
    other, folder = examples.inserted() | {"study": "retrofit"}, tmp_path / "figures"
    given = {"others": [other], "other_hashes": {other["name"]: "f00d"}}
    written = figures.publish(
        small, folder, records_of.hashes(tmp_path), formats=("svg", "csv"), **given
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
    others = {paths.figures() / name for name in ("manifest.json", "results.csv")}
    assert {*drawn} | others == set(paths.figures().iterdir())
    for path, mark in drawn.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == mark, f"{path}: run `make figures`"


def test_a_notebook_holds_a_figure_in_half_the_bytes_with_every_pixel_and_all_but_its_colours(
    tmp_path, monkeypatch
):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    (path,) = figures.write(1, [], tmp_path, formats=("png",))
    drawn = {"missing": {}, "entries": {"figure1": {"caption": "A head."}}}
    paths.write_text(tmp_path / "manifest.json", json.dumps(drawn))
    assert figures.shown(1, tmp_path).data == "**Figure 1.** A head."
    embedded = shown[0].data
    assert len(embedded) < len(path.read_bytes()) / 2
    whole, few = (
        np.asarray(PIL.Image.open(file).convert("RGB"), int)
        for file in (path, io.BytesIO(embedded))
    )
    assert whole.shape == few.shape
    # of 255
    assert np.abs(whole - few).max() < 24 and np.abs(whole - few).mean() < 3


def test_figure_1_is_minilm_s_head_with_the_largest_column_and_its_rows_sum_to_one():
    frame, said = figures.data(1, []), maps.load_example()
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


def test_r_of_a_seed_is_pearson_s_over_its_heads_and_samples(records):
    frame = figures.data(5, records)
    assert frame.columns.tolist() == gtd_beside_graph_measures.BINNED and set(
        frame["seed"].dropna()
    ) == {42, 43, 44}
    graph = examples.attention("mini", "high", 44)["metrics"]["graph"]
    found = gtd_beside_graph_measures.correlations(frame).set_index(
        ["measure", "algorithm", "seed"]
    )
    expected = stats.pearsonr(graph["gtd"], graph["clustering"]).statistic
    assert found.loc[("clustering", "high", 44), "r"] == pytest.approx(expected)
    of_high = frame.query("algorithm == 'high' and gtd.notna()")
    assert of_high["n"].sum() == 3 * len(graph["clustering"]), "every point is in a hexagon"
    still = figures.data(2, records).assign(value=1.0)
    assert gtd_beside_graph_measures.correlations(still)["r"].isna().all()
    heads, said = (
        headings(gtd_beside_graph_measures.plot(still, 6.3)),
        gtd_beside_graph_measures.numbers(still),
    )
    assert heading(2, "measure", where="", title="Betweenness", paper=-0.43, n=0) in heads[2]
    assert heads[3] == heading(2, "reach", reached=[], measures=["any"], seeds="3 seeds")
    assert said["onnela"] == said["betweenness"] == "undefined"


def test_a_measure_reaches_the_paper_s_r_that_is_as_far_from_zero_on_the_same_side():
    gtd = np.tile(np.linspace(0.1, 0.9, 9), 3)
    # the paper's: 0.70 and -0.43
    values = {"clustering": gtd, "onnela": -gtd, "betweenness": -gtd}
    known = {"model": "mini", "algorithm": "original", "seed": 42, "gtd": gtd}
    frame = pd.concat(
        [pd.DataFrame(known | {"measure": name, "value": of}) for name, of in values.items()]
    )
    heads = headings(gtd_beside_graph_measures.plot(frame, 6.3))
    assert (
        heading(
            2, "measure", where="above", title="Clustering (Barrat)", span="1.00", paper=0.7, n=0
        )
        in heads[0]
    )
    assert (
        heading(2, "measure", where="below", title="Betweenness", span="−1.00", paper=-0.43, n=0)
        in heads[2]
    )
    reached = ["Clustering (Barrat)", "Betweenness"]
    assert heads[3] == heading(
        2, "reach", reached=reached, measures=[*reached, "Onnela"], seeds="1 seed"
    )


@pytest.mark.parametrize(
    ("reached", "said"),
    [
        ("", "No measure reaches"),
        ("a", "Only a reaches"),
        ("ab", "Only a and b reach"),
        ("abc", "Every measure reaches"),
    ],
)
def test_the_heading_counts_the_measures_that_reach_the_paper_s_r(reached, said):
    assert heading(2, "reach", reached=[*reached], measures=[*"abc"], seeds="").startswith(
        f"{said} the paper"
    )


def test_rounding_is_not_blown_up_to_a_difference():
    ax = style.new_figure(3, 2).subplots()
    ax.plot([0.85600001, 0.85600003], [1, 2])
    style.at_least(ax, "x", 0.004)
    assert ax.get_xlim() == pytest.approx((0.854, 0.858), abs=1e-6)
    ax.figure.canvas.draw()
    assert ax.xaxis.get_offset_text().get_text() == ""


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


def glance(trained):
    """The frame of these pretraining runs beside two pairs of attention, and the exam of another
    study.
    """
    own = [
        examples.attention("mini", name, seed) for name in ("original", "high") for seed in (42, 43)
    ]
    for run in own:
        run["metrics"]["matrices"]["refined"]["column_mass_maximum"] = [[2.0, 4.0]]
    return figures.data("glance", [*own, *trained, examples.beyond() | {"study": "stories"}])


def test_the_glance_takes_records_of_two_studies_and_leaves_out_who_never_started_to_learn():
    trained = [
        examples.pretrain("mini", name, seed)
        for name in ("original", "high", "low")
        for seed in (42, 43)
    ]
    for number, run in enumerate(trained):
        starts = 4.0 if number < 5 else 99
        run["metrics"]["training"] = [
            {"step": 50, "loss": 6.0},
            {"step": 100 + 50 * number, "loss": starts},
        ]
    frame = glance(trained)
    c = frame[frame["panel"] == "c"]
    assert set(c["algorithm"]) == {"original", "high"} and c["x"].tolist() == [100, 150, 200, 250]
    assert (said := by_seed.headline_numbers(frame))["original_mean"] == 3.0
    assert said["r"] == f"{np.corrcoef(c['x'], c['y'])[0, 1]:.2f}".replace("-", "−")


@pytest.mark.parametrize(
    ("ends", "which", "r"),
    [
        ((4.0, 3.0, 2.0), "lower", "−1.00"),
        ((2.0, 3.0, 4.0), "higher", "1.00"),
        ((2.0, 3.0), "none", "undefined"),
    ],
)
def test_the_glance_says_what_late_starts_do_and_of_one_size(ends, which, r):
    trained = [examples.pretrain("mini", "high", seed) for seed in range(len(ends))] + [
        examples.pretrain("small")
    ]
    for place, (run, end) in enumerate(zip(trained, (*ends, 9.0))):
        run["metrics"] |= {
            "training": [{"step": 100 + place, "loss": 4.0}],
            "perplexity": np.exp(end),
        }
    frame = glance(trained)
    assert headings(by_seed.plot_headlines(frame, 6.3))[2] == heading(
        "glance", which, r=r, runs=len(ends)
    )
    assert by_seed.headline_numbers(frame)["r"] == r, "and not nan in its caption"


def test_the_early_difference_is_of_three_hops_in_the_seeds_of_both_at_the_check_nearest_to_its_step():
    right = {
        ("original", 1): 0.2,
        ("high", 1): 0.6,
        ("original", 2): 0.4,
        ("high", 2): 0.5,
        ("high", 3): 0.9,
    }
    runs = [
        {
            "layers": layers,
            "algorithm": name,
            "seed": seed,
            "curve": [
                {"step": step, "accuracy": {"3": share * (step == 900) * (layers == 4), "2": 1.0}}
                for step in (300, 900, 2000)
            ],
        }
        for (name, seed), share in right.items()
        for layers in (2, 4)
    ]
    found = by_seed.early_gap(runs)
    assert (found.value, found.seeds) == (pytest.approx(25), 2) and np.isnan(
        by_seed.early_gap(runs[:2]).value
    )


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


def test_a_strength_has_a_point_a_seed_a_line_for_their_mean_and_a_star_where_it_was_learned():
    study = examples.beyond()
    frame = figures.data("strength", [study])
    assert frame.loc[frame["learned"] == "head", "strength"].tolist() == pytest.approx([0.4, 0.4])
    # after refinement only: there is one loss
    points, mean, star = draw("strength", [study]).axes[0].lines
    fixed = frame[frame["learned"] == ""]
    assert sorted(points.get_ydata()) == sorted(fixed["loss"])
    assert list(mean.get_ydata()) == pytest.approx(
        fixed.groupby("strength")["loss"].mean().tolist()
    )
    assert list(star.get_xdata()) == pytest.approx([0.4, 0.4])
    alone = draw("strength", [study | {"metrics": {"strengths": examples.strengths(seeds=(42,))}}])
    assert [line.get_linestyle() for line in alone.axes[0].lines] == ["None", "None"], (
        "no line between single seeds"
    )
    one = strengths.plot(strengths.of(examples.strengths((0.2,))[:2]), 6)
    assert len(one.axes[-1].get_legend().get_texts()) == 2, "one strength, and nothing was learned"


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
    apart = [run for run in runs if run["seed"] == 42 + (run["strength"] == 0.1)]
    with pytest.raises(figures.FigureError, match="Other strengths: no run yet"):
        figures.data("strength", [examples.beyond() | {"metrics": {"strengths": apart}}])


def test_where_no_peak_can_be_measured_time_stands_alone():
    run = examples.cost()
    for row in run["metrics"]["lengths"]:
        row["peak_mib"] = dict.fromkeys(("median", "low", "high"), np.nan)
    assert len(draw("length", [run]).axes) == 1
    frame = figures.data("length", [run])
    said = figures.caption("length", frame)
    assert costs.numbers(frame)["mib"] is None and "memory was not" in said and "nan" not in said


def test_the_leak_is_the_mean_over_sequences_and_a_loss_stands_beside_that_of_the_same_seed_s_original():
    second = examples.decoder(seed=43)
    second["metrics"]["curve"][-1]["loss"] = 5.0
    with pytest.raises(figures.FigureError, match="decoder records of one seed"):
        figures.data("decoders", [*DECODERS[1:], second])
    said = decoders.numbers(figures.data("decoders", [*DECODERS, second]))
    expected = {
        "high": 0.0,
        "leaky": -2.0,
        "leak": 5.0,
        "prefixes": 9.0,
        "untrained": 8.0,
        "places": 4,
        "leaks": 3,
    }
    assert said.items() >= (expected | {"sequences": 2}).items()
    losses, passes, leak = (figure := draw("decoders", [*DECODERS, second])).axes
    (head, *_) = headings(figure)
    assert numbers_in(head) == ["0.00", "1", "2.00", "1"] and "below" in head
    assert [line.get_ydata()[-1] for line in losses.lines] == [4.5, 4.0, 2.0]
    ends = [
        path.vertices[:, 0].tolist() for lines in passes.collections for path in lines.get_paths()
    ]
    assert ends == [[4.0, 4.0], [4.0, 4.0], [4.0, 9.0]]
    assert leak.lines[0].get_xydata().tolist() == [[2, 0], [3, 4], [4, 6], [5, 10]]


def test_a_form_that_falls_below_the_axis_is_named_with_its_value_and_the_sink_is_that_before_the_step():
    said = inserted.numbers(figures.data("retrofit", [examples.inserted()]))
    assert (said["layer"], said["alone"]) == (2, -0.5) and said["others"] == {"elemmul": -20.0}
    assert (said["sink"], said["softmax"], said["plain"]) == (2, 2.1, 2.0)
    strength, _, layer = draw("retrofit", [examples.inserted()]).axes
    names = " ".join(text.get_text() for text in strength.texts)
    assert "−15.0 at 0.5" in names and "−20.0" in names
    assert [line.get_ydata()[1] for line in layer.lines] == pytest.approx([2.0, 2.1, 1.05])


def test_a_figure_is_of_its_own_records_else_of_another_study_s_and_the_glance_of_both(small):
    controlled, own = examples.beyond() | {"study": "stories"}, examples.beyond()
    assert figures.origin("hops", small, [controlled]) == [controlled]
    assert figures.origin("hops", [*small, own], [controlled]) == [own]
    assert figures.origin("hops", [*small, examples.beyond(algorithms=())], [controlled]) == [
        controlled
    ], "no exam"
    assert figures.origin("length", small, [controlled])[0]["study"] == "smoke"
    assert controlled in figures.origin("glance", [*small, own], [controlled])
    assert publishing.beside([*small, own], [controlled])["strength"] == "figure-strength-stories"
    assert not publishing.beside(small, [controlled])


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
        {p.name for p in folder.iterdir() if p.suffix in (".csv", ".md", ".tex")}
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
            {f"{name}.pdf", f"{name}.png", f"{name}-column.pdf"},
        )
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
