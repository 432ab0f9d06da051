"""Every effect that a text, a title or a notebook's output states is a row of the table of results."""

import json
import re

import nbformat
import numpy as np
import pandas as pd
import pytest

from companion.figures import correlations
from companion.paper import numbers
from companion.results import table
from companion.setup import paths
from companion.statistics.trajectories import FOLLOWED

NUMBER = r"[+−-]?\d[\d,]*(?:\.\d+)?"
# a number, perhaps its unit, and its interval: "+0.31 points [−0.38, 1.00]"
EFFECT = re.compile(rf"({NUMBER})(?: (?:points|nats|%))? \[({NUMBER}), ({NUMBER})\]")
PAGES = ("README.md", "RESULTS.md", "CLAIMS.md", "data/README.md")
# cells of a notebook that show tracked studies; a table of scores has intervals over items
READS = re.compile(r"\bwritten\.|\btracked\.|results\.read|table\.read|claims\.")


def number(text):
    return float(text.replace("−", "-").replace(",", ""))


def places(text):
    return len(text.partition(".")[2])


def missing(text):
    """The effects of a text that no row has, to the digits that are printed."""
    rows = table.read().dropna(subset="low")
    ends = rows[["estimate", "low", "high"]]
    return [found[0] for found in EFFECT.finditer(text) if alike(ends, found).empty]


def alike(ends, found):
    """The rows whose number and interval are an effect's, to the digits that are printed."""
    near = [
        (ends[column] - number(part)).abs() <= 0.5 * 10 ** -places(part) + 1e-9
        for column, part in zip(ends, found.groups())
    ]
    return ends[near[0] & near[1] & near[2]]


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("High − Original: −0.004 [−0.012, 0.005] nats", []),
        ("costs −0.74 points [−1.11, −0.40]", []),
        ("−0.004 [−0.013, 0.005]", ["−0.004 [−0.013, 0.005]"]),
        ("+0.31 [-0.42, 1.04]", ["+0.31 [-0.42, 1.04]"]),
    ],
)
def test_an_effect_with_another_interval_is_found(text, lost):
    assert missing(text) == lost


@pytest.mark.parametrize("page", PAGES)
def test_every_effect_of_a_page_is_a_row(page):
    text = (paths.root() / page).read_text(encoding="utf-8")
    assert EFFECT.search(text), "the page states none"
    assert missing(text) == []


def entries():
    manifest = json.loads((paths.figures() / "manifest.json").read_text(encoding="utf-8"))
    return {name: entry for name, entry in manifest["entries"].items() if "heads" in entry}


@pytest.mark.parametrize("figure", sorted(entries()))
def test_every_effect_in_a_figures_titles_and_caption_is_a_row(figure):
    entry = entries()[figure]
    assert missing("\n".join([*entry["heads"], entry["caption"]])) == []


# what a title says of an effect -> whether it is true of its number, its interval and the paper's
# number, none of them rounded
VERBS = {
    r"\bhigher\b|\bsparser\b": lambda low, high, paper: low > 0,
    r"\blower\b|\bless sparse\b": lambda low, high, paper: high < 0,
    r"\bno clear (?:change|difference)\b|, open$": lambda low, high, paper: low <= 0 <= high,
    r"(?<!just )\bbelow the paper's\b": lambda low, high, paper: high < paper,
    r"\bjust below the paper's\b": lambda low, high, paper: paper - 0.01 < high < paper,
    r"(?<!just )\babove the paper's\b": lambda low, high, paper: low > paper,
    r"\bholds the paper's\b": lambda low, high, paper: low <= paper <= high,
    r"\bsame sign\b": lambda low, high, paper: (low > 0) == (high > 0),
    r"\bopposite sign\b": lambda low, high, paper: (low > 0) == (high > 0),
}


def wrong(title):
    """The words of a title that are not true of the interval beside them."""
    effect = EFFECT.search(title)
    if effect is None:
        return []
    low, high = (number(part) for part in effect.groups()[1:])
    rows = alike(table.read().dropna(subset="low")[["estimate", "low", "high"]], effect)
    if len(rows):
        _, low, high = rows.iloc[0]
    paper = re.search(rf"the paper's ({NUMBER})", title)
    theirs = number(paper[1]) if paper else None
    return [
        found[0]
        for pattern, true in VERBS.items()
        if (found := re.search(pattern, title)) and not true(low, high, theirs)
    ]


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("GTD: no clear change, +0.02 [−0.01, 0.05]", []),
        ("GTD: higher, +0.02 [−0.01, 0.05]", ["higher"]),
        ("GTD: no clear change, +0.02 [0.01, 0.05]", ["no clear change"]),
        ("High is less sparse: −0.02 [−0.05, 0.01]", ["less sparse"]),
        ("Onnela: r 0.49 [0.20, 0.70] ends just below the paper's 0.70", []),
        # of the row the end is 0.696
        ("Onnela: r 0.49 [0.20, 0.70], which holds the paper's 0.70", ["holds the paper's"]),
        (
            "Onnela: r 0.40 [0.20, 0.71] ends just below the paper's 0.70",
            ["just below the paper's"],
        ),
        ("SST2: r 0.32 [−0.60, 0.87], same sign", ["same sign"]),
    ],
)
def test_a_word_that_is_not_true_of_its_interval_is_found(title, words):
    assert wrong(title) == words


