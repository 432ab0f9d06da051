"""The page about one model: its attention maps with and without the step, what it predicts, and the
explorer.
"""
