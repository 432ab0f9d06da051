"""`python -m saobp.study.runner`."""

from saobp.study.publication.cli import main

main()
