"""What goes wrong, and the one line that says so: the table of faults is this test."""

import re
import resource
import subprocess
import sys

import click
import nbformat
import pytest
import torch
from small_models import RECIPE, RandomText, word_tokenizer

from saobp.study.data.masking import SeededMasking
from saobp.study.publication import environment, workflow
from saobp.study.setup import execution, paths, seals
from saobp.study.training import architectures, checkpoints, trainer

SMOKE = paths.root() / "notebooks" / "studies" / "smoke.yaml"
HOLD = """
import sys, time
from pathlib import Path
from saobp.study.publication.workflow import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def trained(folder, *callbacks, change=lambda network: None):
    """Train a little model for a few steps."""
    network = architectures.refine_with(
        architectures.encoder("mini-twin", word_tokenizer(), dropout=0.0, seed=1), "high", 0.2
    )
    change(network)
    trainer.pretrain(
        network, RandomText(), SeededMasking(word_tokenizer(), 0.15, 1), RECIPE, folder=folder, seed=1,
        measure=lambda model: {}, callbacks=callbacks,
    )  # fmt: skip


def two_at_once(folder, monkeypatch):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with workflow.claimed(folder):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def no_right_to_write(folder, monkeypatch):
    (folder / "build").write_text("a file where the folder should be")
    with workflow.claimed(folder / "build"):
        pass


def no_right_to_write_below_the_top(folder, monkeypatch):
    (folder / "records").write_text("a file where the folder should be")
    with workflow.claimed(folder):
        pass


class FullDisk(trainer.TrainerCallback):
    """After the first checkpoint no file may grow: the system's own refusal, as on a full disk."""

    def on_save(self, args, state, control, **kwargs):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def no_disk(folder, monkeypatch):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        trained(folder, FullDisk())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert checkpoints.newest_whole(folder).name == "checkpoint-6"


def short_of_memory(fits):
    """Return what lets a network hold so many sequences and no more."""

    def hook(module, args, kwargs):
        if len(kwargs["input_ids"]) > fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    return lambda network: network.register_forward_pre_hook(hook, with_kwargs=True)


def no_memory_for_a_batch(folder, monkeypatch):
    trained(folder, change=short_of_memory(1))


def no_memory_for_one_sequence(folder, monkeypatch):
    trained(folder, change=short_of_memory(0))


def a_package_of_the_wrong_version(folder, monkeypatch):
    environment.check(["transformers>=99"])


def a_missing_package(folder, monkeypatch):
    environment.check(["no-such-package>=1"])


def edited(folder, change):
    """Run a copy of a notebook that somebody has changed by hand."""
    notebook = nbformat.read(paths.root() / "notebooks" / "02-variants.ipynb", as_version=4)
    change(notebook, next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])))
    path = folder / "02-variants.ipynb"
    nbformat.write(notebook, path)
    execution.run(path, folder / "out.ipynb", {}, SMOKE)


def a_notebook_cut_off(folder, monkeypatch):
    (folder / "cut.ipynb").write_text('{"cells": [')
    execution.run(folder / "cut.ipynb", folder / "out.ipynb", {}, SMOKE)


def a_notebook_without_parameters(folder, monkeypatch):
    edited(folder, lambda notebook, parameters: parameters.metadata.pop("tags"))


def a_notebook_with_half_a_line_for_parameters(folder, monkeypatch):
    edited(folder, lambda notebook, parameters: parameters.update(source="profile ="))


def a_notebook_with_a_slip(folder, monkeypatch):
    slip = nbformat.v4.new_code_cell("1 / 0")
    edited(folder, lambda notebook, parameters: notebook.update(cells=[parameters, slip]))


def a_notebook_that_saves_nothing(folder, monkeypatch):
    edited(folder, lambda notebook, parameters: notebook.update(cells=[parameters]))


def no_data(folder, monkeypatch):
    monkeypatch.setenv("SAOBP_DATA", str(folder / "gone"))
    workflow.reproduce("smoke", 1)


def a_damaged_checkpoint(folder, monkeypatch):
    trained(folder)
    (checkpoints.written(folder)[-1] / "model.safetensors").write_bytes(b"")
    trained(folder)


def a_damaged_finished_model(folder, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda profile: folder)
    published = checkpoints.published_folder("smoke", "mini-twin", "high", 42)
    published.mkdir(parents=True)
    (published / "model.safetensors").write_bytes(b"weights")
    seals.seal(published)
    (published / "model.safetensors").write_bytes(b"")
    checkpoints.pretrained("smoke", "mini-twin", "high", 42)


def a_loss_that_is_no_number(folder, monkeypatch):
    def spoil(module, args, output):
        output.loss = output.loss * float("nan")

    trained(folder, change=lambda network: network.register_forward_hook(spoil))


TABLE = [  # the case, the line that is said, and whether the run goes on
    (two_at_once, r"is in use by process \d+: wait for it to end, or stop it", False),
    (no_right_to_write, "build: cannot be written .*: choose a folder you own", False),
    (no_right_to_write_below_the_top, "records: cannot be written .*: choose a folder you own", False),
    (no_disk, r"a checkpoint could not be written \(.*the last whole one is .*checkpoint-6: free space", False),
    (no_memory_for_a_batch, "no memory for 2 sequences: 4 parts of 1 make a step now", True),
    (no_memory_for_one_sequence, "batch: there is no memory for 1 sequences at a time.*take fewer, or shorter", False),
    (a_package_of_the_wrong_version, r"transformers \S+ is installed, saobp needs >=99: run 'make install'", False),
    (a_missing_package, "no-such-package is not installed, and saobp needs it: run 'make install'", False),
    (a_notebook_cut_off, "cut.ipynb: not a readable notebook", False),
    (a_notebook_without_parameters, "has no cell tagged 'parameters'", False),
    (a_notebook_with_half_a_line_for_parameters, "the cell tagged 'parameters' is no Python", False),
    (a_notebook_with_a_slip, "02-variants.ipynb, cell .*: ZeroDivisionError: division by zero", False),
    (a_notebook_that_saves_nothing, r"wrote no record to .*: its last cell must call run.save", False),
    (no_data, "gone: no such data folder; set SAOBP_DATA to", False),
    (a_damaged_checkpoint, "model.safetensors is damaged; falling back to the checkpoint before it", True),
    (a_damaged_finished_model, "model.safetensors is damaged; delete the folder and give the command again", False),
    (a_loss_that_is_no_number, r"the loss is nan at step 1 \(learning rate .*lower the learning rate", False),
]


@pytest.mark.parametrize(("case", "said", "goes_on"), TABLE, ids=[case.__name__ for case, _, _ in TABLE])
def test_each_fault_is_one_clear_line(case, said, goes_on, tmp_path, monkeypatch, capfd):
    if goes_on:
        case(tmp_path, monkeypatch)
        lines = capfd.readouterr().out.splitlines()
        assert any(re.search(said, line) for line in lines), lines
        return
    with pytest.raises((OSError, ValueError, RuntimeError, click.ClickException), match=said) as failed:
        case(tmp_path, monkeypatch)
    assert len(str(failed.value).splitlines()) == 1
