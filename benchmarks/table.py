"""Print the measured numbers as tables, and put them into README.md: `python benchmarks/table.py`."""

import json
from pathlib import Path

import pandas as pd

from saobp.study.setup.paths import write_text

HERE = Path(__file__).parent
MARK = "<!-- tables: written by table.py -->\n"


def row(*cells: object) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def times(title: str, found: dict, base: str) -> list[str]:
    """Tabulate ways of doing the same, times and ratios to the first."""
    lines = [row(title, "median ms", f"× {base}", "quartiles", "fastest ms", "pairs"), row(*["---"] * 6)]
    for name, way in found.items():
        low, high = way["ratio_quartiles"]
        ratio, quartiles = f"{way['ratio']:.2f}", f"{low:.2f} – {high:.2f}"
        median, fastest = f"{way['median_ms']:.1f}", f"{way['fastest_ms']:.1f}"
        lines.append(row(name, median, ratio, quartiles, fastest, way["rounds"]))
    return [*lines, ""]


def circumstances(found: dict) -> str:
    """Say where and when."""
    threads = "" if "rows" in found else f"{found['threads']} thread{'s' * (found['threads'] > 1)}; "
    return (
        f"{processor(found)}; torch {found['torch']}; {threads}load average at the start {found['load_average']:.1f}."
    )


def processor(found: dict) -> str:
    """Return the name of the device, which older files hold alone."""
    device = found["device"]
    return device if isinstance(device, str) else device["name"]


def alternatives(found: dict) -> list[str]:
    """Tabulate time and memory of each shape and way, both directions side by side."""
    head = [f"{what} {unit}" for what in ("forward", "forward + backward") for unit in ("ms", "× sdpa", "MiB")]
    lines = [row("batch × heads × L × D", "threads", "way", *head), row(*["---"] * 9)]
    for one in found["rows"]:
        cells = [cell for name in ("forward", "forward_and_backward") for cell in direction(one.get(name))]
        name = one["way"] if one["finite"] else f"{one['way']} (overflows)"
        lines.append(row(" × ".join(map(str, one["shape"])), one["threads"], name, *cells))
    return [*lines, ""]


def direction(found: dict | None) -> tuple[str, str, str]:
    """Return milliseconds, ratio with its quartiles, and MiB of one direction; dashes where it does not run."""
    if found is None:
        return "—", "—", "—"
    low, high = found["ratio_quartiles"]
    taken = "—" if found["peak_mib"] is None else f"{found['peak_mib']:.0f}"
    return f"{found['median_ms']:.2f}", f"{found['ratio']:.2f} ({low:.2f} – {high:.2f})", taken


def on_a_gpu(found: dict) -> list[str]:
    """Tabulate each shape and way on a GPU: the times of calls in line and of the GPU alone, and memory."""
    head = [
        f"{what} {unit}" for what in ("forward", "forward + backward") for unit in ("ms", "× sdpa", "alone ×", "MiB")
    ]
    lines = [f"**Attention on a GPU.** {circumstances(found)}", ""]
    lines += [row("batch × heads × L × D", "type", "way", *head), row(*["---"] * (3 + len(head)))]
    for one in found["rows"]:
        cells = [cell for name in ("forward", "forward_and_backward") for cell in gpu_direction(one[name])]
        lines.append(row(" × ".join(map(str, one["shape"])), one["dtype"], one["way"], *cells))
    return [*lines, ""]


def gpu_direction(found: dict) -> tuple[str, str, str, str]:
    """Return milliseconds and ratio of calls in line, the GPU's own ratio, and MiB."""
    return (
        f"{found['median_ms']:.3f}",
        f"{found['ratio']:.2f}",
        f"{found['alone']['ratio']:.2f}" if found["alone"] else "—",
        f"{found['peak_mib']:.0f}",
    )


def tries_on_a_gpu(file: Path) -> list[str]:
    """Tabulate High's times at the settings tried last, beside `sdpa` of the same run."""
    found = pd.read_csv(file)
    found = found[found["code"] == found["code"].iloc[-1]]
    shape, times = ["type", "batch", "heads", "length", "width"], ["forward_ms", "forward_and_backward_ms"]
    lines = [row("type", "batch × heads × L × D", "settings", "forward ms", "× sdpa", "both ms", "× sdpa")]
    lines.append(row(*["---"] * 7))
    base = {}
    for one in found.to_dict("records"):
        if one["way"] == "sdpa":
            base = one
            continue
        size = " × ".join(str(one[key]) for key in shape[1:])
        cells = [cell for name in times for cell in (f"{one[name]:.4f}", f"{one[name] / base[name]:.2f}")]
        lines.append(row(one["type"], size, one["settings"], *cells))
    return [f"**Settings tried on an NVIDIA H100**, code {one['code']}.", "", *lines, ""]


def pretraining(found: dict) -> list[str]:
    """Tabulate tokens a second of whole pretraining steps."""
    size, rates = " × ".join(map(str, found["batch"])), found["tokens_per_second"]
    lines = [f"**Pretraining BERT-Mini with the Trainer, {size} tokens.** {circumstances(found)}", ""]
    lines += [row("", "tokens a second"), row("---", "---")]
    lines += [row(name, f"{rate:.0f}") for name, rate in rates.items()]
    for name, what in (("original_over_stock", "original over stock"), ("high_over_original", "high over original")):
        ratio = found[name]
        lines.append(row(what, f"× {ratio['median']:.2f} ({ratio['low']:.2f} – {ratio['high']:.2f})"))
    lines.append(row("loading, share of a step", f"{found['loading_share_of_a_step']:.1%}"))
    return [
        *lines,
        "",
        f"Ours in {found['precision']}, stock in float32; median of {found['turns']} turns (range).",
        "",
    ]


def diagnostics(found: dict) -> list[str]:
    """Tabulate what the diagnostics take."""
    lines = [f"**Diagnostics.** {processor(found)}.", "", row("", "", "value"), row("---", "---", "---")]
    for part, values in found.items():
        if isinstance(values, dict) and part != "device":
            lines += [
                row(part.replace("_", " "), name.replace("_", " "), f"{value:.4g}") for name, value in values.items()
            ]
    return [*lines, ""]


def tables() -> str:
    """Return all tables as Markdown."""
    attention = json.loads((HERE / "attention.json").read_text())
    step = json.loads((HERE / "bert_step.json").read_text())
    lines = ["**Attention.** " + circumstances(attention), "", *alternatives(attention)]
    shape = " × ".join(map(str, attention["bfloat16"]["shape"]))
    lines += times(f"plain, bfloat16 tensors, {shape}", attention["bfloat16"]["ways"], "widened")
    size = " × ".join(map(str, step["batch"]))
    lines += [f"**BERT-Mini; training on {size} tokens, inference on others.** " + circumstances(step), ""]
    for part, found in step.items():
        if isinstance(found, dict) and "ways" in found:
            lines += times(part.replace("_", " "), found["ways"], "original")
    if (HERE / "gpu.json").exists():
        lines += on_a_gpu(json.loads((HERE / "gpu.json").read_text()))
    lines += tries_on_a_gpu(HERE / "gpu_tries.csv")
    lines += pretraining(json.loads((HERE / "pretraining.json").read_text()))
    lines += diagnostics(json.loads((HERE / "diagnostics.json").read_text()))
    return "\n".join(lines)


def main() -> None:
    """Print the tables and replace those in the README."""
    readme = HERE / "README.md"
    write_text(readme, readme.read_text().partition(MARK)[0] + MARK + "\n" + tables())
    print(tables())


if __name__ == "__main__":
    main()
