"""One run of a profile from the command line, as torchrun and Accelerate start it."""

import shutil
import subprocess
import sys
import time
from dataclasses import replace

import datasets
import distributed_pretraining
import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file
from small_hub import write_split
from small_models import RandomText, word_tokenizer

from saobp.storyworld.writer import NOTE
from saobp.study.data import sources
from saobp.study.setup import paths
from saobp.study.setup.studies import load_study
from saobp.study.training import checkpoints, pretraining


@pytest.fixture
def refused(capsys, monkeypatch):
    """Return what gives a profile, a model and an algorithm to the command and returns the one line that it ends in."""

    def give(profile, model, algorithm):
        given = ["--profile", profile, "--model", model, "--algorithm", algorithm]
        monkeypatch.setattr(sys, "argv", ["pretraining", *given])
        with pytest.raises(SystemExit) as stopped:
            pretraining.main()
        line = capsys.readouterr().err
        assert stopped.value.code == 2 and line.startswith("saobp: ") and line.count("\n") == 1
        return line

    return give


@pytest.mark.parametrize(("given", "said"), [
    (("nope", "mini", "high"), "no study is called 'nope'"),
    (("smoke", "nope", "high"), "trains no nope with high: choose one of"),
    (("smoke", "mini-quarter", "high_all_rows"), "trains no mini-quarter with high"),
])  # fmt: skip
def test_a_wrong_name_is_one_line(refused, given, said):
    assert said in refused(*given)


def test_a_build_that_cannot_be_written_is_one_line(refused, tmp_path, monkeypatch):
    (tmp_path / "build").write_text("no folder")
    monkeypatch.setattr(paths, "build", lambda study: tmp_path / "build")
    monkeypatch.setattr(pretraining, "texts", lambda *_: (word_tokenizer(), RandomText(), RandomText()))
    assert "cannot be written" in refused("smoke", "mini-quarter", "high")


def test_processes_wait_together_for_another_run_and_train_on_from_where_it_came_as_one_would(tmp_path):
    alone = distributed_pretraining.train(tmp_path / "alone")  # with a penalty, which processes share
    start = load_file(tmp_path / "alone" / "work" / "checkpoint-10" / "model.safetensors")
    folder = tmp_path / "together"
    (folder / "work").mkdir(parents=True)
    command = [sys.executable, "-W", "ignore", distributed_pretraining.__file__, str(folder)]
    with FileLock(folder / "work" / ".lock"):  # another run holds the folder ...
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while len(list(folder.glob("ready-*"))) < distributed_pretraining.PROCESSES and run.poll() is None:
            time.sleep(0.2)
        time.sleep(5)
        assert run.poll() is None and not list((folder / "work").glob("checkpoint-*"))
        # ... writes a checkpoint, and lets go
        shutil.copytree(tmp_path / "alone" / "work" / "checkpoint-10", folder / "work" / "checkpoint-10")
    said = run.communicate(timeout=300)[0]
    assert run.returncode == 0 and "continuing from checkpoint-10" in said, said
    assert checkpoints.newest_whole(folder / "work").name == "checkpoint-20"
    together = load_file(folder / "end.safetensors")
    for name, weights in alone.items():
        torch.testing.assert_close(together[name], weights, rtol=1e-3, atol=1e-4)
    moved = max((alone[name] - start[name]).abs().max() for name in alone.keys() & start)
    assert moved > 1e-2, moved  # a hundred times what the two may differ by


def test_wikitext_is_measured_where_the_source_has_it_and_its_text_is_the_one_named(tmp_path, monkeypatch):
    monkeypatch.delenv("SAOBP_DATA", raising=False)
    study, story_world = load_study("smoke"), sources.resolve("synthetic")
    tokenizer, *_ = pretraining.texts(study, "mini-quarter", story_world)
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(pretraining, "WIKITEXT_TOKENS", 2_048)
    network = pretraining.untrained(study, "mini-quarter", "high", 0, tokenizer)

    def measured(source):
        return pretraining.on_wikitext(study, "mini-quarter", network, tokenizer, source).get("wikitext")

    assert measured(story_world)["note"].startswith(NOTE)
    lines = [{"text": f" line {n} tells of the baker and of the smith and of a cat . \n"} for n in range(300)]
    write_split(tmp_path / "hub", pretraining.WIKITEXT, "wikitext-103-v1", "validation", lines)
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path / "hub"))
    found = measured(sources.resolve("hub"))
    assert (found["config"], found["split"], found["tokens"]) == ("wikitext-103-v1", "validation", 2_048)
    assert found["perplexity_interval"][0] < found["perplexity"] < found["perplexity_interval"][1]
    assert found["perplexity"] == pytest.approx(len(tokenizer), rel=0.2)  # it knows nothing yet
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path / "other"))
    assert measured(sources.resolve("hub")) is None
    write_split(tmp_path / "other", pretraining.WIKITEXT, "wikitext-103-v1", "validation", lines[:1])  # fills no block
    assert measured(sources.resolve("hub")) is None


def test_a_lost_network_is_not_taken_for_a_source_without_wikitext_but_with_a_token_file(monkeypatch):
    def lost(*given, **options):
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset_builder", lost)
    monkeypatch.setattr(datasets, "load_dataset", lost)
    study, given = load_study("smoke"), ("mini-quarter", None, word_tokenizer(), sources.HubSource())
    with pytest.raises(sources.DataError, match=r"not to be had from the hub \(no network\)"):
        pretraining.on_wikitext(study, *given)
    assert pretraining.on_wikitext(replace(study, tokens="text.tar.bz2"), *given) == {}
