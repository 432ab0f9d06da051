"""README and the other pages: every number comes from code, every link leads somewhere, outcomes
follow the plan.
"""

import json
import re
import shutil
from dataclasses import replace
from functools import cache, partial
from math import log

import example_records as examples
import numpy as np
import pandas as pd
import pytest
import torch
from jinja2 import Environment, nodes
from scipy import stats

from companion import tables as study_tables
from companion import verdicts
from companion.figures import style
from companion.records import tracked
from companion.setup import labels, paths
from companion.statistics import Estimate, mean_interval
from companion.tables import captions, cells
from companion.texts import attention, costs, exam, fill, planned, public_encoder, tables
from saobp.equations import factors

README = (paths.root() / "README.md").read_text(encoding="utf-8")
MAKEFILE = (paths.root() / "Makefile").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "RESULTS.md",
    "CLAIMS.md",
    "SCALE.md",
    "data/README.md",
    "notebooks/README.md",
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
    r"\b[Nn]otebook \d\d\b",
    r"\btask sst2\b",
    # the paper's items
    r"\b(?:Eq\.|Tables?|Figures?|Section|Appendix|Algorithm) \d+\b(?: (?:and|to) \d+\b)?",
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
    assert sorted(pages()) == sorted(PAGES)
    for name, text in pages().items():
        assert (paths.root() / name).read_text(encoding="utf-8") == text, (
            f"{name}: run `make figures`"
        )


def test_the_readme_is_of_two_screens_to_the_commands_and_six_kilobytes():
    assert len(README.encode()) <= 6 * 1024
    assert len(README[: README.index("## Two commands")].splitlines()) <= 40


