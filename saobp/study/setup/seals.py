"""Folders that are known to be whole: sealed with the hash of every file when written, checked before they are used."""

import hashlib
import json
from pathlib import Path, PurePosixPath

from saobp.study.setup import paths

SEAL = "whole.json"
UNSEALED = "it was not written to its end"


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
        return UNSEALED
    if not (isinstance(hashes, dict) and hashes and all(map(_inside, hashes))):
        return f"{SEAL} is damaged"
    for name, expected in hashes.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if digest(folder / name) != expected:
            return f"{name} is damaged"
    return None


def _inside(name: str) -> bool:
    """Say whether a path leads to a place in its folder: nothing else is opened for a seal's sake."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
