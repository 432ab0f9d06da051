"""Executed notebooks as pages that need nothing from elsewhere, and lead to each other and to copies of files."""

import contextlib
import multiprocessing
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, pass_context
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters import clean_html
from pygments.formatters import HtmlFormatter

from saobp.study.publication import executed, formulas, links
from saobp.study.publication.executed import Executed
from saobp.study.setup import paths
from saobp.study.setup.labels import counted

FEW = 4  # runs that a process takes at a time, of the same notebook most often
STYLE = re.compile(r"<style scoped>.*?</style>", re.DOTALL)
PICTURE = re.compile(r"<img\b[^>]*>")
FOLDED = """{%- extends 'basic/index.html.j2' -%}
{%- block input_group -%}
{%- set tags = cell.metadata.get("tags", []) -%}
{%- if "setup" in tags or "record" in tags -%}
<details><summary>{{ "Set-up" if "setup" in tags else "Record" }}</summary>{{ super() }}</details>
{%- else -%}{{ super() }}{%- endif -%}
{%- endblock input_group -%}
"""
UNDESCRIBED = re.compile(r'<h[1-6] id="([^"]+)"|alt="No description has been provided for this image"')


class PageExporter(HTMLExporter):
    """nbconvert's bare cells without prompts, their formulas drawn; set-up and record cells are folded."""

    def __init__(self):
        bare = {"exclude_input_prompt": True, "exclude_output_prompt": True}
        super().__init__(template_name="basic", raw_template=FOLDED, **bare)
        self.register_filter("clean_html", cache(clean_html))  # slow, and the runs of a notebook share their sources

    @pass_context
    def markdown2html(self, context, source: str) -> str:
        """Turn a cell's Markdown into HTML."""
        return formulas.markdown(source)


def render(template: str, **values: Any) -> str:
    """Fill a template of the report; what is not `Markup` is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    """Load templates with the colours of code, for light and for dark screens."""
    environment = Environment(loader=PackageLoader("saobp.study.publication"), autoescape=True, trim_blocks=True)
    environment.globals["counted"] = counted
    for name, style in (("code_light", "default"), ("code_dark", "github-dark")):
        environment.globals[name] = HtmlFormatter(style=style, nobackground=True).get_style_defs(".highlight")
    return environment


@contextlib.contextmanager
def converted(runs: Sequence[Executed]) -> Iterator[Iterator[str]]:
    """Yield the `body` of each run, in turn; processes make them from now on, one per processor, and the block goes on.

    They fork from here, with all imports done, where no other thread is cut off by it; else from a process that may.
    """
    threads = Path("/proc/self/task")
    alone = threads.is_dir() and len([*threads.iterdir()]) == 1
    context = multiprocessing.get_context("fork" if alone else "forkserver")
    if not alone:
        context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as processes:
        yield processes.map(body, runs, chunksize=FEW)


def write(runs: Sequence[Executed], bodies: Iterable[str], folder: Path) -> None:
    """Write each run as a page below `folder`, and a copy of each file of the repository that one links to.

    The folder is replaced as a whole. `<folder>/<name>.html` is a run's page.
    """
    lead = links.Links(runs, paths.root())
    named = {f"{run.name}.html": run for run in runs}
    sources = [f"notebooks/{run.notebook}.ipynb" for run in runs]
    pages = {page: lead.lead(html, page, source, named[page]) for page, source, html in zip(named, sources, bodies)}
    with paths.new_folder(folder) as temporary:
        for page, text in links.settle_anchors(pages).items():
            (temporary / page).write_text(_page(page, text, named[page], runs), encoding="utf-8")
        for path, copy in lead.wanted.items():
            (temporary / copy).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(lead.root / path, temporary / copy)


def body(run: Executed) -> str:
    """Return the cells of a run as HTML, without the paths of the machine it ran on."""
    html, _ = _exporter().from_notebook_node(executed.shown(run), {"metadata": {"name": run.name}})
    return _whole(_described(STYLE.sub("", html))).replace(f"{paths.root()}/", "")


@cache
def _exporter() -> PageExporter:
    return PageExporter()


def _page(page: str, text: str, run: Executed, runs: Sequence[Executed]) -> str:
    """Put a page between links to the contents, to what comes before and to what comes next."""
    order = list(dict.fromkeys(other.notebook for other in runs))
    here = order.index(run.notebook)
    near = {"previous": order[max(here - 1, 0) : here], "following": order[here + 1 : here + 2]}
    steps = {name: executed.closest(run, stems[0], runs) for name, stems in near.items() if stems}
    return render(
        "page.html",
        title=executed.title(run.node),
        contents=f"../index.html#{run.notebook}",
        steps={name: (f"{step.name}.html", executed.title(step.node)) for name, step in steps.items()},
        body=Markup(text),
    )


def _whole(html: str) -> str:
    """Make every picture a link to itself: the style shows what is linked to as large as it was drawn."""
    numbers = count(1)

    def linked(picture: re.Match) -> str:
        name = f"picture-{next(numbers)}"
        return f'<a class="whole" id="{name}" href="#{name}">{picture[0]}</a>'

    return PICTURE.sub(linked, html)


def _described(html: str) -> str:
    """Describe every picture by the heading that it stands under."""
    heading = "the page"

    def described(found: re.Match) -> str:
        nonlocal heading
        if found[1] is None:
            return f'alt="Figure under: {heading}"'
        heading = found[1].replace("-", " ")
        return found[0]

    return UNDESCRIBED.sub(described, html)
