"""Executed notebooks, and what they link to, as pages that need nothing from elsewhere and lead to each other."""

import re
from functools import cache
from itertools import count
from pathlib import Path

from jinja2 import pass_context
from markupsafe import Markup
from nbconvert import HTMLExporter

from saobp.study.publication import executed, formulas, layout, links, listings
from saobp.study.publication.executed import Executed
from saobp.study.setup import paths

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

    @pass_context
    def markdown2html(self, context, source: str) -> str:
        """Turn a cell's Markdown into HTML."""
        return formulas.markdown(source)


def write(notebooks: list[Path], folder: Path) -> list[Executed]:
    """Write each notebook, and each file of the repository that one links to, as a page below `folder`.

    The folder is replaced as a whole. Returns the runs in the reader's order; `<folder>/<name>.html` is a run's page.
    """
    runs = executed.read(notebooks)
    lead = links.Links(runs, paths.root())
    pages = {f"{run.name}.html": lead.lead(body(run), f"{run.name}.html", _source(run), run) for run in runs}
    pages |= _files(lead)
    with paths.new_folder(folder) as temporary:
        for page, text in links.settle_anchors(pages).items():
            run = next((run for run in runs if page == f"{run.name}.html"), None)
            (temporary / page).parent.mkdir(parents=True, exist_ok=True)
            (temporary / page).write_text(_page(page, text, run, runs), encoding="utf-8")
    return runs


def body(run: Executed) -> str:
    """Return the cells of a run as HTML, without the paths of the machine it ran on."""
    html, _ = _exporter().from_notebook_node(executed.shown(run), {"metadata": {"name": run.name}})
    return _whole(_described(STYLE.sub("", html))).replace(f"{paths.root()}/", "")


@cache
def _exporter() -> PageExporter:
    return PageExporter()


def _source(run: Executed) -> str:
    return f"notebooks/{run.notebook}.ipynb"


def _files(lead: links.Links) -> dict[str, str]:
    """Return the pages of files that are linked to, those that these link to, and so on; folders last."""
    pages: dict[str, str] = {}
    while pending := [path for path, page in lead.wanted.items() if page not in pages and (lead.root / path).is_file()]:
        for path in pending:
            page, html = lead.wanted[path], listings.body(lead.root / path, path)
            pages[page] = lead.lead(html, page, path) if path.endswith(".md") else html
    for path, page in list(lead.wanted.items()):
        if page not in pages:
            html = listings.folder(lead.root / path, path, lead.wanted)
            pages[page] = lead.lead(html, page, f"{path}/")
    return pages


def _page(page: str, text: str, run: Executed | None, runs: list[Executed]) -> str:
    """Put a page between links to the contents, to what comes before and to what comes next."""
    order = list(dict.fromkeys(other.notebook for other in runs))
    here = order.index(run.notebook) if run else 0
    near = {"previous": order[max(here - 1, 0) : here], "following": order[here + 1 : here + 2]} if run else {}
    steps = {name: executed.closest(run, stems[0], runs) for name, stems in near.items() if stems}
    return layout.render(
        "page.html",
        title=executed.title(run.node) if run else page.removeprefix("files/").removesuffix(".html"),
        contents=links.relative("../index.html", page) + (f"#{run.notebook}" if run else ""),
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
