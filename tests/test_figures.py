import hashlib
import io
import json

import example_records as examples
import numpy as np
import pandas as pd
import PIL.Image
import pytest
from matplotlib.colors import to_rgb
from scipy import stats

from saobp.study import figures, tables
from saobp.study.cost import cost_tables
from saobp.study.figures import correlations, drawing, grids, joint, maps, publishing, strengths, style
from saobp.study.publication import cli, results
from saobp.study.setup import labels, paths
from saobp.study.setup import records as records_of

DRAWN = [number for number in figures.FIGURES if number not in (7, 8)]  # those are 4 on another task


@pytest.fixture(scope="module")
def records():
    return [*examples.study(("mini", "small-twin"), labels.PAPER), examples.cost(), examples.beyond()]


def test_figure_4_data_are_means_over_heads_and_runs(records):
    frame = figures.data(4, records)
    point = frame[
        (frame["model"] == "mini") & (frame["algorithm"] == "high") & (frame["panel"] == "gtd") & (frame["x"] == 2)
    ].iloc[0]
    runs = [examples.matrices("high", seed)["gtd"][1] for seed in (42, 43, 44)]
    assert point["value"] == pytest.approx(np.mean(runs))
    assert point["low"] < point["value"] < point["high"]
    assert point["runs"] == 3


def test_the_last_column_is_the_final_layer_by_head(records):
    frame = figures.data(4, records)
    last = frame.query("model == 'mini' and algorithm == 'low' and panel == 'final_entropy' and seed.isna()")
    runs = [examples.matrices("low", seed)["entropy"][-1] for seed in (42, 43, 44)]
    assert last["value"].tolist() == pytest.approx(np.mean(np.sort(runs, axis=1), axis=0).tolist())
    assert figures.figure(4, records).axes[-1].get_xlabel() == "Head, lowest first"


def test_the_heads_of_a_single_run_keep_their_numbers():
    one = [examples.attention("mini", "low")]
    last = figures.data(4, one).query("panel == 'final_entropy'")
    assert last["value"].tolist() == pytest.approx(examples.matrices("low", 42)["entropy"][-1])
    assert figures.figure(4, one).axes[-1].get_xlabel() == "Head"


def test_the_change_over_all_layers_is_paired_by_seed_and_said_with_its_interval(records):
    sides = [np.array([examples.matrices(a, s)["gtd"] for s in (42, 43, 44)]) for a in ("high", "original")]
    gaps = (sides[0] - sides[1]).mean((1, 2))
    low, high = stats.t.interval(0.95, 2, gaps.mean(), stats.sem(gaps))
    frame = figures.data(4, [r for r in records if r["parameters"].get("model") == "mini"])
    row = frame.query("panel == 'gtd_change'").iloc[0]
    assert (row["value"], row["low"], row["high"], row["runs"]) == pytest.approx((gaps.mean(), low, high, 3))
    assert f"BERT-Mini: GTD {gaps.mean():+.2g} [{low:.2g}, {high:.2g}], indirect" in figures.reading(4, frame)
    apart = [examples.attention("mini", "high", 42), examples.attention("mini", "original", 43)]
    assert figures.reading(4, figures.data(4, apart)) == "High and Original share no seed."


def test_each_of_several_runs_is_drawn_thin_beside_their_mean():
    one, two = ([examples.attention("mini", "low", seed) for seed in seeds] for seeds in ((42,), (42, 43)))
    assert len(figures.figure(4, one).axes[0].lines) == 1
    *thin, thick = figures.figure(4, two).axes[0].lines
    drawn = np.array([line.get_ydata() for line in thin])
    assert drawn == pytest.approx(np.mean([examples.matrices("low", seed)["gtd"] for seed in (42, 43)], axis=2))
    assert thick.get_ydata() == pytest.approx(np.mean(drawn, axis=0))
    assert max(line.get_linewidth() for line in thin) < thick.get_linewidth()


def test_raw_and_refined_matrices_are_told_apart(records):
    raw, refined = (grids.data(4, records, matrix=kind) for kind in ("raw", "refined"))
    assert not np.allclose(raw["value"], refined["value"])


