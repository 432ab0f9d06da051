"""The `saobp` command under its former name."""

from saobp.study.publication.cli import main

__all__ = ["main"]
