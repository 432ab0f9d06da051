"""Publishing a profile, and the commands that write one item for somebody's paper."""

import io
import os
import re
import shutil
import sys

import pytest

from saobp.measure import inspect_by_name
from saobp.study.publication import cli, results
from saobp.study.setup import paths
from saobp.study.setup import studies as studies_of


def test_a_table_or_figure_without_a_profile_is_of_the_results_that_are_shown_or_of_the_study_that_has_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "shown_study", lambda: "stories")
    for words, made in ((["table", "4"], "table4.tex"), (["figure", "hops", "--format", "csv"], "figure-hops.csv")):
        assert cli.main(words) == 0 and (tmp_path / made).is_file()
        assert capsys.readouterr().err == "from the records of stories\n"
    assert "study stories" in (tmp_path / "table4.tex").read_text(encoding="utf-8")


def test_a_table_names_the_study_that_was_read_and_a_file_of_a_study_is_read_like_its_name(tmp_path):
    written, studies = results.single("table", 3, "scratch", "md", None, tmp_path)
    assert studies == ["scratch"] and "scratch" in written.read_text() and "narrow" not in written.read_text()
    assert results.single("figure", 6, "scratch", "csv", None, tmp_path)[1] == ["scratch"]
    asked = str(studies_of.find("laptop")), "laptop"
    by_file, by_name = (results.single("table", 2, name, "csv", None, tmp_path)[0].read_text() for name in asked)
    assert by_file == by_name


def test_a_run_in_a_build_does_not_stand_in_for_the_results_that_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path / "build")
    shown = results.single("table", 2, None, "csv", None, tmp_path)[0].read_text()
    (tmp_path / "build" / "records").mkdir(parents=True)
    run = next(paths.results(results.shown_study()).glob("08-*.json"))
    shutil.copy(run, tmp_path / "build" / "records")
    assert results.single("table", 2, None, "csv", None, tmp_path)[0].read_text() == shown


@pytest.mark.parametrize(("words", "said"), [
    (["table", "12"], "no Table 12; choose 1 to 9"), (["figure", "3", "--width", "x"], "'x' is not a valid float"),
    (["figure", "3", "--width", "0"], "give 3.0 to 20"), (["table", "2", "--profile", "nope"], "choose one of laptop"),
    (["table", "2", "--profile", "no/such.yaml"], "no such study"), ([], "Missing command"),
    (["table", "2", "--study", "decoders"], "no run of it"), (["table", "claims", "--study", "x"], "leave it out"),
    (["table", "claims", "--all"], "--all: the table of claims"), (["publish", "--study", "foo"], "no study is called"),
    (["reproduce", "--study", "hops"], "'hops' is a planned study"),
    (["figure"], "'NUMBER'; `saobp figure --help` lists the options"), (["figures", "3"], "unexpected"),
    (["tabel", "2"], "No such command 'tabel'"), (["table", "2", "--formt", "md"], "No such option"),
    (["inspect", "minilm", "--strength"], "requires an argument"), (["inspect", "minilm", "--samples", "x"], "integer"),
    (["inspect", "minilm", "--strength", "0.1", "-0.2"], "strength"), (["inspect", "minilm", "0.1"], "unexpected"),
    *((["reproduce", f"--cores={n}"], f"'--cores': {n} is not in the range x>=1") for n in (0, -2)),
    *((["reproduce", f"--cores={n}"], f"'--cores': '{n}' is not a valid integer range") for n in ("1.5", "1:30")),
    (["reproduce", "--processes", "many"], "'--processes': 'many' is not a valid integer range"),
    (["reproduce", "--rows", "mini-quarter/high/42", "--minutes=0"], "'--minutes': 0 is not in the range x>=1"),
    (["reproduce", "--minutes", "9"], "name them: --rows mini/high/42"),
    *((["reproduce", "--study", "paper", "--rows", text], f"no row '{text}' in study paper; give one of mini/original,")
      for text in ("mini/hi/42", "mini-quarter/high/42", "mini/high", "mini/high/-3", "mini/high/42/0",
                   "mini/high/4294967296", "")),
])  # fmt: skip
def test_what_is_wrong_with_a_command_is_said_in_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = cli.main(words)
    lines = capsys.readouterr().err.splitlines()
    assert code == 2 and len(lines) == 1 and lines[0].startswith("saobp: ") and said in lines[0]
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("stream", [
    io.StringIO(),  # has no encoding that could be set
    io.TextIOWrapper(io.BytesIO(), encoding="latin-1"),  # knows no minus
])  # fmt: skip
def test_a_claim_is_shown_on_a_poor_terminal_and_on_none(monkeypatch, stream):
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["claim", "multihop-gain"]) == 0
    stream.seek(0)
    assert "multihop-gain" in stream.read()


