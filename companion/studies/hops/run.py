"""The controlled multi-hop study: who answers questions of one hop and more, and after how much
training.

The planned runs on fresh seeds, one record per width and seed: `python -m
companion.studies.hops.run`.
"""

import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers.modeling_outputs import MaskedLMOutput

from companion import records
from companion.evaluation.heldout import measuring
from companion.records import schema
from companion.setup import paths
from companion.setup.recipes import MultiHop, Positive, Pretraining, Seeds, identity
from companion.setup.sizes_and_strengths import Size
from companion.setup.studies import load_study
from companion.studies.hops import questions
from companion.studies.plan import Entry, Question, command
from companion.training import architectures, checkpoints, departures, regularizers, trainer

# of a plan: they make a run no other one
OTHERS = {"algorithms", "seeds", "layers", "more_seeds"}
# stories of the exam that are asked along training; the whole of it is asked at the end
ASKED = 100


class SentenceEncoder(architectures.SparseBertForMaskedLM):
    """BERT over sentences: a token is the sum of its words' embeddings, without a position.

    Looking up a fact is then one step of attention; with a token a word it takes two, which models
    of this size learn late for one hop and, in tens of thousands of stories, never for two.
    """

    def forward(
        self, input_ids: torch.Tensor, labels: torch.Tensor | None = None, **kwargs: Any
    ) -> MaskedLMOutput:
        """Take words (story, sentence, word), padding 0, and labels (story, sentence), -100 where
        nothing is asked.
        """
        real = input_ids.ne(self.config.pad_token_id)[..., None]
        sentences = (self.bert.embeddings.word_embeddings(input_ids) * real).sum(-2)
        nowhere = torch.zeros(sentences.shape[:2], dtype=torch.long, device=sentences.device)
        return super().forward(
            labels=labels, inputs_embeds=sentences, position_ids=nowhere, **kwargs
        )


def encoder(plan: MultiHop, layers: int, algorithm: str, seed: int) -> nn.Module:
    """Return an untrained encoder of the study with its algorithm in place."""
    network = architectures.refine_with(untrained(plan, layers, seed), algorithm, plan.strength)
    return regularizers.attach(network, algorithm, plan.pretrain.penalty)


def untrained(plan: MultiHop, layers: int, seed: int) -> nn.Module:
    """Return an untrained encoder of the study with transformers' own attention.

    Keys start as queries do, so that sentences attend to those they share words with: else two hops
    are learned late or never. With BERT's initial 0.02 so narrow a model would start with flat
    attention.
    """
    words = questions.tokenizer(plan.entities)
    size = Size(layers, plan.hidden, plan.heads, 4 * plan.hidden, plan.strength)
    settings = {
        "dropout": plan.pretrain.dropout,
        "initializer_range": plan.hidden**-0.5,
        "max_position_embeddings": 1,
        "pad_token_id": words.pad_token_id,
    }
    config = architectures.bert_config(size, len(words), **settings)
    torch.manual_seed(seed)
    network = SentenceEncoder(config)
    for layer in network.bert.encoder.layer:
        layer.attention.self.key.load_state_dict(layer.attention.self.query.state_dict())
    return network


class Exam:
    """Sets a model the plan's questions. Called with it, returns `loss` (nats) and `accuracy`, hops
    -> share right.
    """

    def __init__(self, plan: MultiHop, batch: int = 100):
        items = questions.exam(plan)
        self.parts = [items[start : start + batch] for start in range(0, len(items), batch)]

    def __call__(self, model: nn.Module) -> dict[str, Any]:
        right, losses = self.outcomes(model)
        accuracy = {hops: float(np.mean(answers)) for hops, answers in right.items()}
        return {"loss": float(np.mean(losses)), "accuracy": accuracy}

    def outcomes(self, model: nn.Module) -> tuple[dict[int, list[int]], list[float]]:
        """Return hops -> 1 for each question answered right, among the ends of the story, else 0;
        and all losses.
        """
        right: dict[int, list[int]] = {}
        losses: list[float] = []
        device = next(model.parameters()).device
        for part in self.parts:
            batch = {name: values.to(device) for name, values in questions.stacked(part).items()}
            asks = [question for item in part for question in item["asked"]]
            with measuring(model):
                # a row a question
                logits = model(**batch).logits.float().cpu()
            ends = torch.tensor([tokens for _, tokens in asks])
            scores = logits.gather(1, ends)
            # no tie, no NaN
            answers = (scores[:, 0] > scores[:, 1:].amax(1)).int().tolist()
            losses += (logits.logsumexp(1) - scores[:, 0]).tolist()
            for (hops, _), answer in zip(asks, answers, strict=True):
                right.setdefault(hops, []).append(answer)
        return dict(sorted(right.items())), losses


