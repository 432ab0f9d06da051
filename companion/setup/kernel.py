"""The kernel in which a run's notebook is executed: this Python, without settings of a user's own.

No profile and no startup files of IPython, no kernel of another environment, no matplotlibrc, and
no modules of the folder that it works in.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from companion.setup import environment

NAME = "python3"
# what starts one that is no fork
ALONE = (sys.executable, "-P", "-m", "companion.setup.kernel")
# the variable that names the folder of `offered`
FOLDER = "SAOBP_KERNELS"


def variables(folder: Path) -> dict[str, str]:
    """Return the variables by which Jupyter finds the kernel of a folder and keeps its own files
    there.
    """
    places = {"JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
    return {
        FOLDER: str(folder),
        "JUPYTER_PATH": str(folder),
        **{name: str(folder / place) for name, place in places.items()},
    }


@contextmanager
def ready() -> Iterator[None]:
    """Let what starts a kernel in this process start one with the environment of a run, a fork
    where forks are served.
    """
    if folder := os.environ.get(FOLDER):
        with environment.cleared(**variables(Path(folder))):
            yield
    else:
        with offered(ALONE) as made, environment.cleared(**variables(made)):
            yield


@contextmanager
def offered(command: Sequence[str]) -> Iterator[Path]:
    """Yield a folder with a kernel that a command starts; it is removed with all that kernels leave
    there.
    """
    environment.make_room_for_sockets()
    with tempfile.TemporaryDirectory(prefix="saobp-") as folder:
        specification = {
            "argv": [*command, "-f", "{connection_file}"],
            "display_name": "Python 3",
            "language": "python",
            "interrupt_mode": "message",
        }
        file = Path(folder, "kernels", NAME, "kernel.json")
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(specification), encoding="utf-8")
        yield Path(folder)


def main(words: Sequence[str]) -> int:
    """Be a kernel with a command line of ipykernel's; returns its exit code."""
    # read when matplotlib is imported
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp

    defaults = dict(matplotlib.rcParamsDefault)
    defaults.pop("backend")
    matplotlib.rcParams.update(defaults)
    sys.argv = ["ipykernel_launcher", *words, "--InteractiveShellApp.ignore_cwd=True"]
    return IPKernelApp.launch_instance(sys.argv[1:]) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
