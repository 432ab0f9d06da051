"""Files of the repository as pages: source in colours, Markdown as text, a folder as the list of what is in it."""

import ast
import re
from collections.abc import Container
from html import escape
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from saobp.study.publication import formulas, links

DEFINITION = re.compile(r"(?:async )?(?:def|class) (\w+)|(\w+)(?:: [^=]+)? = ")


def body(path: Path, name: str) -> str:
    """Return a file of the repository as HTML; `name` is its path there.

    A line has the anchor `#L12`, a function, class or constant of a Python module its own name.
    """
    if path.suffix == ".md":
        return formulas.markdown(path.read_text(encoding="utf-8"))
    title = f"<h1><code>{escape(name)}</code></h1>\n"
    if path.suffix in (".png", ".svg", ".jpg"):
        return title + f'<div class="scroll"><img alt="{escape(name)}" src="{links.picture(path)}"></div>'
    return title + _source(path.name, path.read_text(encoding="utf-8", errors="replace"))


def folder(path: Path, name: str, linked: Container[str]) -> str:
    """Return what is in a folder, each with its first line; what is among `linked` is a link, as from the folder."""
    entries = [entry for entry in sorted(path.iterdir()) if not entry.name.startswith((".", "__pycache__"))]
    lines = []
    for entry in entries:
        words = f"<code>{escape(entry.name)}{'/' * entry.is_dir()}</code>"
        shown = f'<a href="{escape(entry.name)}">{words}</a>' if f"{name}/{entry.name}" in linked else words
        lines.append(f"<li>{shown} {escape(_first_line(entry))}</li>")
    return f"<h1><code>{escape(name)}/</code></h1>\n<ul>\n" + "\n".join(lines) + "\n</ul>"


def _source(name: str, text: str) -> str:
    """Return source in colours, with anchors."""
    try:
        lexer = get_lexer_for_filename(name)
    except ClassNotFound:
        lexer = TextLexer()
    html = highlight(text, lexer, HtmlFormatter(linespans="L", cssclass="highlight source"))
    lines = text.splitlines() if name.endswith(".py") else []
    names = {number: found for number, line in enumerate(lines, start=1) if (found := DEFINITION.match(line))}

    def anchored(line: re.Match) -> str:
        found = names.get(int(line[1]))
        return f'<span id="L{line[1]}">' + (f'<span id="{found[1] or found[2]}"></span>' if found else "")

    return re.sub(r'<span id="L-(\d+)">', anchored, html)


def _first_line(path: Path) -> str:
    """Return the first line of a module's docstring, or nothing."""
    if path.suffix != ".py":
        return ""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
