"""README and the other pages: every number comes from code, every link leads somewhere."""

import json
import re
from functools import cache
from math import log

import pytest
import torch
from jinja2 import Environment, nodes

from companion.figures import style
from companion.records import tracked
from companion.results import claims, table
from companion.setup import labels, paths
from companion.statistics import Estimate
from companion.statistics.time_to_learn import first_step
from companion.tables import captions, cells
from companion.texts import fill
from saobp.equations import factors

README = (paths.root() / "README.md").read_text(encoding="utf-8")
MAKEFILE = (paths.root() / "Makefile").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "RESULTS.md",
    "CLAIMS.md",
    "SCALE.md",
    "data/README.md",
    "figures/README.md",
    "notebooks/README.md",
    "notebooks/studies/README.md",
]
# a number alone is no code
MERE = r"[-+−\d.,%\s]*"
# and where links lead
CODE = (
    r"```.*?```",
    rf"`(?!{MERE}`)[^`\n]*`",
    rf"<code>(?!{MERE}<)[^<]*</code>",
    r"\]\([^)]*\)",
    r"https?://\S+",
)
# digits that are no result: each is part of somebody's name for something, or a convention
NAMES = (
    # our notebooks
    r"\[\d\d-[a-z-]+\]",
    r"^\d\d-[a-z]+$",
    r"^figure\d$",
    r"\b[Nn]otebook \d\d\b",
    r"\btask sst2\b",
    # the paper's items
    r"\b(?:Eq\.|Tables?|Figures?|Section|Appendix|Algorithm) \d+\b(?: (?:and|to) \d+\b)?",
    # a part of a key, a width of a screen, what a figure counts
    r"^sst2$",
    r'<source media="[^"]*"',
    r"\b90 % of the questions",
    r"\bat most 4,000\b",
    r"\b[Aa]t 128 tokens\b",
    r"\b4\s+layers, width 64\b",
    # years and licences
    r"\bEMNLP \d{4}\b",
    r"\bChesterton \(\d{4}\)",
    r"\bCC BY \d\.\d\b",
    r"\bApache \d\.\d\b",
    r"\bGPT-2\b",
    r"\bSST-2\b",
    r"\bWikiText-103\b",
    r"\b100 English novels\b",
    r"\bMiniLM-L6-v2\b",
    r"\bSHA-256\b",
    # a model's name and form
    r"\bSmolLM2(?:-135M)?(?:-Instruct)?\b",
    r"\b4-bit weights\b",
    # an interval's level
    r"\b(?:of|[Ii]ntervals are) 95 %",
    r"\b95 %(?= (?:interval|band|over|one))",
    # a list, definitions
    r"^\d\. ",
    r"\b1/L\b",
    r"λ = 0\b",
    r"\b[Aa]bove (?:×1|0)\b",
    # a heading's tag, how a number is written
    r"\bRight of 0\b",
    r"\bexclude 0\b",
    r"</?h[1-6]\b",
    r"^%\.\d[fg]$",
)


def typed(node: nodes.Node) -> list[str]:
    """What an expression of a template says by itself; arguments of calls and filters say how, not
    what.
    """
    if isinstance(node, nodes.Const):
        return [str(node.value)]
    if isinstance(node, nodes.Filter):
        given = node.args if node.name in ("default", "d", "format") else []
        return [text for child in (node.node, *given) for text in typed(child)]
    kept = (
        nodes.Concat
        | nodes.Tuple
        | nodes.List
        | nodes.Dict
        | nodes.Pair
        | nodes.CondExpr
        | nodes.Neg
        | nodes.Or
    )
    said = (
        [child for child in node.iter_child_nodes(exclude=("key", "test"))]
        if isinstance(node, kept)
        else []
    )
    return [text for child in said for text in typed(child)]


