"""A repository of links with one small study: one model, one algorithm, two tasks."""

import os
import subprocess
import sys
from urllib.parse import quote

from companion.setup import paths

# a name that a shell, YAML, Snakemake and papermill each read in their own way
ODD = "a b's #1 {x} ü"


def one_of_each(name):
    """Return the smoke study with one model, High alone and attention on one task, under another
    name.
    """
    smoke = (paths.root() / "notebooks" / "studies" / "smoke.yaml").read_text()
    text = smoke.partition("decoder:")[0].replace("name: smoke", f"name: {name}")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("algorithms_of"))
    text = text.replace(", small-quarter]", "]").replace("[race, squad, sst2]", "[race]")
    return text.replace("[original, high]", "[high]")


def repository(folder, name):
    """Lay out a repository of links, with one small study of one model, one algorithm and two
    tasks.
    """
    folder.mkdir()
    for entry in ("companion", "saobp", "Snakefile", "data", "figures", "texts"):
        (folder / entry).symlink_to(paths.root() / entry)
    (folder / "notebooks" / "studies").mkdir(parents=True)
    for notebook in (paths.root() / "notebooks").glob("*.ipynb"):
        (folder / "notebooks" / notebook.name).symlink_to(notebook)
    text = one_of_each(name).replace("save_every: 60", "save_every: 20")
    text = text.replace(
        "[cola, mrpc, rte, sst2, stsb, wnli, qnli, mnli, qqp, squad, hellaswag, race]",
        "[rte, race]",
    )
    (folder / "notebooks" / "studies" / f"{name}.yaml").write_text(f"{text}\n")
    return folder


def given():
    """The environment of a run that starts in such a repository."""
    return os.environ | {"PYTHONPATH": str(paths.root()), "OMP_NUM_THREADS": "1"}


def snakemake(directory, study_name, *options, config=(), folder=None, **how):
    """Call the workflow of a repository (this one) on a study's file; return what was said."""
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        (folder or paths.root()) / "Snakefile",
        "--directory",
        directory,
        "--config",
        f"study={quote(str(study_name))}",
        *config,
        *options,
    ]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=900, **how
    )


def made(folder, name, target, *config, options=()):
    """Make one file of the workflow of a small repository and return what was said."""
    build, study = folder / "build" / name, folder / "notebooks" / "studies" / f"{name}.yaml"
    options = ("--cores", "2", "-p", *options, "--", target)
    return snakemake(build, study, *options, config=config, folder=folder, cwd=folder, env=given())
