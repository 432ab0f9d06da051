"""The study `retrofit`: the refinement put into public models that have learned.

`run` fine-tunes a public encoder, one record per arm, task and seed. `inserted` measures the step in
an encoder and a decoder that are not trained any further.
"""
