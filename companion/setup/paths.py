"""Where things are, and files and folders that are whole or not there at all.

A sealed folder has the hash of every file beside it, and is checked before it is used.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

SEAL = "whole.json"
# below build/, beside the studies
CACHE = "cache"
# letters and digits; within a name also blanks, dots, dashes
PLAIN = re.compile(r"\w([\w .+-]{0,98}\w)?")
log = logging.getLogger(__name__)


def root() -> Path:
    """Return the repository: the nearest folder above here that holds `notebooks/studies`."""
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "notebooks" / "studies").is_dir():
            return folder
    raise FileNotFoundError(f"{here} is not inside the saobp repository: change into it first")


def is_plain(name: str) -> bool:
    """Tell whether a name can be that of a study, or of a part of one: it names a folder of its
    own, and nothing else.
    """
    return bool(PLAIN.fullmatch(name)) and name.casefold() != CACHE


def plain(name: str) -> str:
    """Return a study's name. Raises ValueError, one line, if it would lead to another folder."""
    if not is_plain(name):
        raise ValueError(
            f"study {name[:40]!r}: is no name of a study; take letters, digits, '-' and '_'"
        )
    return name


def build(study: str) -> Path:
    """Return `build/<study>`, where a study's runs leave everything they make.

    Raises ValueError for what is no study's name, as `results` does.
    """
    return root() / "build" / plain(study)


def cache() -> Path:
    """Return the folder for tokenised corpora and generated data, shared by all studies."""
    return root() / "build" / CACHE


def results(study: str) -> Path:
    """Return the folder of a study's tracked records."""
    return root() / "data" / "results" / plain(study)


def figures() -> Path:
    """Return the folder of tracked tables and figures."""
    return root() / "figures"


def check_letters(name: str | Path) -> None:
    """Raise ValueError for a name that is no UTF-8, in Latin-1 say: no notebook and no record could
    hold it.
    """
    try:
        str(name).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name}: is no UTF-8, in which notebooks and records are written; rename it"
        ) from None


def own_folder(folder: Path) -> Path:
    """Make a folder, with those above it, where it is not there yet; PermissionError if it is not
    ours to write.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(None, "Permission denied")
    except OSError as error:
        raise PermissionError(
            f"{folder}: cannot be written ({error.strerror}): choose a folder you own"
        ) from None
    return folder


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary neighbour that becomes `path`, replacing it, when the block ends without an
    error.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a folder; name a file")
    own_folder(path.parent)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    try:
        yield Path(name)
        os.chmod(name, 0o666 & ~_mask())
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def _mask() -> int:
    """Return the rights that this user's files do not have: they may be a group's."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole or not at all: to a temporary neighbour, then renamed."""
    with new_file(path) as temporary:
        # of a name in another encoding the bytes are written out
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


@contextmanager
def new_folder(path: Path, ours: Collection[str] | None = None) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path`, replacing it, when the block ends without an
    error.

    Of the old one go the files that are `ours` and those that the new one has too; by default those
    that its seal names. What somebody else put there stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        # a group's folder keeps its group
        temporary.chmod(0o777 & ~_mask() | temporary.stat().st_mode & stat.S_ISGID)
        if not path.exists():
            os.replace(temporary, path)
            return
        _keep_others(path, temporary, (sealed(path) or {}) if ours is None else ours)
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
        # a kill after this leaves the old one there, whole
        os.replace(path, aside / path.name)
        os.replace(temporary, path)
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _keep_others(old: Path, new: Path, ours: Collection[str]) -> None:
    """Copy the files of a folder that are not ours into the one that takes its place."""
    for file in sorted(old.rglob("*")):
        name = file.relative_to(old).as_posix()
        copy = new / name
        if (file.is_dir() and not file.is_symlink()) or name in {*ours, SEAL} or copy.exists():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy, follow_symlinks=False)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file: some file systems leave zeros of the right length after a power
    cut.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def seal(folder: Path) -> None:
    """Write the hash of every file of a finished folder, and of those below it, beside them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    hashes = {path.relative_to(folder).as_posix(): digest(path) for path in files}
    write_text(folder / SEAL, json.dumps(hashes, indent=1))


def sealed(folder: Path) -> dict[str, str] | None:
    """Return the hash of every file that a folder's seal names: empty if it names none, None without
    one that can be read.
    """
    try:
        hashes = json.loads((folder / SEAL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    named = isinstance(hashes, dict) and not any(".." in name or name[:1] == "/" for name in hashes)
    return hashes if named else {}


def damage(folder: Path) -> str | None:
    """Say what is wrong with a sealed folder, in a few words; None if it is whole."""
    if (hashes := sealed(folder)) is None:
        return "it was not written to its end"
    if not hashes:
        return f"{SEAL} is damaged"
    for name, expected in hashes.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if digest(folder / name) != expected:
            return f"{name} is damaged"
    return None


def made(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return a sealed folder, which `write` fills where it is not there whole: once, whoever else
    asks for it.

    What killed writers left is removed. Raises ValueError, one line with the remedy, if it cannot
    be written.
    """
    try:
        own_folder(folder.parent)
        with FileLock(folder.with_suffix(".lock")):
            problem = damage(folder)
            if problem is None:
                return folder
            if folder.exists():
                log.warning("%s is not whole (%s): making it again", folder, problem)
            for left in folder.parent.glob(f".{folder.name}.*"):
                shutil.rmtree(left, ignore_errors=True)
            with new_folder(folder) as unfinished:
                write(unfinished)
                seal(unfinished)
            return folder
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"{folder}: cannot be written ({reason}); free space or rights there"
        ) from None
