"""From a study's records to tracked results, figures and texts; and single files for a next
paper.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from companion import figures, records, tables
from companion.results import claims
from companion.setup import paths
from companion.setup.studies import (
    ENCODERS,
    EXAM,
    EXERCISE,
    FRESH_EXAM,
    FULL_WIDTH,
    PAPER_STUDY,
    PUBLIC_ENCODER,
    PUBLIC_MODELS,
    SAY_MOST,
    TUNED_EXAM,
    load_study,
)
from companion.statistics.estimates import BESIDE
from saobp.measure.command import show

# their records hold nothing that the others do not
SUMMARIES = ("10-tables", "11-figures")
# studies with figures of their own
OTHERS = (EXAM, FRESH_EXAM, PUBLIC_ENCODER, PUBLIC_MODELS, TUNED_EXAM)
# in a folder, the single figures and tables that were written there, with their hashes
WRITTEN = ".saobp.json"
# seeds of a pair: a study that has them goes before one that has fewer
SEVERAL = 3


def shown_study() -> str:
    """Return the study whose results `figures/` shows: the first that compares High with Original,
    of several seeds.

    Raises FileNotFoundError when nothing is tracked.
    """

    def seeds(study_name: str, algorithm: str) -> set[str]:
        files = paths.results(study_name).glob(f"04-pretrain-*-{algorithm}-*.json")
        return {path.stem.rpartition("-")[2] for path in files}

    pairs = {name: len(seeds(name, "original") & seeds(name, "high")) for name in SAY_MOST}
    if not any(pairs.values()):
        raise FileNotFoundError(
            f"{paths.results('laptop').parent}: no records there; publish a study first"
        )
    return max(SAY_MOST, key=lambda name: (pairs[name] >= SEVERAL, pairs[name] > 0))


def publish(study_name: str) -> None:
    """Copy a finished study's records to `data/results/<study>/` in place of those there; rebuild
    `figures/`.
    """
    name = Path(study_name).stem
    if name == EXERCISE:
        raise ValueError(
            f"--study: {name} trains for seconds, its models have learned nothing; publish another study"
        )
    folder = paths.build(name) / "records"
    files = [path for path in sorted(folder.glob("*.json")) if path.stem not in SUMMARIES]
    if not files:
        load_study(study_name)
        raise FileNotFoundError(
            f"{folder}: no records there; run `make reproduce STUDY={name}` first"
        )
    runs = {path: records.read(path) for path in files}
    refuse_without_pretraining(name, runs)
    tracked = paths.results(name)
    with paths.new_folder(tracked, records.names(tracked)) as target:
        for path, record in runs.items():
            record = records.move_answers(record, target / path.name)
            paths.write_text(target / path.name, records.as_text(record))
    show(
        f"{len(files)} records in {tracked}, in place of any that were there: `git status` names what is gone"
    )
    rebuild()
    if name == EXAM:
        show(
            "notebook 12 shows these records: run `make reproduce` and `make notebooks`, or `make test` goes red"
        )


def refuse_without_pretraining(study: str, runs: dict[Path, dict[str, Any]]) -> None:
    """Raise ValueError for a row of the paper's study whose record of pretraining is not there."""
    if study != PAPER_STUDY:
        return
    trained = {_row(record) for record in runs.values() if record["stage"] == "pretrain"}
    for path, record in runs.items():
        if record["stage"] in ("finetune", "attention") and _row(record) not in trained:
            raise ValueError(
                f"{path}: there is no record of its pretraining beside it; run that row again"
            )


def _row(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record["parameters"].get(name) for name in ("model", "algorithm", "seed"))


def rebuild() -> None:
    """Rebuild `figures/` and the texts from tracked records alone; the same records give the same
    bytes.
    """
    from companion.texts import fill

    before = figures.listed(paths.figures())
    written = draw(paths.figures())
    # of other records
    gone = figures.remove(paths.figures(), before, written)
    pages = [paths.write_text(path, text) for path, text in fill.pages().items()]
    texts = ", ".join(str(path.relative_to(paths.root())) for path in pages)
    show(
        f"{len(written)} files in {paths.figures()}, from {paths.results(shown_study())}; texts: {texts}"
    )
    if gone:
        show(f"removed, for nothing draws them any more: {', '.join(gone)}")


def draw(folder: Path) -> list[Path]:
    """Draw every table and figure of the tracked records into a folder, the controlled studies'
    from their own, and write the table of results and the claims.
    """
    first, hashes = full_width(shown_study()), {}
    for study in (*{run["study"] for run in first}, shown_study(), *BESIDE):
        hashes |= records.hashes(paths.results(study))
    return figures.publish(
        shown(shown_study()),
        folder,
        hashes,
        figures.Beside(
            claims=True,
            first=first,
            others=_others(),
            hashes=dict(
                item for study in OTHERS for item in records.hashes(paths.results(study)).items()
            ),
        ),
    )


def shown(study_name: str) -> list[dict[str, Any]]:
    """Return the tracked records of a study, and those of its fresh seeds and of the larger sizes'
    times under their own study's name.
    """
    tracked = records.load(paths.results(study_name))
    for beside in BESIDE if study_name == ENCODERS else ():
        runs = records.load(paths.results(beside))
        tracked += [run | {"study": beside} for run in runs]
    return tracked


def full_width(study_name: str) -> list[dict[str, Any]]:
    """Return the tracked records of models as wide as the paper's, which stand beside a study of
    scaled-down ones; without their timings, as that study has its own.
    """
    if study_name in FULL_WIDTH:
        return []
    wide = next(filter(None, (records.load(paths.results(name)) for name in FULL_WIDTH)), [])
    return [run for run in wide if run["stage"] != "cost"]


