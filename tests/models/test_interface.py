"""A refined model under what trains it: the fused operation, Trainer, autocast, compilation,
processes.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import families
import pytest
import torch
from families import (
    CAUSAL,
    CHECKPOINTING,
    CLOSE,
    VOCABULARY,
    build,
    generated,
    padding_mask,
    run,
    seen,
    tokens,
)
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

import saobp
from saobp.models import interface, refined_attention
from saobp.models.apply import raw_attentions


def gradients(model, ids, mask):
    """Return the gradients of a masked-token or next-token loss."""
    model.zero_grad()
    model(ids, attention_mask=mask, labels=ids).loss.backward()
    return {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "modernbert"])
def test_gradients_agree_fused_materialised_and_checkpointed(family):
    model = saobp.apply(build(family), "high", 1.5, learn="head").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    fused = gradients(model, tokens(), padding_mask())
    with raw_attentions(model) as pairs:
        materialised = gradients(model, tokens(), padding_mask())
    # they keep no graph
    assert pairs and not any(one.requires_grad for pair in pairs for one in pair)
    getattr(model, f"{CHECKPOINTING}_enable")()
    checkpointed = gradients(model, tokens(), padding_mask())
    assert any("saobp" in name for name in fused)
    for name, gradient in fused.items():
        torch.testing.assert_close(gradient, materialised[name], **CLOSE)
        torch.testing.assert_close(gradient, checkpointed[name], **CLOSE)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("padded", [False, True])
def test_padding_alone_takes_the_fused_operation(family, padded, monkeypatch):
    calls = []
    fused = refined_attention.saobp_attention
    monkeypatch.setattr(
        refined_attention,
        "saobp_attention",
        lambda *given, **rest: calls.append(1) or fused(*given, **rest),
    )
    model = saobp.apply(build(family), "high", 1.5)
    run(model, tokens(), padding_mask() if padded else None)
    assert len(calls) == 2
    run(model, tokens(), padding_mask(), output_attentions=True)
    # which has no weights to return
    assert len(calls) == 2


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_second_derivatives_are_had_as_the_error_says(family):
    model = saobp.apply(build(family).double(), "high", 1.5)
    embeddings = model.get_input_embeddings()(tokens()).detach().requires_grad_()

    def steepness(embeddings, **options):
        logits = model(inputs_embeds=embeddings, use_cache=False, **options).logits
        (slope,) = torch.autograd.grad(logits.tanh().sum(), embeddings, create_graph=True)
        return slope.square().sum()

    with pytest.raises(RuntimeError, match="second derivatives; .* with output_attentions=True"):
        steepness(embeddings)
    advised = partial(steepness, output_attentions=True)
    (gradient,) = torch.autograd.grad(advised(embeddings), embeddings)
    step = 1e-5 * torch.randn_like(embeddings)
    difference = advised(embeddings + step) - advised(embeddings - step)
    torch.testing.assert_close((gradient * step).sum() * 2, difference, rtol=1e-3, atol=0)


def test_a_mask_changed_in_place_is_looked_at_again():
    model = saobp.apply(build("bert"), "high", 1.5)
    mask = torch.zeros(2, 1, 9, 9)
    model(tokens(), attention_mask=mask)
    mask[1, :, :, 6:] = torch.finfo(mask.dtype).min
    changed = model(tokens(), attention_mask=mask).logits
    torch.testing.assert_close(
        changed, model(tokens(), attention_mask=padding_mask()).logits, **CLOSE
    )


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("show", [False, True])
def test_statistics_stay_in_float32_under_autocast_and_models_in_half_precision_run(family, show):
    model = saobp.apply(build(family), "high", 1.5)
    exact = run(model, tokens(), padding_mask())
    with torch.autocast("cpu", torch.bfloat16), raw_attentions(model) as pairs:
        run(model, tokens(), padding_mask(), use_cache=False)
    raw, refined = pairs[0]
    assert raw.dtype == refined.dtype == torch.float32
    for matrix in (raw, refined):
        torch.testing.assert_close(
            matrix.sum(-1), torch.ones_like(matrix.sum(-1)), atol=1e-5, rtol=0
        )
    with torch.autocast("cpu", torch.bfloat16):
        mixed = run(model, tokens(), padding_mask(), output_attentions=show)
    assert mixed.isfinite().all()
    torch.testing.assert_close(mixed.float(), exact, atol=0.05 * exact.abs().max().item(), rtol=0)
    half = saobp.apply(build(family).bfloat16(), "high", 1.5, learn="head")
    logits = run(half, tokens(), padding_mask(), output_attentions=show, use_cache=False)
    assert logits.dtype == torch.bfloat16 and logits.isfinite().all()


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("train", [True, False])
def test_plain_attention_trains_in_float32_under_autocast_on_a_cpu(family, train, monkeypatch):
    seen = []

    def spy(module, query, *args, **kwargs):
        seen.append((query.dtype, torch.is_autocast_enabled("cpu")))
        return sdpa_attention_forward(module, query, *args, **kwargs)

    model = saobp.apply(build(family), "none")
    exact = run(model, tokens(), padding_mask())
    monkeypatch.setattr(interface, "sdpa_attention_forward", spy)
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(train):
        mixed = run(model, tokens(), padding_mask(), use_cache=False)
    assert set(seen) == ({(torch.float32, False)} if train else {(torch.bfloat16, True)})
    torch.testing.assert_close(mixed.float(), exact, atol=0.05 * exact.abs().max().item(), rtol=0)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_trainer_trains_in_bfloat16_with_checkpointing(family, tmp_path):
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    model = saobp.apply(build(family), "high", 0.5, learn="head")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    arguments = TrainingArguments(
        tmp_path,
        max_steps=3,
        per_device_train_batch_size=2,
        bf16=True,
        use_cpu=True,
        report_to="none",
        **{CHECKPOINTING: True},
        learning_rate=1e-2,
        logging_steps=1,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    rows = [
        {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row}
        for row in tokens(8)
    ]
    trainer = Trainer(model, arguments, train_dataset=rows)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 3 and all(0 < loss < float("inf") for loss in losses)
    moved = [
        name
        for name, parameter in model.named_parameters()
        if not torch.equal(parameter, before[name])
    ]
    assert any("saobp" in name for name in moved)
    trainer.save_model(tmp_path / "saved")
    loaded = type(model).from_pretrained(tmp_path / "saved")
    # as the trained model's forward stays
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(run(loaded, tokens()).float(), run(model.eval(), tokens()))


NO_COMPILER = pytest.mark.skipif(
    not shutil.which("c++") and not shutil.which("g++"), reason="no C++ compiler"
)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=NO_COMPILER)])
@pytest.mark.parametrize("family", ["bert", "llama"])
# the compilers' own warnings are not ours to mend
@pytest.mark.filterwarnings("default")
def test_compiled_models_agree_with_eager(family, backend):
    model = saobp.apply(build(family), "high", 1.5, learn="head")
    call = {"use_cache": False}
    expected = run(model, tokens(), padding_mask(), **call)
    grads = gradients(model, tokens(), padding_mask())
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    torch.testing.assert_close(run(compiled, tokens(), padding_mask(), **call), expected, **CLOSE)
    model.zero_grad()
    compiled(tokens(), attention_mask=padding_mask(), labels=tokens(), **call).loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, grads[name], **CLOSE)


TRACED = [("high", family) for family in ("bert", "gpt2", "llama", "modernbert", "t5")]


@pytest.mark.parametrize(("factor", "family"), [*TRACED, ("elemmul", "bert"), ("elemmul", "llama")])
# the tracer's, of what transformers reads from a tensor
@pytest.mark.filterwarnings("ignore")
def test_a_traced_model_gives_the_numbers_of_any_padding_and_length(family, factor):
    model = saobp.apply(build(family), factor, 1.5)
    if family in CAUSAL:
        # which a trace does not keep
        model.config.use_cache = True
    logits = Logits(model)
    traced = torch.jit.trace(logits, (tokens(), padding_mask()), check_trace=False)
    for length, padded in ((9, 4), (12, 5)):
        ids = tokens(3, length)
        mask = torch.ones_like(ids)
        mask[0, padded:] = 0
        torch.testing.assert_close(
            traced(ids, mask)[mask.bool()], logits(ids, mask)[mask.bool()], **CLOSE
        )


class Logits(torch.nn.Module):
    """A model's first output alone, which is what a trace can hold."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        return self.model(ids, attention_mask=mask)[0]


