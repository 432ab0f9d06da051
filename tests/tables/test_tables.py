import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace

import example_records as examples
import numpy as np
import pytest
from acl_page import ACL_PAGE

from saobp.study import tables, verdicts
from saobp.study.paper import numbers
from saobp.study.setup.records import select
from saobp.study.setup.tasks_and_metrics import GLUE
from saobp.study.statistics import estimates
from saobp.study.tables import render


@pytest.fixture(scope="module")
def records():
    return examples.study(("mini", "small-quarter"), ("original", "high", "low"), (42, 43, 44))


def rows(table):
    return list(csv.DictReader(io.StringIO(table.to_csv())))


def test_table_2_shows_published_beside_ours(records, built):
    cell = built[2].cell("BERT-Mini", "High", column="SQuAD")
    runs = select(records, "finetune", model="mini", algorithm="high")
    values = [run["metrics"]["tasks"]["squad"]["headline"] for run in runs]
    assert cell.published == "24.07"
    assert cell.ours.value == pytest.approx(sum(values) / 3)
    assert cell.ours.low < cell.ours.value < cell.ours.high
    assert (cell.ours.seeds, cell.ours.items) == (3, examples.ITEMS)


def test_a_scaled_down_model_stands_in_the_row_of_its_size_and_says_its_own(built):
    cell = built[2].cell("BERT-Small (4 × 128)", "Original", column="GLUE")
    assert cell.published == "54.03"


def test_a_scaled_down_model_gives_way_to_the_size_itself_unless_its_cost_alone_was_measured():
    runs, timed = [examples.attention("mini-narrow")], [examples.cost("mini")]
    assert estimates.models(runs + timed) == ["mini-narrow"] and estimates.models(timed) == ["mini"]
    both = examples.study(("small", "small-quarter"), ("original",), (42,))
    names = {labels[0] for labels, _ in tables.table(2, both).cells}
    assert "BERT-Small" in names and "BERT-Small (4 × 128)" not in names


def test_a_large_difference_is_marked_and_none_is_marked_between_equals():
    runs = examples.study(("mini",), ("original", "high"))
    assert tables.table(2, runs).cell("BERT-Mini", "High", column="RACE_Middle").differs
    equal = [run for run in runs if run["parameters"]["algorithm"] == "original"]
    copies = [run | {"parameters": run["parameters"] | {"algorithm": "high"}} for run in equal]
    table = tables.table(2, equal + copies)
    assert not any(cell.differs for cell in table.cells.values())
    assert "*" not in table.to_markdown().replace("**", "")


def test_p_values_are_corrected_over_the_whole_table(built):
    table = built[8]
    made = [cell for cell in table.cells.values() if cell.difference]
    assert len(made) == 2 * 2 * 10
    assert all(cell.adjusted_p >= cell.difference.p for cell in made)
    assert any(cell.adjusted_p > cell.difference.p for cell in made)


def test_cells_without_a_run_stay_empty_with_the_reason():
    runs = [examples.finetune("mini", name, tasks=("race", "rte")) for name in ("original", "high")]
    table = tables.table(2, runs)
    cell = table.cell("BERT-Mini", "High", column="SQuAD")
    assert (cell.ours, cell.reason) == (None, "no run of this task")
    assert table.cell("BERT-Mini", "High", column="GLUE").reason == "1 of 9 GLUE tasks run (RTE)"
    line = next(row for row in rows(table) if row["row"] == "BERT-Mini High" and row["column"] == "SQuAD")
    assert line["ours"] == ""
    assert line["published"] == "24.07"
    assert line["reason"] == "no run of this task"


def test_a_failed_run_is_left_out_and_not_averaged():
    runs = [examples.finetune("mini", "original", seed, ("race",)) for seed in (1, 2)]
    failed = examples.finetune("mini", "original", 3, ("race",))
    failed["metrics"]["tasks"]["race"]["scores"] = {"accuracy": None}
    with_failed = tables.table(2, [*runs, failed]).cell("BERT-Mini", "Original", column="RACE_Middle")
    without = tables.table(2, runs).cell("BERT-Mini", "Original", column="RACE_Middle")
    assert with_failed == replace(without, reason="1 of 3 runs failed (no finite score)")


NAN = {"reason": "the loss is nan at step 3", "message": "the loss is nan at step 3; last finite checkpoint none"}


def with_failures(count, tasks=("rte", "sst2")):
    """Three runs of Mini's High, `count` of whose RTE failed."""
    runs = [examples.finetune("mini", "high", seed, tasks) for seed in (1, 2, 3)]
    for run in runs[:count]:
        run["metrics"]["tasks"]["rte"] = {"failed": NAN}
    return tables.table(8, runs)


