"""The numbers of README, RESULTS and the other pages; their sentences are the templates of `texts/`."""

from saobp.study.setup import studies as studies  # beside the numbers, for whoever reads them