@pytest.mark.parametrize("page", PAGES)
def test_every_file_heading_and_make_target_that_is_named_exists(page):
    text = (paths.root() / page).read_text(encoding="utf-8")
    written = (line.lower() for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    headings = {re.sub(r"[^a-z0-9 -]", "", line).replace(" ", "-") for line in written}
    for file, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
        assert ((paths.root() / page).parent / file).exists(), file
        assert file or anchor in headings, anchor
    for target in set(re.findall(r"(?:^|`|> )make ([a-z]+)", text, re.MULTILINE)):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


@pytest.mark.parametrize("page", [page for page in PAGES if page != "data/README.md"])
def test_no_table_cell_is_a_paragraph(page):
    cells = [
        cell
        for line in pages()[page].splitlines()
        if line.startswith("|")
        for cell in line.strip("|").split("|")
    ]
    assert max(len(re.sub(r"\]\([^)]*\)", "", cell).split()) for cell in cells) <= 40


@pytest.mark.parametrize(
    ("study", "low", "high", "seeds", "outcome"),
    [
        ("retrofit", 0.1, 3, 10, "supported"),
        ("retrofit", -3, -0.1, 10, "contradicted"),
        ("retrofit", -0.9, 0.8, 10, "no effect"),
        ("retrofit", -0.9, 1.2, 10, "imprecise"),
        # by the 95 % interval, as planned
        ("retrofit", -0.9, 1.03, 10, "imprecise"),
        ("retrofit", 0.1, 3, 9, "not complete"),
        ("cost", 1.02, 1.06, 300, "supported"),
        ("cost", 1.12, 1.16, 300, "contradicted"),
        ("cost", 1.06, 1.12, 300, "imprecise"),
        # the direction that the paper claims turns the outcome
        ("scratch", -0.08, -0.01, 100, "supported"),
    ],
)
def test_interval_margin_and_direction_decide_the_outcome_of_a_planned_study(
    study, low, high, seeds, outcome
):
    primary = planned.study(study).primary
    assert (primary.direction, primary.margin) == {
        "retrofit": (1, 1),
        "scratch": (-1, 0.02),
        "cost": (0, 0.1),
    }[study]
    assert planned.outcome(Estimate((low + high) / 2, low, high, seeds), primary) == outcome
    assert planned.outcome(None, primary) == "not run"


def test_two_one_sided_tests_are_another_rule_and_the_planned_one_names_the_seeds_that_would_do():
    primary = planned.study("retrofit").primary
    found = mean_interval([0.2, 1.4, -0.7, 1.2, -0.5, 1.4, -0.8, 1.1, 0.5, 0.2])
    assert [planned.outcome(found, primary, tests=tests) for tests in (False, True)] == [
        "imprecise",
        "no effect",
    ]
    more = planned.seeds_to_decide(found, primary)
    assert more > found.seeds
    reach = [found.error.with_seeds(10, n).reach() for n in (more - 1, more)]
    assert reach[1] < primary.margin - found.value < reach[0]
    # no spread to go by
    assert planned.seeds_to_decide(Estimate(-0.5, -1.2, 0.3, 10), primary) is None
    near = mean_interval([0.16, 1.36, -0.74, 1.16, -0.54, 1.36, -0.84, 1.06, 0.46, 0.16])
    # for the other readings
    assert near.high < primary.margin < planned.widened(near, primary).high
    assert planned.seeds_to_decide(near, primary) == near.seeds
    ratio, cost = mean_interval([1.0, 1.16, 1.1, 1.04, 1.12, 1.06]), planned.study("cost").primary
    more = planned.seeds_to_decide(ratio, cost)
    assert planned.outcome(replace(ratio, seeds=300), cost) == "imprecise"
    assert (
        ratio.error.with_seeds(6, more).reach() < cost.margin - (ratio.value - 1) < ratio.half_width
    )


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


def test_a_change_per_doubling_is_the_slope_over_all_widths_of_a_seed_and_needs_the_outer_two_alone(
    monkeypatch,
):
    gaps = pd.DataFrame(
        {32: [1.0, 3.0, 2.0, 5.0], 64: [4.0, 0.0, np.nan, np.nan], 128: [2.0, 9.0, 1.0, 1.0]}
    )
    monkeypatch.setattr(exam, "deepest", lambda at_end=False: -gaps if at_end else gaps)
    assert exam.by_doubling(2).value == pytest.approx(
        np.polyfit([5, 6, 7], gaps[:2].T, 1)[0].mean()
    )
    assert (exam.by_doubling().value, exam.by_doubling().seeds) == (pytest.approx(0.25), 4)
    assert exam.by_doubling(at_end=True).value == pytest.approx(-0.25)


def test_a_seed_without_one_of_its_tasks_is_the_mean_of_the_others(monkeypatch):
    index = pd.MultiIndex.from_product([[1, 2], ["race", "sst2"]], names=["seed", "task"])
    found = pd.DataFrame({"gap": [5.0, 1.0, 2.0, 4.0]}, index)
    monkeypatch.setattr(attention, "sides", lambda measure, study: found)
    assert attention.fresh_without("gtd", 1, "race").value == pytest.approx((1 + 3) / 2)


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


def test_a_second_score_counts_only_where_a_pair_is_of_unlike_machines(monkeypatch):
    """A run whose partner ran on the same machine keeps its first score, wherever it was run
    again.
    """
    runs, table = (
        {run["name"]: run for run in tracked.select("retrofit", "retrofit")},
        tracked.repeated_scores(),
    )
    for row in table.itertuples():
        assert row.first == pytest.approx(runs[row.run]["metrics"]["headline"], abs=1e-6), row.run
        assert runs[row.run]["device"]["name"].startswith(row.first_processor)
    alike = table["first_processor"] == table["second_processor"]
    assert alike.any() and (table["first"] == table["second"])[alike].all()
    first = public_encoder.on_one_machine()
    assert first[1] == (~alike).sum() and first[0].seeds == public_encoder.difference().seeds
    more = table.iloc[[0]].assign(
        run="13-retrofit-minilm-high-mrpc-8", second=0.0, second_processor="another"
    )
    monkeypatch.setattr(tracked, "repeated_scores", lambda: pd.concat([table, more]))
    # by == two NaN differ from Python 3.13 on
    assert repr(public_encoder.on_one_machine()) == repr(first)


def test_a_run_that_tells_its_vector_set_beside_early_ones_is_of_no_other_machine(monkeypatch):
    early = {name: json.dumps(tracked.study(name)) for name in ("retrofit", "hops")}
    told = {
        name: json.loads(text.replace('"AMD EPYC"', '"AMD EPYC, AVX2"', 1))
        for name, text in early.items()
    }
    assert all(json.dumps(told[name]) != text for name, text in early.items())
    before = public_encoder.runs()["machine"]
    monkeypatch.setattr(tracked, "study", told.get)
    assert public_encoder.runs.__wrapped__()["machine"].equals(before)
    monkeypatch.setattr(exam, "runs", exam.runs.__wrapped__)
    assert exam.processors(32) == exam.processors(128) == "AMD EPYC"


@pytest.mark.parametrize(
    ("arm", "alike"), [("uniform", True), ("high-0.02", False), ("high-0.2", False), ("low", False)]
)
def test_a_difference_is_of_the_seeds_that_have_all_tasks_and_alike_of_those_on_one_kind_of_machine(
    arm, alike
):
    """No seed is alike in which a GPU's run meets one of a processor, or one precision another."""
    runs = pd.json_normalize(tracked.select("retrofit", "retrofit"), sep="_")
    runs.columns = runs.columns.str.removeprefix("parameters_")
    runs = runs.query("task in @public_encoder.planned_tasks() and arm in [@arm, 'original']")
    kinds = runs["device_precision"] + runs["device_name"].str.contains("NVIDIA").map(
        {True: " GPU", False: ""}
    )
    one = kinds.groupby([runs["seed"], runs["task"]]).nunique().groupby("seed").max() == 1
    scores = runs.pivot(index=["seed", "arm"], columns="task", values="metrics_headline").dropna()
    means = scores.mean(axis=1).unstack().dropna()
    gaps = (means[arm] - means["original"])[one if alike else slice(None)]
    found, every = (public_encoder.difference(arm, alike=which) for which in (alike, False))
    assert (
        found.value == pytest.approx(gaps.mean())
        and found.seeds == len(gaps) <= every.seeds - alike
    )
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, len(gaps) - 1) * gaps.sem())