def test_figure_4_has_a_row_a_model_and_four_columns(records):
    figure = figures.figure(4, records)
    assert len(figure.axes) == 8
    assert [len(ax.lines) for ax in figure.axes] == [4 * (3 + 1)] * 8, "three runs and their mean"
    assert [ax.get_ylabel() for ax in figure.axes[::4]] == ["BERT-Mini", "BERT-Small (twin)"]


def test_an_algorithm_has_one_colour_in_every_axes(records):
    figure = figures.figure(4, records)
    expected = [labels.ALGORITHMS[name].colour for name in labels.PAPER for _ in range(3 + 1)]
    for ax in figure.axes:
        assert [line.get_color() for line in ax.lines] == expected


def test_shades_darken_in_order_are_clear_on_white_and_no_algorithms_colour():
    for count in (1, 4, 8):
        shades = style.shades(count)
        light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(to_rgb, shades)]
        assert len(set(shades)) == count and light == sorted(light, reverse=True)
        assert max(light) < 0.7 and not set(shades) & {look.colour.lower() for look in labels.ALGORITHMS.values()}


def test_no_two_algorithms_look_alike():
    looks = list(labels.ALGORITHMS.values())
    assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(looks)


def shown_ticks(axis):
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def visible_texts(figure):
    texts = [figure.legends[0]] if figure.legends else []
    for ax in figure.axes:
        texts += [ax.title, ax.xaxis.label, ax.yaxis.label, *shown_ticks(ax.xaxis), *shown_ticks(ax.yaxis)]
    return texts


@pytest.mark.parametrize("width", [figures.COLUMN, figures.PAGE])
@pytest.mark.parametrize("number", DRAWN)
def test_no_label_is_cut_off(number, width, records):
    figure = figures.figure(number, records, width=width)
    assert figure.get_figwidth() == width
    figure.draw_without_rendering()
    edge = figure.bbox
    for text in visible_texts(figure):
        box = text.get_window_extent()
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= edge.x1 + 1 and box.y1 <= edge.y1 + 1
        assert inside or box.width == 0, getattr(text, "get_text", lambda: "legend")()


def test_files_carry_no_date_and_embed_their_fonts(records, tmp_path):
    pdf, svg = figures.write(4, records, tmp_path, formats=("pdf", "svg"))
    assert b"CreationDate" not in pdf.read_bytes()
    assert b"/FontFile2" in pdf.read_bytes()
    assert b"/Type3" not in pdf.read_bytes()
    assert "<text" not in svg.read_text()
    assert "dc:date" not in svg.read_text()


def test_a_figure_without_its_runs_says_which_are_missing(records, tmp_path):
    with pytest.raises(figures.FigureError, match="attention records of task squad"):
        figures.figure(7, records)


def test_wrong_arguments_are_named(records, tmp_path):
    with pytest.raises(ValueError, match="no Figure 12"):
        figures.figure(12, records)
    with pytest.raises(ValueError, match="width: 0.2 inches"):
        figures.figure(4, records, width=0.2)
    with pytest.raises(ValueError, match="'jpg' is none of"):
        figures.write(4, records, tmp_path, formats=("jpg",))


def test_undefined_values_leave_a_gap_and_not_a_zero():
    run = examples.attention()
    run["metrics"]["matrices"]["refined"]["gtd"][1] = [None, None]
    frame = figures.data(4, [run])
    assert frame[frame["panel"] == "gtd"]["x"].tolist() == [1, 3]


@pytest.fixture(scope="module")
def small():
    return [*examples.study(("mini",), seeds=(1, 2)), examples.cost(), examples.decoder()]


