"""What speeds learning? Time to learn questions of several hops, at tuned learning rates.

`arms` has the forms of attention that are compared, `design` what the plan says and which runs
follow from it, `run` makes one record a run, and `read` turns records into ratios.
"""
