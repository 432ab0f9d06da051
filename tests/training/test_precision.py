"""What a model is trained in: "auto" takes the faster of two measured times, and measuring leaves
no trace.
"""

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from small_models import RandomText, network, word_tokenizer

from companion.data.masking import SeededMasking
from companion.setup import paths
from companion.training import precision, regularizers


@pytest.fixture
def model(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "cache", lambda: tmp_path)
    monkeypatch.setattr(precision, "has_bf16", lambda: True)
    return network()


@pytest.fixture
def batch():
    return SeededMasking(word_tokenizer(), 0.3, 0)([RandomText()[k] for k in range(4)])


@pytest.mark.parametrize(("bf16", "name"), [(2.0, "fp32"), (0.5, "bf16")])
def test_auto_takes_the_faster_and_times_once_for_a_model_and_a_shape(
    monkeypatch, tmp_path, model, batch, bf16, name
):
    calls, seconds = [], {"fp32": 1.0, "bf16": bf16}
    monkeypatch.setattr(precision, "timed", lambda *given: calls.append(given) or seconds)
    longer = {name: torch.cat([values, values]) for name, values in batch.items()}
    # what that adds is no part of the model
    penalised = regularizers.attach(network("entropy_reg"), "entropy_reg")
    for one, given in ((model, batch), (penalised, batch), (model, longer), (model, longer)):
        assert precision.choose("auto", one, given) == precision.Precision(name, "faster", seconds)
    assert len(calls) == 2 and len(json.loads((tmp_path / "precision.json").read_text())) == 2


def test_runs_that_start_together_train_in_one_precision(monkeypatch, model, batch):
    others = threading.Barrier(3, timeout=0.5)

    def timed(*given):
        # alone
        with contextlib.suppress(threading.BrokenBarrierError):
            others.wait()
        return next(measured)

    measured = iter(
        [{"fp32": 1.0, "bf16": 2.0}, {"fp32": 2.0, "bf16": 1.0}, {"fp32": 2.0, "bf16": 1.0}]
    )
    monkeypatch.setattr(precision, "timed", timed)
    with ThreadPoolExecutor(3) as threads:
        chosen = [*threads.map(lambda _: precision.choose("auto", model, batch).name, range(3))]
    assert chosen == ["fp32"] * 3


def test_a_recipe_that_names_its_precision_is_not_timed(monkeypatch, model, batch):
    monkeypatch.setattr(precision, "timed", lambda *given: pytest.fail("timed"))
    assert precision.choose("bf16", model, batch) == precision.Precision("bf16", "recipe")
    monkeypatch.setattr(precision, "has_bf16", lambda: False)
    assert precision.choose("auto", model, batch) == precision.Precision("fp32", "no bfloat16")


def test_measuring_changes_neither_the_model_nor_what_is_drawn_after_it(model, batch):
    before, state = (
        {name: values.clone() for name, values in model.state_dict().items()},
        torch.get_rng_state(),
    )
    seconds = precision.timed(model, batch)
    assert set(seconds) == {"fp32", "bf16"} and min(seconds.values()) > 0
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
