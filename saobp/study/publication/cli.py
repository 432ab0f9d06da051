"""The `saobp` command: one run, a whole profile, one figure or table, or everything published."""

import argparse
import difflib
import sys
import warnings
from pathlib import Path
from typing import NoReturn

from saobp.study.setup import paths, typed_by_hand

NAMED = {
    "figure": "1 to 9; 4-paper, 7-paper, 8-paper: the paper's own form; or glance, gains, length, hops, learning, "
    "strength, tokens, claims",
    "table": "1 to 9, or claims",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; an error for people is one line on stderr and exit code 2 (1 for a failing run)."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    options = parser().parse_args(arguments)
    try:
        return options.action(options) or 0
    except OSError as error:
        print(f"saobp: {error.filename}: {error.strerror}" if error.filename else f"saobp: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"saobp: {error}", file=sys.stderr)
        return 2


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command in one line."""

    def error(self, message: str) -> NoReturn:
        """Leave with exit code 2."""
        self.exit(2, f"saobp: {message}; `{self.prog} --help` lists the options\n")


def parser() -> Parser:
    """Describe the commands and their options."""
    top = Parser(prog="saobp", description="Runs the notebooks of the SAOBP companion.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="execute one notebook by papermill and leave one record")
    run.add_argument("notebook", type=Path)
    run.add_argument("output", type=Path)
    run.add_argument("-p", "--parameter", nargs=2, action="append", default=[], metavar=("KEY", "VALUE"))
    run.add_argument("-f", "--study", "--profile", dest="profile", type=Path, metavar="PROFILE.yaml")
    run.set_defaults(action=run_notebook)

    reproduce = commands.add_parser("reproduce", help="run every notebook under a profile")
    reproduce.add_argument("--study", "--profile", dest="profile", default="smoke")
    reproduce.add_argument("--cores", type=positive, default=2)
    reproduce.add_argument("--cluster", help="slurm, kubernetes or a folder with Snakemake settings: each run is a job")
    reproduce.add_argument("--processes", type=positive, default=1, help="that share a pretraining run, by torchrun")
    reproduce.add_argument("--dry-run", action="store_true", help="list the runs, run none")
    reproduce.set_defaults(action=reproduce_profile)

    report = commands.add_parser("report", help="write build/PROFILE/index.html from what is there")
    report.add_argument("--study", "--profile", dest="profile", default="smoke")
    report.set_defaults(action=write_report)

    for name, what in (("figure", "draw"), ("table", "write")):
        one = commands.add_parser(name, help=f"{what} a single {name} for reuse")
        one.add_argument("number", type=lambda word: int(word) if word.isdigit() else word, help=NAMED[name])
        usual, others = ("pdf", "svg, png, csv") if name == "figure" else ("tex", "md, csv")
        shown = "default: the one that figures/ shows, which says most of those tracked"
        one.add_argument("--study", "--profile", dest="profile", help=shown)
        one.add_argument("--format", default=usual, help=f"{usual} (default), {others}")
        if name == "table":
            one.add_argument("--all", action="store_true", help="rows that were not run too")
        if name == "figure":
            one.add_argument("--width", type=float, help="inches (default: a page's)")
        one.add_argument("--out", type=Path, default=Path(), help="folder (default: the current one)")
        one.set_defaults(action=single, kind=name)

    inspect = commands.add_parser("inspect", help="one page about a model's attention, before and after the refinement")
    inspect.add_argument("model", metavar="MODEL", help="a repository of the hub, a folder, a .gguf file, or minilm")
    inspect.add_argument("--text", type=Path, metavar="FILE", help="paragraphs (default: the embedded prose)")
    inspect.add_argument("--images", type=Path, metavar="FOLDER", help="pictures, for a vision model")
    inspect.add_argument("--factor", default="high", help="high (default), low, elemmul or sinkhorn")
    inspect.add_argument("--strength", type=float, nargs="+", metavar="λ", help="default: the paper's rule, by size")
    inspect.add_argument("--samples", type=int, default=16, help="texts that are measured (default: 16)")
    inspect.add_argument("--tokens", type=int, default=128, help="longest text (default: 128)")
    inspect.add_argument("--out", type=Path, metavar="FOLDER", help="default: inspect-MODEL")
    inspect.set_defaults(action=inspect_model)

    claim = commands.add_parser("claim", help="show one claim of the paper: its measurements and outcome")
    claim.add_argument("id", metavar="ID", help="as in figures/claims.csv, such as multihop-gain")
    claim.set_defaults(action=show_claim)

    publish = commands.add_parser("publish", help="copy a profile's records to data/results and rebuild figures")
    publish.add_argument("--study", "--profile", dest="profile", default="laptop")
    publish.set_defaults(action=publish_profile)
    figures = commands.add_parser("figures", help="rebuild figures/ and the texts from the tracked records")
    figures.set_defaults(action=rebuild_figures)
    notebooks = commands.add_parser("notebooks", help="put the finished smoke run's outputs into notebooks/")
    notebooks.set_defaults(action=renew_notebooks)
    return top


def positive(text: str) -> int:
    """Return a whole number of at least 1 as it was typed."""
    if not typed_by_hand.DECIMAL.fullmatch(text) or (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"takes a whole number of at least 1, not '{text}'")
    return number


def run_notebook(options: argparse.Namespace) -> int:
    """`saobp run NOTEBOOK OUT -p key value … -f profile.yaml`."""
    from saobp.study.setup import execution

    keys = [key for key, _ in options.parameter]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise execution.UsageError(f"parameter '{twice}' is given {keys.count(twice)} times; give it once")
    name = (dict(options.parameter).get("record") or options.output.as_posix()).rpartition("/")[2].partition(".")[0]
    print(f"{name}: started", flush=True)
    try:
        record = execution.run(options.notebook, options.output, dict(options.parameter), options.profile)
    except execution.NotebookFailed as error:
        print(f"saobp: {error}", file=sys.stderr)
        return 1
    print(f"{options.notebook.stem}: {record['seconds']:.0f} s, {record['name']}.json")
    return 0


def reproduce_profile(options: argparse.Namespace) -> int:
    """`saobp reproduce --profile smoke --cores 2`, `saobp reproduce --profile paper --cluster slurm`."""
    from saobp.study.publication import workflow

    try:
        if options.dry_run:
            workflow.preview(options.profile)
        else:
            workflow.reproduce(options.profile, options.cores, options.cluster, options.processes)
    except workflow.WorkflowFailed as error:
        print(f"saobp: {error}", file=sys.stderr)
        return 1
    return 0


def write_report(options: argparse.Namespace) -> None:
    """`saobp report --profile smoke`."""
    from saobp.study.publication import report
    from saobp.study.setup import studies as profile

    folder = paths.build(profile.load_profile(options.profile).name)
    print(report.write(folder))
    if said := report.outdated(folder):
        print(f"saobp: {said}", file=sys.stderr)


def single(options: argparse.Namespace) -> None:
    """`saobp figure 4 --profile laptop --width 3.03 --format pdf --out DIR`, `saobp table 2 --format tex`."""
    from saobp.study.publication import results

    width, every = getattr(options, "width", None), getattr(options, "all", False)
    given = (options.kind, options.number, options.profile, options.format, width, options.out, every)
    path, studies = results.single(*given)
    print(path)
    print(f"from the records of study {' and '.join(studies)}", file=sys.stderr)


def inspect_model(options: argparse.Namespace) -> None:
    """`saobp inspect minilm --strength 0.1 0.2 --out DIR`."""
    from saobp.measure import command

    asked = {name: getattr(options, name) for name in ("text", "images", "factor", "samples", "tokens", "out")}
    print(command.run(options.model, strengths=options.strength, **asked))


def show_claim(options: argparse.Namespace) -> None:
    """`saobp claim multihop-gain`."""
    from saobp.study import verdicts

    known = verdicts.claims()
    if options.id not in known:
        near = difflib.get_close_matches(options.id, known, cutoff=0.0)
        raise ValueError(f"claim: no claim {options.id!r}; the nearest are {', '.join(near)} (all: figures/claims.csv)")
    studies = verdicts.tracked()
    decided = verdicts.of_claim(known[options.id], studies)
    print(verdicts.one_claim(decided, verdicts.reruns(studies, decided)))


def publish_profile(options: argparse.Namespace) -> None:
    """`saobp publish --profile laptop`."""
    from saobp.study.publication import results

    results.publish(options.profile)


def renew_notebooks(options: argparse.Namespace) -> None:
    """`saobp notebooks`."""
    from saobp.study.publication import renewal

    renewal.renew_notebooks()


def rebuild_figures(options: argparse.Namespace) -> None:
    """`saobp figures`."""
    from saobp.study.publication import results

    results.rebuild()


if __name__ == "__main__":
    sys.exit(main())
