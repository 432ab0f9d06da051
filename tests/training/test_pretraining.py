"""One run of a profile from the command line, as torchrun and Accelerate start it."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from small_hub import write_split

from saobp.study.data import sources, splits
from saobp.study.setup import paths
from saobp.study.setup.studies import load_study
from saobp.study.training import pretraining


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--profile", "nope", "--model", "mini", "--algorithm", "high"], "no study is called 'nope'"),
        (["--profile", "smoke", "--model", "nope", "--algorithm", "high"], "trains no nope with high: choose one of"),
        (
            ["--profile", "smoke", "--model", "mini-quarter", "--algorithm", "high_all_rows"],
            "trains no mini-quarter with high",
        ),
    ],
)
def test_a_wrong_name_is_one_line(given, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pretraining", *given])
    with pytest.raises(SystemExit) as stopped:
        pretraining.main()
    line = capsys.readouterr().err
    assert stopped.value.code == 2 and line.startswith("saobp: ") and said in line and line.count("\n") == 1


def launched(folder, **options):
    """Start a run of two processes; its work goes below `folder`."""
    script = str(Path(__file__).parents[1] / "helpers" / "distributed_pretraining.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, str(folder), "high"]
    command = [sys.executable, "-W", "ignore", *launch]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def test_the_processes_of_a_run_wait_together_for_another_run_and_continue_from_where_it_came(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    (second / "work").mkdir(parents=True)
    first.mkdir()
    other = launched(first)
    assert other.wait(timeout=300) == 0, other.stdout.read()
    with FileLock(second / "work" / ".lock"):  # another run holds the folder ...
        waiting = launched(second)
        time.sleep(15)
        assert waiting.poll() is None and not list((second / "work").glob("checkpoint-*"))
        # ... writes a checkpoint, and lets go
        shutil.copytree(first / "work" / "checkpoint-10", second / "work" / "checkpoint-10")
    said = waiting.communicate(timeout=300)[0]
    assert waiting.returncode == 0 and "continuing from checkpoint-10" in said, said
    assert (second / "work" / "checkpoint-20").is_dir()
    other.stdout.close()


def test_wikitext_is_measured_where_the_source_has_it_and_its_text_is_the_one_named(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    monkeypatch.delenv("SAOBP_DATA", raising=False)
    study, story_world = load_study("smoke"), sources.resolve("synthetic")
    tokenizer, *_ = pretraining.texts(study, "mini-quarter", story_world)
    network = pretraining.untrained(study, "mini-quarter", "high", 0, tokenizer)
    invented = pretraining.on_wikitext(study, "mini-quarter", network, tokenizer, story_world)["wikitext"]
    assert invented["note"].startswith(splits.INVENTED)
    lines = [{"text": f" line {n} tells of the baker and of the smith and of a cat . \n"} for n in range(2000)]
    write_split(tmp_path / "hub", pretraining.WIKITEXT, "wikitext-103-v1", "validation", lines)
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path / "hub"))
    source = sources.resolve("hub")
    found = pretraining.on_wikitext(study, "mini-quarter", network, tokenizer, source)["wikitext"]
    assert (found["config"], found["split"], found["tokens"]) == ("wikitext-103-v1", "validation", 16_384)
    assert found["perplexity_interval"][0] < found["perplexity"] < found["perplexity_interval"][1]
    assert found["perplexity"] == pytest.approx(len(tokenizer), rel=0.2)  # it knows nothing yet
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path / "other"))
    assert pretraining.on_wikitext(study, "mini-quarter", network, tokenizer, sources.resolve("hub")) == {}
    assert 0 < found["sequences"] <= 16_384 // study.recipe("mini-quarter").length
