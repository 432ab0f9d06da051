"""The command `saobp`: `inspect` here, and the commands of whatever is installed beside the
method.
"""

import contextlib
import ctypes
import os
import re
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf)", re.IGNORECASE)
COMMANDS = "saobp.commands"
"""The entry points of packages that add commands: each is a module whose import adds them."""
# bytes; mallopt's own number of the threshold
LARGE_BLOCK, M_MMAP_THRESHOLD = 4 * 2**20, -3


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; an error for people is one line on stderr and exit code 2 (1 for a
    failing run).
    """
    warnings.filterwarnings("ignore", category=FutureWarning)
    # runs start in another folder
    data = Path(os.path.expanduser(os.environ.get("SAOBP_DATA", "")))
    if os.environ.get("SAOBP_DATA") and data.is_dir():
        os.environ["SAOBP_DATA"] = str(data.resolve())
    for stream in (sys.stdout, sys.stderr):
        # no stream of text, or a file that a fork has written to
        with contextlib.suppress(AttributeError, OSError):
            # "−" or "λ" on a terminal that has neither
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if arguments is None else arguments
    return answer(saobp, arguments, "saobp", "measure" if words[:1] == ["inspect"] else "study")


def answer(
    command: click.Command, arguments: list[str] | None, name: str | None, extra: str
) -> int:
    """Run a command under a name, click's own if it has none, and return its exit code.

    An error for people is one line on stderr, without control characters. `extra` is what installs
    what may be missing.
    """
    try:
        check_home()
        return command.main(arguments, name, standalone_mode=False) or 0
    # Ctrl-C
    except click.Abort:
        return 130
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "saobp"
        message, code = (
            f"{error.format_message().rstrip('.')}; `{path} --help` lists the options",
            error.exit_code,
        )
    # a run that failed
    except click.ClickException as error:
        message, code = error.message, error.exit_code
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] in ("saobp", "companion"):
            raise
        message, code = f"{error.name} is not installed: pip install 'saobp[{extra}]'", 2
    except (OSError, ValueError) as error:
        file, code = getattr(error, "filename", None), 2
        message = f"{file}: {error.strerror}" if file else str(error)
    print(f"saobp: {visible(message)}", file=sys.stderr)
    return code


class OneLine(click.Command):
    """A command of its own, as `python -m companion.studies.learning.run`: its errors are those of
    `saobp`.
    """

    def main(
        self,
        args: list[str] | None = None,
        prog_name: str | None = None,
        *others: Any,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command; by itself it ends the process, as click's do."""
        if standalone_mode:
            sys.exit(answer(self, args, prog_name, "study"))
        return super().main(args, prog_name, *others, standalone_mode=False, **extra)


def return_large_blocks() -> bool:
    """Let freed memory of a long text go back to the system at once; tell whether it will.

    glibc keeps freed blocks of up to 32 MiB for later, and the hidden states of some thousand
    tokens are of that size. Other C libraries are left as they are.
    """
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    return hasattr(library, "gnu_get_libc_version") and bool(
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
    )


def check_home() -> None:
    """Raise ValueError if this user has no home, where libraries that are imported look for their
    settings.
    """
    if os.path.expanduser("~") == "~":
        raise ValueError("HOME: is not set, and this user has no home; set it to a folder of yours")


def visible(text: str) -> str:
    """Return a text with its control characters and undecodable bytes written out: a terminal obeys
    none.
    """
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def show(text: str, *, error: bool = False) -> None:
    """Print a text of several lines, each of them `visible`, at once."""
    lines = [visible(line) for line in text.split("\n")]
    print("\n".join(lines), file=sys.stderr if error else sys.stdout, flush=True)


class Sparing(click.ParamType):
    """A way of sparing: a share where it is a number, else its name."""

    name = "first|edges|share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number as a number."""
        return float(value) if NUMBER.fullmatch(value) else value


class Extensible(click.Group):
    """A group whose further commands come with the packages that are installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        self.load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None where no package has it."""
        if cmd_name not in self.commands:
            self.load()
        return super().get_command(ctx, cmd_name)

    @staticmethod
    def load() -> None:
        """Import what adds commands."""
        for entry in entry_points(group=COMMANDS):
            entry.load()


@click.group(
    cls=Extensible,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
def saobp() -> None:
    """Refine attention by belief propagation, and show what came of it."""


@saobp.command()
@click.argument("model")
@click.option("--text", type=Path, metavar="FILE", help="paragraphs (default: the embedded prose)")
@click.option("--images", type=Path, metavar="FOLDER", help="pictures, for a vision model")
@click.option("--factor", default="high", show_default=True, help="high, low, elemmul or sinkhorn")
@click.option(
    "--strength",
    "strengths",
    type=float,
    multiple=True,
    metavar="λ",
    help="may be given several times (default: the paper's rule, by size)",
)
@click.option(
    "--spare",
    type=Sparing(),
    help="keys without a bias: first, edges, or a share such as 0.3 (default: none)",
)
@click.option(
    "--samples", type=int, help="texts that are measured (default: 16, of 2,048 tokens together)"
)
@click.option("--tokens", type=int, default=128, show_default=True, help="longest text")
@click.option(
    "--measures", metavar="NAME[,NAME …]", help="which numbers, as gtd,sink_rate (default: all)"
)
@click.option("--out", type=Path, metavar="FOLDER", help="default: inspect-MODEL")
def inspect(model: str, strengths: tuple[float, ...], measures: str | None, **options: Any) -> None:
    """Show a model's attention before and after the step.

    MODEL is a repository of the hub, a folder, a .gguf file, or minilm.
    """
    from saobp.measure.inspection import by_name

    return_large_blocks()
    names = None if measures is None else measures.replace(" ", "").split(",")
    show(by_name.run(model, strengths=list(strengths) or None, measures=names, **options))


if __name__ == "__main__":
    sys.exit(main())
