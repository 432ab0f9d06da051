"""README and the other pages: templates of `texts/`, filled with rows of the table of results.

A template looks a number up by its key and decides nothing; its sentences are written by hand.
"""
