"""Print the measured numbers as tables, and put them into README.md: `python
benchmarks/table.py`.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from companion.results import aims as aimed
from companion.setup.paths import write_text

HERE = Path(__file__).parent
MARK = "<!-- tables: written by table.py -->\n"
BOTH, BACK = ("forward", "forward_and_backward"), "forward + backward"


def ratio(found: dict) -> str:
    """Return a ratio and its quartiles."""
    return "{:.2f} ({:.2f} – {:.2f})".format(found["ratio"], *found["ratio_quartiles"])


# of one direction
ON_A_PROCESSOR = {
    "ms": lambda found: f"{found['median_ms']:.2f}",
    "× sdpa": ratio,
    "MiB": lambda found: "—" if found["peak_mib"] is None else f"{found['peak_mib']:.0f}",
}
ON_A_GPU = {
    "call ms": lambda found: f"{found['median_ms']:.3f}",
    "call ×": ratio,
    "device ×": lambda found: ratio(found["alone"]) if found["alone"] else "—",
    "MiB": lambda found: f"{found['peak_mib']:.0f}",
}


def table(rows: list[list], *head: str) -> str:
    """Return rows of cells as a Markdown table."""
    return pd.DataFrame(rows, columns=head).to_markdown(index=False, disable_numparse=True)


def by(numbers: list[int]) -> str:
    """Return a shape as "32 × 128"."""
    return " × ".join(map(str, numbers))


def times(title: str, found: dict, base: str) -> str:
    """Tabulate ways of doing the same, times and ratios to the first."""
    rows = []
    for name, way in found.items():
        low, high = way["ratio_quartiles"]
        quartiles = f"{low:.2f} – {high:.2f}"
        median, fastest = (
            f"{way[key]:.{1 if way[key] >= 10 else 3}f}" for key in ("median_ms", "fastest_ms")
        )
        rows.append([name, median, f"{way['ratio']:.2f}", quartiles, fastest, way["rounds"]])
    return table(rows, title, "median ms", f"× {base}", "quartiles", "fastest ms", "pairs")


def circumstances(found: dict) -> str:
    """Say where and when."""
    threads = (
        "" if "rows" in found else f"{found['threads']} thread{'s' * (found['threads'] > 1)}; "
    )
    load = f"load average at the start {found['load_average']:.1f}"
    return f"{found['device']['name']}; commit {found['code']}; torch {found['torch']}; {threads}{load}."


def alternatives(
    found: dict, key: str, column: str, measured: dict[str, Callable[[dict], str]]
) -> str:
    """Tabulate each shape and way, both directions side by side: what is `measured`, or dashes
    where one does not run.

    The second column is what a row has under `key`.
    """
    head = [f"{what} {unit}" for what in ("forward", BACK) for unit in measured]
    rows = []
    for one in found["rows"]:
        cells = [
            cell(one[name]) if name in one else "—" for name in BOTH for cell in measured.values()
        ]
        name = one["way"] if one.get("finite", True) else f"{one['way']} (overflows)"
        rows.append([by(one["shape"]), one[key], name, one["forward"]["rounds"], *cells])
    return table(rows, "batch × heads × L × D", column, "way", "rounds", *head)


def most_on_a_gpu() -> str:
    """Return where High takes longest on a GPU beside `sdpa`: a row of device time, a row of the
    time of a call.
    """
    rows = []
    for called in (False, True):
        found = aimed.on_a_gpu(called=called)
        most = found.loc[found["ratio"].idxmax()]
        size = f"{most.sequences} × {most.length} tokens, {most['dtype']}, {most.direction.replace('both', BACK)}"
        rows.append(["call" if called else "device", f"{most.ratio:.2f}", size])
    return table(rows, "time", "high, most × sdpa", "where")


def aims() -> str:
    """Tabulate what High was to take at most, over plain attention, and what it takes."""
    rows = [
        [
            row.setting.replace("both", BACK),
            f"{row.sequences} × {row.length}",
            f"{row.aim:.2f}",
            f"{row.ratio:.2f}",
            "yes" if row.met else "no",
        ]
        for row in aimed.met().itertuples()
    ]
    return table(rows, "", "sequences × tokens", "at most", "takes", "met")


def minutes(found: dict) -> list[str]:
    """Tabulate how long the two commands take, and their notebooks and folders of tests."""
    steps = pd.Series(found["steps"])
    by_notebook = steps.groupby(
        steps.index.str.extract(r"^(\d\d-[a-z]+|[a-z]+)", expand=False).to_numpy()
    )
    runs = by_notebook.agg(["count", "sum", "max"]).reset_index()
    commands = [[name, f"{seconds:.0f}"] for name, seconds in found["commands"].items()]
    tests = [
        [name.replace("tests", "(in none)"), f"{seconds:.0f}"]
        for name, seconds in found["tests"].items()
    ]
    rows = [[name, *(f"{number:.0f}" for number in numbers)] for name, *numbers in runs.to_numpy()]
    return [
        f"**Minutes.** {circumstances(found)}",
        table(commands, "command", "seconds"),
        "Runs of the first command, each timed by Snakemake; two run at a time.",
        table(rows, "notebook", "runs", "seconds together", "the longest"),
        "Tests with their fixtures, by folder; two processes at a time.",
        table(tests, "tests", "seconds together"),
    ]


def operations(file: Path) -> list[str]:
    """Tabulate where the time of an attention goes, before and now, a title and a table each."""
    parts, high = [], pd.read_csv(file, dtype=str, keep_default_na=False).query("way == 'high'")
    for (size, direction), found in high.groupby(["shape", "direction"], sort=False):
        rows = found[["code", "operation", "calls", "us"]].to_numpy().tolist()
        parts.append(f"**Where High's time goes, {direction}, {size}.** One thread.")
        parts.append(table(rows, "code", "operation", "calls", "µs"))
    return parts


def tries(file: Path) -> list[str]:
    """Tabulate what was tried on processors, a title and a table each: High over Original before
    and after.
    """
    parts = []
    for machine, found in pd.read_csv(file, dtype=str, keep_default_na=False).groupby(
        "machine", sort=False
    ):
        kept = found["kept"].where(found["why_not"] == "", found["kept"] + ": " + found["why_not"])
        rows = [
            *zip(found["tried"], found["where"], found["ratio_before"], found["ratio_after"], kept)
        ]
        made = table(rows, "tried", "where", "ratio before", "ratio after", "kept")
        parts += [f"**Tried on {machine}**, High over Original.", made]
    return parts


def tries_on_a_gpu(file: Path) -> list[str]:
    """Tabulate High's times at the settings tried last, beside `sdpa` of the same run, below a
    title.
    """
    found = pd.read_csv(file)
    found = found[found["code"] == found["code"].iloc[-1]]
    rows, base = [], {}
    for one in found.to_dict("records"):
        if one["way"] == "sdpa":
            base = one
            continue
        size = by([one[key] for key in ("batch", "heads", "length", "width")])
        taken = [(one[f"{name}_ms"], base[f"{name}_ms"]) for name in BOTH]
        cells = [cell for ms, plain in taken for cell in (f"{ms:.4f}", f"{ms / plain:.2f}")]
        rows.append([one["type"], size, one["settings"], *cells])
    head = ("forward ms", "forward × sdpa", "both ms", "both × sdpa")
    title = f"**Settings tried on an NVIDIA H100**, commit {one['code']}."
    return [title, table(rows, "type", "batch × heads × L × D", "settings", *head)]


def pretraining(found: dict) -> str:
    """Tabulate tokens a second of whole pretraining steps."""
    rows = [[name, f"{rate:.0f}"] for name, rate in found["tokens_per_second"].items()]
    for name in ("original_over_stock", "high_over_original"):
        ratio = found[name]
        rows.append(
            [
                name.replace("_", " "),
                f"× {ratio['median']:.2f} ({ratio['low']:.2f} – {ratio['high']:.2f})",
            ]
        )
    rows.append(["loading, share of a step", f"{found['loading_share_of_a_step']:.1%}"])
    return table(rows, "", "tokens a second")


def diagnostics(found: dict) -> str:
    """Tabulate what the diagnostics take."""
    parts = {
        name: values
        for name, values in found.items()
        if isinstance(values, dict) and name != "device"
    }
    rows = [
        [part.replace("_", " "), name.replace("_", " "), f"{value:.4g}"]
        for part, values in parts.items()
        for name, value in values.items()
    ]
    return table(rows, "part", "number", "value")


def statistics(measured: dict) -> str:
    """Tabulate time and memory of the statistics of attention beside the matrix."""
    frame = pd.DataFrame(measured["rows"])
    rows = []
    for (setting, length), ways in frame.groupby(["setting", "length"], sort=False):
        cells = {way["way"]: way for way in ways.to_dict("records")}
        row = [setting, f"{length:,}"]
        for name in ("statistics", "matrix"):
            way = cells.get(name)
            row.append("—" if way is None else f"{way['seconds']:.3f}")
            row.append("—" if way is None else f"{way['peak_mib']:.0f}")
        rows.append(row)
    head = ("statistics s", "statistics MiB", "matrix s", "matrix MiB")
    return table(rows, "one head of width 64", "tokens", *head)


def callback(measured: dict) -> str:
    """Tabulate what the callback of the Trainer takes of training."""
    rows = []
    for row in measured["rows"]:
        seconds = f"{row['step_seconds']:.2f}", f"{row['measurement_seconds']:.3f}"
        rows.append([row["factor"], *seconds, f"{100 * row['share']:.2f} %"])
    every = measured["every"]
    return table(
        rows, "factor", "step s", "measurement s", f"share of training, every {every} steps"
    )


def tables() -> str:
    """Return all tables as Markdown."""
    names = ("attention", "gpu", "pretraining", "diagnostics", "minutes")
    names += ("attention_statistics", "attention_callback")
    attention, gpu, trained, looked, clock, sums, logged = (
        json.loads((HERE / f"{name}.json").read_text()) for name in names
    )
    plain, least = attention["bfloat16"], attention["least"]
    on_a_cpu = "On a CPU whole BERT-Mini, in one call on one and two threads, the slower; by torch's passes on two."
    on_a_gpu = "On a GPU, by type and direction, attention alone by the GPU's own time."
    parts = [f"**Aims**, High over plain attention. {on_a_cpu} {on_a_gpu}", aims()]
    parts += [f"**Attention.** {circumstances(attention)}"]
    parts += [alternatives(attention, "threads", "threads", ON_A_PROCESSOR)]
    parts += [f"**Three passes beside plain attention.** {circumstances(least[0])}"]
    parts += [times(f"forward, {by(one['shape'])}", one["ways"], "sdpa") for one in least]
    parts += [
        f"**Plain attention on bfloat16 tensors.** {attention['threads']} threads, in the run of *Attention*."
    ]
    parts += [times(f"forward + backward, {by(plain['shape'])}", plain["ways"], "widened")]
    parts += operations(HERE / "operations.csv")
    parts += tries(HERE / "tries.csv")
    parts += [f"**Attention on a GPU.** {circumstances(gpu)}", most_on_a_gpu()]
    parts += [alternatives(gpu, "dtype", "type", ON_A_GPU)]
    parts += tries_on_a_gpu(HERE / "gpu_tries.csv")
    batch = by(trained["batch"])
    parts += [
        f"**Pretraining BERT-Mini with the Trainer, {batch} tokens.** {circumstances(trained)}"
    ]
    turns = f"median of {trained['turns']} turns (range)"
    parts += [pretraining(trained), f"Ours in {trained['precision']}, stock in float32; {turns}."]
    parts += [
        f"**Diagnostics.** {looked['device']['name']}; commit {looked['code']}.",
        diagnostics(looked),
    ]
    parts += [
        f"**Statistics of attention**, processor time. {circumstances(sums)}",
        statistics(sums),
        f"**The callback of the Trainer**, processor time. {circumstances(logged)}",
        callback(logged),
    ]
    return "\n\n".join([*parts, *minutes(clock)]) + "\n"


def main() -> None:
    """Print the tables and replace those in the README."""
    readme = HERE / "README.md"
    write_text(readme, readme.read_text().partition(MARK)[0] + MARK + "\n" + tables())
    print(tables())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
