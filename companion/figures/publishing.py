"""Write figures and tables with the manifest that says where each file comes from."""

import io
import json
import multiprocessing
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd
import PIL.Image
from matplotlib.figure import Figure

from companion import tables
from companion.figures import drawing, glance, style
from companion.figures.beyond_the_paper import claims
from companion.records.schema import Record
from companion.results import claims as fifteen
from companion.results import table
from companion.setup import environment, labels, paths
from companion.tables import captions, render

FORMATS = ("pdf", "svg", "png", "csv")
TRACKED_FORMATS = ("pdf", "svg", "png", "csv")
# the picture that README shows to phones, in its column form
PHONE = ("png", "figure-glance")
# no dates and no versions inside: equal figures are equal files
METADATA = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
# of a panel, in bold
LETTER = r"\$\\bf\{(.)\}\$"
# the files of a figure, and the headings of its panels
Saved = tuple[list[Path], list[str]]


class Form(NamedTuple):
    """In which formats and how wide (inches) a figure is written, and whether without its titles."""

    formats: Sequence[str] = FORMATS
    width: float = style.PAGE
    bare: bool = False


# a page wide, in every format
WHOLE = Form()


class Beside(NamedTuple):
    """What is published beside a study's own records.

    `others`, of other studies, draw a figure for which the study has no run, and `hashes` are those
    of their files; rows of `first` come first in every table; `claims` writes the table of results
    and the claims too.
    """

    others: Sequence[Record] = ()
    hashes: Mapping[str, str] = MappingProxyType({})
    first: Sequence[Record] = ()
    claims: bool = False


ALONE = Beside()


def write(
    number: int | str, records: Sequence[Record], folder: str | Path, form: Form = WHOLE
) -> list[Path]:
    """Write a figure into `folder` in each format, and the CSV that drew it; returns the paths.

    The same records give the same bytes. Raises ValueError for an unknown format, FigureError
    without the runs.
    """
    return write_frame(number, drawing.data(number, records), folder, form)


def write_frame(
    number: int | str, frame: pd.DataFrame, folder: str | Path, form: Form = WHOLE
) -> list[Path]:
    """Write the figure of a frame that `drawing.data` or `drawing.read` returns, as `write`."""
    return _save(drawing.lookup(number).plot, frame, Path(folder) / drawing.stem(number), form)[0]


def write_claims(folder: Path, form: Form) -> list[Path]:
    """Write the forest of the claims in each format, and the CSV that drew it."""
    frame = claims.data(fifteen.decided())
    return _save(claims.plot, frame, folder / "figure-claims", form)[0]


def _save(plot: drawing.Plot, frame: pd.DataFrame, stem: Path, form: Form) -> Saved:
    """Draw a figure, lay it out once for all formats, to a hundred-thousandth of its size, and
    write it.

    The solver's last digits differ from run to run, and the ids in an SVG are hashes of them.
    """
    render.refuse_unknown(form.formats, FORMATS)
    with style.paper():
        figure = plot(frame, form.width)
        heads = [ax.get_title("left") for ax in figure.axes]
        if form.bare:
            _bare(figure)
        style.fit(figure)
    # "none" leaves a placeholder, with which every save draws twice
    figure.set_layout_engine(None)
    for ax in figure.axes:
        ax.set_position([round(edge, 5) for edge in ax.get_position(original=True).bounds])
    written = [stem.with_name(f"{stem.name}.{kind}") for kind in form.formats]
    for kind, path in zip(form.formats, written):
        if kind == "csv":
            paths.write_text(
                path, frame.to_csv(index=False, float_format="%.9g", lineterminator="\n")
            )
        else:
            with paths.new_file(path) as temporary, style.paper():
                figure.savefig(temporary, format=kind, metadata=METADATA[kind])
    # a letter is bold there
    plain = (re.sub(LETTER, r"\1", text) for text in heads)
    return written, [" ".join(text.split()) for text in plain if text]