def run(plan: MultiHop, layers: int, algorithm: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one encoder, or continue where it was cut off, and return its curve and every answer of
    its exam.

    No run is made again: to draw anew those that learn late would choose the result. A finished one
    is read from `folder`. "steps", each of so many "stories", the first "full_rate" of them before
    the rate falls; "curve": step, loss, accuracy by hops, seconds; "outcomes": hops -> 0 or 1 a
    question; "failed": a `Failure` if it has neither.
    """
    recipe = plan.pretrain
    # it reads no held-out text
    recipe_key = {"pretrain": identity(recipe.changed(held_out="first"))}
    name = checkpoints.marked(
        f"{algorithm}-{layers}-{seed}", plan.model_dump(exclude=OTHERS) | recipe_key
    )
    done = folder / f"{name}.json"
    if not done.exists():
        network = encoder(plan, layers, algorithm, seed)
        stories = questions.Stories(plan, seed, recipe.steps * recipe.batch)
        followed = {
            "folder": folder / name,
            "seed": seed,
            "measure": Exam(plan.changed(items=min(ASKED, plan.items))),
            "schedule": checks(recipe),
        }
        result = trainer.attempt(network, stories, questions.stacked, recipe, **followed)
        result["outcomes"] = {} if result["failed"] else Exam(plan).outcomes(network)[0]
        which = {"layers": layers, "algorithm": algorithm, "seed": seed, "chains": plan.chains}
        paths.write_text(done, json.dumps(which | result))
    budget = {"steps": recipe.steps, "full_rate": recipe.full_rate, "stories": recipe.batch}
    made = json.loads(done.read_text(encoding="utf-8")) | budget
    flaw = schema.flaw_in(schema.EXAM_RUN, made, "the run")
    if flaw:
        raise ValueError(
            f"{done}: no run of this version ({flaw}): delete it and {folder / name}, and run again"
        )
    return made


def checks(recipe: Pretraining) -> list[int]:
    """Return evenly spaced steps, the first and the last among them: what is learned at once is
    learned somewhere.
    """
    parts = max(1, recipe.evaluations - 1)
    return sorted({round(recipe.steps * part / parts) for part in range(parts + 1)})


def study(plan: MultiHop | None, folder: Path) -> list[dict[str, Any]]:
    """Run every depth, algorithm and seed of a plan; nothing without one, where a study sets no
    exam.
    """
    return [] if plan is None else [run(plan, *arm, folder) for arm in plan.runs()]


class KnownHops(Question):
    """The plan's section `hops`."""

    arms: list[str]
    seeds: Seeds
    exam: str
    training: str
    layers: list[Positive]
    # further widths, at the largest depth
    widths: dict[Positive, list[str]]


def record(exam: MultiHop, path: Path, folder: Path) -> dict[str, Any]:
    """Make one record: every arm and depth of one width and seed."""
    parameters = {"width": exam.hidden, "seed": exam.seeds[0]}
    made = records.Run("hops", study_name="hops", parameters=parameters)
    metrics = {"multihop": study(exam, folder), "exam_recipe": exam.model_dump()}
    words = len(questions.tokenizer(exam.entities))
    apart = [departures.differs("study", "questions of known hops in the story world")]
    apart += [departures.differs("vocabulary", f"{words} words"), *departures.exam_of(exam)]
    trained = [run["device"]["precision"] for run in metrics["multihop"] if not run["failed"]]
    return made.save(path, metrics, departures=apart, precision=trained[0] if trained else None)


def records_of(planned: KnownHops) -> Iterator[Entry]:
    """Yield the records of the plan, one per width and seed: seed by seed the usual width, then the
    further ones.
    """
    usual = load_study("stories").multihop
    widths = [(usual.hidden, planned.arms, planned.layers)]
    widths += [(width, arms, planned.layers[-1:]) for width, arms in planned.widths.items()]
    for seed, (width, arms, layers) in product(planned.seeds, widths):
        settings = {"algorithms": arms, "seeds": [seed], "layers": layers, "hidden": width}
        exam = usual.changed(exam=planned.exam, more_seeds={}, **settings)
        name = f"12-hops-{exam.hidden}-{exam.seeds[0]}"
        yield name, partial(record, exam), {"exam_recipe": exam.model_dump()}


if __name__ == "__main__":
    command("hops", KnownHops, records_of)()
