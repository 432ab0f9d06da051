"""One run of a profile from the command line, as torchrun and Accelerate start it."""

import shutil
import subprocess
import sys
import time

import distributed_pretraining
import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file
from small_hub import write_split
from small_models import word_tokenizer

from saobp.study.data import sources, splits
from saobp.study.setup import paths
from saobp.study.setup.studies import load_study
from saobp.study.training import architectures, checkpoints, pretraining


@pytest.mark.parametrize(("given", "said"), [
    (["--profile", "nope", "--model", "mini", "--algorithm", "high"], "no study is called 'nope'"),
    (["--profile", "smoke", "--model", "nope", "--algorithm", "high"], "trains no nope with high: choose one of"),
    (["--profile", "smoke", "--model", "mini-quarter", "--algorithm", "high_all_rows"],
     "trains no mini-quarter with high"),
])  # fmt: skip
def test_a_wrong_name_is_one_line(given, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pretraining", *given])
    with pytest.raises(SystemExit) as stopped:
        pretraining.main()
    line = capsys.readouterr().err
    assert stopped.value.code == 2 and line.startswith("saobp: ") and said in line and line.count("\n") == 1


def launched(folder):
    """Start a run of two processes; its work goes below `folder`."""
    command = [sys.executable, "-W", "ignore", distributed_pretraining.__file__, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The folder of a finished run of two processes."""
    folder = tmp_path_factory.mktemp("shared")
    run = launched(folder)
    said = run.communicate(timeout=600)[0]
    assert run.returncode == 0, said
    return folder


def test_two_processes_train_the_model_that_one_trains(shared, tmp_path):  # with a penalty, which they share
    assert checkpoints.newest_whole(shared / "work").name == "checkpoint-20"
    alone, together = distributed_pretraining.train(tmp_path), load_file(shared / "end.safetensors")
    start = architectures.encoder("mini-quarter", word_tokenizer(), dropout=0.0, seed=1).state_dict()
    for name, weights in alone.items():
        torch.testing.assert_close(together[name], weights, rtol=1e-3, atol=1e-4)
    moved = max((alone[name] - start[name]).abs().max() for name in alone)
    assert moved > 1e-2  # a hundred times what the two may differ by


def test_the_processes_of_a_run_wait_together_for_another_run_and_continue_from_where_it_came(shared, tmp_path):
    (tmp_path / "work").mkdir()
    with FileLock(tmp_path / "work" / ".lock"):  # another run holds the folder ...
        waiting = launched(tmp_path)
        while len(list(tmp_path.glob("ready-*"))) < distributed_pretraining.PROCESSES and waiting.poll() is None:
            time.sleep(0.2)
        time.sleep(5)
        assert waiting.poll() is None and not list((tmp_path / "work").glob("checkpoint-*"))
        # ... writes a checkpoint, and lets go
        shutil.copytree(shared / "work" / "checkpoint-10", tmp_path / "work" / "checkpoint-10")
    said = waiting.communicate(timeout=300)[0]
    assert waiting.returncode == 0 and "continuing from checkpoint-10" in said, said
    assert (tmp_path / "work" / "checkpoint-20").is_dir()


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
