"""What High was to take at most of plain attention's time, and what it takes (benchmarks/README.md).

The aims were set before compiled passes and kernels were written.
"""

import json

import pandas as pd

from companion.records import tracked
from companion.results.times import COMPILED, TORCH
from companion.setup import paths
from companion.setup.studies import ALTERNATIONS

# of High's time over Original's, at most, on a CPU
AIMS = {"train": 1.05, "train_no_dropout": 1.05, "inference": 1.10}
# of attention alone on a GPU, by tokens
AIMS_ON_A_GPU = {128: 1.15, 4096: 2.2}


def on_a_cpu() -> pd.DataFrame:
    """Return High's time over Original's in each setting of the planned study, a row a setting and
    thread count.
    """
    rows = []
    for record in tracked.select(ALTERNATIONS, "alternations"):
        timed = record["parameters"]
        phase = timed["phase"]
        ratio = record["metrics"]["ways"]["high"][phase]["ratio"]["median"]
        setting = f"{phase}, {timed.get('passes', TORCH)}"
        rows.append((phase, setting, timed["sequences"], timed["length"], ratio))
    return pd.DataFrame(rows, columns=["phase", "setting", "sequences", "length", "ratio"])


def on_a_gpu(*, called: bool = False) -> pd.DataFrame:
    """Return High's time over the fused kernel's on a GPU, attention alone, a row a batch, type and
    direction.

    The times are the device's own or, if `called`, those of calls from Python.
    """
    file = paths.root() / "benchmarks" / "gpu.json"
    measured = json.loads(file.read_text(encoding="utf-8"))["rows"]
    rows = []
    for key, direction in (("forward", "forward"), ("forward_and_backward", "both")):
        for row in measured:
            if row["way"] == "high":
                sequences, _, length, _ = row["shape"]
                timed = row[key] if called else row[key]["alone"]
                rows.append((sequences, length, row["dtype"], direction, timed["ratio"]))
    return pd.DataFrame(rows, columns=["sequences", "length", "dtype", "direction", "ratio"])


def met() -> pd.DataFrame:
    """Return each setting that has an aim: setting, sequences, length, aim, ratio, met.

    On a CPU the ratio is the larger of both thread counts; on a GPU it is that of device time.
    """
    cpu = on_a_cpu()
    cpu = cpu[cpu["setting"].str.endswith((COMPILED, TORCH))]
    keys = ["phase", "length", "sequences", "setting"]
    cpu = cpu.groupby(keys, as_index=False)["ratio"].max()
    cpu["aim"] = cpu["phase"].map(AIMS)
    gpu = on_a_gpu()
    gpu["setting"] = gpu["dtype"] + ", " + gpu["direction"]
    gpu["aim"] = gpu["length"].map(AIMS_ON_A_GPU)
    settings = pd.concat([cpu, gpu.dropna()], ignore_index=True)
    settings = settings[["setting", "sequences", "length", "aim", "ratio"]]
    return settings.assign(met=settings["ratio"] <= settings["aim"])
