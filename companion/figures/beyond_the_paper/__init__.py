"""Figures that the paper does not have, each drawn from run records alone."""