def _bare(figure: Figure) -> None:
    """Take the titles from a figure's panels; their letters stay."""
    for ax in figure.axes:
        letter = re.match(LETTER, ax.get_title("left"))
        ax.set_title(letter[0] if letter else "", loc="left", pad=4)


def publish(
    records: Sequence[Record],
    folder: str | Path,
    hashes: Mapping[str, str],
    beside: Beside = ALONE,
    formats: Sequence[str] = TRACKED_FORMATS,
) -> list[Path]:
    """Write every table and figure that the records can fill, and manifest.json; return the paths,
    it last.

    `hashes` are those of the records' files (`records.hashes`). Of a figure without its runs the
    manifest gives the reason; its dates are those of runs, so that the same records give the same
    bytes.
    """
    folder, every = Path(folder), [*beside.first, *records]
    entries = {f"table{n}": provenance(tables.relevant(n, every)) for n in tables.TABLES}
    drawn = [
        (number, origin(number, records, beside.others), drawing.stem(number))
        for number in drawing.FIGURES
    ]
    draws, missing, written = {}, {}, {}
    if beside.claims:
        written |= {"results": [table.write(folder)], "claims": fifteen.write(folder)}
        # as the glance reads it
        table.read.cache_clear()
        frame = claims.data(fifteen.decided())
        draws["figure-claims"] = (claims.plot, frame)
        words = drawing.words("claims")
        caption = captions.filled(words["caption"], **claims.numbers(frame))
        entries |= {"results": {}, "claims": {"rows": frame["key"].tolist()}}
        about = {"title": words["title"], "caption": caption}
        entries["figure-claims"] = entries["claims"] | about
    for number, behind, name in drawn:
        try:
            frame = drawing.data(number, behind)
        except drawing.FigureError as error:
            missing[name] = str(error)
        else:
            title, caption = drawing.words(number)["title"], drawing.caption(number, frame)
            entries[name] = provenance(behind) | {"title": title, "caption": caption}
            draws[name] = (drawing.lookup(number).plot, frame)
            if number == "glance":
                studies = {entries[name]["study"], *glance.studies()}
                entries[name]["study"] = labels.joined(sorted(studies))
    for number in tables.TABLES:
        whole = tables.table(number, records, first=beside.first)
        written[f"table{number}"] = tables.write(whole, folder)
    for name, saved in _both_widths(draws, folder, formats).items():
        written[name], entries[name]["heads"] = saved
    for name, files in written.items():
        entries[name]["files"] = {path.name: paths.digest(path) for path in files}
    named = defaultdict(dict)
    for record in beside.others:
        named[record["study"]][record["name"]] = beside.hashes.get(record["name"])
    manifest = {
        "licence": "MIT (LICENSE); the paper's printed numbers: CC BY 4.0 (data/README.md)",
        "hashes": "SHA-256 of the file's bytes, as sha256sum prints it; null for a record of no file",
        "entries": entries,
        "missing": missing,
        "others": named,
        "drawn_with": {name: version(name) for name in ("matplotlib", "numpy", "pandas")},
        "records": {record["name"]: hashes.get(record["name"]) for record in every},
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    made = [path for files in written.values() for path in files]
    return [*made, paths.write_text(folder / "manifest.json", text)]


def listed(folder: Path) -> dict[str, str]:
    """Return the files that the manifest of a folder says were written there, with their hashes."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        files = [entry["files"].items() for entry in manifest["entries"].values()]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}
    return {name: mark for each in files for name, mark in each if Path(name).name == name}


def remove(folder: Path, before: Mapping[str, str], written: Iterable[Path]) -> list[str]:
    """Remove what an earlier manifest lists and was not written again, as it was written; return
    the names.
    """
    gone = sorted(before.keys() - {path.name for path in written})
    files = [folder / name for name in gone if (folder / name).is_file()]
    files = [file for file in files if paths.digest(file) == before[file.name]]
    for file in files:
        file.unlink()
    return [file.name for file in files]


def _both_widths(
    draws: Mapping[str, tuple[drawing.Plot, pd.DataFrame]], folder: Path, formats: Sequence[str]
) -> dict[str, Saved]:
    """Write figures as wide as a page, and as PDF as wide as a column ("figure4-column.pdf"), on
    every processor.

    The headings are those of the page's.
    """
    environment.make_room_for_sockets()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as processes:
        pages, columns = {}, {}
        for name, draw in draws.items():
            pages[name] = processes.submit(_save, *draw, folder / name, Form(formats))
            column = [kind for kind in formats if kind == "pdf" or (kind, name) == PHONE]
            if column:
                form = Form(column, style.COLUMN)
                columns[name] = processes.submit(_save, *draw, folder / f"{name}-column", form)
    saved = {}
    for name, page in pages.items():
        files, heads = page.result()
        if name in columns:
            files = files + columns[name].result()[0]
        saved[name] = (files, heads)
    return saved


def origin(number: int | str, records: Sequence[Record], others: Sequence[Record]) -> list[Record]:
    """The records behind a figure: of `records`, or where these have none of what it shows of
    `others`.
    """
    return drawing.relevant(number, records) or drawing.relevant(number, others)


def few_colours(file: Path | io.BytesIO) -> bytes:
    """Return a picture as PNG in 256 colours: small text stays sharp, in a quarter of the bytes.

    Fewer pixels would not do: the squares of an attention map compress well until they are
    resampled.
    """
    few = io.BytesIO()
    with PIL.Image.open(file) as picture:
        method, dither = PIL.Image.Quantize.FASTOCTREE, PIL.Image.Dither.NONE
        reduced = picture.convert("RGB").quantize(256, method, dither=dither)
    reduced.save(few, "PNG", optimize=True)
    return few.getvalue()


def shown(number: int | str, folder: str | Path) -> Any:
    """Display a tracked figure in a notebook and return its caption, or the reason why there is
    none.
    """
    name = drawing.stem(number)
    return _show(number, _manifest(folder), Path(folder, f"{name}.png"))


def redrawn(number: int | str, folder: str | Path, width: float = style.PAGE) -> Any:
    """Draw a figure from the CSV beside it, so that a reader may change the CSV or the style.

    Displays it in a notebook, `width` inches wide, and returns its caption, as `shown` does.
    """
    name = drawing.stem(number)
    manifest = _manifest(folder)
    picture = io.BytesIO()
    if name in manifest["entries"]:
        frame = drawing.read(number, Path(folder, f"{name}.csv"))
        with style.paper():
            figure = style.fit(drawing.lookup(number).plot(frame, width))
            figure.savefig(picture, format="png", dpi=150, metadata=METADATA["png"])
    return _show(number, manifest, picture)


def _manifest(folder: str | Path) -> dict[str, Any]:
    return json.loads(Path(folder, "manifest.json").read_text(encoding="utf-8"))


def _show(number: int | str, manifest: dict[str, Any], picture: Path | io.BytesIO) -> Any:
    """Display a picture in a notebook and return its caption, or the reason why there is none."""
    from IPython.display import Image, Markdown, display

    name = drawing.stem(number)
    if name in manifest["missing"]:
        return Markdown(f"*{manifest['missing'][name]}.*")
    display(Image(few_colours(picture), width=900))
    title = drawing.words(number)["title"]
    return Markdown(f"**{title}.** {manifest['entries'][name]['caption']}")


def provenance(records: Sequence[Record]) -> dict[str, Any]:
    """Where a set of records comes from: study, data, code, versions, last run's date."""
    data = {
        (run["data"].get("source"), run["data"].get("fingerprint"))
        for run in records
        if run.get("data")
    }
    code = {(run["code"].get("version"), run["code"].get("commit")) for run in records}
    versions = {name: number for run in records for name, number in run["packages"].items()}
    return {
        "records": [record["name"] for record in records],
        "study": " and ".join(sorted({run["study"] for run in records})) or "none",
        "data": [{"source": source, "fingerprint": mark} for source, mark in sorted(data, key=str)],
        "code": [{"version": number, "commit": commit} for number, commit in sorted(code, key=str)],
        "versions": dict(sorted(versions.items())),
        "date": max((run["started"] for run in records), default=None),
    }
