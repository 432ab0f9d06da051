"""The tiles of attention: their sizes, products and sweeps over them, in torch and compiled."""