def literal_digits(template: str) -> list[str]:
    """Return what a template says in digits of its own, outside placeholders, code and `NAMES`."""
    tree = Environment().parse(template)
    parts = [part for out in tree.find_all(nodes.Output) for part in out.nodes]
    text = "".join(part.data if isinstance(part, nodes.TemplateData) else "§" for part in parts)
    found = [text, *(said for node in parts for said in typed(node))]
    found += [said for given in tree.find_all(nodes.Assign) for said in typed(given.node)]
    found += [said for loop in tree.find_all(nodes.For) for said in typed(loop.iter)]
    for sum_ in tree.find_all((nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.Mod)):
        sides = [typed(side) for side in (sum_.left, sum_.right)]
        found += [text for side in sides for text in side] if all(sides) else []
    for pattern in CODE:
        found = [re.sub(pattern, "", text, flags=re.DOTALL) for text in found]
    for name in NAMES:
        found = [re.sub(name, "", text, flags=re.MULTILINE) for text in found]
    return [said for text in found for said in re.findall(r".{0,30}\d.{0,20}", text)]


@cache
def pages():
    return {path.relative_to(paths.root()).as_posix(): text for path, text in fill.pages().items()}


def leaves(said, name):
    """Every text of a `captions.yaml`, by the keys above it: ("figure 4 caption", text)."""
    for key, text in said.items() if isinstance(said, dict) else enumerate(said):
        yield from (
            [(f"{name} {key}", text)] if isinstance(text, str) else leaves(text, f"{name} {key}")
        )


