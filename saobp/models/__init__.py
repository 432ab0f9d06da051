"""Models of transformers, and public ones that the notebooks look at."""
