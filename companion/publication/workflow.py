"""Runs a whole study through Snakemake: one run at a time per folder, restarted where it was cut
off.
"""

import contextlib
import fcntl
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from packaging.requirements import Requirement

from companion.data import sources
from companion.publication import forked_runs
from companion.setup import environment, paths
from companion.setup.recipes import SEEDS
from companion.setup.studies import Study, StudyError, find, load_study
from saobp.measure.command import show

# what a run needs; the tests' own tools may differ
EXTRAS = ("", "measure", "study")
# model, algorithm, seed
ROW = re.compile(r"([^/]+)/([^/]+)/(\d+)")
# what makes a run outdated, whatever a cluster's settings say
TRIGGERS = ("code", "input", "mtime", "params", "software-env")
# of a build folder, made before anything runs
PLACES = ("records", "notebooks", "logs", "checkpoints", "work")
# of the repository, what a rule has among its inputs
INPUTS = ("notebooks", "data", "figures", "Snakefile", "companion", "saobp")
# by which the clock of a disk in the network may be ahead, in seconds
DRIFT = 2


def check_packages() -> None:
    """Raise ValueError, one line with the remedy, if a package is missing or of a release that
    saobp is not for.
    """
    for wanted in map(Requirement, metadata.requires("saobp")):
        if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in EXTRAS):
            continue
        installed = next(
            (package.version for package in metadata.distributions(name=wanted.name)), None
        )
        if installed is None or not wanted.specifier.contains(installed, prereleases=True):
            remedy = f"run 'make install', or pip install '{wanted.name}{wanted.specifier}'"
            raise ValueError(
                f"{wanted.name} is {installed or 'not installed'}, saobp needs {wanted.specifier or 'it'}: {remedy}"
            )


def refuse_files_of_the_future(folder: Path, study: Path) -> None:
    """Raise ValueError, naming the first, if files that runs read are later than this machine's
    clock: whatever is made from them would be older, and removed when its run has ended.

    They come from an archive, or from a clock that is ahead. `folder` is the study's build, `study`
    its file.
    """
    places = [paths.root() / name for name in INPUTS]
    # of a report that is later than its records none is made again
    places += [folder / name for name in (*PLACES, "index.html")]
    files = [
        file for place in places for file in (place, *sorted(place.rglob("*"))) if file.is_file()
    ]
    latest = time.time() + DRIFT
    # what Python compiles by itself is read by its own rules
    later = [
        file for file in (study, *files) if file.suffix != ".pyc" and file.stat().st_mtime > latest
    ]
    if later:
        date = datetime.fromtimestamp(later[0].stat().st_mtime).isoformat(" ", "seconds")
        more = f" (and {len(later) - 1} more)" * (len(later) > 1)
        # a study's file may lie elsewhere
        outside = [] if study.is_relative_to(paths.root()) else [study]
        where = shlex.join(map(str, [paths.root(), *outside]))
        raise ValueError(
            f"{later[0]}: is of {date}{more}, later than this machine's clock: set the clock, or "
            f"run: find {where} -newermt now -type f -exec touch {{}} +"
        )


class WorkflowFailed(click.ClickException):
    """Some runs failed; what was finished stays finished."""


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[int]:
    """Hold a build folder for this process and its children, however they die; refuse if a living
    one holds it.
    """
    with (paths.own_folder(folder) / ".running").open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            who = f"process {stream.read()} or one that it started"
            raise WorkflowFailed(
                f"{folder} is in use by {who}: wait for it to end, or stop it"
            ) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        for name in PLACES:
            paths.own_folder(folder / name)
        yield stream.fileno()


