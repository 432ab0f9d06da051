"""Publishing a study, and the commands that write one item for somebody's paper."""

import io
import json
import os
import re
import sys

import pandas as pd
import pytest
from example_records import attention, pretrain

from companion import figures, records
from companion.publication import cli, results
from companion.setup import paths
from companion.setup import studies as studies_of
from companion.texts import fill
from companion.training import pretraining
from saobp.measure.command import show


def test_a_table_or_figure_without_a_study_is_of_the_results_that_are_shown_or_of_the_study_that_has_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "shown_study", lambda: "stories")
    for words, made, study in (
        ("table 4", "table4.tex", "laptop and stories"),
        ("figure hops --format csv", "figure-hops.csv", "stories"),
        ("table claims --format md", "claims.md", "all that are tracked"),
    ):
        assert cli.main(words.split()) == 0 and (tmp_path / made).is_file()
        assert f"from the records of {study}\n" in capsys.readouterr().err
    assert "stories" in (tmp_path / "table4.tex").read_text(encoding="utf-8")
    assert re.search(r"\| Claim +\| Ours \[95 %\] +\| n +\|", (tmp_path / "claims.md").read_text())


def test_a_figure_is_drawn_from_somebodys_own_numbers_without_titles_in_each_format(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    mine = pd.read_csv(paths.figures() / "figure4.csv").query("algorithm == 'high'")
    mine.to_csv("mine.csv", index=False)
    words = "figure 4 --data mine.csv --bare --format svg --format csv --width 5"
    assert cli.main(words.split()) == 0
    assert capsys.readouterr().out.splitlines() == ["figure4.svg", "figure4.csv"]
    assert set(pd.read_csv("figure4.csv")["algorithm"]) == {"high"}
    mine.drop(columns="panel").to_csv("mine.csv", index=False)
    assert cli.main(["figure", "4", "--data", "mine.csv"]) == 2
    assert "mine.csv lacks the columns panel of figure4.csv" in capsys.readouterr().err


def test_somebodys_own_numbers_are_not_written_over_and_not_unpacked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mine = pd.read_csv(paths.figures() / "figure4.csv").assign(note="mine")
    mine.to_csv("figure4.csv", index=False)
    before = (tmp_path / "figure4.csv").read_bytes()
    (tmp_path / "link.csv").symlink_to("figure4.csv")
    for name in ("figure4.csv", "link.csv"):
        words = ["figure", "4", "--format", "csv", "--data"]
        assert cli.main([*words, name]) == 2
        said = capsys.readouterr().err
        assert said == "saobp: figure4.csv: is the file of --data; choose another --out\n"
    assert (tmp_path / "figure4.csv").read_bytes() == before
    mine.to_csv("mine.csv.gz", index=False)
    assert cli.main(["figure", "4", "--format", "svg", "--data", "mine.csv.gz"]) == 2
    assert "mine.csv.gz is no CSV that can be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("figure 4 --format svg --format csv", "figure4.csv"),
        ("table 4 --format md", "table4.md"),
        ("figure claims --format csv", "figure-claims.csv"),
        ("table claims --format md", "claims.md"),
    ],
)
def test_a_file_that_the_project_did_not_write_is_not_replaced(words, name, tmp_path, capsys):
    words = [*words.split(), "--out", str(tmp_path)]
    file = tmp_path / name
    file.write_text("mine")
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"saobp: {file}: is there, and saobp did not write it as it is; choose")
    assert said.count("\n") == 1 and file.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert cli.main([*words, "--force"]) == 0 and file.read_text() != "mine"
    drawn = file.read_bytes()
    # which is the project's from now on
    assert cli.main(words) == 0 and file.read_bytes() == drawn
    file.write_bytes(drawn + b"note")
    assert cli.main(words) == 2 and file.read_bytes() == drawn + b"note"


@pytest.mark.parametrize("text", ['["mine"]', '{"mine": 1}', "mine", "{}"])
def test_somebodys_own_list_is_not_replaced(text, tmp_path, capsys):
    file = tmp_path / ".saobp.json"
    file.write_text(text)
    assert cli.main(["table", "4", "--format", "md", "--out", str(tmp_path)]) == 2
    assert f"{file}: is there, and is not saobp's list" in capsys.readouterr().err
    assert file.read_text() == text and list(tmp_path.iterdir()) == [file]