def test_a_cell_whose_only_runs_failed_says_so_and_why():
    table = with_failures(3)
    assert table.cell("BERT-Mini", "High", column="RTE").ours is None
    assert "BERT-Mini High, RTE: failed: the loss is nan at step 3" in table.notes()
    assert "last finite checkpoint" not in table.to_markdown()
    shown = table.with_runs()
    assert "| RTE | 53.07 | failed |" in examples.narrow(shown.to_markdown())
    assert "\nRTE & 53.07 & failed &" in shown.to_latex()
    average = table.cell("BERT-Mini", "High", column="Avg")
    assert average.reason == "1 of 9 GLUE tasks run (SST2); failed runs: 3 of RTE"


def test_a_cell_some_of_whose_runs_failed_says_how_many():
    table, said = with_failures(2), "2 of 3 runs failed (the loss is nan at step 3)"
    assert table.cell("BERT-Mini", "High", column="RTE").count() == f"1×{examples.ITEMS}"
    assert f"BERT-Mini High, RTE: {said}" in table.to_markdown() and said in table.to_latex()
    assert next(row["reason"] for row in rows(table) if row["column"] == "RTE" and "High" in row["row"]) == said
    assert "failed" not in with_failures(0).to_markdown()


def test_an_average_over_fewer_seeds_names_the_tasks_that_failed():
    table = with_failures(1, tuple(GLUE))
    assert table.cell("BERT-Mini", "High", column="Avg").ours.seeds == 2
    assert "BERT-Mini High, Avg: failed runs: 1 of RTE" in table.notes()


def test_records_of_two_profiles_never_share_a_table():
    other = examples.finetune() | {"profile": "laptop"}
    with pytest.raises(ValueError, match="laptop, smoke"):
        tables.table(2, [examples.finetune(), other])


def test_rows_at_the_papers_size_come_first_in_every_table(records, tmp_path):
    alike = [
        record | {"profile": "narrow"} for record in examples.study(("mini-narrow",), ("original", "high"), (42, 43))
    ]
    paper = [
        r | {"profile": "paper"}
        for r in select(records, model="mini", algorithm="high")
        if r["parameters"]["seed"] == 42
    ]
    for number in (1, 2, 4, 5, 8):
        table = tables.table(number, alike, first=paper)
        models = [labels[0] for labels, _ in table.with_runs().of_models]
        assert models[0] == "BERT-Mini" and "BERT-Mini (4 × 128)" in models and models == sorted(models), number
        assert table.study == "paper and narrow"
    own = tables.table(2, paper).cell("BERT-Mini", "High", column="SQuAD").ours
    assert tables.table(2, alike, first=paper).cell("BERT-Mini", "High", column="SQuAD").ours == own
    (file,) = tables.write(2, alike, tmp_path, ["md"], first=paper)
    assert file.read_text().index("BERT-Mini, High") < file.read_text().index("BERT-Mini (4 × 128), Original")


def test_the_last_note_names_the_study(built):
    assert built[2].notes()[-1] == "study smoke" and tables.table(2, []).study == ""


@pytest.mark.parametrize("number", sorted(tables.TABLES))
def test_a_caption_has_under_sixty_words_in_every_form(number, built):
    table = built[number]
    assert 0 < len(table.caption.split()) < 60 > len(" ".join(table.with_runs().notes()).split())
    shown = table.to_markdown().splitlines()[0]
    assert shown == f"**Table {number}.** {table.caption}"
    assert rf"\caption{{{render.escape(table.caption)}}}" in table.to_latex()


def test_table_1_puts_attention_beside_accuracy(records, built):
    table = built[1]
    runs = select(records, "attention", model="mini", algorithm="low")
    values = [np.mean(run["metrics"]["matrices"]["refined"]["gtd"]) for run in runs]
    assert table.cell("BERT-Mini", "Low", column="GTD").ours.value == pytest.approx(np.mean(values))
    betweenness = [np.mean(run["metrics"]["graph"]["betweenness"][:-1]) for run in runs]  # the last is undefined
    assert table.cell("BERT-Mini", "Low", column="BC").ours.value == pytest.approx(np.mean(betweenness))
    assert table.cell("BERT-Mini", "Low", column="Acc_RACE_Middle").published == "23.33"


def test_table_3_has_the_row_that_the_paper_leaves_out(built):
    table = built[3]
    assert table.cell("BERT-Small (4 × 128)", "Original", column="QNLI_Acc").ours.seeds == 3
    assert table.cell("BERT-Small (4 × 128)", "Eigen-Reg", column="PPL_WikiText").published == "23.85"


