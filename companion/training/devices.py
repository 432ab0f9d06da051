"""On what, and in how many processes, a model trains."""

import torch
from accelerate import PartialState


def place() -> torch.device:
    """Return where the Trainer puts a model: on the accelerator, if there is one."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def processes() -> PartialState:
    """Return Accelerate's view of who shares a run: `num_processes`, `is_main_process`,
    `wait_for_everyone()`.
    """
    return PartialState(cpu=place().type == "cpu")
