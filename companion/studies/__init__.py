"""One folder per planned study: what it runs and how its records are read.

A study takes its design from the plan in `data/plan`, makes one record a run, and returns rows of
estimates from them. It decides nothing that the plan leaves open.
"""
