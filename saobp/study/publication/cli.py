"""The `saobp` command: one run, a whole study, one figure or table, a model's attention, or everything published."""

import contextlib
import difflib
import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from saobp.study.setup import paths

POSITIVE = click.IntRange(min=1)
NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf)", re.IGNORECASE)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; an error for people is one line on stderr and exit code 2 (1 for a failing run)."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    if (given := os.environ.get("SAOBP_DATA")) and Path(given).expanduser().is_dir():  # runs start in another folder
        os.environ["SAOBP_DATA"] = str(Path(given).expanduser().resolve())
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError):  # no stream of text, or a file that a fork has written to
            stream.reconfigure(errors="replace")  # "−" or "λ" on a terminal that has neither
    try:
        return saobp.main(arguments, "saobp", standalone_mode=False) or 0
    except click.Abort:  # Ctrl-C
        return 130
    except click.UsageError as error:
        asked = error.ctx.command_path if error.ctx else "saobp"
        said, code = f"{error.format_message().rstrip('.')}; `{asked} --help` lists the options", error.exit_code
    except click.ClickException as error:  # a run that failed
        said, code = error.message, error.exit_code
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] == "saobp":
            raise
        extra = "measure" if (sys.argv[1:] if arguments is None else arguments)[:1] == ["inspect"] else "study"
        said, code = f"{error.name} is not installed: pip install 'saobp[{extra}]'", 2
    except (OSError, ValueError) as error:
        name, code = getattr(error, "filename", None), 2
        said = f"{name}: {error.strerror}" if name else str(error)
    print(f"saobp: {said}", file=sys.stderr)
    return code


def study_option(default: str | None, *names: str, shown: str = "a study's name, or the path of its file") -> Callable:
    """Return the option `--study`, which has also its former name, `--profile`."""
    return click.option(
        "--study", "--profile", *names, "study_name", metavar="STUDY", default=default, show_default=bool(default),
        help=shown,
    )  # fmt: skip


class SeveralStrengths(click.Command):
    """A command that reads `--strength 0.1 0.2` as `--strength 0.1 --strength 0.2`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the option's name before every further number."""
        spread: list[str] = []
        for word in args:
            if spread[-2:-1] == ["--strength"] and NUMBER.fullmatch(word):
                spread.append("--strength")
            spread.append(word)
        return super().parse_args(ctx, spread)


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
def saobp() -> None:
    """Run the notebooks of the SAOBP companion, and show what came of them."""


@saobp.command()
@click.argument("notebook", type=Path)
@click.argument("output", type=Path)
@click.option("-p", "--parameter", nargs=2, multiple=True, metavar="KEY VALUE", help="a parameter of the notebook")
@study_option(None, "-f")
@click.option("--own", is_flag=True, help="of other parameters than the defaults: no cells tagged 'once'")
def run(
    notebook: Path, output: Path, parameter: tuple[tuple[str, str], ...], study_name: str | None, own: bool
) -> None:
    """Execute one notebook by papermill and leave one record."""
    from saobp.study.records import execution

    given, keys = dict(parameter), [key for key, _ in parameter]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise ValueError(f"parameter '{twice}' is given {keys.count(twice)} times; give it once")
    name = (given.get("record") or output.as_posix()).rpartition("/")[2].partition(".")[0]
    print(f"{name}: started", flush=True)
    record = execution.run(notebook, output, given, study_name, own)
    print(f"{notebook.stem}: {record['seconds']:.0f} s, {record['name']}.json")


@saobp.command()
@study_option("smoke")
@click.option("--cores", type=POSITIVE, metavar="N", default=2, show_default=True)
@click.option("--cluster", help="slurm, kubernetes or a folder with Snakemake settings: each run is a job")
@click.option("--processes", type=POSITIVE, metavar="N", default=1, help="that share a pretraining run, by torchrun")
@click.option("--dry-run", is_flag=True, help="list the files of the runs, run none")
@click.option("--rows", multiple=True, metavar="MODEL/ALGORITHM/SEED", help="a row of the tables alone: mini/high/42")
@click.option("--minutes", type=POSITIVE, metavar="N", help="for each row: steps and items are fitted to them")
@click.option("--tokens", type=Path, metavar="FILE", help="text that `saobp tokens` wrote, for rows")
def reproduce(**asked: Any) -> None:
    """Run every notebook under a study, or the records of some rows of its tables."""
    from saobp.study.publication import workflow

    workflow.reproduce(**asked)


@saobp.command()
@click.argument("file", type=Path)
@study_option("paper")
@click.option("--text", multiple=True, metavar="OWNER/NAME", help="a data set, of equal weight (default: the study's)")
def tokens(file: Path, study_name: str, text: tuple[str, ...]) -> None:
    """Tokenise the text of a study into FILE, for a machine without the text."""
    from saobp.study.training import pretraining

    pretraining.write_tokens(file, study_name, text)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


