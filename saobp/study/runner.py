"""The `saobp` command under its former name: `python -m saobp.study.runner`."""

from saobp.study.publication.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
