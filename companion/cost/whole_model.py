"""What refinement costs a whole model: multiply-accumulates, parameters, time and memory (Table 9).

Original comes twice: on `scaled_dot_product_attention`, fused where torch has a kernel (on a CPU
none with dropout), and spelled out (`eager`), which is what an unfused refinement has to be
compared with.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import BertForPreTraining
from transformers.initialization import no_init_weights

from companion.cost import timing
from companion.setup.sizes_and_strengths import SIZES, strength_of
from companion.training import architectures

WAYS = ("original", "original_eager", "high", "low", "elemmul")
# what a model is used for, with its dropout
PHASES = {"train": 0.1, "train_no_dropout": 0.0, "inference": 0.0}


def build(
    model: str,
    vocabulary: int,
    way: str,
    *,
    dropout: float,
    kind: type = architectures.SparseBertForMaskedLM,
) -> nn.Module:
    """Return an untrained BERT of a size whose attention is computed one of the `WAYS`."""
    torch.manual_seed(0)
    network = kind(architectures.bert_config(SIZES[model], vocabulary, dropout=dropout))
    if way.startswith("original"):
        network.set_attn_implementation("eager" if way == "original_eager" else "sdpa")
        return network
    return architectures.refine_with(network, way, strength_of(model))


def batch(
    sequences: int, length: int, vocabulary: int, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """Return random tokens, 15 % of which are to be predicted."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(vocabulary, (sequences, length), generator=generator)
    kept = torch.rand(tokens.shape, generator=generator) >= 0.15
    return {"input_ids": tokens.to(device), "labels": tokens.masked_fill(kept, -100).to(device)}


def call_of(phase: str, network: nn.Module, inputs: dict[str, Tensor]) -> Callable[[], object]:
    """Return what is timed: an encoder without its vocabulary head, or a step: forward, backward,
    clipping, AdamW.
    """
    network.train(phase != "inference")
    if phase == "inference":
        return torch.inference_mode()(lambda: network.bert(inputs["input_ids"]))
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        network(**inputs).loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return step


class Setting(NamedTuple):
    """What is timed: a phase of `PHASES`, and how many sequences of how many tokens."""

    phase: str
    sequences: int
    length: int


def timed(
    setting: Setting, model: str, vocabulary: int, ways: Sequence[str], rounds: int
) -> Iterator[tuple[str, nn.Module, dict[str, Any]]]:
    """Time ways of computing attention in turns; yields each with its network and what Table 9 has
    of it.
    """
    phase, sequences, length = setting
    inputs, training = batch(sequences, length, vocabulary, timing.place()), phase != "inference"
    networks = {
        way: build(model, vocabulary, way, dropout=PHASES[phase]).to(timing.place()) for way in ways
    }
    calls = {way: call_of(phase, network, inputs) for way, network in networks.items()}
    done, unit = (
        (sequences * length, "tokens_per_second") if training else (sequences, "samples_per_second")
    )
    for way, numbers in timing.interleaved(calls, rounds, against=WAYS[:2]).items():
        low, high = numbers["quartiles_ms"]
        time = {"median": numbers["median_ms"], "low": low, "high": high}
        rate = {
            "median": 1e3 * done / time["median"],
            "low": 1e3 * done / high,
            "high": 1e3 * done / low,
        }
        ratios = {
            "ratio": numbers["ratio_to_original"],
            "ratio_to_eager": numbers["ratio_to_original_eager"],
        }
        kernel = timing.attention_kernel(calls[way])
        yield way, networks[way], {"milliseconds": time, **ratios, unit: rate, "kernel": kernel}


def measure(
    model: str, vocabulary: int, sequences: int, length: int, rounds: int
) -> dict[str, dict[str, Any]]:
    """Time every way in every one of the `PHASES`, in turns, and measure what memory each one
    takes.

    Returns way -> {phase: what `timed` yields, "gmacs", "peak_mib" and of training "kept_mib",
    "parameters"}; times, ratios and peaks are {"median", "low", "high"}: quartiles of the rounds,
    for a peak the ends of the processes.
    """
    ways: dict[str, dict[str, Any]] = {way: {} for way in WAYS}
    for phase in PHASES:
        training = phase != "inference"
        setting = Setting(phase, sequences, length)
        for way, network, numbers in timed(setting, model, vocabulary, WAYS, rounds):
            peaks = timing.in_processes(peak, setting, model, vocabulary, way)
            gmacs = macs(model, vocabulary, way, length, training=training)
            numbers |= {"gmacs": gmacs, "peak_mib": peaks}
            if training:
                inputs = batch(sequences, length, vocabulary, timing.place())
                numbers["kept_mib"] = timing.kept_for_backward(
                    partial(network, **inputs), network.parameters()
                )
            ways[way] |= {phase: numbers, "parameters": architectures.parameter_count(network)}
    return ways


def macs(model: str, vocabulary: int, way: str, length: int, *, training: bool) -> float:
    """Count multiply-accumulates of one forward pass over one sequence, in units of 10^9, by
    fvcore.

    Training has BERT's heads for pretraining, the vocabulary's on every token: so the paper counts
    it, to the last digit. fvcore cannot look into torch's fused attention, so "original" lacks its
    two products, as in Table 9.
    """
    return _counts(model, vocabulary, way, length)["" if training else "bert"] / 1e9


@cache
def _counts(model: str, vocabulary: int, way: str, length: int) -> dict[str, int]:
    """Return fvcore's count of a whole model ("") and of every module in it: one trace for training
    and inference.
    """
    # their values do not matter to a count, and take most of its time
    with no_init_weights():
        network = build(model, vocabulary, way, dropout=0.0, kind=BertForPreTraining).eval()
    spelled_out = {} if way == "original" else {"output_attentions": True}
    network.forward = partial(network.forward, return_dict=False, **spelled_out)
    with warnings.catch_warnings():
        # of the tracer: shapes become constants, which is what is wanted
        warnings.simplefilter("ignore")
        from fvcore.nn import FlopCountAnalysis

        counter = FlopCountAnalysis(network, torch.zeros(1, length, dtype=torch.long))
        counter.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings(
            "none"
        )
        return dict(counter.by_module())


def peak(setting: Setting, model: str, vocabulary: int, way: str) -> float:
    """Measure the peak of one call here, in MiB above the model and its inputs."""
    phase, sequences, length = setting
    network = build(model, vocabulary, way, dropout=PHASES[phase]).to(timing.place())
    # loads what is loaded once
    call_of(phase, network, batch(1, 16, vocabulary, timing.place()))()
    return timing.peak_above_now(
        call_of(phase, network, batch(sequences, length, vocabulary, timing.place()))
    )
