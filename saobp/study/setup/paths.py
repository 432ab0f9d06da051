"""Where things are: the repository, a study's build folder, the shared cache."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def root() -> Path:
    """Return the repository: the nearest folder above here that holds `notebooks/studies`."""
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        if (folder / "notebooks" / "studies").is_dir():
            return folder
    raise FileNotFoundError(f"{here} is not inside the saobp repository: change into it first")


def build(study: str) -> Path:
    """Return `build/<study>`, where a study's runs leave everything they make."""
    return root() / "build" / study


def cache() -> Path:
    """Return the folder for tokenised corpora and generated data, shared by all studies."""
    return root() / "build" / "cache"


def results(study: str) -> Path:
    """Return the folder of a study's tracked records."""
    return root() / "data" / "results" / study


def figures() -> Path:
    """Return the folder of published tables and figures."""
    return root() / "figures"


def own_folder(folder: Path) -> Path:
    """Make a folder, with those above it, where it is not there yet; PermissionError if it is not ours to write."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(None, "Permission denied")
    except OSError as error:
        raise PermissionError(f"{folder}: cannot be written ({error.strerror}): choose a folder you own") from None
    return folder


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary neighbour that becomes `path`, replacing it, when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    try:
        yield Path(name)
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole or not at all: to a temporary neighbour, then renamed."""
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path`, replacing it, when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        if path.is_dir():  # aside first: a kill in between leaves the old one beside, whole
            os.replace(path, old := Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old.")) / path.name)
            os.replace(temporary, path)
            shutil.rmtree(old.parent, ignore_errors=True)
            return
        if path.exists():  # a file where a folder belongs
            path.unlink()
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
