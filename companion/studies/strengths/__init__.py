"""Other strengths than the paper's, learned ones, larger models, and more rounds of messages.

`run` trains, `read` shows what the runs came to, `message_rounds` takes the step more than once.
"""