def test_a_mean_over_depths_or_tasks_is_of_the_seeds_that_have_each(monkeypatch):
    runs = [
        examples.exam(layers, name, seed)
        for layers in (2, 4)
        for name in ("original", "high")
        for seed in (0, 1)
    ]
    # High of four layers lacks a seed
    monkeypatch.setattr(exam, "runs", lambda study: runs[:-1])
    assert exam.at(runs[0]["curve"][-1]["step"], 2)["high"].isna().tolist() == [False, True]
    runs = [
        examples.attention(algorithm=name, seed=seed, task=task)
        for name in ("original", "high")
        for seed in (1, 2, 3)
        for task in ("race", "qnli")
        if (seed, task) != (3, "qnli")
    ]
    monkeypatch.setattr(attention.tracked, "select", lambda study, stage, **given: runs)
    assert attention.factor("gtd").seeds == attention.difference("gtd").seeds == 2


def test_an_interim_analysis_reads_its_seeds_at_the_bound_and_earlier_ones_decide_nothing():
    """The first seeds' runs of the exam stand in the place of so many fresh ones."""
    primary, read = planned.study("hops").primary, exam.accuracy_by_hops

    def over(count):
        records = [{"parameters": {"width": 64, "seed": seed}} for seed in range(21, 21 + count)]
        seeds = [record["parameters"]["seed"] - 21 for record in read.planned(records)]
        return read.gain_along([run for run in exam.runs() if run["seed"] in seeds])[0]

    # three more than the analysis reads
    early, interim = over(9), over(13)
    assert early.seeds == 9 and early.low > 0 and planned.outcome(early, primary) == "not complete"
    wide = planned.widened(interim, primary)
    assert interim.seeds == 10 and wide.low < interim.low and wide.high > interim.high
    assert planned.outcome(interim, primary) == ("supported" if wide.low > 0 else "not complete")


def test_texts_whose_words_the_records_no_longer_bear_out_are_refused_by_name(monkeypatch):
    monkeypatch.setattr(planned, "outcome", lambda *_, **__: "contradicted")
    with pytest.raises(
        ValueError, match=r"RESULTS\.md\.j2: the records no longer say that .*; write that passage"
    ):
        fill.pages()


@pytest.mark.parametrize(
    ("seeds", "outcome"), [(6, "not complete"), (7, "supported"), (9, "not complete")]
)
def test_an_interval_is_read_at_the_level_of_its_reading(seeds, outcome):
    primary, gaps = (
        planned.study("retrofit").primary,
        [2.0, 2.4, 1.6, 2.2, 1.8, 2.0, 2.1, 1.9, 2.0][:seeds],
    )
    found = mean_interval(gaps)
    assert found.low > 0 and planned.outcome(found, primary) == outcome
    wide = mean_interval([2.0, 4.4, 0.2, 3.2, 0.6, -0.4, 3.0])
    assert (
        wide.low > 0 > planned.widened(wide, primary).low
        and planned.outcome(wide, primary) == "not complete"
    )


def test_every_outcome_has_a_row_in_one_section_of_the_claims():
    rows = [
        line.split(" | ")[0].strip("| ")
        for line in pages()["CLAIMS.md"].splitlines()
        if line.count(" | ") == 6
    ]
    shown = [row for row in rows if row != "Claim"]
    claims = verdicts.claims()
    titles = [claims[claim].title for claim in tables.outcomes().index]
    assert shown == titles and len(rows) - len(shown) == 7
    with pytest.raises(ValueError, match="'no-claim'"):
        tables.claims("gains", "no-claim")
    titles = [
        title for title, outcome in zip(titles, tables.outcomes()) if outcome == "contradicted"
    ]
    assert re.findall(r'^- "(.+)" \(\d.*\)$', pages()["CLAIMS.md"], re.MULTILINE) == titles


