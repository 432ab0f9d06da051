"""When a model has learned: the first step at which a share of the questions is right."""

from collections.abc import Sequence


def first_step(steps: Sequence[float], shares: Sequence[float], known: float) -> float | None:
    """Return the step at which `shares` reach `known` for the first time, linear between checks.

    `steps` rise; None if no check reaches it. A run that knows it at its first check has learned
    there.
    """
    earlier_step, earlier_share = None, None
    for step, share in zip(steps, shares, strict=True):
        if share >= known:
            if earlier_step is None:
                return float(step)
            part = (known - earlier_share) / (share - earlier_share)
            return earlier_step + part * (step - earlier_step)
        earlier_step, earlier_share = step, share
    return None
