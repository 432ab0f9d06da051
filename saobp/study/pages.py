"""Executed notebooks as pages that need nothing from elsewhere: formulas as MathML, links to each other, no script."""

import re
from pathlib import Path

import nbformat
from jinja2 import pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from saobp.study import paths
from saobp.study.publication import is_progress

REMOTE = re.compile(
    r'<script[^>]*\bsrc="https?://.*?</script>|<script type="(?:module|text/x-mathjax-config)">.*?</script>', re.DOTALL
)
LINK = re.compile(r'href="(\d\d-[a-z]+)\.ipynb"')


class Formulas(IPythonRenderer):
    """Sets TeX as MathML, which browsers draw by themselves."""

    def inline_math(self, body: str) -> str:
        """Set a formula in a line."""
        return convert(body)

    def block_math(self, body: str) -> str:
        """Set a formula of its own."""
        return convert(body, display="block")


class PageExporter(HTMLExporter):
    """nbconvert's lab page without prompts, its formulas drawn."""

    def __init__(self):
        super().__init__(template_name="lab", exclude_input_prompt=True, exclude_output_prompt=True)

    @pass_context
    def markdown2html(self, context, source: str) -> str:
        """Turn a cell's Markdown into HTML."""
        return MarkdownWithMath(renderer=Formulas(escape=False)).render(source)


def write(notebooks: list[Path], folder: Path) -> list[dict[str, str]]:
    """Write each notebook as a page below `folder` and return their names and links from the folder above."""
    names = [path.stem for path in notebooks]
    for path in notebooks:
        paths.write_text(folder / f"{path.stem}.html", page(path, names))
    return [{"name": name, "link": f"{folder.name}/{name}.html"} for name in names]


def page(notebook: Path, names: list[str]) -> str:
    """Return one notebook as HTML; a link to another one leads to its page, or to the first run of it."""
    node = nbformat.read(notebook, as_version=4)
    for cell in node.cells:  # progress bars belong to the log
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if not is_progress(output)]
    body, _ = PageExporter().from_notebook_node(node, {"metadata": {"name": notebook.stem}})
    return LINK.sub(lambda link: f'href="{_target(link[1], names)}"', REMOTE.sub("", body))


def _target(name: str, names: list[str]) -> str:
    """Choose the page that a link to a notebook leads to."""
    runs = [other for other in names if other == name or other.startswith(f"{name}-")]
    return f"{runs[0]}.html" if runs else "../index.html"
