"""Checkpoints that are known to be whole: sealed when written, checked before they are trusted."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainerCallback

from companion.data import sources
from companion.data.sources import Source
from companion.setup import labels, paths, recipes
from companion.setup.sizes_and_strengths import strength_used
from companion.setup.studies import Study, load_study
from companion.training import devices, regularizers

# whole checkpoints of a run: should the newest be damaged, there is the one before
KEPT = 2
NAME = re.compile(r"checkpoint-\d+")
# in a finished model's folder: what it was made of
TRAINING = "training.json"
# of a recipe: they train nothing
MEASURING = {"evaluations", "evaluation_sequences", "held_out", "save_every"}
# of a study, beside its data: what its models read
TEXT = ("corpus", "tokenizer", "vocabulary", "tokens")


def work_folder(study: Study, model: str, algorithm: str, seed: int, text: str) -> Path:
    """Return where a pretraining run keeps what it continues from; another recipe, λ or text gets
    another folder.
    """
    strength = study.strengths.get(model.removeprefix(labels.DECODER))
    identity = (recipes.identity(study.recipe(model)), strength, text)
    return paths.build(study.name) / "work" / marked(f"{model}-{algorithm}-{seed}", identity)


def finetune_folder(study: Study, checkpoint: Path, group: str, seed: int, source: Source) -> Path:
    """Return where a fine-tuning run keeps its finished tasks; other weights or another recipe get
    another folder.
    """
    identity = (
        study.finetune.model_dump(),
        source.name,
        paths.digest(checkpoint / "model.safetensors"),
    )
    return paths.build(study.name) / "work" / marked(f"{checkpoint.name}-{group}-{seed}", identity)


def marked(name: str, identity: Any) -> str:
    """Return a run's name with eight digits that change with what it is made of."""
    return f"{name}-{hashlib.sha256(repr(identity).encode()).hexdigest()[:8]}"


def pretrained(study_name: str, model: str, algorithm: str, seed: int) -> Path:
    """Return the folder of a pretrained model, trained by notebook 04 if it is missing.

    Raises ValueError, one line, if it is damaged, or was trained in another way than the study
    says.
    """
    folder = folder_of(Path(study_name).stem, model, algorithm, seed)
    if not (folder / "model.safetensors").is_file():
        from companion.records import execution

        print(f"{folder} is not there yet: running notebook 04-pretrain, which may take a while")
        notebook = paths.root() / "notebooks" / "04-pretrain.ipynb"
        home = paths.build(Path(study_name).stem) / "interactive"
        output = home / f"04-pretrain-{folder.name}.ipynb"
        parameters = {
            "study_name": study_name,
            "model": model,
            "algorithm": algorithm,
            "seed": str(seed),
        }
        execution.run(notebook, output, parameters)
    problem = paths.damage(folder)
    if problem:
        remedy = "delete the folder and give the command again: it is made anew"
        raise ValueError(f"{folder}: {problem}; {remedy} from the last checkpoint of its training")
    training = made_of(load_study(study_name), model, algorithm, seed)
    file = folder / TRAINING
    if not file.is_file():
        raise ValueError(
            f"{folder}: does not say how it was trained: delete it and give the command again"
        )
    for name, value in json.loads(file.read_text(encoding="utf-8")).items():
        if name in training and value != training[name]:
            remedy = "name the file of the study that trained it"
            if name == "data":
                remedy = "set SAOBP_DATA to what trained it"
            raise ValueError(
                f"{folder}: trained with {name} {value}, and {study_name} asks for "
                f"{training[name]}: {remedy}, or delete the folder"
            )
    return folder


def made_of(study: Study, model: str, algorithm: str, seed: int) -> dict[str, Any]:
    """Return all that a study says of the training of a model: name -> value, as JSON has it."""
    plan = (study.section("decoder") if labels.is_decoder(model) else study).model_dump()
    strength = strength_used(model.removeprefix(labels.DECODER), algorithm, study.strengths)
    run = {
        "algorithm": algorithm,
        "strength": strength,
        "seed": seed,
        "data": sources.chosen(study.data),
    }
    text = {name: plan.get(name, getattr(study, name)) for name in TEXT}
    return run | text | study.recipe(model).model_dump(exclude=MEASURING)


def folder_of(study_name: str, model: str, algorithm: str, seed: int) -> Path:
    """Return where a finished model lies for the stages after it."""
    return paths.build(study_name) / "checkpoints" / f"{model}-{algorithm}-{seed}"


def save(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    study: Study,
    model: str,
    algorithm: str,
    seed: int,
) -> Path:
    """Save a finished model with its tokenizer and its training, whole or not at all, and return
    the folder.
    """
    folder = folder_of(study.name, model, algorithm, seed)
    # a penalty belongs to training
    regularizers.detach(network)
    with paths.new_folder(folder) as unfinished:
        network.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        training = made_of(study, model, algorithm, seed)
        paths.write_text(unfinished / TRAINING, json.dumps(training, indent=1))
        paths.seal(unfinished)
    return folder


def written(folder: Path) -> list[Path]:
    """List a run's checkpoints, whole or not, the oldest first."""
    every = folder.glob("checkpoint-*")
    whole = [path for path in every if path.is_dir() and NAME.fullmatch(path.name)]
    return sorted(whole, key=lambda path: int(path.name.removeprefix("checkpoint-")))


def newest_whole(folder: Path, say: Callable[[str], None] | None = None) -> Path | None:
    """Return the newest whole checkpoint of a run, and `say` which newer ones are passed over and
    why.
    """
    for candidate in reversed(written(folder)):
        problem = paths.damage(candidate)
        if not problem:
            return candidate
        if say:
            say(f"{candidate}: {problem}; falling back to the checkpoint before it")
    return None


class SealCheckpoints(TrainerCallback):
    """Seals each checkpoint once the Trainer has written all of it, after `StopAtNaN`'s look; keeps
    the last two.
    """

    def on_save(self, args, state, control, **kwargs):
        # until each has written its part
        devices.processes().wait_for_everyone()
        if state.is_world_process_zero:
            folder = Path(args.output_dir)
            paths.seal(folder / f"checkpoint-{state.global_step}")
            for old in written(folder)[:-KEPT]:
                shutil.rmtree(old, ignore_errors=True)
