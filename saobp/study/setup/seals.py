"""Folders that are known to be whole: sealed with the hash of every file when written, checked before they are used."""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from saobp.study.setup import paths

SEAL = "whole.json"
log = logging.getLogger(__name__)


class CacheError(ValueError):
    """A folder of the cache that cannot be written; one line that names it and the remedy."""


def digest(path: Path) -> str:
    """Return the SHA-256 of a file: some file systems leave zeros of the right length after a power cut."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def seal(folder: Path) -> None:
    """Write the hash of every file of a finished folder, and of those below it, beside them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    hashes = {path.relative_to(folder).as_posix(): digest(path) for path in files}
    paths.write_text(folder / SEAL, json.dumps(hashes, indent=1))


def flaw(folder: Path) -> str | None:
    """Say what is wrong with a sealed folder, in a few words; None if it is whole."""
    try:
        hashes = json.loads((folder / SEAL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "it was not written to its end"
    if not (isinstance(hashes, dict) and hashes) or any(".." in name or name.startswith("/") for name in hashes):
        return f"{SEAL} is damaged"
    for name, expected in hashes.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if digest(folder / name) != expected:
            return f"{name} is damaged"
    return None


def made(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return a sealed folder, which `write` fills where it is not there whole: once, whoever else asks for it.

    What killed writers left is removed. Raises CacheError if it cannot be written.
    """
    try:
        paths.own_folder(folder.parent)
        with FileLock(folder.with_suffix(".lock")):
            problem = flaw(folder)
            if problem is None:
                return folder
            if folder.exists():
                log.warning("%s is not whole (%s): making it again", folder, problem)
            for left in folder.parent.glob(f".{folder.name}.*"):
                shutil.rmtree(left, ignore_errors=True)
            with paths.new_folder(folder) as unfinished:
                write(unfinished)
                seal(unfinished)
            return folder
    except OSError as error:
        reason = error.strerror or error
        raise CacheError(f"{folder}: cannot be written ({reason}); free space or rights there") from None