def test_tables_4_and_5_read_settings_from_the_records(records, built):
    assert built[4].cell("BERT-Mini", column="params").ours == "11.17M"
    assert built[5].cell("BERT-Mini", column="seed").ours == "42, 43, 44"
    assert built[5].cell("BERT-Mini", column="max_steps").published == "60000"


def test_table_6_puts_runs_beside_checkpoints(built):
    table = built[6]
    checkpoints = table.cell("BERT-Mini", "Single GTD, checkpoints", column="wikitext")
    runs = table.cell("BERT-Mini", "Single GTD, runs", column="race")
    assert checkpoints.published == "-0.97"
    assert checkpoints.ours.value < -0.8
    assert runs.ours.low < 0 < runs.ours.high
    assert "no cross-layer GTD" in table.cell("BERT-Mini", "Cross GTD, runs", column="race").reason


def test_table_7_reads_decoders_and_table_2_does_not():
    decoders = [examples.decoder(algorithm=name) for name in ("original", "high")]
    table = tables.table(7, [*decoders, examples.finetune()])
    assert table.cell("GPT2-Mini", "High", column="PPL_WikiText").ours.value == pytest.approx(48)
    assert table.cell("GPT2-Mini", "High", column="BoolQ_Acc").published == "46.67"
    encoders = tables.table(7, [examples.finetune()]).cells
    assert len({row for row, _ in encoders}) == 7 and all(cell.ours is None for cell in encoders.values())


@pytest.mark.parametrize("number", [1, 2, 7, 8, 9])
def test_every_row_that_the_paper_prints_is_there_with_its_numbers_and_why_ours_are_not(number):
    paper = numbers.load().tables[number]
    table = tables.table(number, [examples.pretrain("small-quarter", "original")])
    printed = {place: cell for place, cell in table.of_models.items() if "(eager)" not in place[0][1]}
    named = [name for _, name in dict.fromkeys(zip(paper["model"], paper["algorithm"]))]
    assert [name for _, name in dict.fromkeys(row for row, _ in printed)] == named
    assert [cell.published for cell in printed.values()] == paper["printed"].tolist()
    assert all(cell.reason for cell in printed.values() if cell.ours is None)


def test_table_9_has_medians_with_quartiles_ratios_to_original_and_rounds_of_what_was_timed():
    table = tables.table(9, [examples.cost()])
    ways = {
        "high": ("BERT-Mini", "High"),
        "plain": ("BERT-Mini", "Original"),
        "eager": ("BERT-Mini", "Original (eager)"),
    }
    high, plain, eager = (table.cell(*way, column="train milliseconds") for way in ways.values())
    assert (high.ours.low, high.ours.high, high.published, high.count()) == (27 * 1.06, 30 * 1.06, "37.40", "9")
    assert eager.ours.value == pytest.approx(28 * 1.2) and eager.published == ""
    assert high.published_ratio == pytest.approx(37.40 / 28.03) and high.ratio is not None
    rate, count = (table.cell(*ways["high"], column=f"train {name}") for name in ("tokens_per_second", "gmacs"))
    assert plain.ratio is None and rate.ratio is None, "of a time alone, and not of Original over itself"
    assert (count.count(), count.number()) == ("", "1.45")
    lines = examples.narrow(table.to_markdown()).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| BERT-Mini, High |"))
    assert f"| ×1.33 | ×{high.ratio.value:.2f} [" in lines[first] and lines[first].endswith("| 9 |")
    assert lines[first + 2].startswith("| | GMACs | 1.45 | 1.45 |") and lines[first + 2].endswith("| · |")
    times, counts = (
        line for line in table.to_csv().splitlines() if "Mini High,train mil" in line or "Mini High,train gm" in line
    )
    assert f",1.33428,{high.ratio.value:.6g}," in times and counts.split(",")[7:9] == ["", ""]
    assert tables.table(9, []).cell("BERT-Mini", "Low", column="train milliseconds").reason == "no cost run"


def test_a_table_has_a_line_per_number_with_paper_ours_difference_and_n():
    runs = [examples.finetune("mini", name, seed, ("race",)) for name in ("original", "high") for seed in (42, 43)]
    table = tables.table(2, runs).with_runs()
    shown = [line for line in examples.narrow(table.to_markdown()).splitlines() if line.startswith("|")]
    head, _, plain, high = (line.strip("| ").split(" | ") for line in shown)
    assert head == ["Model", "Task", "Paper", "Ours", "Ours − Original", "n", "majority or chance"]
    gap = table.cell("BERT-Mini", "High", column="RACE_Middle").difference
    assert f"{gap.value:+.2f} [{gap.low:.2f}, {gap.high:.2f}]".replace("-", "−") in " | ".join(high)
    assert plain[4:] == ["·", "2×300", "52.00"], "the guess stands beside each line"
    lines = [line for line in table.to_latex().splitlines() if line.count("&") == len(head) - 2]
    assert len(lines) == 3, "a model's name has a line of its own"


