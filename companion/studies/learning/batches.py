"""The stories of a seed, made once for all arms: to draw them takes a sixth of a training step."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from companion.setup import paths
from companion.setup.recipes import MultiHop
from companion.studies.hops import questions
from companion.training import checkpoints

# steps whose stories lie in one file
STEPS_A_FILE = 100
# a token that nothing asks for stands for "no question"
NOT_ASKED = 0
IGNORED = -100
# of a recipe of stories: these say nothing about which stories a seed draws
OTHER_KEYS = {"layers", "algorithms", "seeds", "more_seeds", "pretrain", "hidden", "heads"}
OTHER_KEYS |= {"strength", "items", "exam"}


def batches(plan: MultiHop, seed: int, steps: int, folder: Path) -> Iterator[dict]:
    """Yield the batch of each step as the encoder takes it, drawn or read from files in `folder`.

    They are the stories of `questions.Stories` in its order, whatever arm and width reads them.
    """
    batch = plan.pretrain.batch
    stories = questions.Stories(plan, seed, steps * batch)
    name = checkpoints.marked(f"stories-{seed}", plan.model_dump(exclude=OTHER_KEYS))
    for first in range(0, steps * batch, STEPS_A_FILE * batch):
        path = folder / f"{name}-{first}.npy"
        numbers = range(first, min(first + STEPS_A_FILE * batch, len(stories)))
        if not path.exists():
            _write(path, stories, numbers)
        tokens = np.load(path)
        if len(tokens) != len(numbers):
            raise ValueError(f"{path}: {len(tokens)} stories, not {len(numbers)}: delete it")
        for start in range(0, len(tokens), batch):
            yield _as_batch(tokens[start : start + batch])


def _write(path: Path, stories: questions.Stories, numbers: range) -> None:
    """Write stories as one array (story, sentence, words and what is asked for)."""
    items = [stories[number] for number in numbers]
    words = np.array([item["input_ids"] for item in items])
    labels = np.array([item["labels"] for item in items])
    answers = np.where(labels == IGNORED, NOT_ASKED, labels)
    tokens = np.concatenate([words, answers[..., None]], axis=-1)
    with paths.new_file(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, tokens.astype(np.int16))


def _as_batch(tokens: np.ndarray) -> dict[str, torch.Tensor]:
    """Return what `questions.stacked` makes of the same stories."""
    tokens = torch.from_numpy(tokens.astype(np.int64))
    answers = tokens[..., -1]
    question = answers != NOT_ASKED
    return {
        "input_ids": tokens[..., :-1],
        "labels": torch.where(question, answers, IGNORED),
        "token_type_ids": question.long(),
    }
