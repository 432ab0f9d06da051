"""Pretraining: the same masks after a kill, the same weights, and no number where there is none."""

import json
import math
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_models import RECIPE, RandomText, network, pretrain, word_tokenizer
from transformers import TrainerCallback

from companion import records
from companion.data.masking import SeededMasking
from companion.evaluation import heldout
from companion.evaluation.heldout import HeldOut
from companion.setup.sizes_and_strengths import body_parameters
from companion.statistics import over_samples
from companion.training import architectures, checkpoints, devices, trainer
from companion.training.trainer import evaluation_steps
from companion.training.watch import TrainingFailed

TOKENIZER = word_tokenizer()


def items(count=8):
    return [RandomText()[i] for i in range(count)]


def test_masks_follow_sequence_seed_and_epoch_and_nothing_else():
    first = SeededMasking(TOKENIZER, 0.15, 1)(items())
    torch.manual_seed(99)
    other_order = SeededMasking(TOKENIZER, 0.15, 1)(items()[::-1])
    # as another process of a distributed run sees it
    half = SeededMasking(TOKENIZER, 0.15, 1)(items()[4:])
    assert all(torch.equal(first[name], other_order[name].flip(0)) for name in first)
    assert all(torch.equal(first[name][4:], half[name]) for name in first)
    assert not torch.equal(first["labels"], SeededMasking(TOKENIZER, 0.15, 2)(items())["labels"])
    assert not torch.equal(
        first["labels"], SeededMasking(TOKENIZER, 0.15, 1, epoch=1)(items())["labels"]
    )


def test_masks_are_new_in_every_epoch_of_a_run(tmp_path):
    masking, seen = SeededMasking(TOKENIZER, 0.15, 1), []

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            seen.append(masking.epoch)

    # 50 sequences: 12 steps an epoch
    pretrain(network("original"), tmp_path, Watch(), masking=masking, save_every=30)
    assert seen == [0] * 12 + [1] * 12 + [2] * 6


def test_processes_that_mask_beside_a_run_leave_its_weights_and_losses_as_they_are(
    tmp_path, monkeypatch
):
    found = []
    for count in (0, 2):
        monkeypatch.setattr(trainer, "loaders", lambda count=count: count)
        model = network("original", dropout=0.1)
        # two epochs and a half
        log = pretrain(model, tmp_path / str(count), save_every=30)
        found.append((model.state_dict(), [entry["loss"] for entry in log if "loss" in entry]))
    (one, losses), (other, same) = found
    assert losses == same and all(torch.equal(one[name], other[name]) for name in one)


def test_masks_are_80_10_10_at_the_stated_share_and_never_of_special_tokens():
    special = torch.tensor([TOKENIZER.cls_token_id, TOKENIZER.sep_token_id, TOKENIZER.pad_token_id])
    batch = SeededMasking(TOKENIZER, 0.9, 0)([{"input_ids": special}] * 20)
    assert (batch["labels"] == -100).all() and torch.equal(
        batch["input_ids"], special.expand(20, 3)
    )
    text = RandomText(sequences=400, length=64)
    batch = SeededMasking(TOKENIZER, 0.15, 0)([text[i] for i in range(400)])
    chosen = batch["labels"] != -100
    original = torch.stack([text[i]["input_ids"] for i in range(400)])
    assert chosen.float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert torch.equal(batch["labels"][chosen], original[chosen])
    assert torch.equal(batch["input_ids"][~chosen], original[~chosen])
    masked = (batch["input_ids"][chosen] == TOKENIZER.mask_token_id).float().mean().item()
    kept = (batch["input_ids"][chosen] == original[chosen]).float().mean().item()
    assert masked == pytest.approx(0.8, abs=0.03) and kept == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    ("steps", "evaluations"), [(60_000, 20), (25, 20), (5, 20), (100, 2), (1, 1)]
)
def test_the_schedule_has_both_ends_and_enough_points(steps, evaluations):
    schedule = evaluation_steps(steps, evaluations)
    assert schedule[0] == 0 and schedule[-1] == steps and schedule == sorted(set(schedule))
    assert min(evaluations, steps + 1) <= len(schedule) <= max(evaluations, 2)


def test_the_sparse_head_gives_the_loss_and_gradient_of_the_dense_one():
    batch, sparse = SeededMasking(TOKENIZER, 0.15, 0)(items()), network("original", seed=0)
    dense = super(architectures.SparseBertForMaskedLM, sparse).forward(**batch).loss
    words, loss = sparse.bert.embeddings.word_embeddings.weight, sparse(**batch).loss
    torch.testing.assert_close(loss, dense)
    torch.testing.assert_close(torch.autograd.grad(loss, words), torch.autograd.grad(dense, words))


