"""One run of a study, an encoder's or a decoder's, also from the command line as torchrun and
Accelerate start it.
"""

import shutil
import subprocess
import sys
import time
from itertools import product

import datasets
import distributed_pretraining
import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file
from small_hub import race_rows, write_split
from small_models import RandomText, word_tokenizer

from companion import records
from companion.data import sources
from companion.data.masking import causal_batch
from companion.records import schema
from companion.setup import paths
from companion.setup.studies import load_study
from companion.storyworld.writer import NOTE
from companion.training import checkpoints, pretraining, trainer
from companion.training.architectures import LEAKY

SMOKE, DECODER = load_study("smoke"), "gpt2-mini-quarter"
RECIPE = SMOKE.decoder.pretrain.changed(
    steps=2, warmup=1, evaluations=2, evaluation_sequences=4, batch=4
)
STUDY = SMOKE.changed(decoder=SMOKE.decoder.changed(pretrain=RECIPE, limit_evaluation=4))


@pytest.fixture(scope="module")
def source():
    return sources.resolve("synthetic")


@pytest.fixture(scope="module")
def texts(source):
    return pretraining.texts(STUDY, DECODER, source)


def test_algorithms_start_from_the_same_weights_and_know_the_tokenizer_s_marks_or_are_refused(
    texts,
):
    tokenizer, text, held_out = texts
    assert (
        len(tokenizer) == STUDY.decoder.vocabulary
        and text.length == held_out.length == RECIPE.length
    )
    assert text.fingerprint != held_out.fingerprint
    start = [("original", 1), (LEAKY, 1), ("original", 2)]
    plain, leaky, other = (
        pretraining.untrained(STUDY, DECODER, name, seed, tokenizer) for name, seed in start
    )
    assert pretraining.same_weights(plain, leaky) and not pretraining.same_weights(plain, other)
    # not GPT-2's own
    assert plain.config.eos_token_id == tokenizer.eos_token_id < len(tokenizer)
    with pytest.raises(
        ValueError, match="no decoder has 'eigen_reg'; choose one of original, high"
    ):
        pretraining.untrained(STUDY, DECODER, "eigen_reg", 1, tokenizer)
    with pytest.raises(
        ValueError, match="no encoder has 'high_all_rows'; choose one of original, high"
    ):
        pretraining.untrained(STUDY, "mini-quarter", LEAKY, 1, tokenizer)


def test_the_loss_that_is_logged_is_that_of_the_targets(texts, tmp_path):
    """A decoder predicts one token fewer than it reads; at a vanishing rate both are the same
    model's.
    """
    tokenizer, text, held_out = texts
    network = pretraining.untrained(STUDY, DECODER, "original", 1, tokenizer)
    recipe = RECIPE.changed(
        steps=1, warmup=0, learning_rate=1e-9, batch=4, dropout=0.0, save_every=1
    )
    log = trainer.pretrain(
        network, text, causal_batch, recipe, folder=tmp_path, seed=1, measure=lambda _: {}
    )
    sampler = torch.randperm(len(text), generator=torch.Generator().manual_seed(1))
    batch = causal_batch([text[int(index)] for index in sampler[:4]])
    logged = next(entry["loss"] for entry in log if "loss" in entry)
    assert logged == pytest.approx(network(**batch).loss.item(), rel=1e-3)


def test_a_decoder_trains_and_is_asked_where_there_is_no_split_to_train_on(
    texts, tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path / name)
    tokenizer, text, held_out = texts
    network = pretraining.untrained(STUDY, DECODER, "high", 1, tokenizer)
    given = {"network": network, "tokenizer": tokenizer, "text": text, "held_out": held_out}
    log = pretraining.train(STUDY, DECODER, "high", 1, **given)
    assert [entry["step"] for entry in log if "heldout" in entry] == [0, 2]
    boolq = [
        {"question": "is it", "passage": f"It is {n}.", "answer": n % 2 == 0} for n in range(6)
    ]
    write_split(tmp_path, "google/boolq", "default", "validation", boolq)
    write_split(tmp_path, "ehovy/race", "middle", "test", race_rows(5))
    study = STUDY.changed(
        decoder=STUDY.decoder.changed(tasks=["boolq", "race"], splits={"race": "test"})
    )
    found, splits = pretraining.answers(study, network, tokenizer, sources.resolve(str(tmp_path)))
    assert {name: scores["items"] for name, scores in found.items()} == {"boolq": 4, "race": 4}
    assert [(split["split"], split["role"]) for split in splits] == [
        *product(("validation", "test"), ["evaluation"])
    ]


