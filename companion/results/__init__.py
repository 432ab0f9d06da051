"""The one table of results: what every comparison came to, and what the paper's fifteen claims come
to.

In go the tracked records, the plan and the numbers that the paper prints. Out come
`figures/results.csv`, one row per comparison, and `figures/claims.csv`. Texts, claims and titles read
a row by its key and decide nothing.
"""