def test_table_4_counts_its_parameters():
    counts = {
        name: round(body_parameters(name, 30522) / 1e6, 2) for name in ("mini", "small", "medium")
    }
    assert counts == {"mini": 11.17, "small": 28.76, "medium": 41.37}


def test_losses_and_what_is_shown_of_attention_are_spread_over_a_text_that_may_be_one_long_document():
    assert heldout.sample(range(1000), 4) == [0, 250, 500, 750] and heldout.sample(range(3), 4) == [
        0,
        1,
        2,
    ]
    text, masking = RandomText(), SeededMasking(TOKENIZER, 0.15, 0)
    for which, places in (("even", [n * 50 // 16 for n in range(16)]), ("first", range(16))):
        shown = HeldOut(text, masking, 50, 10, which=which).shown["input_ids"]
        assert torch.equal(shown, torch.stack([text[place]["input_ids"] for place in places]))


def test_the_held_out_set_says_what_a_hand_made_pass_says_with_an_interval_over_whole_sequences():
    model, masking = network(dropout=0.1, seed=0), SeededMasking(TOKENIZER, 0.15, 0)
    measure = HeldOut(RandomText(), masking, 10, 4, which="first")
    model.train()
    state = torch.get_rng_state()
    measured, found = measure(model), measure.perplexity_by_sequence(model)
    assert model.training and torch.equal(state, torch.get_rng_state()), "it leaves no trace"
    model.eval()
    alone = [masking([item]) for item in items(10)]
    counts = [int((batch["labels"] != -100).sum()) for batch in alone]
    with torch.no_grad():
        nats = [model(**batch).loss.item() * count for batch, count in zip(alone, counts)]
    expected = over_samples(nats, counts)
    assert measured["loss"] == pytest.approx(sum(nats) / sum(counts), rel=1e-6)
    assert measured["perplexity"] == pytest.approx(math.exp(expected.value), rel=1e-6)
    assert found["perplexity"] == pytest.approx(measured["perplexity"], rel=1e-6)
    assert found["perplexity_interval"] == pytest.approx(
        [math.exp(expected.low), math.exp(expected.high)], rel=1e-5
    )
    assert found["sequences"] == 10 and len(measured["entropy"]) == len(measured["gtd"]) == 4


def test_attention_is_followed_on_all_that_a_model_reads_of_a_pair():
    model, words = network("high"), items(3)
    batch = {"input_ids": torch.stack([item["input_ids"] for item in words])}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    second = torch.zeros_like(batch["input_ids"])
    assert heldout.flow(model, batch) == heldout.flow(model, batch | {"token_type_ids": second})
    second[:, 8:] = 1
    assert heldout.flow(model, batch) != heldout.flow(model, batch | {"token_type_ids": second})


def test_sequences_without_a_token_to_predict_do_not_make_the_held_out_loss_nan():
    model = network("original", seed=0)
    rare = SeededMasking(TOKENIZER, 0.02, 0)
    alone = HeldOut(RandomText(), rare, 50, 1)
    assert 0 < len(alone.batches) < 50 and math.isfinite(alone(model)["loss"])
    assert alone(model)["loss"] == pytest.approx(
        HeldOut(RandomText(), rare, 50, 50)(model)["loss"], rel=1e-5
    )
    with pytest.raises(
        ValueError, match="evaluation_sequences: 1 held-out sequences have no token to predict"
    ):
        HeldOut(RandomText(), SeededMasking(TOKENIZER, 1e-9, 0), 1, 1)


def test_a_run_that_ends_worse_than_it_began_and_a_text_that_fills_no_batch_are_said(tmp_path):
    measure = HeldOut(RandomText(), SeededMasking(TOKENIZER, 0.15, 0), 8, 4)
    says = r"held-out loss rose from .* in 30 steps.*lower the learning rate of 1$"
    # the second time it finds the run finished
    for _ in range(2):
        with pytest.raises(TrainingFailed, match=says):
            pretrain(
                network("original", seed=0), tmp_path, measure=measure, learning_rate=1.0, warmup=0
            )
    with pytest.raises(
        TrainingFailed,
        match="only 0 of 30 steps were made: the text has fewer sequences than a batch",
    ):
        pretrain(network("original"), tmp_path / "few", text=RandomText(sequences=3))


def test_a_run_learns_logs_and_summarises(tmp_path):
    text, masking = RandomText(words=5), SeededMasking(TOKENIZER, 0.15, 0)
    given = {"text": text, "masking": masking, "measure": HeldOut(text, masking, 8, 4)}
    log = pretrain(network(seed=0), tmp_path, learning_rate=3e-3, **given)
    curve, found = heldout.curve(log), heldout.summary(log)
    assert [point["step"] for point in curve] == evaluation_steps(30, 4)
    assert curve[-1]["loss"] < curve[0]["loss"] - 1
    assert found["steps"] == 30 and found["perplexity"] == curve[-1]["perplexity"]
    assert all(len(point["entropy"]) == len(point["gtd"]) == 4 for point in curve)


def test_a_process_takes_one_device_however_many_there_are_and_its_whole_share_of_a_batch(
    tmp_path, monkeypatch
):
    made = trainer.arguments(RECIPE, tmp_path, 1)
    assert made.train_batch_size == RECIPE.batch and made.n_gpu <= 1
    monkeypatch.setattr(type(made), "n_gpu", property(lambda self: 1 if self._n_gpu == 1 else 2))
    assert trainer.arguments(RECIPE, tmp_path, 1).train_batch_size == RECIPE.batch
    monkeypatch.setattr(devices, "processes", lambda: SimpleNamespace(num_processes=3))
    with pytest.raises(
        ValueError, match="batch: 4 sequences a step cannot be shared by 3 processes"
    ):
        trainer.arguments(RECIPE, tmp_path, 1)


def test_the_precision_is_the_recipes_whatever_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert trainer.arguments(RECIPE, tmp_path, 1).mixed_precision == "no"
    halved = RECIPE.changed(precision="bf16")
    assert trainer.arguments(halved, tmp_path, 1).mixed_precision == "bf16"
    with pytest.raises(ValueError, match="'auto' stands only in early records: name bf16 or fp32"):
        trainer.arguments(RECIPE.changed(precision="auto"), tmp_path, 1)


def test_a_run_whose_checkpoints_are_all_damaged_starts_again_and_clears_away_checkpoints_alone(
    tmp_path,
):
    aside = tmp_path / "checkpoint-3.bak"
    aside.mkdir()
    for steps, kept in (
        (18, ["checkpoint-12", "checkpoint-18"]),
        (12, ["checkpoint-6", "checkpoint-12"]),
    ):
        pretrain(network(), tmp_path, steps=steps)
        assert aside.is_dir() and [path.name for path in checkpoints.written(tmp_path)] == kept
        assert checkpoints.newest_whole(tmp_path).name == kept[-1]
        for folder in checkpoints.written(tmp_path):
            (folder / "model.safetensors").write_bytes(b"")


def test_a_checkpoint_whose_log_has_another_form_is_refused_in_one_line(tmp_path, monkeypatch):
    with monkeypatch.context() as former:
        former.setattr(records, "device", lambda precision: f"a CPU, 1 of 2 threads, {precision}")
        pretrain(network(), tmp_path, steps=6)
    said = r"checkpoint-6: no checkpoint of this version \(device: .*\): delete .* and run again$"
    with pytest.raises(ValueError, match=said):
        pretrain(network(), tmp_path, steps=6)


def test_a_batch_without_a_word_to_predict_costs_nothing():
    model = network("original")
    tokens = torch.randint(5, 50, (2, 8))
    for count in ({}, {"num_items_in_batch": torch.tensor(0)}, {"num_items_in_batch": 0}):
        loss = model(tokens, labels=torch.full_like(tokens, -100), **count).loss
        loss.backward()
        assert loss.item() == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("runs", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_run_killed_at_random_moments_ends_with_the_weights_of_one_never_killed(tmp_path, runs):
    script = Path(__file__).parents[1] / "helpers" / "killed_runs.py"
    command = [sys.executable, "-W", "ignore", str(script), str(tmp_path), str(runs), "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["kills"] == [2] * runs, outcome
    assert outcome["killed"] == [outcome["whole"]] * runs


def test_a_rate_that_falls_at_the_end_is_whole_until_then(tmp_path):
    falls = {"scheduler": "warmup_stable_decay", "steps": 20}
    log = pretrain(network("original"), tmp_path, **falls)
    rates = [
        entry["learning_rate"] / RECIPE.learning_rate for entry in log if "learning_rate" in entry
    ]
    assert rates[5:16] == pytest.approx([1.0] * 11) and RECIPE.changed(**falls).full_rate == 16
    # each the rate of the step that it logs
    assert 1 > rates[17] > rates[18] > rates[19] > 0


def test_a_finished_run_is_left_as_it_is_and_a_run_notes_who_trained_it_on_what_and_a_continued_one_both(
    tmp_path, monkeypatch
):
    def train(commit):
        monkeypatch.setattr(records, "commit", lambda: commit)
        # the next step would not be nothing
        model, falls = network(dropout=0.1), {"scheduler": "constant_with_warmup"}
        found = heldout.summary(
            pretrain(model, tmp_path, measure=lambda _: {"perplexity": 1.0}, steps=12, **falls)
        )
        return model.state_dict(), found["training"], found["sittings"]

    weights, losses, (first,) = train("abc123")
    assert (first["step"], first["commit"], first["device"]) == (
        0,
        "abc123",
        records.device("fp32"),
    )
    again, same, sittings = train("def456")
    assert all(torch.equal(weights[name], again[name]) for name in weights) and same == losses
    assert losses[-1]["step"] == 12 and sittings == [first], (
        "the code that reads a finished run did not train it"
    )
    *_, before, last = checkpoints.written(tmp_path)
    shutil.rmtree(last)
    *_, (_, second) = train("def456")
    assert second["commit"] == "def456" and f"checkpoint-{second['step']}" == before.name


@pytest.mark.parametrize("what", ["loss", "weights"])
# with steps to go, and at the very end
@pytest.mark.parametrize("last", [5, 10])
def test_a_loss_or_weights_that_are_no_numbers_never_push_out_the_last_good_checkpoint(
    tmp_path, last, what
):
    def spoil(module, args, output):
        output.loss = output.loss * math.inf

    class Poison(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            if state.global_step == last and what == "weights":
                next(model.parameters()).data.fill_(float("nan"))
            if state.global_step == last - 1 and what == "loss":
                model.register_forward_hook(spoil)

    said = (
        f"the loss is inf at step {last}"
        if what == "loss"
        else f"the weights are no numbers at step {last}"
    )
    with pytest.raises(
        TrainingFailed, match=f"{said}.*checkpoint-{last - 1}: lower the learning rate of 0.001"
    ):
        pretrain(network("original"), tmp_path, Poison(), steps=10, save_every=1)
    assert checkpoints.newest_whole(tmp_path).name == f"checkpoint-{last - 1}"


# bytes: for no weights, and in the middle of the optimiser
@pytest.mark.parametrize("most", [1_000, 2_000_000])
def test_a_full_disk_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path, most):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    class FillTheDisk(TrainerCallback):
        """After the first checkpoint no file may grow beyond some bytes: the system refuses, as on
        a full disk.
        """

        def on_save(self, args, state, control, **kwargs):
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, limit[1]))

    try:
        with pytest.raises(
            TrainingFailed, match=r"could not be written \(.*checkpoint-6: free space there"
        ):
            pretrain(network(), tmp_path, FillTheDisk(), steps=12)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert checkpoints.newest_whole(tmp_path).name == "checkpoint-6"
    # and goes on from there
    log = pretrain(network(), tmp_path, steps=12)
    assert [entry["step"] for entry in log if "sitting" in entry] == [0, 6]


def test_a_model_is_measured_in_the_precision_of_its_weights_while_it_trains_and_after(tmp_path):
    model, tokens, seen = network(), torch.arange(5, 21)[None], []

    def answers(model):
        """What a model says, and what its weights say in a model that nobody trained."""
        loaded = network(seed=2)
        loaded.load_state_dict(model.state_dict())
        with torch.no_grad():
            both = (model, loaded.to(model.device))
            return [each.eval()(input_ids=tokens, labels=tokens).logits.to("cpu") for each in both]

    def measure(model):
        seen.append(answers(model))
        return {}

    pretrain(model, tmp_path, measure=measure, steps=6, save_every=6, warmup=1, precision="bf16")
    assert len(seen) > 3
    for trained, loaded in (*seen, answers(model)):
        assert torch.equal(trained, loaded)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate ..."), MemoryError()]
)
def test_a_batch_that_memory_does_not_hold_ends_in_one_line(tmp_path, error):
    def short_of_memory(module, args, kwargs):
        raise error

    model = network()
    model.register_forward_pre_hook(short_of_memory, with_kwargs=True)
    with pytest.raises(
        TrainingFailed, match="batch: there is no memory for 4 sequences at a time: take fewer"
    ):
        pretrain(model, tmp_path)


@pytest.mark.parametrize(
    ("steps", "save_every", "expected"), [(120, 100, 5), (12000, 500, 50), (10, 7, 1), (3, 9, 1)]
)
def test_a_checkpoint_ends_a_logged_mean(tmp_path, steps, save_every, expected):
    recipe = RECIPE.changed(steps=steps, save_every=save_every, warmup=1)
    assert (
        trainer.arguments(recipe, tmp_path, 1).logging_steps == expected
        and save_every % expected == 0
    )
