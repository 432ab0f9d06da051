"""The numbers of README, RESULTS and the other pages; their sentences are the templates of `texts/`."""
