"""Executed notebooks as pages that need nothing from elsewhere, and lead to each other and to
copies of files.
"""

import posixpath
import re
import shutil
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape, unescape
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jinja2 import Environment, PackageLoader, pass_context
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbconvert.filters import clean_html
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from pygments.formatters import HtmlFormatter

from companion.publication import executed_notebooks, formulas
from companion.publication.executed_notebooks import Executed
from companion.setup import paths
from companion.setup.labels import counted

# signs that Markdown and formulas mean something by
MEANT = re.compile(r"[\\`*_\[\]()!|$~#]")
STYLE = re.compile(r"<style scoped>.*?</style>", re.DOTALL)
LINK = re.compile(r'(?<=<a href=")([^"#:]+)(#[^"]*)?(?=")')
HEADING_OR_PICTURE = re.compile(r'<h[1-6] id="([^"]+)"|<img\b[^>]*>')
SCROLLS = re.compile(r'<div class="(?:highlight|[^"]*output_subarea)[^"]*"')
# files that a browser shows as they are
SHOWN = (".png", ".svg", ".jpg", ".txt", ".csv", ".json")


class PageExporter(HTMLExporter):
    """nbconvert's bare cells without prompts, their formulas drawn; cells of set-up, record
    and solution are folded.
    """

    def __init__(self):
        bare = {"exclude_input_prompt": True, "exclude_output_prompt": True}
        cells = Path(__file__).with_name("templates") / "cells.html"
        super().__init__(
            template_name="basic", raw_template=cells.read_text(encoding="utf-8"), **bare
        )
        # slow, and the runs of a notebook share their sources
        self.register_filter("clean_html", cache(clean_html))
        # what a cell printed may hold words from outside
        self.register_filter("printed", formulas.markdown)

    @pass_context
    def markdown2html(self, context, source: str) -> str:
        """Turn a cell's Markdown into HTML."""
        return formulas.markdown(source, trusted=True)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("companion.publication"), autoescape=True, trim_blocks=True
    )


def render(template: str, **values: Any) -> str:
    """Fill a template of the report, which has the colours of code too; what is not `Markup` is
    escaped.
    """
    light, dark = (
        HtmlFormatter(style=style, nobackground=True) for style in ("default", "github-dark")
    )
    colours = {
        "code_light": light.get_style_defs(".highlight"),
        "code_dark": dark.get_style_defs(".highlight"),
    }
    return _environment().get_template(template).render(**colours, counted=counted, **values)


_exporter = cache(PageExporter)


def shown(run: Executed) -> NotebookNode:
    """Return the cells that a reader needs: no progress bars, no marks for tests, the run's
    parameters as one line.
    """
    node, cells = executed_notebooks.cleaned(run.node), []
    for cell in node.cells:
        if run.values and "parameters" in cell.metadata.get("tags", []):
            cells.append(new_markdown_cell(render("run.md", values=_literal(run))))
            cell.source = re.sub(
                rf"^({'|'.join(run.values)})\b.*\n?", "", cell.source, flags=re.MULTILINE
            ).rstrip()
        if cell.source.strip() or cell.get("outputs"):
            cells.append(cell)
    node.cells = cells
    return node


def _literal(run: Executed) -> dict[str, str]:
    """Return a run's parameters as Markdown that shows their signs, whatever they are."""
    named = executed_notebooks.named(run.values)
    return {
        name: MEANT.sub(r"\\\g<0>", " ".join(str(value).split())) for name, value in named.items()
    }


def body(run: Executed) -> str:
    """Return the cells of a run as HTML, without the paths of the machine it ran on.

    A picture is described by the heading above it, and leads to itself: it is shown as large as it
    was drawn.
    """
    html, _ = _exporter().from_notebook_node(shown(run), {"metadata": {"name": run.name}})
    heading, numbers = "the page", count(1)

    def described(match: re.Match) -> str:
        nonlocal heading
        if match[1]:
            heading = match[1].replace("-", " ")
            return match[0]
        name = f"picture-{next(numbers)}"
        picture = match[0].replace(
            "No description has been provided for this image", f"Figure under: {heading}"
        )
        return f'<a class="whole" id="{name}" href="#{name}">{picture}</a>'

    # what scrolls can be reached by the keyboard
    html = SCROLLS.sub(r'\g<0> tabindex="0"', STYLE.sub("", html))
    return HEADING_OR_PICTURE.sub(described, html).replace(f"{paths.root()}/", "")


def write(runs: Sequence[Executed], bodies: Iterable[str], folder: Path) -> None:
    """Write each run as a page, `<folder>/<name>.html`, with copies of the files of the repository
    that it links to.
    """
    order = list(dict.fromkeys(run.notebook for run in runs))
    with paths.new_folder(folder) as temporary:
        for run, html in zip(runs, bodies):
            here = order.index(run.notebook)
            near = {
                "previous": order[max(here - 1, 0) : here],
                "following": order[here + 1 : here + 2],
            }
            steps = {
                name: executed_notebooks.closest(run, stems[0], runs)
                for name, stems in near.items()
                if stems
            }
            page = render(
                "page.html",
                title=run.title,
                contents=f"../index.html#{run.notebook}",
                steps={name: (f"{step.name}.html", step.title) for name, step in steps.items()},
                body=Markup(LINK.sub(lambda link, run=run: lead(link, run, runs, temporary), html)),
            )
            (temporary / f"{run.name}.html").write_text(
                page, encoding="utf-8", errors="backslashreplace"
            )
        paths.seal(temporary)


def lead(link: re.Match, run: Executed, runs: Sequence[Executed], folder: Path) -> str:
    """Return where a link of a notebook leads: the page of a run, the contents, a copy of a file,
    or where it did.
    """
    path = posixpath.normpath(posixpath.join("notebooks", unquote(unescape(link[1]))))
    file = paths.root() / path
    if path.startswith("..") or not file.exists():
        return link[0]
    if file.is_dir():
        return "../index.html"
    if path == f"notebooks/{file.stem}.ipynb":
        target = executed_notebooks.closest(run, file.stem, runs)
        return f"{target.name}.html{link[2] or ''}" if target else f"../index.html#{file.stem}"
    copy = f"files/{path}" + ("" if path.endswith(SHOWN) else ".txt")
    if not (folder / copy).exists():
        (folder / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / copy)
    return escape(copy)
