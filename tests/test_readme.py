"""The README promises nothing that is not there, and its snippet runs as printed."""

import os
import re
import subprocess
import sys

import example_records as examples
import pytest
import torch

from saobp import own
from saobp.study import budgets, figures, paths, publication, readme, records, runner, tables
from saobp.study.tables import context

README = (paths.root() / "README.md").read_text(encoding="utf-8")
AT_LENGTH = paths.results("narrow").parent / "README.md"
MAKEFILE = (paths.root() / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", README))))
def test_every_file_that_is_linked_exists(target):
    assert (paths.root() / target).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:^|`|> )make ([a-z]+)", README, re.MULTILINE))))
def test_every_make_target_that_is_named_exists(target):
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


def test_the_snippet_runs_as_printed_and_gives_the_refined_model_back(tmp_path):
    snippet = next(code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "saobp.apply" in code)
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 11
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", snippet]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["high", "0.2"]


def test_the_results_are_those_of_the_tracked_records():
    assert readme.with_results(README) == README
    found = records.load(paths.results(readme.published_profile()))
    assert AT_LENGTH.read_text(encoding="utf-8") == readme.at_length(found)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)#]+)", AT_LENGTH.read_text("utf-8")))))
def test_every_file_that_the_records_readme_links_exists(target):
    assert (AT_LENGTH.parent / target).exists()


def test_the_readme_begins_with_what_was_decided_and_leads_to_the_readings():
    assert "| Claim | Outcome | Ours [95 %] |" in README and "figures/claims.md" in README
    assert not re.search(r"\| (imprecise|not run)", README.partition("| Claim |")[2].partition("\n\n")[0])
    at_length = AT_LENGTH.read_text(encoding="utf-8")
    for name in ("narrow", "laptop", "stories"):
        assert budgets.reading(name)[2] in at_length and f"| `{name}` | encoders" in README
    short = (paths.root() / "data" / budgets.READINGS / readme.SHORT).read_text(encoding="utf-8")
    assert short in README and not re.search(r"\d", short)


@pytest.mark.parametrize("profile", ["narrow", "laptop", "stories"])
def test_every_departure_of_every_record_is_listed(profile):
    listed = "\n".join(readme.departures_text([profile]))
    named = [words.split(": ")[-1] for record in records.load(paths.results(profile)) for words in record["departures"]]
    assert len(named) > 10 and [words for words in named if words not in listed] == []
    assert profile != "narrow" or [words for words in named if words not in README] == []


def test_a_single_table_without_a_profile_is_of_the_results_that_are_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(readme, "published_profile", lambda: "stories")
    assert runner.main(["table", "4"]) == 0
    assert "Profile stories." in (tmp_path / "table4.tex").read_text(encoding="utf-8")
    assert capsys.readouterr().err == "from the records of profile stories\n"
    with pytest.raises(SystemExit):
        runner.main(["table", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "default: the one that figures/ shows" in said and "(default: the current one)" in said


@pytest.mark.parametrize(("words", "said"), [
    (["table", "12"], "invalid choice: 12"), (["figure", "3", "--width", "x"], "invalid float value: 'x'"),
    (["figure", "3", "--width", "0"], "give 1.5 to 20"), (["table", "2", "--profile", "nope"], "choose one of laptop"),
    (["table", "2", "--profile", "no/such.yaml"], "no such profile"), ([], "required: COMMAND"),
])  # fmt: skip
def test_what_is_wrong_with_a_command_is_said_in_one_line(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = runner.main(words)
    except SystemExit as left:
        code = left.code
    lines = capsys.readouterr().err.splitlines()
    assert code == 2 and len(lines) == 1 and lines[0].startswith("saobp: ") and said in lines[0]
    assert not any(tmp_path.iterdir())


def test_what_differs_from_the_paper_is_listed_of_every_profile_that_is_told_of():
    shown = readme.published_profile()
    for name in ("narrow", "laptop", "stories"):
        lines = context.departures(records.load(paths.results(name)))
        at_length = AT_LENGTH.read_text(encoding="utf-8")
        for text in [at_length, *([README] if name == shown else [])]:
            assert lines and all(f"- {line}\n" in text for line in lines), name
            assert f"in profile <code>{name}</code>" in text
    assert readme.departures_text(["nowhere"]) == []


def test_the_claims_are_written_alone_like_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert runner.main(["table", "claims", "--format", "md"]) == 0
    (written,) = tmp_path.iterdir()
    assert written.name == "claims.md" and "| Claim | Outcome |" in written.read_text(encoding="utf-8")


def test_the_picture_is_said_to_be_of_its_profile_models_algorithms_and_runs():
    one = [examples.attention("mini", name) for name in ("original", "high")]
    said = readme.picture_text(one)
    assert "Profile `smoke`: BERT-Mini; Original, High (" in said and "one run each, so no interval. High" in said
    assert figures.reading(4, figures.data(4, one)) in said and "(figures/figure4.png)" in said
    more = [*one, *(examples.attention("mini", "high", seed) for seed in (43, 44))]
    assert (
        "; 1 to 3 runs each. Thick lines: means over runs; thin: single ones, where there are several. High"
        in readme.picture_text(more)
    )
    two = [examples.attention("mini", name, seed) for name in ("original", "high") for seed in (42, 43)]
    assert "; 2 runs each." in readme.picture_text(two)
    apart = [*two, examples.attention("mini", "original", 44)]
    assert "; 2 to 3 runs each" in readme.picture_text(apart)
    three = [
        *(examples.attention("mini", "high", s) for s in (42, 43, 44)),
        *(examples.attention("mini", "original", s) for s in (42, 43, 45)),
    ]
    assert "; 3 runs each" in readme.picture_text(three), "the pairs of one seed are fewer than the runs"
    assert readme.picture_text([examples.finetune()]) == ""


def test_a_profile_with_nothing_to_compare_is_not_the_one_that_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "results", lambda name: tmp_path / name)
    for name, sides in {"narrow": ["original"], "laptop": ["original", "high"], "smoke": ["original", "high"]}.items():
        (tmp_path / name).mkdir()
        for side in sides:
            (tmp_path / name / f"04-pretrain-mini-{side}-42.json").write_text("{}")
    assert readme.published_profile() == "laptop"
    (tmp_path / "narrow" / "04-pretrain-mini-narrow-high-42.json").write_text("{}")
    assert readme.published_profile() == "narrow"


def test_publishing_part_of_a_profile_names_the_tracked_records_that_it_takes_away(tmp_path, monkeypatch, capsys):
    ran, tracked = tmp_path / "build" / "records", tmp_path / "results"
    for folder in (ran, tracked):
        folder.mkdir(parents=True)
    for path in (ran / "a.json", tracked / "a.json", tracked / "b.json"):
        path.write_text("{}")
    monkeypatch.setattr(paths, "build", lambda name: ran.parent)
    monkeypatch.setattr(paths, "results", lambda name: tracked)
    monkeypatch.setattr(publication.records, "read", lambda path: {})
    monkeypatch.setattr(publication, "rebuild", lambda: None)
    publication.publish("narrow")
    assert "has none of them: b; git restores them" in capsys.readouterr().out
    publication.publish("narrow")
    assert "no longer there" not in capsys.readouterr().out
    assert [path.name for path in tracked.glob("*.json")] == ["a.json"]


def test_a_profile_that_was_begun_shows_its_glue_scores_beside_the_results(monkeypatch):
    runs = [examples.pretrain("mini", "original"), examples.finetune("mini", "original")]
    monkeypatch.setattr(readme, "published_profile", lambda: "laptop")
    monkeypatch.setattr(records, "load", lambda folder: runs if folder == paths.results("narrow") else [])
    head, _, table = readme.begun_text()
    assert (
        head == "**Begun.** Profile `narrow` has trained Original (seed 42) so far of its encoders, and compares none."
    )
    assert table == tables.table(8, runs).to_markdown()
    runs.append(examples.decoder())
    assert readme.begun_text()[3:] == [tables.table(7, runs).to_markdown()]
    monkeypatch.setattr(readme, "published_profile", lambda: "narrow")
    assert readme.begun_text() == []


def test_the_factor_in_contributing_is_short_and_works_as_printed():
    text = (paths.root() / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    snippet = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert len(snippet.splitlines()) <= 15
    names = {}
    try:
        exec(snippet, names)
        torch.testing.assert_close(names["refined"].sum(-1), torch.ones(4, 9))
    finally:
        own.OWN.pop("crowded", None)
