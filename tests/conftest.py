"""Settings for every test: one thread, fixed seeds, no network, and hypothesis without
deadlines.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "everyday",
    # the machine may be busy: a slow example is not a wrong one
    deadline=None,
    max_examples=30,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("everyday")


SLOWEST = ("publication", "notebooks", "training", "figures", "cost")
"""Folders whose files take minutes: begun last, one of them would run alone at the end."""


def pytest_collection_modifyitems(items):
    """Hand out the files of the slowest folders first."""
    items.sort(key=lambda item: item.path.parent.name not in SLOWEST)


@pytest.fixture(autouse=True)
def reproducible():
    """Start every test from the same random state, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
