"""The project's colours: those of the algorithms in every figure, and those of the pages.

An algorithm has one colour everywhere (Okabe and Ito's, told apart by colour-blind readers). Text
in it is darker, or lighter on a dark page, so that its contrast is at least 4.5 to 1.
"""

ALGORITHMS = {
    "original": "#0072B2",
    "high": "#009E73",
    "low": "#D55E00",
    "elemmul": "#E69F00",
    "entropy_reg": "#CC79A7",
    "eigen_reg": "#56B4E9",
    "high_all_rows": "#7A0403",
    "sinkhorn": "#000000",
    "uniform": "#4D4D4D",
    "shuffled": "#4B0082",
}

IN_PAGES = ("original", "high", "low", "elemmul", "sinkhorn")

LIGHT = {
    "paper": "#ffffff",
    "panel": "#f6f8fa",
    "ink": "#1c1c1c",
    "quiet": "#595959",
    "line": "#d0d5dc",
    "empty": "#f3f5f8",
    "less": ALGORITHMS["low"],
    "more": ALGORITHMS["original"],
    **{name: ALGORITHMS[name] for name in IN_PAGES},
    "original-text": "#00629a",
    "high-text": "#007556",
    "low-text": "#a84a00",
    "elemmul-text": "#855c00",
    "sinkhorn-text": "#1c1c1c",
}

DARK = {
    "paper": "#16181c",
    "panel": "#1d2127",
    "ink": "#ececec",
    "quiet": "#b0b4ba",
    "line": "#3c4148",
    "empty": "#1f242b",
    "less": "#ff8a4a",
    "more": "#56b4e9",
    "original": "#56b4e9",
    "high": "#2fd6a3",
    "low": "#ff8a4a",
    "elemmul": "#f0b429",
    "sinkhorn": "#e4e4e4",
}
DARK |= {f"{name}-text": DARK[name] for name in IN_PAGES}


def css() -> str:
    """Return the colours of the pages as custom properties: `--xp-ink`, on light and dark."""
    light, dark = (
        " ".join(f"--xp-{name}: {colour};" for name, colour in colours.items())
        for colours in (LIGHT, DARK)
    )
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
