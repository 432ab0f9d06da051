"""How `saobp.saobp_attention` does without the L x L matrix: work in tiles, and again for the
gradient.
"""
