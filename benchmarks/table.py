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
from companion.results import written
from companion.results.times import COMPILED, TORCH
from companion.setup.paths import write_text
from companion.setup.studies import ALTERNATIONS

HERE = Path(__file__).parent
MARK = "<!-- table: written by table.py -->\n"
NUMBERS, END = "<!-- numbers: written by table.py -->\n", "<!-- end of numbers -->\n"
FIRST = {
    "a training step with dropout, 32 × 128 tokens, CPU": "training-step-with-dropout-32-x-128",
    "a training step without dropout, 32 × 128 tokens, CPU": "training-step-without-dropout-32-x-128",
    "inference, 1 × 128 tokens, CPU": "inference-1-x-128",
}
"""What README.md begins with, by the endpoints of the planned study of cost."""
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
    """Tabulate High's time over plain attention's."""
    frame = pd.concat([on_a_cpu(), on_a_gpu()], ignore_index=True)
    frame["sequences × tokens"] = [f"{row.sequences} × {row.length}" for row in frame.itertuples()]
    frame["setting"] = frame["setting"].str.replace("train_no_dropout", "training without dropout")
    frame["setting"] = frame["setting"].str.replace("train,", "training with dropout,")
    frame = frame.rename(columns={"ratio": "× plain"})
    return frame[["setting", "sequences × tokens", "× plain"]].to_markdown(
        index=False, floatfmt=".2f"
    )


def on_a_cpu() -> pd.DataFrame:
    """Return High's time over Original's in each setting of the planned study: setting, sequences,
    length, ratio, the larger one of both thread counts.
    """
    rows = []
    for record in tracked.select(ALTERNATIONS, "alternations"):
        timed = record["parameters"]
        phase, passes = timed["phase"], timed.get("passes", TORCH)
        if passes in (COMPILED, TORCH):
            ratio = record["metrics"]["ways"]["high"][phase]["ratio"]["median"]
            place = (phase, timed["length"], timed["sequences"], f"{phase}, {passes}")
            rows.append((*place, ratio))
    keys = ["phase", "length", "sequences", "setting"]
    frame = pd.DataFrame(rows, columns=[*keys, "ratio"])
    return frame.groupby(keys, as_index=False)["ratio"].max()


def on_a_gpu() -> pd.DataFrame:
    """Return High's time over the fused kernel's on a GPU, attention alone, in the device's own
    time: setting (type and direction), sequences, length, ratio.
    """
    rows = []
    for key, direction in DIRECTIONS.items():
        for row in measured("gpu")["rows"]:
            sequences, _, length, _ = row["shape"]
            if row["way"] == "high" and length in GPU_LENGTHS:
                setting = f"{row['dtype']}, {direction}"
                rows.append((setting, sequences, length, row[key]["alone"]["ratio"]))
    return pd.DataFrame(rows, columns=["setting", "sequences", "length", "ratio"])


def first_numbers() -> str:
    """Tabulate what most readers ask: a whole BERT-Mini, and many and long texts on a GPU."""
    key = "cost/time-of-{}-2-threads/high-over-original-fused"
    rows = {title: written.effect(key.format(name)) for title, name in FIRST.items()}
    forward = on_a_gpu().query("setting == 'bfloat16, forward'").set_index(["sequences", "length"])
    for sequences, length in ((256, 128), (8, 4096)):
        title = f"attention alone, {sequences} × {length} tokens, half precision, forward, GPU"
        rows[title] = f"{forward.at[(sequences, length), 'ratio']:.2f}"
    frame = pd.Series(rows, name="× plain").rename_axis("High takes").reset_index()
    return frame.to_markdown(index=False)


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
    before, _, rest = words.partition(NUMBERS)
    after = rest.partition(END)[2]
    words = f"{before}{NUMBERS}\n{first_numbers()}\n\n{END}{after}"
    write_text(readme, f"{words}{MARK}\n{table()}\n")
    print(table())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
