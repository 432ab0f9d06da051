"""Leads every link of a page to another page of the same report, with its anchor."""

import base64
import mimetypes
import posixpath
import re
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path
from urllib.parse import unquote

from saobp.study.publication.executed import Executed, closest

LINK = re.compile(r'(<a\b[^>]*?\bhref=")([^"#:]*)(#[^"]*)?(?=")')
IMAGE = re.compile(r'(<img\b[^>]*?\bsrc=")([^":]+)(?=")')
IDENTIFIER = re.compile(r'\bid="([^"]+)"')


class Links:
    """Where the links of the repository's files lead inside a report.

    `wanted` collects the files that pages link to, and where a copy of each is to lie: as text, which browsers show.
    """

    def __init__(self, runs: Sequence[Executed], root: Path):
        self.runs = runs
        self.root = root
        self.wanted: dict[str, str] = {}

    def lead(self, html: str, page: str, source: str, run: Executed | None = None) -> str:
        """Rewrite the links and pictures of a page that was made from a file of the repository.

        A link to what does not exist stays as it is.
        """

        def target(link: re.Match) -> str:
            found = self._page(self._path(source, link[2]), run) if link[2] else None
            if found is None:
                return link[0]
            where, mark, own = found.partition("#")
            anchor = "" if where.startswith("files/") else mark + own or link[3] or ""
            return link[1] + relative(where, page) + anchor

        html = LINK.sub(target, html)
        return IMAGE.sub(lambda image: image[1] + self._picture(self._path(source, image[2]), image[2]), html)

    def _path(self, source: str, link: str) -> str:
        """Return the path in the repository that a link in a file means."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(source), unquote(unescape(link))))

    def _page(self, path: str, run: Executed | None) -> str | None:
        """Return the page of a path; a notebook that was not run leads to its line in the contents."""
        if path.startswith("..") or not (self.root / path).exists():
            return None
        folder, name = posixpath.split(path)
        if folder == "notebooks" and name.endswith(".ipynb"):
            stem = name.removesuffix(".ipynb")
            found = closest(run, stem, self.runs)
            return f"{found.name}.html" if found else f"../index.html#{stem}"
        if (self.root / path).is_dir():
            return "../index.html"
        shown = path.endswith((".png", ".svg", ".jpg", ".txt", ".csv", ".json"))
        return self.wanted.setdefault(path, f"files/{path}" + ("" if shown else ".txt"))

    def _picture(self, path: str, link: str) -> str:
        """Return a picture of the repository as data inside the page."""
        return picture(self.root / path) if (self.root / path).is_file() else link


def picture(path: Path) -> str:
    """Return a picture as a link that holds it."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def relative(page: str, start: str) -> str:
    """Return how one page is named in a link from another."""
    return escape(posixpath.relpath(page, posixpath.dirname(start) or "."))


def settle_anchors(pages: dict[str, str]) -> dict[str, str]:
    """Spell every anchor as the page it leads to does: notebooks and GitHub write headings differently."""
    known = {page: {_plain(name): name for name in IDENTIFIER.findall(html)} for page, html in pages.items()}

    def settled(page: str, link: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[2])) if link[2] else page
        anchor = unescape(unquote(link[3] or ""))
        name = known.get(target, {}).get(_plain(anchor))
        return link[1] + link[2] + (f"#{name}" if name and anchor else link[3] or "")

    return {page: LINK.sub(lambda link, page=page: settled(page, link), html) for page, html in pages.items()}


def _plain(anchor: str) -> str:
    return re.sub(r"[^\w-]", "", anchor.lower())