@saobp.command()
@study_option("smoke")
def report(study_name: str) -> None:
    """Write build/STUDY/index.html from what is there."""
    from saobp.study.publication import pages, report
    from saobp.study.setup.studies import load_study

    folder = paths.build(load_study(study_name).name)
    print(report.write(folder))
    if other := report.outdated(folder):
        print("saobp:", pages.render("outdated.txt", outdated=other, folder=folder), file=sys.stderr)


def item(usual: str, others: str) -> Callable[[Callable], Callable]:
    """Return what gives a command the argument and the options of a single figure or table."""
    options = (
        click.argument("number", type=lambda word: int(word) if word.isdecimal() else word),
        study_option(None, shown="default: the one that figures/ shows, which says most of those tracked"),
        click.option("--format", "file_format", metavar="NAME", default=usual, help=f"{usual} (default), {others}"),
        click.option("--out", type=Path, default=Path(), help="folder (default: the current one)"),
    )

    return lambda command: reduce(lambda described, option: option(described), reversed(options), command)


@saobp.command()
@item("pdf", "svg, png, csv")
@click.option("--width", type=float, metavar="INCHES", help="default: a page's")
def figure(**asked: Any) -> None:
    """Draw a single figure for reuse.

    NUMBER is 1 to 9; 4-paper, 7-paper, 8-paper: the paper's own form; or glance, gains, length, retrofit, decoders,
    hops, learning, strength, tokens, claims.
    """
    _single("figure", **asked)


@saobp.command()
@item("tex", "md, csv")
@click.option("--all", "every", is_flag=True, help="rows that were not run too")
def table(**asked: Any) -> None:
    """Write a single table for reuse.

    NUMBER is 1 to 9, or claims.
    """
    _single("table", **asked)


def _single(kind: str, number: int | str, *, out: Path, width: float | None = None, **asked: Any) -> None:
    from saobp.study.publication import results

    path, studies = results.single(kind, number, width=width, folder=out, **asked)
    print(path)
    if studies:
        print(f"from the records of {' and '.join(studies)}", file=sys.stderr)


@saobp.command(cls=SeveralStrengths)
@click.argument("model")
@click.option("--text", type=Path, metavar="FILE", help="paragraphs (default: the embedded prose)")
@click.option("--images", type=Path, metavar="FOLDER", help="pictures, for a vision model")
@click.option("--factor", default="high", show_default=True, help="high, low, elemmul or sinkhorn")
@click.option(
    "--strength", "strengths", type=float, multiple=True, metavar="λ [λ …]",
    help="one or several, as 0.1 0.2 or as an option each (default: the paper's rule, by size)",
)  # fmt: skip
@click.option("--samples", type=int, default=16, show_default=True, help="texts that are measured")
@click.option("--tokens", type=int, default=128, show_default=True, help="longest text")
@click.option("--out", type=Path, metavar="FOLDER", help="default: inspect-MODEL")
def inspect(model: str, strengths: tuple[float, ...], **asked: Any) -> None:
    """Show a model's attention before and after the step.

    MODEL is a repository of the hub, a folder, a .gguf file, or minilm.
    """
    from saobp.measure.inspection import by_name

    print(by_name.run(model, strengths=list(strengths) or None, **asked))


@saobp.command()
@click.argument("id")
def claim(id: str) -> None:
    """Show one claim of the paper with its measurements.

    ID is as in figures/claims.csv, such as multihop-gain.
    """
    from saobp.study import verdicts

    known = verdicts.claims()
    if id not in known:
        near = difflib.get_close_matches(id, known, cutoff=0.0)
        raise ValueError(f"claim: no claim {id!r}; the nearest are {', '.join(near)} (all: figures/claims.csv)")
    print(verdicts.one_claim(verdicts.of_claim(known[id], verdicts.tracked())))


@saobp.command()
@study_option("laptop")
def publish(study_name: str) -> None:
    """Copy a study's records to data/results and rebuild figures."""
    from saobp.study.publication import results

    results.publish(study_name)


@saobp.command()
def figures() -> None:
    """Rebuild figures/ and the texts from the tracked records."""
    from saobp.study.publication import results

    results.rebuild()


@saobp.command()
def notebooks() -> None:
    """Put the finished smoke run's outputs into notebooks/."""
    import nbformat

    from saobp.study.publication import executed_notebooks

    for notebook, node in executed_notebooks.of_defaults().items():
        paths.write_text(notebook, nbformat.writes(node) + "\n")


if __name__ == "__main__":
    sys.exit(main())