def test_another_form_of_a_figure_replaces_the_one_before_and_a_tracked_one_is_the_projects(
    tmp_path,
):
    words = ["figure", "4", "--format", "svg", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    first = (tmp_path / "figure4.svg").read_bytes()
    assert cli.main([*words, "--bare"]) == 0
    assert (tmp_path / "figure4.svg").read_bytes() != first
    tracked = tmp_path / "figures"
    tracked.mkdir()
    for name in ("figure4.svg", "manifest.json"):
        (tracked / name).write_bytes((paths.figures() / name).read_bytes())
    assert cli.main(["figure", "4", "--format", "svg", "--bare", "--out", str(tracked)]) == 0


def test_a_table_names_the_study_that_was_read_and_a_file_of_a_study_is_read_like_its_name(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path / "build")

    def written(kind, number, study):
        wanted = results.Wanted(["csv"], tmp_path)
        (path,), studies = results.single(kind, number, study, wanted)
        return path.read_text(), studies

    assert written("table", 3, "scratch")[1] == written("figure", 6, "scratch")[1] == ["scratch"]
    assert written("table", 2, str(studies_of.find("laptop"))) == written("table", 2, "laptop")
    shown = written("table", 2, None)
    run = next(paths.results(results.shown_study()).glob("08-*.json"))
    paths.write_text(tmp_path / "build" / "records" / run.name, run.read_text())
    assert written("table", 2, None) == shown, (
        "a run in a build does not stand in for the results that are shown"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["table", "12"], "no Table 12; choose 1 to 9"),
        (["figure", "3", "--width", "x"], "'x' is not a valid float"),
        (["figure", "3", "--width", "0"], "give 3.0 to 20"),
        (["table", "2", "--study", "nope"], "choose one of "),
        (["table", "2", "--study", "no/such.yaml"], "no such study"),
        ([], "Missing command"),
        (["table", "2", "--study", "decoders"], "no run of it"),
        (["figure", "claims", "--study", "x"], "leave out"),
        (["figure", "4", "--data", "x.csv", "--study", "narrow"], "leave out --study"),
        (["figure", "4", "--data", "x.csv"], "x.csv is no CSV that can be read"),
        (["table", "claims", "--study", "x"], "leave out --study"),
        (["publish", "--study", "foo"], "no study is called"),
        (["publish", "--study", "smoke"], "--study: smoke trains for seconds"),
        (["reproduce", "--study", "hops"], "'hops' is a planned study"),
        (["figure"], "'NUMBER'; `saobp figure --help` lists the options"),
        (["tabel", "2"], "No such command 'tabel'"),
        (["inspect", "minilm", "--strength", "-0.2"], "strength"),
        (["inspect", "minilm", "0.1"], "unexpected"),
        *(
            (["reproduce", f"--{name}=0"], f"'--{name}': 0 is not in the range x>=1")
            for name in ("cores", "processes")
        ),
        *(
            (
                ["reproduce", "--study", "paper", "--rows", text],
                f"no row '{text}' in study paper; give one of mini/original,",
            )
            for text in (
                "mini/hi/42",
                "mini-quarter/high/42",
                "mini/high",
                "mini/high/-3",
                "mini/high/42/0",
                "mini/high/4294967296",
                "",
            )
        ),
    ],
)
def test_what_is_wrong_with_a_command_is_said_in_one_line(
    words, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    code = cli.main(words)
    lines = capsys.readouterr().err.splitlines()
    assert code == 2 and len(lines) == 1 and lines[0].startswith("saobp: ") and said in lines[0]
    assert not any(tmp_path.iterdir())


# a stream that has no encoding that could be set, and one that knows no minus
@pytest.mark.parametrize(
    "stream", [io.StringIO(), io.TextIOWrapper(io.BytesIO(), encoding="latin-1")]
)
def test_a_claim_is_shown_on_a_poor_terminal_and_on_none(monkeypatch, stream):
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["claim", "hops"]) == 0
    stream.seek(0)
    assert "hops" in stream.read()


def test_the_study_that_is_shown_compares_something_and_one_of_several_seeds_goes_first(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "results", lambda name: tmp_path / name)

    def shown(name, *seeds, sides=("original", "high")):
        (tmp_path / name).mkdir(exist_ok=True)
        for run in (f"04-pretrain-mini-{side}-{seed}.json" for side in sides for seed in seeds):
            (tmp_path / name / run).write_text("{}")
        return results.shown_study()

    assert shown("laptop", 42) == shown("smoke", 42) == "laptop"
    assert shown("narrow", 42, sides=["original"]) == "laptop" and shown("paper", 42) == "paper"
    assert shown("narrow", 42, sides=["high"]) == "narrow" and shown("laptop", 43, 44) == "laptop"
    assert shown("narrow", 43, 44) == "narrow"
    assert shown("paper", 43, 44) == "narrow", "in whose tables the rows of paper come first"


