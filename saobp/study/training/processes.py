"""How many processes share a run, and which of them this is, as Accelerate sees it: torchrun, MPI, or one alone."""

import torch
from accelerate import PartialState


def on_cpu() -> bool:
    """Say whether there is no accelerator: transformers takes bfloat16 on a processor only when told so."""
    return not (torch.cuda.is_available() or torch.backends.mps.is_available())


def count() -> int:
    """Return how many processes share the run."""
    return PartialState(cpu=on_cpu()).num_processes


def wait() -> None:
    """Wait until every process of the run has come here."""
    PartialState(cpu=on_cpu()).wait_for_everyone()


def is_first() -> bool:
    """Say whether this process is the one that writes what all of them share."""
    return PartialState(cpu=on_cpu()).is_main_process