def test_claims_and_cells_are_found_by_their_keys_and_not_by_what_readers_see(monkeypatch):
    cell = partial(tables.cell, 6, "mini-narrow", "cross_gtd-checkpoints", "wikitext")

    def found():
        alike = tables.claimed("sparsity-share", "scratch", without="two_machines")
        gaps, words = (of("mini-narrow") for of in (tables.score_differences, tables.below_words))
        return alike, gaps, words, *cell()[["ours", "published"]]

    alike, gaps, (below, tasks), _, published = before = found()
    assert (alike.seeds, tables.claimed("sparsity-share", "scratch").seeds) == (6, 7)
    assert (
        (published, cell()["line"]) == (-0.87, "Cross GTD, checkpoints")
        and 0 < below < tasks == 9
        and gaps
    )
    read, seen = tables.read, ("measurement", "part", "row", "model", "line")
    monkeypatch.setattr(
        tables, "read", lambda name: read(name).assign(**dict.fromkeys(seen, "renamed"))
    )
    assert repr(found()) == repr(before)
    with pytest.raises(ValueError, match="claims.csv: 2 rows with claim 'deep-entropy'"):
        tables.claimed("deep-entropy", "scratch", without="two_machines")
    assert (
        tables.claimed("deep-entropy", "scratch", key="entropy", without="two_machines").seeds == 6
    )
    # one of the parts that decide
    assert tables.claimed("decoder-zero-shot", "decoders", key="boolq").seeds == 4
    with pytest.raises(
        ValueError,
        match="table6.csv: 0 rows with model_key 'mini-narrow', line_key 'gtd', column 's",
    ):
        tables.cell(6, "mini-narrow", "gtd", "sst2")


def test_a_column_with_two_differences_of_a_size_is_refused_where_a_text_names_one(monkeypatch):
    once = tables.read("table8")
    assert tables.score_differences("mini-narrow") and not tables.score_differences("mini")
    monkeypatch.setattr(
        tables, "read", lambda name: pd.concat([once, once[once["line_key"] == "high"]])
    )
    with pytest.raises(ValueError, match="mini-narrow"):
        tables.score_differences("mini-narrow")


def test_an_aim_is_held_against_the_slower_of_both_thread_counts_and_a_gpus_own_time():
    found = costs.aims().set_index(["setting", "sequences", "length"])
    timed = costs.alternations().set_index(["phase", "passes", "sequences", "length"])
    own = timed.loc["inference", "one call", 1, 128]
    assert found.loc[("inference, one call", 1, 128), "ratio"] == max(own[1].value, own[2].value)
    gpu = costs.on_a_gpu()[1].set_index(["dtype", "sequences", "length"])["both"]
    missed, met = found.loc[("bfloat16, both", 8, 4096)], found.loc[("float32, both", 8, 4096)]
    assert missed.tolist() == [2.2, gpu["bfloat16", 8, 4096], False]
    assert met.tolist() == [2.2, gpu["float32", 8, 4096], True]
    assert {length for *_, length in found.index} == {128, 512, 4096}
    assert not [name for name, *_ in found.index if "compiled" in name]


def test_rows_at_the_papers_size_change_no_sentence_on_a_scaled_down_model(monkeypatch, tmp_path):
    """As after `saobp publish --study paper`: the rows come first in every table, and all pages can
    still be filled.
    """
    runs = tracked.study("narrow")
    first = [
        run | {"study": "paper", "parameters": run["parameters"] | {"model": "mini"}}
        for run in runs
        if run["parameters"].get("model") == "mini-narrow"
    ]
    before = pages()
    shutil.copytree(paths.figures(), tmp_path, dirs_exist_ok=True)
    for number in range(1, 10):
        study_tables.write(number, runs, tmp_path, ["csv"], first=first)
    monkeypatch.setattr(paths, "figures", lambda: tmp_path)
    assert tables.score_differences("mini") and tables.read("table2")["model_key"].iloc[0] == "mini"
    assert [*fill.pages().values()] == [*before.values()]


def test_seeds_that_know_a_hop_with_one_algorithm_only_are_counted_and_tested_by_their_signs(
    monkeypatch,
):
    ends = {"high": [1, 1, 1, 1, 1, 1, 0], "original": [0, 0, 0, 0, 0, 1, 1]}
    runs = [
        dict(zip(exam.accuracy_by_hops.RUN, (4, name, seed))) | {"outcomes": {"3": [right]}}
        for name, rights in ends.items()
        for seed, right in enumerate(rights)
    ]
    monkeypatch.setattr(exam, "runs", lambda: runs)
    assert exam.known_by_one_only("high", "original", 4, 3) == (5, 1, stats.binomtest(5, 6).pvalue)
    assert exam.known_by_one_only("high", "high", 4, 3) == (0, 0, 1.0)
