"""One over a message without a division, as the kernels of a GPU work it out: a line and Newton's steps."""

import math

import pytest
import torch

from saobp.fused import gpu


@pytest.mark.parametrize("strength", [0.5, 0.2, 0.01, 1e-5, -0.2, -0.5])
@pytest.mark.parametrize("error", [*gpu.ROUNDING.values()])
def test_it_is_as_near_as_asked_in_as_few_steps_as_it_takes(strength, error):
    """The error is that of all messages between 1 and e^-strength; one step less would not do."""
    change = math.expm1(-strength)
    slope, height, steps = gpu.line_of(change, error)
    messages = 1 + change * torch.linspace(0, 1, 10_001, dtype=torch.float64)
    found, far = height - slope * messages, []
    for _ in range(steps + 1):
        far.append(float((messages * found - 1).abs().max()))
        found = found * (2 - messages * found)
    assert far[-1] <= error * (1 + 1e-6)
    assert steps == 0 or far[-2] > error