def test_the_claims_are_written_alone_like_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["table", "claims", "--format", "md"]) == 0
    (written,) = tmp_path.iterdir()
    assert written.name == "claims.md" and re.search(
        r"\| Claim +\| Measured \(margin\) +\| Outcome +\|", written.read_text()
    )


def test_the_study_that_is_shown_compares_something_and_one_of_several_seeds_goes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "results", lambda name: tmp_path / name)

    def shown(name, *seeds, sides=("original", "high")):
        (tmp_path / name).mkdir(exist_ok=True)
        for run in (f"04-pretrain-mini-{side}-{seed}.json" for side in sides for seed in seeds):
            (tmp_path / name / run).write_text("{}")
        return results.shown_study()

    assert shown("laptop", 42) == shown("smoke", 42) == "laptop"
    assert shown("narrow", 42, sides=["original"]) == "laptop" and shown("narrow", 42, sides=["high"]) == "narrow"
    assert shown("paper", 42) == "paper" and shown("narrow", 42, 43, 44) == "narrow"
    assert shown("paper", 43, 44) == "paper"


def test_publishing_part_of_a_profile_names_the_tracked_records_that_it_takes_away(tmp_path, monkeypatch, capsys):
    ran, tracked = tmp_path / "build" / "records", tmp_path / "results"
    for folder in (ran, tracked):
        folder.mkdir(parents=True)
    for path in (ran / "a.json", tracked / "a.json", tracked / "b.json"):
        path.write_text("{}")
    monkeypatch.setattr(paths, "build", lambda name: ran.parent)
    monkeypatch.setattr(paths, "results", lambda name: tracked)
    monkeypatch.setattr(results.records, "read", lambda path: {})
    monkeypatch.setattr(results, "rebuild", lambda: None)
    results.publish("narrow")
    assert "has none of them: b; git restores them" in capsys.readouterr().out
    results.publish("narrow")
    assert "no longer there" not in capsys.readouterr().out
    with pytest.raises(ValueError, match="^--study: smoke trains for seconds"):
        results.publish("smoke")
    assert [path.name for path in tracked.glob("*.json")] == ["a.json"]


def test_a_relative_data_folder_is_one_from_here_wherever_a_run_starts(monkeypatch, tmp_path):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAOBP_DATA", "mine")
    assert cli.main(["claim", "nothing"]) == 2 and os.environ["SAOBP_DATA"] == str(tmp_path / "mine")


@pytest.mark.parametrize(("words", "strengths"), [
    (["--strength", "0.1", "0.2", "minilm"], [0.1, 0.2]), (["minilm", "--strength=1e-1"], [0.1]),
    (["minilm", "--strength", "0.1", "--strength", ".2"], [0.1, 0.2]),
    (["--strength", "1", "2", "3", "minilm", "--samples", "4"], [1, 2, 3]),
    (["minilm"], None),
])  # fmt: skip
def test_several_strengths_are_given_in_a_row_or_one_by_one(words, strengths, monkeypatch, capsys):
    shown = lambda model, strengths, **asked: f"{model} {strengths} {asked['samples']}"  # noqa: E731
    monkeypatch.setattr(inspect_by_name, "run", shown)
    assert cli.main(["inspect", *words]) == 0
    assert capsys.readouterr().out == f"minilm {strengths and [*map(float, strengths)]} {4 if '4' in words else 16}\n"