FILLED = [
    *sorted(fill.folder().rglob("*.j2")),
    paths.root() / "companion/publication/templates/report.html",
]
TEMPLATES = dict(
    [
        (path.relative_to(paths.root()).as_posix(), path.read_text(encoding="utf-8"))
        for path in FILLED
    ]
    + [*leaves(captions.of(), "table"), *leaves(captions.of(style.CAPTIONS), "figure")]
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_number_of_a_text_or_caption_comes_from_a_placeholder(template):
    assert literal_digits(TEMPLATES[template]) == []


@pytest.mark.parametrize(
    "typed",
    [
        "A gain of 3.3 points.",
        "| High | 97 |",
        "{{ 3.3 }} points",
        "{{ '74 %' }} right",
        "{% if x %}n = 21{% endif %}",
        "{{ -3.3 }}",
        "{{ 33 / 10 }}",
        "{{ '%.1f' % 3.3 }}",
        "{% for g in [97] %}{{ g }}{% endfor %}",
        "{{ x or 3.3 }}",
        "{{ x | default(3.3) }}",
        "{{ '%s points' | format(3.3) }}",
        "{{ 3.3 | fixed(1) }}",
        "{% set gain = 3.3 %}{{ gain }}",
        "{{ '3.3' ~ ' points' }}",
        "{{ 3 if x else y }}",
        "<h2>The gain is 3.3 points</h2>",
        "{{ '%.1f points, not 3.3' | format(x) }}",
        "gains `3.3` points",
        "<code>3.3 %</code>",
        "95 % right",
        "runs (1999)",
    ],
)
def test_a_number_typed_into_a_template_is_found_and_a_name_or_placeholder_is_not_taken_for_one(
    typed,
):
    assert literal_digits(typed)
    assert (
        literal_digits(
            "{{ a.at(1000, 4) | fixed(1) }} as in Table 2 and Eq. 11 (`λ=3`), 95 % interval"
        )
        == []
    )


def test_the_committed_texts_are_the_rendered_ones():
    assert sorted(pages()) == sorted([*PAGES, "data/departures.csv", "data/splits.csv"])
    for name, text in pages().items():
        assert (paths.root() / name).read_text(encoding="utf-8") == text, (
            f"{name}: run `make figures`"
        )


def test_the_gallery_shows_every_figure_that_was_drawn_and_says_what_the_others_lack():
    manifest = json.loads((paths.figures() / "manifest.json").read_text(encoding="utf-8"))
    items = fill.gallery()
    assert sum(item["reason"] != "" for item in items) == len(manifest["missing"])
    pictures = {item["picture"] for item in items} - {""}
    drawn = {name for name in manifest["entries"] if name.startswith("figure")}
    assert {f"{name}.png" for name in drawn} <= pictures


def test_the_readme_is_of_two_screens_to_the_commands_and_six_kilobytes():
    assert len(README.encode()) <= 6 * 1024
    assert len(README[: README.index("## Two commands")].splitlines()) <= 40


@pytest.mark.parametrize("page", PAGES)
def test_every_file_heading_and_make_target_that_is_named_exists(page):
    text = (paths.root() / page).read_text(encoding="utf-8")
    headings = {claims.anchor(line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    for file, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
        assert ((paths.root() / page).parent / file).exists(), file
        assert file or anchor in headings, anchor
    for target in set(re.findall(r"(?:^|`|> )make ([a-z]+)", text, re.MULTILINE)):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


def test_numbers_are_written_with_their_interval_and_no_minus_before_a_zero():
    assert cells.effect(Estimate(3.29, 1.06, 5.51, 21), 1, "points") == "+3.3 points [1.1, 5.5]"
    assert cells.effect(Estimate(-0.01, float("nan"), float("nan"), 1), 2) == "−0.01"
    assert (captions.signed(-0.0004, 2), captions.fixed(12345.6), captions.percent(0.449)) == (
        "0.00",
        "12,346",
        "45 %",
    )
    assert [labels.spelled(count) for count in (0, 1, 9, 10, 1200)] == [
        "no",
        "one",
        "nine",
        "10",
        "1,200",
    ]
    assert (cells.span([6.87, 11.7]), cells.span([1.0, 1.0])) == ("6.9 to 11.7", "1.0")


def test_the_factor_in_contributing_is_short_and_works_as_printed():
    text = (paths.root() / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    snippet = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert len(snippet.splitlines()) <= 15
    names = {}
    try:
        exec(snippet, names)
        torch.testing.assert_close(names["refined"].sum(-1), torch.ones(4, 9))
    finally:
        factors.OWN.pop("crowded", None)


def test_a_page_whose_sentence_the_table_of_results_no_longer_bears_out_is_refused_by_its_key(
    monkeypatch,
):
    rows = table.read()
    monkeypatch.setattr(table, "read", lambda: rows.assign(outcome="open"))
    with pytest.raises(ValueError, match="is open, no longer .*: write it anew"):
        fill.pages()


def ends(record):
    """What data/results/repeats.csv calls each run of a record, and the number with which it
    ended.
    """
    name, given, metrics, stage = (
        record[key] for key in ("name", "parameters", "metrics", "stage")
    )
    if stage in ("pretrain", "decoder"):
        yield name, log(metrics["perplexity"])
    elif stage == "hops":
        for run in metrics["multihop"]:
            yield f"{name}, {run['algorithm']}, {run['layers']} layers", run["curve"][-1]["loss"]
    elif stage == "branched":
        yield from ((f"{name}, {run['algorithm']}", run["held_out"]) for run in metrics["branches"])
    elif stage == "alternations" and given.get("passes") == "one call":
        what = f"{given['phase']}, {given['sequences']} x {given['length']} tokens, {given['threads']} threads"
        yield what, metrics["ways"]["high"][given["phase"]]["ratio"]["median"]
    elif stage == "beyond":
        for run in metrics["strengths"]:
            yield f"strength {run['strength']}, seed {run['seed']}", run["curve"][-1]["loss"]
    elif stage == "learning":
        steps = [point["step"] for point in metrics["curve"]]
        right = [point["accuracy"]["2"] for point in metrics["curve"]]
        yield f"{name}, two hops", first_step(steps, right, 0.9)
    elif stage == "retrofit-untrained":
        arms = metrics.get("similarity", ())
        yield from (
            (f"{name}, {arm['factor']}, λ = {arm['strength']}", arm["spearman"]) for arm in arms
        )


def test_every_rerun_is_a_pair_of_ends_of_which_the_tracked_record_has_one():
    for study, rows in tracked.repeats().groupby("study"):
        records = tracked.study(study.removesuffix("-untrained"))
        known = dict(end for record in records for end in ends(record))
        assert {*rows["record"]} <= {record["name"] for record in records}
        for row in rows.itertuples():
            assert min(abs(known[row.run] - row.first), abs(known[row.run] - row.second)) < 1e-5, (
                row.run
            )