@pytest.fixture(scope="module")
def published(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    return figures.publish(small, folder, formats=("svg", "csv"))


def test_the_manifest_traces_every_file_to_its_records(small, published):
    manifest = json.loads(published[-1].read_text())
    assert {path.name for path in published} == set(manifest["files"]) | {"manifest.json"}
    entry = manifest["files"]["figure4.svg"]
    assert entry["profile"] == "smoke"
    assert entry["date"] == max(run["started"] for run in small if run["stage"] == "attention")
    assert set(entry["records"]) <= set(manifest["records"])
    assert "no run yet" in manifest["missing"]["figure7"]
    (one,) = manifest["files"]["figure1.csv"]["records"]  # of one head of one run
    assert "high" in one
    assert all("original" in name for name in manifest["files"]["figure2.csv"]["records"])
    assert entry["completeness"][0]["published_rows"] == 1436


def test_the_manifest_gives_the_hash_of_each_record_s_file(small, tmp_path):
    for run in small:  # laid out as no record is written
        paths.write_text(tmp_path / f"{run['name']}.json", json.dumps(run, indent=3))
    hashes = records_of.hashes(tmp_path)
    manifest = publishing.write_manifest(small, [], {}, tmp_path / "out", hashes).read_text()
    for name, expected in json.loads(manifest)["records"].items():
        assert hashlib.sha256((tmp_path / f"{name}.json").read_bytes()).hexdigest() == expected, name
    without = json.loads(publishing.write_manifest(small, [], {}, tmp_path / "none", {}).read_text())
    assert set(without["records"].values()) == {None}


def test_the_tracked_manifest_gives_the_hashes_of_the_tracked_files():
    manifest = json.loads((paths.figures() / "manifest.json").read_text())
    folder = paths.results(results.published_profile())
    files = {path.stem: path for path in folder.glob("*.json")}
    assert manifest["records"].keys() == files.keys()
    for name, path in files.items():
        assert manifest["records"][name] == hashlib.sha256(path.read_bytes()).hexdigest(), f"{name}: run `make figures`"
    for name, entry in manifest["files"].items():
        digest = hashlib.sha256((paths.figures() / name).read_bytes()).hexdigest()
        assert entry["sha256"] == digest, f"{name}: run `make figures`"


def test_a_notebook_holds_a_figure_in_few_bytes_with_every_pixel_and_all_but_its_colours(
    records, tmp_path, monkeypatch
):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    (path,) = figures.write(1, records, tmp_path, formats=("png",))
    said = {"missing": {}, "files": {"figure1.png": {"caption": "A head."}}}
    paths.write_text(tmp_path / "manifest.json", json.dumps(said))
    assert figures.shown(1, tmp_path).data == "**Figure 1.** A head."
    said["files"]["figure1.png"]["caption"] += " Departures from the paper: steps: 5, not 9."
    paths.write_text(tmp_path / "manifest.json", json.dumps(said))
    folded = "<details><summary>Departures from the paper</summary>steps: 5, not 9.</details>"
    assert figures.shown(1, tmp_path).data == f"**Figure 1.** A head.\n\n{folded}"
    embedded = shown[0].data
    assert shown[0].width == 900 and len(embedded) < len(path.read_bytes()) / 2
    whole, few = (np.asarray(PIL.Image.open(file).convert("RGB"), int) for file in (path, io.BytesIO(embedded)))
    assert whole.shape == few.shape
    assert np.abs(whole - few).max() < 24 and np.abs(whole - few).mean() < 3  # of 255


def test_every_caption_names_what_differs_from_the_paper_in_the_runs_shown_and_in_their_pretraining():
    runs = examples.study(("mini",), ("original", "high"))
    for run in runs:
        own = f"{run['stage']}: of {run['parameters'].get('task', run['parameters'].get('model'))}"
        run["departures"] = [f"{own}; the paper: another", f"Penalty: of {run['parameters'].get('algorithm')}"]
    of_high = [run for run in runs if run["parameters"].get("algorithm") == "high"]
    said = figures.caption(4, runs)
    assert "Departures from the paper: " in said and said.endswith(".")
    assert "pretrain: of mini, the paper: another" in said and "attention, attention: of race, the paper" in said
    assert "of squad" not in said and "finetune" not in said, "of other tasks and stages"
    assert "Penalty: of high | of original" in said
    assert "Penalty: of high" in figures.caption(4, of_high) and "original" not in figures.caption(4, of_high)
    plain = figures.caption(2, runs)
    assert "Penalty: of original" in plain and "of high" not in plain, "Figure 2 shows Original alone"
    assert "Departures" not in figures.caption(4, [run | {"departures": []} for run in runs])


def test_a_caption_names_of_a_record_of_several_studies_what_its_own_differs_in():
    words = ["beyond the paper: none", *(f"{what}: 5" for what in ("other strengths, steps", "larger models, steps"))]
    words.append("questions of known hops: 7")
    study, cost = examples.beyond() | {"departures": words}, examples.cost() | {"departures": ["batch 8"]}
    begins = "Departures from the paper: beyond the paper: none; "
    assert figures.caption("strength", [study]).endswith(f"{begins}other strengths, steps: 5.")
    assert figures.caption("hops", [study]).endswith(f"{begins}questions of known hops: 7.")
    assert "Departures" not in figures.caption("length", [cost]), "those are of whole models, this is attention alone"


def test_figure_6_is_of_one_run_each_and_counts_no_other_among_its_own():
    runs = [examples.attention("mini", name, seed=seed) for name in ("original", "high") for seed in (42, 43)]
    assert [run["parameters"]["seed"] for run in drawing.used(6, runs)] == [42, 42]
    figures.figure(6, runs)


def test_a_figure_is_described_without_the_splits_of_tasks_that_it_does_not_show():
    tasks, names = ("race", "squad"), ("original", "high")
    runs = [examples.attention("mini", name, task=task) for name in names for task in tasks]
    places = {"race": ("ehovy/race", "middle"), "squad": ("rajpurkar/squad", "plain_text")}
    split = {"split": "validation", "rows": 5, "published_rows": 9, "complete": False, "role": "evaluation"}
    splits = [split | {"dataset": name, "config": config} for name, config in places.values()]
    runs = [run | {"data": run["data"] | {"splits": splits}} for run in runs]
    assert "race" in figures.caption(4, runs) and "squad" not in figures.caption(4, runs)
    assert "squad" in figures.caption(7, runs) and "race" not in figures.caption(7, runs)


def test_a_rebuild_gives_the_same_bytes(small, published, tmp_path):
    again = figures.publish(small, tmp_path, formats=("svg", "csv"))
    assert [path.name for path in again] == [path.name for path in published]
    for first, second in zip(published, again, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name


def test_figure_1_shows_the_head_that_moves_most(records):
    frame = figures.data(1, records)
    assert set(frame["matrix"]) == {"raw", "refined"}
    sums = [maps.values_of(side).sum(1) for _, side in frame.groupby("matrix")]
    assert np.allclose(sums, 1, atol=1e-3)


def test_figure_2_is_original_and_figure_5_every_algorithm(records):
    assert set(figures.data(2, records)["algorithm"]) == {"original"}
    assert set(figures.data(5, records)["algorithm"]) == set(labels.PAPER)
    assert figures.data(2, records)["betweenness"].isna().sum() == 3  # one undefined value a run, kept undefined


@pytest.mark.parametrize("number", [2, 4, 5, 7])
def test_a_figure_of_one_task_is_traced_to_the_records_of_that_task_alone(number):
    runs = [
        examples.attention("mini", name, seed, task) | {"name": f"{name}-{seed}-{task}"}
        for task in ("race", "squad") for name in ("original", "high") for seed in (42, 43)
    ]  # fmt: skip
    task = "squad" if number == 7 else "race"
    asked = [f"{name}-{seed}-{task}" for name in ("original", "high")[: 1 if number == 2 else 2] for seed in (42, 43)]
    assert [run["name"] for run in drawing.used(number, runs)] == asked


def test_figure_5_names_the_seed_of_each_point_and_no_record_a_thousand_times(records):
    frame = figures.data(5, records)
    assert frame.columns.tolist() == ["model", "algorithm", "seed", "gtd", "clustering", "betweenness"]
    assert set(frame["seed"]) == {42, 43, 44}
    alone = figures.data(5, [examples.attention("mini", "high", 44)])["gtd"].tolist()
    assert frame.query("algorithm == 'high' and seed == 44")["gtd"].tolist() == alone


def test_all_algorithms_share_the_bins_of_a_joint_plot_and_one_value_does_not_widen_it():
    frame = pd.DataFrame({"algorithm": ["original"] * 5 + ["elemmul"] * 5, "clustering": 1.0, "betweenness": 0.0})
    frame["gtd"] = [0.84, 0.845, 0.85, 0.852, 0.853] + [0.856] * 5
    figure = joint.plot(frame, 6.3)
    figure.canvas.draw()
    low, high = figure.axes[0].get_xlim()
    assert low > 0.8 and high < 0.9
    assert joint.bin_edges(pd.Series([0.5, 0.5]), 0.004).tolist() == pytest.approx(
        np.linspace(0.498, 0.502, 25).tolist()
    )


def test_an_axis_of_shares_ends_at_one_and_one_of_counts_begins_at_zero():
    frame = pd.DataFrame({"algorithm": "original", "clustering": 1.0, "betweenness": 0.0}, index=range(9))
    frame["gtd"] = np.linspace(0.5, 1, 9)
    figure = joint.plot(frame, 6.3)
    figure.canvas.draw()
    clustering, betweenness = figure.axes[2], figure.axes[6]
    for ticks, high in (
        (clustering.get_xticks(), 1),
        (clustering.get_yticks(), 1),
        (betweenness.get_xticks(), 1),
        (betweenness.get_yticks(), np.inf),
    ):
        assert min(ticks) >= 0 and max(ticks) <= high and len(ticks) > 2
    assert joint.bin_edges(frame["clustering"], 0.1, (0, 1)).tolist() == pytest.approx(np.linspace(0.9, 1, 25).tolist())
    assert joint.bin_edges(frame["betweenness"], 0.1, (0, np.inf))[0] == 0


def test_few_answers_are_not_blown_up_to_a_difference():
    ax = style.new_figure(3, 2).subplots()
    points = pd.DataFrame({"algorithm": ["original", "high"], "run": ["a", "b"], "step": np.nan})
    correlations.task_axes(ax, points.assign(gtd=[0.7, 0.8], score=[26.4, 27.0]), "race")
    assert np.ptp(ax.get_ylim()) >= 4


def test_figure_3_is_the_smallest_size_and_figure_9_the_others(records):
    assert set(figures.data(3, records)["model"]) == {"mini"}
    assert set(figures.data(9, records)["model"]) == {"small-twin"}


def test_rounding_is_not_blown_up_to_a_difference():
    figure = style.new_figure(3, 2)
    flat, wide = figure.subplots(1, 2)
    for ax, values in ((flat, [0.85600001, 0.85600003]), (wide, [0.2, 0.7])):
        ax.plot(values, [1, 2])
        before = ax.get_xlim()
        style.at_least(ax, "x", 0.004)
        assert (ax.get_xlim() == before) == (ax is wide)
    assert flat.get_xlim() == pytest.approx((0.854, 0.858), abs=1e-6)
    figure.canvas.draw()
    assert flat.xaxis.get_offset_text().get_text() == ""


def test_sparsity_of_a_map_is_the_share_below_uniform():
    flat, spiked = np.full((4, 4), 0.25), np.eye(4)
    for matrix, expected in ((flat, 0.0), (spiked, 0.75)):
        example = {"layer": 0, "head": 0, "tokens": list("abcd"), "raw": matrix.tolist()}
        points = maps.rows_of(example, "raw", "mini", "high")
        assert maps.below_uniform(points) == expected
        np.testing.assert_array_equal(maps.values_of(points), matrix)


def test_figure_6_s_caption_sets_the_mean_over_all_heads_beside_the_head_shown_and_names_the_task():
    runs = [examples.attention("mini", name) for name in ("original", "high")]
    for run, sparse in zip(runs, (0.25, 0.75)):
        run["metrics"]["matrices"]["refined"]["sparsity"] = [[sparse, 0.5]] * examples.LAYERS
    shown = figures.data(6, runs).groupby("algorithm")["sparsity"].first()
    head = f"{shown['original']:.3f} to {shown['high']:.3f}"
    caption = drawing.caption(6, runs)
    assert f"BERT-Mini {head} (0.375 to 0.625)" in caption and "RACE-Middle" in caption
    for run in runs:
        del run["metrics"]["matrices"]
    assert f"BERT-Mini {head} (no mean in the record)" in drawing.caption(6, runs)


def test_the_exam_has_a_panel_a_depth_with_every_seed_and_the_mean_of_each_algorithm():
    study = examples.beyond()
    frame = figures.data("hops", [study])
    assert len(frame) == 2 * 3 * 2 * 3 and set(frame["chance"].round(1)) == {33.3}
    figure = figures.figure("hops", [study])
    assert [ax.get_title() for ax in figure.axes] == ["2 layers", "4 layers"]
    ax = figure.axes[1]
    dots, mean = ax.lines[1], ax.lines[2]  # Original's, after chance
    own = frame[(frame["layers"] == 4) & (frame["algorithm"] == "original")]
    assert sorted(dots.get_ydata()) == sorted(own["accuracy"])
    assert mean.get_ydata().tolist() == pytest.approx(own.groupby("hops")["accuracy"].mean().tolist())
    assert mean.get_color() == labels.ALGORITHMS["original"].colour
    assert len(figures.figure("hops", [examples.beyond(layers=(2,))]).axes) == 1
    caption = figures.caption("hops", [study])
    assert "4 layers, 3 hops:" in caption and "2 seeds each." in caption


def test_a_strength_has_a_thin_line_a_seed_a_thick_one_for_their_mean_and_a_star_where_it_was_learned():
    study = examples.beyond()
    frame = figures.data("strength", [study])
    assert frame.loc[frame["learned"] == "head", "strength"].tolist() == pytest.approx([0.4, 0.4])
    assert frame.loc[frame["learned"] == "", "strength"].tolist() == [0.0, 0.0, 0.01, 0.01, 0.1, 0.1, 1.0, 1.0]
    figure = figures.figure("strength", [study])
    loss, *_, column, names = figure.axes
    first, second, mean, star = loss.lines  # after refinement only: there is one loss
    losses = frame[frame["learned"] == ""].pivot(index="strength", columns="seed", values="loss")
    assert list(first.get_ydata()) == losses[42].tolist() and list(second.get_ydata()) == losses[43].tolist()
    assert list(mean.get_ydata()) == pytest.approx(losses.mean(axis=1)) and mean.get_linewidth() > first.get_linewidth()
    assert list(star.get_xdata()) == pytest.approx([0.4, 0.4]) and star.get_marker() == "*"
    assert [line.get_ydata()[-1] for line in (column.lines[2], column.lines[6])] == pytest.approx([3.0, 1.5])
    assert [text.get_text() for text in names.get_legend().get_texts()][:2] == ["softmax", "refined"]
    said = figures.caption("strength", [study])
    assert "Lowest held-out loss at λ = 1.0: 2.9100 nats, 0.095 below the highest, 0.095 below λ = 0; 2 seeds" in said


def test_strengths_that_all_failed_and_one_strength_alone_are_drawn():
    runs = examples.strengths()
    blank = strengths.plot(strengths.of([run | {"curve": []} for run in runs]), 6)
    assert [text.get_text() for text in blank.axes[0].texts] == ["no run came to its end"]
    one = strengths.plot(strengths.of(examples.strengths((0.2,))[:2]), 6)
    assert len(one.axes[-1].get_legend().get_texts()) == 2, "nothing was learned"
    with pytest.raises(figures.FigureError, match="Other strengths: no run yet"):
        figures.data("strength", [examples.beyond() | {"metrics": {"strengths": []}}])


def test_a_record_without_an_exam_leaves_that_figure_to_another_profile_s(small, tmp_path):
    controlled, own = examples.beyond() | {"profile": "stories"}, examples.beyond(algorithms=())
    figures.publish([*small, own], tmp_path, formats=("csv",), others=[controlled])
    files = json.loads((tmp_path / "manifest.json").read_text())["files"]
    assert files["figure-hops.csv"]["profile"] == "stories"
    assert files["figure-strength.csv"]["profile"] == "smoke"


def test_gains_set_the_paper_s_difference_beside_ours_where_both_algorithms_were_run():
    runs = [examples.finetune("mini", name, seed) for name in ("original", "high") for seed in (42, 43)]
    frame = figures.data("gains", runs)
    ours, paper = (frame[frame["of"] == name].set_index("task") for name in ("ours", "paper"))
    assert set(frame["model"]) == {"mini"} and "RACE-Middle" in set(ours.index) & set(paper.index)
    table = tables.table(2, runs).cell("BERT-Mini", "High", column="RACE_Middle").difference
    assert ours.loc["RACE-Middle", ["gain", "low", "high"]].tolist() == [table.value, table.low, table.high]
    assert paper.loc["QQP", "gain"] == 4.48 and paper.loc["QQP", "low"] > 3
    (ax,) = figures.figure("gains", runs).axes
    assert [text.get_text() for text in ax.get_yticklabels()][0] == "HellaSwag"
    above = (ours["low"] > 0).sum()
    assert f"Ours: {above} of {len(ours.dropna())} intervals lie above 0" in figures.caption("gains", runs)
    assert drawing.used("gains", [*runs, examples.finetune("mini", "low", 42)]) == runs
    with pytest.raises(figures.FigureError, match="High and Original fine-tuned on the same task"):
        figures.data("gains", runs[:2])


def test_an_exam_without_an_algorithm_is_drawn_and_one_without_any_says_what_it_needs():
    frame = figures.data("hops", [examples.beyond(failed=("high",))])
    assert set(frame["algorithm"]) == {"original", "sinkhorn"}
    with pytest.raises(figures.FigureError, match="Accuracy by hops: no run yet, it needs .* did not diverge"):
        figures.data("hops", [examples.beyond(failed=("original", "high", "sinkhorn"))])


def test_the_curve_of_lengths_is_the_record_s_with_its_ends_and_its_device():
    run = examples.cost()
    frame = figures.data("length", [run])
    assert frame["ms"].tolist() == [row["median_ms"] for row in run["metrics"]["lengths"]]
    assert (frame["device"] == "cpu").all() and (frame["rounds"] == 9).all()
    said = cost_tables.against_length(run["metrics"]["lengths"])
    assert figures.reading("length", frame) == f"{said} cpu, 9 rounds in turns."
    for row in run["metrics"]["lengths"]:  # as in an older record
        del row["ratio_to_sdpa"], row["ratio_to_materialised"]
    said = cost_tables.against_length(run["metrics"]["lengths"])
    assert figures.reading("length", figures.data("length", [run])) == f"{said} cpu, 9 rounds in turns."
    del run["metrics"]["lengths"]
    with pytest.raises(figures.FigureError, match="a cost record with lengths"):
        figures.data("length", [run])


def test_what_the_records_have_no_run_for_is_drawn_from_another_profile_s_and_said_to_be(small, tmp_path):
    controlled = examples.beyond() | {"profile": "stories"}
    hashes = {controlled["name"]: "f00d"}
    files = figures.publish(small, tmp_path, formats=("csv",), others=[controlled], other_hashes=hashes)
    manifest = json.loads(files[-1].read_text())
    assert (tmp_path / "figure-hops.csv").is_file() and (tmp_path / "figure-length.csv").is_file()
    assert manifest["files"]["figure-hops.csv"]["profile"] == "stories"
    assert manifest["files"]["figure-length.csv"]["profile"] == "smoke"
    assert manifest["others"] == {"profile": "stories", "records": hashes}
    assert controlled["name"] not in manifest["records"]
    figures.publish([*small, examples.beyond()], tmp_path, formats=("csv",), others=[controlled])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["files"]["figure-hops.csv"]["profile"] == "smoke"  # its own come first
    both = manifest["files"]["figure-strength-stories.csv"]
    assert (
        both["profile"] == "stories"
        and both["records"] == [controlled["name"]]
        and "Profile stories." in both["caption"]
    )
    assert (tmp_path / "figure-strength-stories.csv").read_bytes() == (tmp_path / "figure-strength.csv").read_bytes()
    assert not figures.beside(small, [controlled])


def test_the_tracked_manifest_gives_the_hashes_of_the_controlled_studies_too():
    others = json.loads((paths.figures() / "manifest.json").read_text())["others"]
    for name, digest in others["records"].items():
        path = paths.results(others["profile"]) / f"{name}.json"
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest, f"{name}: run `make figures`"


def test_a_figure_of_our_own_is_made_by_its_name(tmp_path, capsys):
    for run in (examples.beyond(), examples.cost(), *examples.study(("mini",), ("original", "high"))):
        paths.write_text(tmp_path / f"records/{run['name']}.json", json.dumps(run))
    options = ["--profile", str(tmp_path / "records"), "--format", "csv", "--out", str(tmp_path)]
    for name in drawing.TITLES:
        assert cli.main(["figure", name, *options]) == 0
        assert (tmp_path / f"figure-{name}.csv").is_file()


def test_the_tracked_figures_are_what_the_tracked_records_give(tmp_path):
    results.draw(tmp_path)
    tracked = {path.name for path in paths.figures().iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == tracked
    for path in sorted(tmp_path.iterdir()):
        if path.suffix in (".csv", ".tex", ".md", ".svg"):
            assert path.read_bytes() == (paths.figures() / path.name).read_bytes(), f"{path.name}: run `make figures`"