def test_a_score_below_the_bag_of_words_is_marked():
    run = examples.finetune(tasks=("race",))
    run["metrics"]["tasks"]["race"]["floor"] = {"headline": 99.0}
    table = tables.table(2, [run])
    assert "below bag of words" in table.cell("BERT-Mini", "Original", column="RACE_Middle").flags
    assert "¶: below a bag of words" in table.to_markdown() and r"\P{} &" in table.to_latex()
    run["metrics"]["tasks"]["race"]["floor"] = {"headline": 1.0}
    assert "below bag of words" not in tables.table(2, [run]).cell("BERT-Mini", "Original", column="RACE_Middle").flags


@pytest.fixture(scope="module")
def built(records):
    return {number: tables.table(number, records) for number in tables.TABLES}


@pytest.mark.parametrize("number", sorted(tables.TABLES))
def test_latex_lines_have_the_columns_that_they_declare(number, built):
    lines = built[number].to_latex().splitlines()
    declared = next(line for line in lines if line.startswith(r"\begin{tabular}"))
    columns = sum(declared.split("}{")[1].count(kind) for kind in "lr")
    plain = [line for line in lines if line.endswith(r" \\") and "multicolumn" not in line]
    assert len(plain) > 2
    assert {line.replace(r"\&", "").count("&") for line in plain} == {columns - 1}


MEASURE = r"""\let\fit\resizebox
\renewcommand\resizebox[3]{\sbox0{#3}\typeout{width \the\wd0 of \the\linewidth}\fit{#1}{#2}{#3}}
"""  # of a table before it is fitted to the page


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here")
def test_every_table_compiles_by_one_input_on_a_page_of_the_acl_and_fits_it(records, tmp_path):
    for number in tables.TABLES:
        tables.write(number, records, tmp_path, formats=("tex",))
    verdicts.write(verdicts.verdicts(verdicts.Studies({"smoke": records}, numbers.load())), tmp_path, ["tex"])
    names = [*(f"table{number}" for number in tables.TABLES), "claims"]
    inputs = MEASURE + "\n".join(rf"\input{{{name}}}" for name in names)
    (tmp_path / "page.tex").write_text(f"{ACL_PAGE}{inputs}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout[-500:]
    assert "Overfull" not in result.stdout, "a table is wider than the page"
    widths = re.findall(r"^width ([\d.]+)pt ?of ([\d.]+)pt", result.stdout, re.MULTILINE)
    assert len(widths) >= len(names)
    assert max(float(own) / float(page) for own, page in widths) < 1.25, "too small to read"


def test_rows_without_a_run_are_counted_and_printed_on_demand(tmp_path):
    runs = [examples.finetune("mini", name, seed) for name in ("original", "high") for seed in (42, 43)]
    whole = tables.table(2, runs)
    bare = [cell for cell in whole.of_models.values() if cell.ours is None]
    assert bare, "some of the paper's rows were not run"
    short, every = (tables.write(2, runs, tmp_path / str(all_), ["md"], every=all_)[0].read_text() for all_ in (0, 1))
    rows = [sum(line.startswith("| ") for line in text.splitlines()) for text in (short, every)]
    assert rows[1] - rows[0] == len(bare) and f"{len(bare)} rows not run" in short and "rows not run" not in every
    assert "BERT-Medium, ElemMul " in every and "BERT-Medium" not in short and "public" not in short


def test_a_table_longer_than_a_page_is_one_number_and_keeps_every_line():
    table = tables.table(8, examples.study(("mini", "small", "medium"), ("original", "high", "low"), (42,)))
    text = table.to_latex()
    lines = [line for line in text.splitlines() if line.endswith(r" \\") and not line.startswith("Task &")]
    assert len(lines) == len(table.frame()) + (table.frame()["Model"] != "").sum() > 2 * render.PAGE
    assert text.count(r"\begin{table*}") == text.count(r"\ContinuedFloat") + 1 == 3
    assert text.count(r"\label{") == text.count(r"\par\smallskip\begin{minipage}") == 1
    assert "caption" in text.splitlines()[0] and text.count(r"\caption[]{(continued)}") == 2
