"""One experiment kept for a GPU: branches of four trunks of BERT-Mini that advance in step.

`design` has what the plan says, `text` the file of tokens that travels to the machine, `run` the
training and its records (`python -m companion.studies.lockstep.run`).
"""