def reproduce(
    study_name: str,
    cores: int,
    cluster: str | None,
    processes: int,
    *,
    rows: Sequence[str],
    dry_run: bool,
) -> None:
    """Run every notebook under a study and write its report; on a cluster each run is a job.

    `rows` ("mini/high/42"): their records alone, without a report. Raises StudyError or DataError
    before anything runs, WorkflowFailed when a run fails.
    """
    path, study = find(study_name).resolve(), load_study(study_name)
    folder = paths.build(study.name)
    wanted = of_rows(study, rows)
    settings = [f"study={quote(str(path))}", f"processes={processes}"]
    where = ["--workflow-profile", str(cluster_profile(cluster)) if cluster else "none"]
    if dry_run:
        folder.mkdir(parents=True, exist_ok=True)
        if _snakemake(folder, settings, wanted, "--cores", "1", "--summary", *where):
            raise WorkflowFailed(f"{path}: its runs cannot be planned; the lines above say why")
        return
    check_packages()
    refuse_files_of_the_future(folder, path)
    clock, source = time.perf_counter(), sources.resolve(study.data)
    show(f"==> study {study.name}: {path}\n==> data: {source.name}\n==> build: {folder}")
    kernels = contextlib.nullcontext(({}, [])) if cluster else forked_runs.serving()
    with claimed(folder) as hold, kernels as (served, lifeline):
        options = ["--cores", str(cores), "--rerun-incomplete", "--keep-going", *where]
        how = {"pass_fds": [hold, *lifeline], "env": environment.of_a_run() | served}
        code = _snakemake(folder, settings, wanted, *options, **how)
    taken, seconds = divmod(time.perf_counter() - clock, 60)
    spent = f"{taken:.0f} min {seconds:.0f} s"
    if code:
        raise WorkflowFailed(
            f"some runs failed after {spent} (lines with 'saobp:' above say why, logs are in {folder}/logs); "
            "what was finished stays finished: mend the cause and give the same command again"
        )
    show(
        f"==> done in {spent}: {f'records in {folder}/records' if rows else f'open {folder}/index.html'}"
    )


def cluster_profile(name: str) -> Path:
    """Return the folder of a cluster's settings: one of profiles/cluster/ by name, or a folder of
    your own.
    """
    known = paths.root() / "profiles" / "cluster"
    for folder in (known / name, Path(name)):
        if (folder / "config.yaml").is_file():
            return folder.resolve()
    names = ", ".join(sorted(path.name for path in known.iterdir()))
    raise WorkflowFailed(
        f"no cluster is called '{name}': give {names}, or a folder with a config.yaml of Snakemake"
    )


def of_rows(study: Study, rows: Iterable[str]) -> list[str]:
    """Return the records of rows that are typed as "mini/high/42", of each its pretraining
    first.
    """
    known, names = study.pairs(), []
    for text in rows:
        named = ROW.fullmatch(text)
        if not named or named.groups()[:2] not in known or int(named[3]) not in SEEDS:
            all_rows = ", ".join("/".join(pair) for pair in known)
            known_rows = f"{all_rows}, and /SEED, 0 to {SEEDS[-1]}"
            raise StudyError(
                f"--rows: no row {text!r} in study {study.name}; give one of {known_rows}"
            )
        model, algorithm, seed = named.groups()
        row, tuned = f"{model}-{algorithm}-{int(seed)}", study.finetune
        names.append(f"04-pretrain-{row}")
        names += [
            f"05-finetune-{row}-{group}-{head}" for group in tuned.groups for head in tuned.seeds
        ]
        names += [
            f"06-attention-{row}-{task}"
            for m, a, task in study.looked_at()
            if (m, a) == (model, algorithm)
        ]
    return [f"records/{name}.json" for name in dict.fromkeys(names)]


def _snakemake(
    folder: Path, settings: Sequence[str], wanted: Sequence[str], *options: str, **how: Any
) -> int:
    """Call Snakemake with the project's settings alone, in the environment of a run."""
    command = [sys.executable, "-P", "-m", "snakemake"]
    command += ["--snakefile", str(paths.root() / "Snakefile"), "--directory", str(folder)]
    command += ["--config", *settings, f"wanted={len(wanted)}"]
    # not those of the user, or of the folder that the command was given in
    command += ["--profile", "none", "--rerun-triggers", *TRIGGERS]
    # the folder is claimed; a lock in it is that of a run that was killed
    command += ["--nolock", "--quiet", "rules", "host", *options, "--", *wanted]
    how = {"env": environment.of_a_run()} | how
    return subprocess.run(command, check=False, **how).returncode