@pytest.mark.parametrize("figure", sorted(entries()))
def test_the_words_of_a_title_are_true_of_its_interval(figure):
    assert [word for title in entries()[figure]["heads"] for word in wrong(title)] == []


# figure -> the keys of the rows that its titles and its caption are about
ROWS = {
    "figure1": r"example/",
    "figure2": r"scratch/gtd-and-(clustering|betweenness)",
    "figure3": r"(scratch|narrow)/gtd-and-",
    "figure4": r"scratch/.*(gtd|entropy)",
    "figure5": r"scratch/gtd-and-(clustering|betweenness)",
    "figure6": r"scratch/.*sparsity|example/",
    "figure7": r"scratch/.*(gtd|entropy)",
    "figure8": r"scratch/.*(gtd|entropy)",
    "figure-differences": r"scratch/.*(gtd|entropy)",
    "figure-glance": r"example/|scratch/largest-column-sum/high-original",
    "figure-gains": r"narrow/",
    "figure-length": r"narrow/.*attention",
    "figure-retrofit": r"retrofit-untrained/",
    "figure-decoders": r"(decoders|narrow)/",
    "figure-hops": r"hops/",
    "figure-learning": r"hops/accuracy",
    "figure-rates": r"learning/steps-to",
    "figure-dose": r"spare/",
    "figure-tokens": r"narrow/",
}
# a number that is a name, or counts what is drawn
NAMED = re.compile(
    r"[Ll]ayer \d+(?:, head \d+)?|\d+ layers|\bSST2\b|λ = [\d.]+|[\d,]+ of \d+ above .*|\(4 × 128\)"
    r"|\d+ of \d+ intervals lies? above 0|\(paper: .*\)|at 8,192 tokens|Best rates: .*|\d+ effects in margins.*"
)


def own_rows(figure):
    """The rows that a figure is about."""
    rows = table.read()
    return rows[rows.index.str.match(ROWS[figure])]


def test_every_figure_of_a_run_has_its_rows():
    assert ROWS.keys() == entries().keys() - {"figure-claims"}
    assert [name for name in ROWS if own_rows(name).empty] == []


@pytest.mark.parametrize("figure", ROWS)
def test_every_effect_and_number_of_a_title_is_that_of_a_row_about_the_figure(figure):
    rows = own_rows(figure)
    known = rows[["estimate", "low", "high", "n"]].to_numpy(dtype=float).ravel()
    known = np.append(known, printed() if "gtd-and" in ROWS[figure] else [])
    lost = []
    for title in entries()[figure]["heads"]:
        for effect in EFFECT.finditer(title):
            if alike(rows[["estimate", "low", "high"]], effect).empty:
                lost.append((title, effect[0]))
        for text in re.findall(NUMBER, NAMED.sub("", title)):
            near = np.abs(np.abs(known) - abs(number(text))) <= 0.5 * 10 ** -places(text) + 1e-9
            if not near.any():
                lost.append((title, text))
    assert lost == []


@pytest.mark.parametrize("figure", ["figure-glance", "figure-claims"])
def test_a_title_counts_the_outcomes_that_are_drawn(figure):
    title = entries()[figure]["heads"][-1]
    words = pd.read_csv(paths.figures() / f"{figure}.csv")["word"].dropna()
    for word, text in (("supported", "supported"), ("contradicted", "contradicted")):
        assert f"{(words == word).sum()} {text}" in title.replace("are ", "")
    drawn = len(words)
    if figure == "figure-claims":
        assert f"Of {drawn} claims" in title
    else:
        assert f"{drawn} effects in margins" in title


def printed():
    """The correlations that the paper prints (Table 6, Figure 2)."""
    paper = numbers.load()
    return [*map(correlations.paper, FOLLOWED), paper.claim("C18"), paper.claim("C19")]


def outputs(path):
    """The printed texts of the cells of a notebook that show tracked studies."""
    for cell in nbformat.read(path, as_version=4).cells:
        shows = cell.cell_type == "code" and READS.search(cell.source)
        if shows and "tables.table(" not in cell.source:
            for output in cell.outputs:
                yield output.get("text", "")
                forms = output.get("data", {})
                yield from (forms.get(f"text/{kind}", "") for kind in ("plain", "markdown"))


@pytest.mark.parametrize(
    "path", sorted((paths.root() / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_every_effect_that_a_notebook_prints_of_a_tracked_study_is_a_row(path):
    assert missing("\n".join(outputs(path))) == []
