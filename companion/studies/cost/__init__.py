"""The study `cost`: the time of training and inference beside plain attention, in alternations.

In goes the plan's section `cost`. Out comes one record per model and use.
"""
