"""The numbers of README, RESULTS and the other pages; their sentences are the templates of `texts/`."""

from companion.setup import studies as studies  # notebook 12 imports it from here
