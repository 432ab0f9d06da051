"""How many processes share a run, and which of them this is, as Accelerate sees it: torchrun, MPI, or one alone."""

import torch
from accelerate import PartialState


def on_cpu() -> bool:
    """Say whether there is no accelerator: transformers takes bfloat16 on a processor only when told so."""
    return not (torch.cuda.is_available() or torch.backends.mps.is_available())


def state() -> PartialState:
    """Return Accelerate's view of the run: `num_processes`, `is_main_process`, `wait_for_everyone()`."""
    return PartialState(cpu=on_cpu())