def _others() -> list[dict[str, Any]]:
    first, *others = (records.load(paths.results(study)) for study in OTHERS)
    return sum(others, records.select(first, "beyond"))


class Wanted(NamedTuple):
    """How a single figure or table is written: formats, folder, and whether over files of others; of
    a figure how wide (inches), without titles, and from whose numbers.
    """

    formats: Sequence[str]
    folder: Path = Path()
    width: float | None = None
    bare: bool = False
    data: Path | None = None
    force: bool = False

    @property
    def form(self) -> figures.Form:
        """The form of a figure."""
        width = figures.PAGE if self.width is None else self.width
        return figures.Form(self.formats, width, self.bare)


def single(
    kind: str, number: int | str, study_name: str | None, wanted: Wanted
) -> tuple[list[Path], list[str]]:
    """Write one figure or table into a folder; return the files and the names of the studies behind
    them.

    Without a study the records are those that `figures/` shows, and for a figure of what that has
    no run of, those of `OTHERS`. Raises FileNotFoundError when the study has no records, ValueError
    for what is not there, and for a file of the same name that no such command wrote.
    """
    if wanted.data is not None and number != "claims":
        refuse_to_draw_over(number, wanted)
    with tempfile.TemporaryDirectory() as apart:
        made, studies = drawn(kind, number, study_name, wanted._replace(folder=Path(apart)))
        return placed(made, wanted.folder, force=wanted.force), studies


def placed(made: Sequence[Path], folder: Path, *, force: bool) -> list[Path]:
    """Put files into a folder, in place of those that were written there before; return their paths.

    Raises ValueError, before any is put there, for another file of the same name, unless by `force`,
    and for a list of what was written there that is not ours.
    """
    if (folder / WRITTEN).exists() and not is_listed(noted(folder)):
        raise ValueError(
            f"{folder / WRITTEN}: is there, and is not saobp's list of files with their hashes; "
            "choose another --out, or move it"
        )
    written = figures.listed(folder) | noted(folder)
    hashes = {path.name: paths.digest(path) for path in made}
    for name, new in hashes.items():
        old = folder / name
        ours = old.is_file() and paths.digest(old) in (new, written.get(name))
        if old.exists() and not ours and not force:
            raise ValueError(
                f"{old}: is there, and saobp did not write it as it is; choose another --out, or "
                "--force to replace it"
            )
    for path in made:
        with paths.new_file(folder / path.name) as temporary:
            shutil.copyfile(path, temporary)
    paths.write_text(folder / WRITTEN, json.dumps(noted(folder) | hashes, indent=1) + "\n")
    return [folder / path.name for path in made]


def is_listed(hashes: dict[str, Any]) -> bool:
    """Tell whether these are files with their hashes, of one at least."""
    return bool(hashes) and all(
        isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
        for digest in hashes.values()
    )


def noted(folder: Path) -> dict[str, str]:
    """Return the single figures and tables that were written into a folder, with their hashes."""
    try:
        hashes = json.loads((folder / WRITTEN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return hashes if isinstance(hashes, dict) else {}


def refuse_to_draw_over(number: int | str, wanted: Wanted) -> None:
    """Raise ValueError if a figure would be written over the numbers that it is drawn from."""
    for name in wanted.formats:
        path = wanted.folder / f"{figures.stem(number)}.{name}"
        if path.exists() and wanted.data.exists() and path.samefile(wanted.data):
            raise ValueError(f"{path}: is the file of --data; choose another --out")


def drawn(
    kind: str, number: int | str, study_name: str | None, wanted: Wanted
) -> tuple[list[Path], list[str]]:
    """Write one figure or table, as `single`, into an empty folder."""
    if number == "claims":
        return _claims(kind, study_name, wanted), ["all that are tracked"]
    if wanted.data is not None:
        if study_name:
            raise ValueError("--data: the numbers are those of the file; leave out --study")
        frame = figures.read(number, wanted.data)
        return figures.write_frame(number, frame, wanted.folder, wanted.form), []
    if study_name and study_name.endswith((".yaml", ".yml")):
        study_name = load_study(study_name).name
    name = study_name or shown_study()
    runs = records.load(study_name) if study_name else shown(name)
    if not runs:
        load_study(study_name)
        raise FileNotFoundError(
            f"study '{study_name}' has no records: run `make reproduce STUDY={study_name}` first"
        )
    # a planned study's records may name what they train like
    study = name if paths.results(name).is_dir() else ""
    if kind == "figure":
        if number in figures.FIGURES and study_name is None:
            runs = figures.origin(number, runs, _others())
        made = figures.write(number, runs, wanted.folder, wanted.form)
        return made, [study] if study_name and study else _studies(runs)
    built = tables.table(number, runs, study=study)
    if not any(cell.ran for cell in built.of_models.values()):
        raise ValueError(f"Table {number}: study {name} has no run of it; choose another --study")
    first = [] if study_name else full_width(name)
    whole = tables.table(number, runs, first=first, study=study)
    made = tables.write(whole, wanted.folder, wanted.formats)
    return made, sorted({*_studies(first), *([study] if study else _studies(runs))})


def _claims(kind: str, study_name: str | None, wanted: Wanted) -> list[Path]:
    """Write the fifteen claims, as a figure or a table."""
    if study_name or wanted.data:
        raise ValueError(
            "claims: all of them, from every tracked study; leave out --study and --data"
        )
    if kind == "figure":
        return figures.write_claims(wanted.folder, wanted.form)
    return claims.write(wanted.folder, wanted.formats)


def _studies(runs: list[dict[str, Any]]) -> list[str]:
    return sorted({record["study"] for record in runs})
