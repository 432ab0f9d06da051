"""What refinement costs a whole model: multiply-accumulates, parameters, time and memory (Table 9).

Every way of computing attention takes its turn in one process, because a machine's speed drifts, and what is
reported is a median with its quartiles. Original comes twice: on `scaled_dot_product_attention`, which is fused where
torch has a kernel for the case, and spelled out (`eager`), which is what an unfused refinement has to be compared with.
On a CPU torch has no fused kernel with dropout, so training is measured with dropout and without.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertForPreTraining, PreTrainedModel
from transformers.initialization import no_init_weights

from saobp.study.cost.timing import attention_kernel, in_processes, interleaved, kept_for_backward, peak_above_now
from saobp.study.setup import sizes
from saobp.study.training import architectures

WAYS = ("original", "original_eager", "high", "low", "elemmul")
SEEN = ("original_eager", "high", "low", "elemmul")  # ways whose attention products a counter can see
MASKED, DROPOUT = 0.15, 0.1


def build(
    model: str,
    vocabulary: int,
    way: str,
    *,
    dropout: float = DROPOUT,
    kind: type[PreTrainedModel] = architectures.SparseBertForMaskedLM,
) -> nn.Module:
    """Return an untrained BERT of a size whose attention is computed one of the `WAYS`."""
    torch.manual_seed(0)
    network = kind(architectures.bert_config(model, vocabulary, dropout=dropout))
    if way.startswith("original"):
        network.set_attn_implementation("eager" if way == "original_eager" else "sdpa")
        return network
    return architectures.refine_with(network, way, sizes.strength_of(model))


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


@dataclass(frozen=True)
class Phase:
    """One thing a model is used for."""

    prepare: Callable[[nn.Module, dict[str, Tensor]], Callable[[], None]]
    training: bool
    dropout: float


PHASES = {
    "train": Phase(training_step, True, DROPOUT),
    "train_no_dropout": Phase(training_step, True, 0.0),
    "inference": Phase(inference, False, 0.0),
}


def measure(model: str, vocabulary: int, sequences: int, length: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Time every way in every one of the `PHASES`, in turns, and measure what memory each one takes.

    Returns way -> {"train": {"milliseconds", "ratio", "ratio_to_eager", "tokens_per_second", "gmacs", "peak_mib",
    "kernel", "kept_mib"}, "train_no_dropout": the same, "inference": the same but for "samples_per_second" and without
    the last, "parameters"}; times, ratios and peaks are {"median", "low", "high"}, low and high the quartiles of the
    rounds, for a peak the lowest and highest of the processes.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    inputs = batch(sequences, length, vocabulary, device)
    ways: dict[str, dict[str, Any]] = {way: {} for way in WAYS}
    for name, phase in PHASES.items():
        networks = {way: build(model, vocabulary, way, dropout=phase.dropout).to(device) for way in WAYS}
        calls = {way: phase.prepare(network, inputs) for way, network in networks.items()}
        for way, found in interleaved(calls, rounds, against=("original_eager",)).items():
            ways[way][name] = _rates(found, phase, sequences, length)
            ways[way][name]["gmacs"] = macs(model, vocabulary, way, length, training=phase.training)
            ways[way][name]["peak_mib"] = memory(name, model, vocabulary, way, sequences, length)
            ways[way][name]["kernel"] = attention_kernel(calls[way])
            if phase.training:
                ways[way][name]["kept_mib"] = kept(networks[way], inputs)
    for way in WAYS:
        ways[way]["parameters"] = architectures.parameter_count(build(model, vocabulary, way))
    return ways


def kept(network: nn.Module, inputs: dict[str, Tensor]) -> float:
    """Return how many MiB a forward pass in training keeps for the backward pass, the weights not counted."""
    return kept_for_backward(lambda: network(**inputs).loss, network.parameters())


def _rates(found: dict[str, Any], phase: Phase, sequences: int, length: int) -> dict[str, Any]:
    """Turn quartiles of milliseconds into the units of Table 9."""
    time = {"median": found["median_ms"], "low": found["quartiles_ms"][0], "high": found["quartiles_ms"][1]}
    done = sequences * length if phase.training else sequences
    rate = {"median": time["median"], "low": time["high"], "high": time["low"]}
    unit = "tokens_per_second" if phase.training else "samples_per_second"
    ratio = {"median": found["ratio"], "low": found["ratio_quartiles"][0], "high": found["ratio_quartiles"][1]}
    speed = {name: 1e3 * done / ms for name, ms in rate.items()}
    return {"milliseconds": time, "ratio": ratio, "ratio_to_eager": found["ratio_to_original_eager"], unit: speed}


class _Counted(nn.Module):
    """One sequence through a model, with its attention spelled out where it can be."""

    def __init__(self, network: nn.Module, options: dict[str, Any]):
        super().__init__()
        self.network, self.options = network, options

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        outputs = self.network(tokens, return_dict=True, **self.options)
        return tuple(value for value in outputs.values() if isinstance(value, Tensor))  # what is left is not counted


@cache
def macs(model: str, vocabulary: int, way: str, length: int, *, training: bool) -> float:
    """Count multiply-accumulates of one forward pass over one sequence, in units of 10^9, by fvcore.

    Training has BERT's heads for pretraining, pooler and next sentence among them, and the vocabulary's on every
    token: so the paper counts it, to the last digit. fvcore cannot look into torch's
    fused attention, so "original" lacks its two products, here as in Table 9.
    """
    with no_init_weights():  # their values do not matter to a count, and take most of its time
        network = build(model, vocabulary, way, dropout=0.0, kind=BertForPreTraining).eval()
    network = network if training else network.bert
    counted = _Counted(network, {"output_attentions": True} if way in SEEN else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer: shapes become constants, which is what is wanted
        from fvcore.nn import FlopCountAnalysis

        counter = FlopCountAnalysis(counted, torch.zeros(1, length, dtype=torch.long))
        counter.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
        return counter.total() / 1e9


def memory(phase: str, model: str, vocabulary: int, way: str, sequences: int, length: int) -> dict[str, float]:
    """Measure the peak of one call, in MiB above the model and its inputs: median, "low" and "high" of processes."""
    return in_processes(peak, phase, model, vocabulary, way, sequences, length)


def peak(phase: str, model: str, vocabulary: int, way: str, sequences: int, length: int) -> float:
    """Measure the peak here, after a small call that loads what is loaded once."""
    device, prepare = "cuda" if torch.cuda.is_available() else "cpu", PHASES[phase].prepare
    network = build(model, vocabulary, way, dropout=PHASES[phase].dropout).to(device)
    prepare(network, batch(1, 16, vocabulary, device))()
    return peak_above_now(prepare(network, batch(sequences, length, vocabulary, device)))
