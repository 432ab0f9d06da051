"""The controlled multi-hop study: who answers questions of one hop and more, and after how much training.

One run trains an encoder on `questions.Stories` and sets it the same exam as all others. The paper's claim is that
High carries multi-hop information; here the number of hops is known, and chance and seeds are too.
"""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_model, save_model
from torch import nn
from transformers import BertConfig

from saobp.study import checkpoints, models, paths, questions, regularizers, training
from saobp.study.profile import MultiHop, Pretraining

FOLLOWED = 100  # stories of the exam that are asked along training; the whole of it is asked at the end
INIT = 0.1  # about 1 / sqrt(width): with BERT's 0.02 attention starts too flat to leave chance


def encoder(plan: MultiHop, layers: int, algorithm: str, seed: int) -> nn.Module:
    """Return an untrained encoder of the study with its algorithm in place; sentences are its token types.

    Keys start as queries do, so that like attends to like, the same word and the same sentence, from the first step:
    with unlike ones the study's models stay at chance for thousands of steps.
    """
    words = questions.tokenizer(plan.entities)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=plan.hidden,
        num_hidden_layers=layers,
        num_attention_heads=plan.heads,
        intermediate_size=4 * plan.hidden,
        hidden_dropout_prob=plan.pretrain.dropout,
        attention_probs_dropout_prob=plan.pretrain.dropout,
        max_position_embeddings=plan.pretrain.length,
        type_vocab_size=plan.pretrain.length,
        initializer_range=INIT,
        pad_token_id=words.pad_token_id,
    )
    torch.manual_seed(seed)
    network = models.SparseBertForMaskedLM(config)
    for layer in network.bert.encoder.layer:
        layer.attention.self.key.load_state_dict(layer.attention.self.query.state_dict())
    network = models.refine_with(network, algorithm, plan.strength)
    return regularizers.attach(network, algorithm, plan.pretrain.penalty)


class Exam:
    """Sets a model the plan's questions. Called with it, returns `loss` (nats) and `accuracy`, hops -> share right."""

    def __init__(self, plan: MultiHop, batch: int = 100):
        items = questions.exam(plan, seed=0)
        self.parts = [items[start : start + batch] for start in range(0, len(items), batch)]
        self.batches = [questions.padded(part) for part in self.parts]

    def __call__(self, model: nn.Module) -> dict[str, Any]:
        right, losses = self.outcomes(model)
        return {"loss": float(np.mean(losses)), "accuracy": {hops: float(np.mean(got)) for hops, got in right.items()}}

    @torch.no_grad()
    def outcomes(self, model: nn.Module) -> tuple[dict[int, list[bool]], list[float]]:
        """Return hops -> whether each question was answered right, among the ends of the story, and all losses."""
        training, right, losses = model.training, {}, []
        model.eval()
        device = next(model.parameters()).device
        for part, batch in zip(self.parts, self.batches):
            given = {name: values.to(device) for name, values in batch.items()}
            rows = model(**given).logits.float().cpu()  # one a hidden word
            for item in part:
                for place, hops, ends in item["asked"]:
                    row = rows[place]
                    losses.append(float(torch.logsumexp(row, 0) - row[ends[0]]))
                    right.setdefault(hops, []).append(bool(row[ends].argmax() == 0))
                rows = rows[sum(label != -100 for label in item["labels"]) :]
        model.train(training)
        return dict(sorted(right.items())), losses


def grown(network: nn.Module, shallow: dict[str, torch.Tensor], times: int) -> nn.Module:
    """Start a network from a trained one of fewer layers, in place: its layers `times` over, the rest as it is.

    A question of one hop is learned by few layers and hardly by many at once; two hops are one hop twice.
    """
    state, depth = dict(network.state_dict()), network.config.num_hidden_layers // times
    for name in state:
        part = re.fullmatch(r"(.*\.layer\.)(\d+)(\..*)", name)
        state[name] = shallow[f"{part[1]}{int(part[2]) % depth}{part[3]}" if part else name]
    network.load_state_dict(state)
    return network


def run(plan: MultiHop, layers: int, algorithm: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one encoder, or continue where it was cut off, and return its curve and every answer of its exam.

    One that is a multiple of a shallower depth of the plan starts from that one's end. A finished run is read from
    `folder`. "curve": step, loss and accuracy by hops; "outcomes": hops -> 0 or 1 a question, the same for all.
    """
    name = _name(plan, layers, algorithm, seed)
    done, weights = folder / f"{name}.json", folder / f"{name}.safetensors"
    if not (done.exists() and weights.exists()):
        network, exam, recipe = encoder(plan, layers, algorithm, seed), Exam(plan), plan.pretrain
        if shallower := _shallower(plan, layers):
            run(plan, shallower, algorithm, seed, folder)
            start = encoder(plan, shallower, algorithm, seed)
            load_model(start, folder / f"{_name(plan, shallower, algorithm, seed)}.safetensors")
            grown(network, start.state_dict(), layers // shallower)
            recipe = replace(recipe, **asdict(plan.deeper)) if plan.deeper else recipe
        stories = questions.Stories(plan, seed, recipe.steps * recipe.batch)
        log = training.pretrain(
            network, stories, questions.padded, recipe, folder=folder / name, seed=seed,
            measure=Exam(replace(plan, items=min(FOLLOWED, plan.items))), schedule=checks(recipe),
            title=f"{algorithm}-{layers}-{seed}",
        )  # fmt: skip
        with paths.new_file(weights) as unfinished:
            save_model(network, str(unfinished))
        paths.write_text(done, json.dumps(_found(plan, layers, algorithm, seed, log, exam.outcomes(network)[0])))
    return json.loads(done.read_text(encoding="utf-8"))


def checks(recipe: Pretraining) -> list[int]:
    """Return evenly spaced steps, the first and the last among them: what is learned at once is learned somewhere."""
    parts = max(1, recipe.evaluations - 1)
    return sorted({round(recipe.steps * part / parts) for part in range(parts + 1)})


def _name(plan: MultiHop, layers: int, algorithm: str, seed: int) -> str:
    """Name a run so that another plan's is another; which others are in the plan does not matter."""
    given = {key: value for key, value in asdict(plan).items() if key not in ("algorithms", "seeds", "layers")}
    return checkpoints.marked(f"{algorithm}-{layers}-{seed}", (given, _shallower(plan, layers)))


def _shallower(plan: MultiHop, layers: int) -> int:
    """Return the depth that a depth grows from, or 0."""
    return max((depth for depth in plan.layers if depth < layers and layers % depth == 0), default=0)


def _found(plan: MultiHop, layers: int, algorithm: str, seed: int, log: list, right: dict) -> dict[str, Any]:
    curve = [{"step": entry["step"], **entry["heldout"]} for entry in log if "heldout" in entry]
    outcomes = {hops: [int(answer) for answer in answers] for hops, answers in right.items()}
    found = {"layers": layers, "algorithm": algorithm, "seed": seed, "chains": plan.chains}
    return found | {"curve": curve, "outcomes": outcomes}


def study(plan: MultiHop, folder: Path) -> list[dict[str, Any]]:
    """Run every depth, algorithm and seed of a plan."""
    return [
        run(plan, layers, algorithm, seed, folder)
        for layers in plan.layers
        for seed in plan.seeds
        for algorithm in plan.algorithms
    ]
