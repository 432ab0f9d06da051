"""The study `hops`: who answers questions of one hop and more, and after how much training.

In goes the plan's section `hops` and the story world of the study `stories`. Out comes one record
per width and seed, and tables of accuracy by hops.
"""
