"""Write what the benchmarks measured as one table and one figure of README.md, and as CSV files:
`python benchmarks/table.py`.
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from companion.figures import style
from companion.records import tracked
from companion.results.times import COMPILED, TORCH
from companion.setup.paths import write_text
from companion.setup.studies import ALTERNATIONS

HERE = Path(__file__).parent
MARK = "<!-- table: written by table.py -->\n"
INFERENCE, WITHOUT, WITH = "inference", "training", "training with dropout"
PHASES = {"inference": INFERENCE, "train_no_dropout": WITHOUT, "train": WITH}
ORDER = {work: place for place, work in enumerate(PHASES.values())}
ON_A_CPU = {
    (COMPILED, 1): "CPU, 1 thread",
    (COMPILED, 2): "CPU, 2 threads",
    (TORCH, 2): "CPU, 2 threads, no compiler",
}
ON_A_GPU = {"forward": INFERENCE, "forward_and_backward": WITHOUT}
PLACES = (*ON_A_CPU.values(), "GPU, bfloat16", "GPU, float32")
CELL = ["work", "sequences", "length", "where", "ratio"]
DIRECTIONS = {"forward": "forward", "forward_and_backward": "forward + backward"}
ALONE = ("attention", "gpu")
GPU_LENGTHS = (128, 4096)
COLUMNS = ["batch", "heads", "tokens", "width"]


def measured(name: str) -> dict:
    """Return what a benchmark's script wrote."""
    text = (HERE / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


def attention_alone(name: str) -> pd.DataFrame:
    """Return one row per shape, way and direction: milliseconds, ratio to `sdpa` with quartiles,
    peak MiB; on a GPU also the ratio of device time.
    """
    rows = []
    for way in measured(name)["rows"]:
        for direction in DIRECTIONS.keys() & way.keys():
            timed = way[direction]
            low, high = timed["ratio_quartiles"]
            row = dict(zip(COLUMNS, way["shape"], strict=True))
            row |= {"threads": way.get("threads"), "dtype": way.get("dtype", "float32")}
            row |= {"way": way["way"], "direction": DIRECTIONS[direction]}
            row |= {"ms": timed["median_ms"], "ratio": timed["ratio"]}
            row |= {"low": low, "high": high, "peak_mib": timed["peak_mib"]}
            row["device_ratio"] = (timed.get("alone") or {}).get("ratio")
            rows.append(row)
    order = [*COLUMNS, "threads", "dtype", "direction"]
    frame = pd.DataFrame(rows).sort_values(order, kind="stable")
    return frame.dropna(axis="columns", how="all")


def table() -> str:
    """Tabulate High's time over plain attention's: a whole BERT-Mini on a CPU, attention alone on a
    GPU.
    """
    frame = pd.concat([on_a_cpu(), on_a_gpu()], ignore_index=True)
    wide = frame.pivot(index=["work", "length", "sequences"], columns="where", values="ratio")
    wide = wide.sort_index(
        key=lambda level: level.map(ORDER.get) if level.name == "work" else level
    )
    wide.index = [f"{work}, {sequences} × {length}" for work, length, sequences in wide.index]
    shown = wide[[*PLACES]].map("{:.2f}".format).replace("nan", "–")
    return (
        shown.rename_axis("sequences × tokens")
        .reset_index()
        .to_markdown(
            index=False, disable_numparse=True, colalign=("left", *["right"] * len(PLACES))
        )
    )


def on_a_cpu() -> pd.DataFrame:
    """Return High's time over Original's in each setting of the planned study: work, sequences,
    length, where, ratio.
    """
    rows = []
    for record in tracked.select(ALTERNATIONS, "alternations"):
        timed = record["parameters"]
        phase, threads, passes = timed["phase"], timed["threads"], timed.get("passes", TORCH)
        where = ON_A_CPU.get((passes, threads))
        if where:
            ratio = record["metrics"]["ways"]["high"][phase]["ratio"]["median"]
            rows.append((PHASES[phase], timed["sequences"], timed["length"], where, ratio))
    return pd.DataFrame(rows, columns=CELL)


def on_a_gpu() -> pd.DataFrame:
    """Return High's time over the fused kernel's on a GPU, attention alone, in the device's own
    time: work, sequences, length, where, ratio.
    """
    rows = []
    for direction, work in ON_A_GPU.items():
        for row in measured("gpu")["rows"]:
            sequences, _, length, _ = row["shape"]
            if row["way"] == "high" and length in GPU_LENGTHS:
                ratio = row[direction]["alone"]["ratio"]
                rows.append((work, sequences, length, f"GPU, {row['dtype']}", ratio))
    return pd.DataFrame(rows, columns=CELL)


def figure() -> plt.Figure:
    """Draw High's time over `sdpa`'s by the number of tokens, on a CPU and on a GPU."""
    panels, axes = plt.subplots(1, 2, figsize=(style.PAGE, 2.2), sharey=True)
    for ax, name, title in zip(axes, ALONE, ("2 CPU threads", "GPU, device time"), strict=True):
        frame = attention_alone(name).query("way == 'high'")
        if name == "attention":
            frame = frame[frame["threads"] == 2].assign(device_ratio=frame["ratio"])
        for (dtype, direction), line in frame.groupby(["dtype", "direction"]):
            line = line.groupby("tokens")["device_ratio"].max()
            ax.plot(line.index, line, ".-", label=f"{dtype}, {direction}")
        ax.axhline(1, color="0.6", linewidth=0.7, linestyle=":")
        ax.set_xscale("log", base=2)
        ax.set(title=title, xlabel="Tokens", xticks=sorted(set(frame["tokens"])))
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.legend(loc="upper left", fontsize=6)
    axes[0].set_ylabel("High / sdpa")
    axes[0].set_ylim(0, 5.5)
    return panels


def main() -> None:
    """Write the CSV files, the figure and the table of README.md."""
    for name in ALONE:
        write_text(HERE / f"{name}.csv", attention_alone(name).to_csv(index=False))
    with plt.style.context(style.SHEET):
        figure().savefig(HERE / "attention.png", dpi=160)
    readme = HERE / "README.md"
    words = readme.read_text(encoding="utf-8").partition(MARK)[0]
    write_text(readme, f"{words}{MARK}\n{table()}\n")
    print(table())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
