"""Every effect that a text, a title or a notebook's output states is a row of the table of results."""

import json
import re

import nbformat
import pytest

from companion.results import table, written
from companion.setup import paths

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
    lost = []
    for found in EFFECT.finditer(text):
        near = [
            (ends[column] - number(part)).abs() <= 0.5 * 10 ** -places(part) + 1e-9
            for column, part in zip(ends, found.groups())
        ]
        if not (near[0] & near[1] & near[2]).any():
            lost.append(found[0])
    return lost


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


# figure and panel -> the title as the rows have it
TITLES = {
    ("figure6", 0): lambda: (
        f"High is less sparse in {written.count('narrow/sparsity/high-below-original')} pairs: "
        f"{written.value('narrow/sparsity/original', 3)} → {written.value('narrow/sparsity/high', 3)}"
    ),
    ("figure-glance", 0): lambda: (
        "a High lowers the largest column sum: "
        f"{written.value('narrow/largest-column-sum/original')} → "
        f"{written.value('narrow/largest-column-sum/high')} "
        f"({written.count('narrow/largest-column-sum/high-below-original')})"
    ),
    ("figure-glance", 1): lambda: (
        "b High − Original at step 1,000: "
        f"{written.effect(EARLY, 0)} points (n = {table.find(EARLY)['n']:.0f})"
    ),
    ("figure-glance", 2): lambda: (
        f"c Late starts end higher: r = {written.value(LATE, 2)} (n = {table.find(LATE)['n']:.0f})"
    ),
    ("figure-length", 0): lambda: (
        f"a High takes {written.value('narrow/attention-alone-8192-tokens/high-over-fused')} times "
        "as long at 8,192 tokens"
    ),
    ("figure-retrofit", 0): lambda: (
        "a High at λ = 0.1: lower, "
        f"{written.effect('retrofit-untrained/similarity/high-at-0.1-original')} points (n = 1,500)"
    ),
    ("figure-decoders", 1): lambda: (
        "b From prefixes alone High with all rows loses "
        f"{written.value(LEAK, 2)} nats {written.effect(LEAK).partition(' ')[2]} "
        f"({written.n(LEAK)})"
    ),
    ("figure-learning", 1): lambda: (
        "b 4 layers: High is ahead of Original in 21 of 21 seeds over training"
    ),
}
EARLY = "hops/accuracy-on-three-hops-at-step-1000-with-4-layers/high-original"
LATE = "narrow/start-of-learning-and-final-loss/all-but-elemmul"
LEAK = "narrow/leak/high-all-rows"


@pytest.mark.parametrize(("figure", "panel"), TITLES)
def test_a_title_has_the_numbers_of_its_rows(figure, panel):
    assert entries()[figure]["heads"][panel] == TITLES[figure, panel]()


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
