"""Sparing the attention sink in public models that are not trained any further, and the dose.

In: the sections `spare` and `dose` of the plan, pairs of sentences and running text. `run` and
`dose` make the records, `read` and `curves` return numbers from them.
"""