def test_publishing_a_study_puts_its_records_in_place_of_those_tracked(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path)
    monkeypatch.setattr(paths, "results", lambda name: tmp_path / "tracked")
    monkeypatch.setattr(results, "rebuild", lambda: None)
    for name in ("records/a", "records/10-tables", "tracked/a", "tracked/b"):
        paths.write_text(tmp_path / f"{name}.json", json.dumps(attention()))
    results.publish("narrow")
    assert [path.name for path in (tmp_path / "tracked").iterdir()] == ["a.json"]
    assert records.load(tmp_path / "tracked") == [attention()]


def test_publishing_leaves_what_somebody_put_beside_the_records(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path)
    monkeypatch.setattr(paths, "results", lambda name: tmp_path / "tracked")
    monkeypatch.setattr(results, "rebuild", lambda: None)
    for name in ("records/a", "tracked/b"):
        paths.write_text(tmp_path / f"{name}.json", json.dumps(attention()))
    mine = ("notes.txt", "settings.json", "drafts/c.json")
    for name in ("b.answers.parquet", *mine):
        paths.write_text(tmp_path / "tracked" / name, "{}")
    results.publish("narrow")
    left = [path for path in (tmp_path / "tracked").rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path / "tracked").as_posix() for path in left} == {"a.json", *mine}


def test_rebuilding_removes_what_an_earlier_manifest_lists_and_nothing_that_somebody_put_there(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(paths, "figures", lambda: tmp_path)
    monkeypatch.setattr(results, "draw", lambda folder: [tmp_path / "manifest.json"])
    monkeypatch.setattr(fill, "pages", dict)
    for name in ("figure-old.pdf", "figure-changed.pdf", "mine.pdf", "results.csv"):
        paths.write_text(tmp_path / name, "as written")
    marks = {
        f"figure-{name}.pdf": paths.digest(tmp_path / "mine.pdf") for name in ("old", "changed")
    }
    manifest = {"entries": {"figure-old": {"files": marks}}}
    paths.write_text(tmp_path / "manifest.json", json.dumps(manifest))
    paths.write_text(tmp_path / "figure-changed.pdf", "by somebody")
    results.rebuild()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"figure-changed.pdf", "mine.pdf", "results.csv", "manifest.json"}
    assert "removed, for nothing draws them any more: figure-old.pdf" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"entries": [1]}', '{"entries": {"a": {"files": 3}}}'])
def test_a_manifest_that_is_none_lists_nothing(tmp_path, text):
    paths.write_text(tmp_path / "manifest.json", text)
    assert figures.listed(tmp_path) == {}
    paths.write_text(tmp_path / "manifest.json", '{"entries": {"a": {"files": {"../b": ""}}}}')
    assert figures.listed(tmp_path) == {}


def test_a_row_without_the_record_of_its_pretraining_is_not_published(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path)
    monkeypatch.setattr(paths, "results", lambda name: tmp_path / "tracked")
    monkeypatch.setattr(results, "rebuild", lambda: None)
    begun = tmp_path / "records" / "04-pretrain-mini-high-42.json"
    paths.write_text(begun, json.dumps(pretrain("mini")))
    assert cli.main(["publish", "--study", "paper"]) == 0
    tuned = tmp_path / "records" / "06-attention-mini-high-42-race.json"
    paths.write_text(tuned, json.dumps(attention()))
    begun.unlink()
    assert cli.main(["publish", "--study", "paper"]) == 2
    assert str(tuned) in capsys.readouterr().err


def test_a_relative_data_folder_is_one_from_here_wherever_a_run_starts(monkeypatch, tmp_path):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAOBP_DATA", "mine")
    assert cli.main(["claim", "nothing"]) == 2 and os.environ["SAOBP_DATA"] == str(
        tmp_path / "mine"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["claim", "a\x1b[31mred\x07"],
        ["reproduce", "--study", "a\x1b]0;title\x07\u202e.yaml"],
        ["run", "a\x1b[2J\nsaobp: done.ipynb", "out.ipynb"],
        ["run", "name-\udce9.ipynb", "out.ipynb"],
    ],
)
def test_no_line_on_a_terminal_has_control_characters(words, capsys):
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("saobp: ") and said.endswith("\n") and said[:-1].isprintable()


def test_a_process_of_several_says_what_is_wrong_without_control_characters(capsys):
    words = ["--study", "a\x1b]0;title\x07.yaml", "--model", "mini", "--algorithm", "high"]
    with pytest.raises(SystemExit):
        pretraining.main(words)
    said = capsys.readouterr().err
    assert said.startswith("saobp: a\\x1b]0;title\\x07.yaml: ") and said[:-1].isprintable()


def test_a_table_on_a_terminal_keeps_its_lines_and_nothing_else(capsys):
    show("layer\n1 \x1b[31m\t")
    assert capsys.readouterr().out == "layer\n1 \\x1b[31m\\t\n"
