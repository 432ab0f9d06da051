"""The companion's commands of `saobp`: one run, a whole study, one figure or table, or everything
published.
"""

import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from companion.setup import paths
from saobp.measure.command import main, saobp, show

POSITIVE = click.IntRange(min=1)


def study_option(
    default: str | None, *names: str, shown: str = "a study's name, or the path of its file"
) -> Callable:
    """Return the option `--study`."""
    return click.option(
        "--study",
        *names,
        "study_name",
        metavar="STUDY",
        default=default,
        show_default=bool(default),
        help=shown,
    )


@saobp.command()
@click.argument("notebook", type=Path)
@click.argument("output", type=Path)
@click.option(
    "-p",
    "--parameter",
    nargs=2,
    multiple=True,
    metavar="KEY VALUE",
    help="a parameter of the notebook",
)
@study_option(None, "-f")
@click.option(
    "--own", is_flag=True, help="of other parameters than the defaults: no cells tagged 'once'"
)
def run(
    notebook: Path,
    output: Path,
    parameter: tuple[tuple[str, str], ...],
    study_name: str | None,
    own: bool,
) -> None:
    """Execute one notebook by papermill and leave one record."""
    from companion.records import execution

    values, keys = dict(parameter), [key for key, _ in parameter]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise ValueError(f"parameter '{twice}' is given {keys.count(twice)} times; give it once")
    name = (values.get("record") or output.as_posix()).rpartition("/")[2].partition(".")[0]
    show(f"{name}: started")
    record = execution.run(notebook, output, values, study_name, own)
    show(f"{notebook.stem}: {record['seconds']:.0f} s, {record['name']}.json")


@saobp.command()
@study_option("smoke")
@click.option("--cores", type=POSITIVE, metavar="N", default=2, show_default=True)
@click.option(
    "--cluster", help="slurm, kubernetes or a folder with Snakemake settings: each run is a job"
)
@click.option(
    "--processes",
    type=POSITIVE,
    metavar="N",
    default=1,
    help="that share a pretraining run, by torchrun",
)
@click.option("--dry-run", is_flag=True, help="list the files of the runs, run none")
@click.option(
    "--rows",
    multiple=True,
    metavar="MODEL/ALGORITHM/SEED",
    help="a row of the tables alone: mini/high/42",
)
def reproduce(**options: Any) -> None:
    """Run every notebook under a study, or the records of some rows of its tables."""
    from companion.publication import workflow

    workflow.reproduce(**options)


@saobp.command()
@click.argument("file", type=Path)
@study_option("paper")
@click.option(
    "--text",
    multiple=True,
    metavar="OWNER/NAME",
    help="a data set, of equal weight (default: the study's)",
)
def tokens(file: Path, study_name: str, text: tuple[str, ...]) -> None:
    """Tokenise the text of a study into FILE, for a machine without the text."""
    from companion.training import pretraining

    pretraining.write_tokens(file, study_name, text)
    show(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


@saobp.command()
@study_option("smoke")
def report(study_name: str) -> None:
    """Write build/STUDY/index.html from what is there."""
    from companion.publication import pages, report
    from companion.setup.studies import load_study

    folder = paths.build(load_study(study_name).name)
    show(str(report.write(folder)))
    if names := report.outdated(folder):
        warning = pages.render("outdated.txt", outdated=names, folder=folder)
        show(f"saobp: {warning}", error=True)


def item(usual: str, others: str) -> Callable[[Callable], Callable]:
    """Return what gives a command the argument and the options of a single figure or table."""
    options = (
        click.argument("number", type=lambda word: int(word) if word.isdecimal() else word),
        study_option(
            None, shown="default: the one that figures/ shows, which says most of those tracked"
        ),
        click.option(
            "--format",
            "formats",
            metavar="NAME",
            multiple=True,
            default=[usual],
            help=f"{usual} (default), {others}; may be given several times",
        ),
        click.option(
            "--out",
            "folder",
            type=Path,
            default=Path(),
            help="folder (default: the current one)",
        ),
        click.option(
            "--force",
            is_flag=True,
            help="replace files that saobp did not write, or not as they are",
        ),
    )

    return lambda command: reduce(
        lambda described, option: option(described), reversed(options), command
    )


@saobp.command()
@item("pdf", "svg, png, csv")
@click.option("--width", type=float, metavar="INCHES", help="default: a page's")
@click.option("--bare", is_flag=True, help="without titles; letters of panels stay")
@click.option(
    "--data", type=Path, metavar="FILE", help="a CSV of your own, as --format csv writes it"
)
def figure(**options: Any) -> None:
    """Draw a single figure for reuse.

    NUMBER is 1 to 9, or glance, differences, gains, length, retrofit, decoders, hops, learning,
    rates, dose, tokens, claims.
    """
    _single("figure", **options)


@saobp.command()
@item("tex", "md, csv")
def table(**options: Any) -> None:
    """Write a single table for reuse.

    NUMBER is 1 to 9, or claims.
    """
    _single("table", **options)


def _single(kind: str, number: int | str, study_name: str | None, **wanted: Any) -> None:
    from companion.publication import results

    made, studies = results.single(kind, number, study_name, results.Wanted(**wanted))
    for path in made:
        show(str(path))
    if studies:
        show(f"from the records of {' and '.join(studies)}", error=True)


@saobp.command()
@click.argument("id")
def claim(id: str) -> None:
    """Show one claim of the paper, its words, and the row that decides it.

    ID is as in figures/claims.csv, such as hops.
    """
    from companion.texts import fill

    show(fill.claim(id))


@saobp.command()
@study_option("laptop")
def publish(study_name: str) -> None:
    """Copy a study's records to data/results and rebuild figures."""
    from companion.publication import results

    results.publish(study_name)


@saobp.command()
def figures() -> None:
    """Rebuild figures/ and the texts from the tracked records."""
    from companion.publication import results

    results.rebuild()


@saobp.command()
def notebooks() -> None:
    """Put the finished smoke run's outputs into notebooks/."""
    import nbformat

    from companion.publication import executed_notebooks

    for notebook, node in executed_notebooks.of_defaults().items():
        paths.write_text(notebook, nbformat.writes(node) + "\n")


if __name__ == "__main__":
    sys.exit(main())