EXPORTED = [
    ("bert", "high", {}),
    ("bert", "low", {"steps": 2, "damping": 0.3, "exclude_self": False}),
    ("bert", "high", {"learn": "head"}),
    ("bert", "elemmul", {}),
    ("bert", "sinkhorn", {}),
    ("gpt2", "high", {}),
    ("llama", "high", {}),
    ("modernbert", "high", {}),
    ("t5", "high", {}),
]


@pytest.fixture
def exporter(monkeypatch):
    """What the exporter asks of the package onnx, where that is not installed."""
    if importlib.util.find_spec("onnx") is None:
        nodes = SimpleNamespace(graph=SimpleNamespace(node=[]))
        substitute = SimpleNamespace(load_model_from_string=lambda text: nodes)
        monkeypatch.setitem(sys.modules, "onnx", substitute)


@pytest.mark.parametrize(("family", "factor", "options"), EXPORTED)
# the exporter's, of itself and of what transformers reads from a tensor
@pytest.mark.filterwarnings("ignore")
def test_the_torchscript_exporter_of_onnx_exports_a_refined_model(
    family, factor, options, exporter, tmp_path
):
    model = saobp.apply(build(family), factor, 0.5, **options)
    model.config.use_cache = False
    logits, file = Logits(model).eval(), tmp_path / "model.onnx"
    names = {"input_names": ["ids", "mask"], "output_names": ["logits"]}
    sizes = dict.fromkeys(["ids", "mask", "logits"], {0: "batch", 1: "length"})
    torch.onnx.export(
        logits, (tokens(), padding_mask()), file, dynamo=False, dynamic_axes=sizes, **names
    )
    assert file.stat().st_size
    if importlib.util.find_spec("onnxruntime") is None:
        return
    session = importlib.import_module("onnxruntime").InferenceSession(file)
    for length, padded in ((9, 4), (12, 5)):
        ids, mask = tokens(3, length), torch.ones(3, length, dtype=torch.long)
        mask[0, padded:] = 0
        (found,) = session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})
        real, expected = mask.bool(), logits(ids, mask)
        torch.testing.assert_close(torch.from_numpy(found)[real], expected[real], **CLOSE)


