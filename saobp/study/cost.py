"""What refinement costs a whole model: multiply-accumulates, parameters, time and memory (Table 9).

Every way of computing attention takes its turn in one process, because a machine's speed drifts, and what is
reported is a median with its quartiles. Original comes twice: on torch's fused attention, and spelled out
(`eager`), which is what an unfused refinement has to be compared with.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.initialization import no_init_weights

from saobp.study import models
from saobp.study.timing import in_a_process, interleaved, peak_above_now

WAYS = ("original", "original_eager", "high", "low", "elemmul")
SEEN = ("original_eager", "high", "low", "elemmul")  # ways whose attention products a counter can see
MASKED = 0.15


def build(model: str, vocabulary: int, way: str, *, dropout: float = 0.1) -> nn.Module:
    """Return an untrained masked language model of a size whose attention is computed one of the `WAYS`."""
    torch.manual_seed(0)
    network = models.SparseBertForMaskedLM(models.bert_config(model, vocabulary, dropout=dropout))
    if way.startswith("original"):
        network.set_attn_implementation("eager" if way == "original_eager" else "sdpa")
        return network
    return models.refine_with(network, way, models.strength_of(model))


def batch(sequences: int, length: int, vocabulary: int, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Return random tokens, 15 % of which are to be predicted."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(vocabulary, (sequences, length), generator=generator)
    chosen = torch.rand(tokens.shape, generator=generator) < MASKED
    inputs = {"input_ids": tokens, "labels": tokens.masked_fill(~chosen, -100)}
    return {name: values.to(device) for name, values in inputs.items()}


def training_step(network: nn.Module, inputs: dict[str, Tensor]) -> Callable[[], None]:
    """Return a step: forward, backward, clipping and AdamW, vocabulary logits at masked positions only."""
    network.train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)

    def call() -> None:
        network(**inputs).loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return call


def inference(network: nn.Module, inputs: dict[str, Tensor]) -> Callable[[], None]:
    """Return a forward pass of the encoder without its vocabulary head."""
    network.eval()

    def call() -> None:
        with torch.inference_mode():
            network.bert(inputs["input_ids"])

    return call


KINDS = {"train": training_step, "inference": inference}


def measure(model: str, vocabulary: int, sequences: int, length: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Time training and inference of every way, in turns, and measure each one's peak of memory.

    Returns way -> {"train": {"milliseconds", "ratio", "tokens_per_second", "gmacs", "peak_mib"}, "inference": {…,
    "samples_per_second"}, "parameters"}; times are {"median", "low", "high"}, low and high the quartiles.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    inputs = batch(sequences, length, vocabulary, device)
    ways: dict[str, dict[str, Any]] = {way: {} for way in WAYS}
    for kind, prepare in KINDS.items():
        calls = {way: prepare(build(model, vocabulary, way).to(device), inputs) for way in WAYS}
        for way, found in interleaved(calls, rounds).items():
            ways[way][kind] = _rates(found, kind, sequences, length)
            ways[way][kind]["gmacs"] = macs(model, vocabulary, way, length, training=kind == "train")
            ways[way][kind]["peak_mib"] = memory(kind, model, vocabulary, way, sequences, length)
    for way in WAYS:
        ways[way]["parameters"] = models.parameter_count(build(model, vocabulary, way))
    return ways


def _rates(found: dict[str, Any], kind: str, sequences: int, length: int) -> dict[str, Any]:
    """Turn quartiles of milliseconds into the units of Table 9."""
    time = {"median": found["median_ms"], "low": found["quartiles_ms"][0], "high": found["quartiles_ms"][1]}
    done = sequences * length if kind == "train" else sequences
    rate = {"median": time["median"], "low": time["high"], "high": time["low"]}
    unit = "tokens_per_second" if kind == "train" else "samples_per_second"
    ratio = {"median": found["ratio"], "low": found["ratio_quartiles"][0], "high": found["ratio_quartiles"][1]}
    return {"milliseconds": time, "ratio": ratio, unit: {name: 1e3 * done / ms for name, ms in rate.items()}}


class _Counted(nn.Module):
    """One sequence through a model, with its attention spelled out where it can be."""

    def __init__(self, network: nn.Module, options: dict[str, Any]):
        super().__init__()
        self.network, self.options = network, options

    def forward(self, tokens: Tensor) -> Tensor:
        return self.network(tokens, return_dict=True, **self.options)[0]


def macs(model: str, vocabulary: int, way: str, length: int, *, training: bool) -> float:
    """Count multiply-accumulates of one forward pass over one sequence, in units of 10^9, by fvcore.

    Training has the vocabulary head on every token, as the paper counts it. fvcore cannot look into torch's
    fused attention, so "original" lacks its two products, here as in Table 9.
    """
    with no_init_weights():  # their values do not matter to a count, and take most of its time
        network = build(model, vocabulary, way, dropout=0.0).eval()
    network = network if training else network.bert
    counted = _Counted(network, {"output_attentions": True} if way in SEEN else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer: shapes become constants, which is what is wanted
        from fvcore.nn import FlopCountAnalysis

        counter = FlopCountAnalysis(counted, torch.zeros(1, length, dtype=torch.long))
        counter.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
        return counter.total() / 1e9


def memory(kind: str, model: str, vocabulary: int, way: str, sequences: int, length: int) -> float:
    """Measure the peak of one call, in MiB above the model and its inputs, in a process of its own."""
    return in_a_process(peak, kind, model, vocabulary, way, sequences, length)


def peak(kind: str, model: str, vocabulary: int, way: str, sequences: int, length: int) -> float:
    """Measure the peak here, after a small call that loads what is loaded once."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = build(model, vocabulary, way).to(device)
    KINDS[kind](network, batch(1, 16, vocabulary, device))()
    return peak_above_now(KINDS[kind](network, batch(sequences, length, vocabulary, device)))
