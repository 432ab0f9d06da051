"""The study `branched`: one trunk that has started to learn, continued with each algorithm.

In goes the plan's section `branched`. Out comes one record per trunk and arm.
"""