def in_threads(work, count: int = 4) -> list:
    """Run `work(number)` in threads at once and return what each returned or raised."""
    meet = threading.Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        jobs = [
            pool.submit(lambda number: (meet.wait(), work(number))[1], number)
            for number in range(count)
        ]
    return [job.exception() or job.result() for job in jobs]


@pytest.mark.parametrize("family", ["gpt2", "mistral"])
def test_threads_generate_with_one_model_what_each_would_alone(family):
    model, ways = (
        saobp.apply(build(family), "high", 1.5),
        [{}, {"num_beams": 2}, {"use_cache": False}, {}],
    )

    def generate(number):
        return [
            generated(model, tokens(2, 9 + number, seed=number), 6, **ways[number])
            for _ in range(3)
        ]

    alone = [generate(number) for number in range(4)]
    for expected, made in zip(alone, in_threads(generate), strict=True):
        assert not isinstance(made, Exception), made
        assert all(torch.equal(*pair) for pair in zip(expected, made, strict=True))


def test_each_thread_sees_the_attention_of_its_own_pass():
    model = saobp.apply(build("llama"), "high", 1.5)

    def look(number):
        ids, call = tokens(1, 5 + number, seed=number), {"use_cache": bool(number % 2)}
        return [seen(model, ids, **call)[-1][1] for _ in range(5)]

    alone = [look(number)[0] for number in range(4)]
    for expected, found in zip(alone, in_threads(look), strict=True):
        assert not isinstance(found, Exception), found
        assert all(torch.equal(expected, one) for one in found)
    assert not any(module.watches for module in model.modules() if hasattr(module, "watches"))


def train_a_step(rank: int, folder: str) -> None:
    """Train one step on this process's half of the batch and leave the weights."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    model = saobp.apply(build("bert"), "high", 1.5, learn="head")
    parallel = DistributedDataParallel(model)
    step(model, parallel, tokens(4)[2 * rank : 2 * rank + 2])
    torch.save(model.state_dict(), f"{folder}/weights-{rank}.pt")
    distributed.barrier()
    # torch takes its model apart with the GIL that gloo's thread may be waiting for: both wait
    # forever
    os._exit(0)


def step(model, called, ids):
    """Take one step of gradient descent on the mean loss of `ids`."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logits = called(ids).logits
    torch.nn.functional.cross_entropy(logits.view(-1, VOCABULARY), ids.flatten()).backward()
    optimizer.step()


FORKS = """if True:
    import os, sys
    sys.path[:0] = sys.argv[2:]
    from test_interface import train_a_step
    for rank in range(2):
        if os.fork() == 0:
            train_a_step(rank, sys.argv[1])
    assert [os.wait()[1] for _ in range(2)] == [0, 0]
"""


def test_two_processes_train_a_step_as_one_does(tmp_path):
    # forked from a process without torch's threads, for which a fork of this one could wait forever
    folders = [str(tmp_path), os.path.dirname(__file__), os.path.dirname(families.__file__)]
    subprocess.run([sys.executable, "-c", FORKS, *folders], check=True, timeout=300)
    model = saobp.apply(build("bert"), "high", 1.5, learn="head")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    step(model, model, tokens(4))
    for rank in range(2):
        weights = torch.load(tmp_path / f"weights-{rank}.pt")
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(weights[name], parameter.detach(), **CLOSE)
    learned = [name for name in before if "saobp" in name]
    assert learned and all(not torch.equal(before[name], weights[name]) for name in learned)
