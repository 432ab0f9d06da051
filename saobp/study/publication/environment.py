"""Whether the installed packages are those that the study asks for: said before a run, not an hour into it."""

from collections.abc import Iterable
from importlib import metadata

from packaging.requirements import Requirement

EXTRAS = ("", "study")  # what a run needs; the tests' own tools may differ


class WrongVersion(ValueError):
    """A package that is missing or of a release that the study was not written for; one line with the remedy."""


def check(requirements: Iterable[str] | None = None) -> None:
    """Raise WrongVersion if a package is missing or its version is not within what the project asks for."""
    for text in metadata.requires("saobp") or [] if requirements is None else requirements:
        wanted = Requirement(text)
        if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in EXTRAS):
            continue
        try:
            found = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            raise WrongVersion(f"{wanted.name} is not installed, and saobp needs it: {_remedy(wanted)}") from None
        if not wanted.specifier.contains(found, prereleases=True):
            raise WrongVersion(f"{wanted.name} {found} is installed, saobp needs {wanted.specifier}: {_remedy(wanted)}")


def _remedy(wanted: Requirement) -> str:
    return f"run 'make install', or pip install '{wanted.name}{wanted.specifier}'"