def test_a_decoder_with_random_weights_answers_variously_and_is_at_chance(texts, source):
    study = STUDY.changed(decoder=STUDY.decoder.changed(tasks=["boolq"], limit_evaluation=100))
    network = pretraining.untrained(STUDY, DECODER, "high", 0, texts[0])
    found = pretraining.answers(study, network, texts[0], source)[0]["boolq"]
    assert not found["constant"] and found["interval"][0] <= found["chance"] <= found["interval"][1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("nope", "mini", "high"), "no study is called 'nope'"),
        (("smoke", "nope", "high"), "trains no nope with high: choose one of"),
        (("smoke", "mini-quarter", "high"), "cannot be written"),
    ],
)
def test_a_wrong_name_and_a_build_that_cannot_be_written_are_one_line(
    given, said, tmp_path, capsys, monkeypatch
):
    (tmp_path / "build").write_text("no folder")
    monkeypatch.setattr(paths, "build", lambda study: tmp_path / "build")
    monkeypatch.setattr(
        pretraining, "texts", lambda *_: (word_tokenizer(), RandomText(), RandomText())
    )
    with pytest.raises(SystemExit) as stopped:
        pretraining.main(["--study", given[0], "--model", given[1], "--algorithm", given[2]])
    line = capsys.readouterr().err
    assert (
        stopped.value.code == 2
        and line.startswith("saobp: ")
        and said in line
        and line.count("\n") == 1
    )


def test_processes_wait_together_for_another_run_and_train_on_from_where_it_came_as_one_would(
    tmp_path,
):
    # with a penalty, which processes share
    alone = distributed_pretraining.train(tmp_path / "alone")
    start = load_file(tmp_path / "alone" / "work" / "checkpoint-10" / "model.safetensors")
    folder = tmp_path / "together"
    (folder / "work").mkdir(parents=True)
    command = [sys.executable, "-W", "ignore", distributed_pretraining.__file__, str(folder)]
    # another run holds the folder ...
    with FileLock(folder / "work" / ".lock"):
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while (
            len(list(folder.glob("ready-*"))) < distributed_pretraining.PROCESSES
            and run.poll() is None
        ):
            time.sleep(0.2)
        time.sleep(5)
        assert run.poll() is None and not list((folder / "work").glob("checkpoint-*"))
        # ... writes a checkpoint, and lets go
        shutil.copytree(
            tmp_path / "alone" / "work" / "checkpoint-10", folder / "work" / "checkpoint-10"
        )
    said = run.communicate(timeout=300)[0]
    assert run.returncode == 0 and "continuing from checkpoint-10" in said, said
    assert checkpoints.newest_whole(folder / "work").name == "checkpoint-20"
    together = load_file(folder / "end.safetensors")
    for name, weights in alone.items():
        torch.testing.assert_close(together[name], weights, rtol=1e-3, atol=1e-4)
    moved = max((alone[name] - start[name]).abs().max() for name in alone.keys() & start)
    # a hundred times what the two may differ by
    assert moved > 1e-2, moved


def test_wikitext_is_measured_where_the_source_has_it_and_its_text_is_the_one_named(
    source, tmp_path, monkeypatch
):
    monkeypatch.delenv("SAOBP_DATA", raising=False)
    tokenizer, *_ = pretraining.texts(SMOKE, "mini-quarter", source)
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(pretraining, "WIKITEXT_TOKENS", 2_048)
    network = pretraining.untrained(SMOKE, "mini-quarter", "high", 0, tokenizer)

    def measured(source):
        return pretraining.on_wikitext(SMOKE, "mini-quarter", network, tokenizer, source).get(
            "wikitext"
        )

    assert measured(source)["note"].startswith(NOTE)
    lines = [
        {"text": f" line {n} tells of the baker and of the smith and of a cat . \n"}
        for n in range(300)
    ]
    write_split(tmp_path / "hub", pretraining.WIKITEXT, "wikitext-103-v1", "validation", lines)
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path / "hub"))
    found = measured(sources.resolve("hub"))
    assert (found["config"], found["split"], found["tokens"]) == (
        "wikitext-103-v1",
        "validation",
        2_048,
    )
    assert found["perplexity_interval"][0] < found["perplexity"] < found["perplexity_interval"][1]
    # it knows nothing yet
    assert found["perplexity"] == pytest.approx(len(tokenizer), rel=0.2)
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path / "other"))
    assert measured(sources.resolve("hub")) is None
    # fills no block
    write_split(
        tmp_path / "other", pretraining.WIKITEXT, "wikitext-103-v1", "validation", lines[:1]
    )
    assert measured(sources.resolve("hub")) is None


def test_a_lost_network_is_not_taken_for_a_source_without_wikitext_but_with_a_token_file(
    monkeypatch,
):
    def lost(*given, **options):
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset_builder", lost)
    monkeypatch.setattr(datasets, "load_dataset", lost)
    given = ("mini-quarter", None, word_tokenizer(), sources.HubSource())
    with pytest.raises(sources.DataError, match=r"not to be had from the hub \(no network\)"):
        pretraining.on_wikitext(SMOKE, *given)
    none = pretraining.on_wikitext(SMOKE.changed(tokens="text.tar.bz2"), *given)
    record = records.read(paths.results("laptop") / "04-pretrain-mini-high-42.json")
    del record["metrics"]["wikitext"]
    assert none == {"wikitext": None} and not schema.flaw(
        record | {"metrics": record["metrics"] | none}
    )
