"""Runs and kernels forked from one process that has done their imports: the runs of a study wait for them once.

`serving` starts that process and returns the environment in which runs and Jupyter find it. A small command, `run …`,
`report …` or `kernel …`, asks the process to fork; the fork ends with the command. Without the process, on a cluster or
by hand, the command does the same by itself. `python -m … with COMMAND` serves while a command runs.
"""

import contextlib
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ADDRESS = "SAOBP_FORKS"  # the variable that says where the process listens
CLI = "saobp.study.publication.cli"
ALSO = (  # what runs and notebooks import at its first use
    "ipykernel.kernelapp", "ipykernel.ipkernel", "matplotlib.pyplot", "transformers.models.bert.modeling_bert",
    "transformers.models.llama.modeling_llama",
)  # fmt: skip
DRIVERS = ("nvidiactl", "kfd")  # devices of accelerators, whose drivers do not outlive a fork
SETTINGS = {  # read once, at the imports: no thread may run at a fork
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # as a kernel has it
}


def ask(words: list[str]) -> int:
    """Have a process forked that does what the words say, and return its exit code; without a server, become it."""
    parent, connection = os.getppid(), socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[ADDRESS])
    except (KeyError, OSError):
        alone = ["ipykernel_launcher", *words[1:]] if words[0] == "kernel" else [CLI, *words]
        os.execv(sys.executable, [sys.executable, "-m", *alone])
    with contextlib.suppress(KeyboardInterrupt):
        socket.send_fds(connection, [b"."], [0, 1, 2])
        connection.sendall(json.dumps([words, os.getcwd(), dict(os.environ)]).encode() + b"\n")
        while os.getppid() == parent:
            if select.select([connection], [], [], 1.0)[0]:
                return int(connection.recv(8) or 128 + signal.SIGKILL)
    return 128 + signal.SIGINT


def serve(listener: socket.socket) -> None:
    """Fork for each who asks, until the end of standard input: until nobody is left who could ask."""
    sys.modules["tqdm.autonotebook"] = import_module("tqdm.notebook")  # bars as in a kernel, not as in a terminal
    for found in pkgutil.walk_packages(import_module("saobp").__path__, "saobp."):
        with contextlib.suppress(ModuleNotFoundError):  # of the kernels, where there is no Triton
            import_module(found.name)
    for name in ALSO:
        import_module(name)
    import_module("saobp.study.setup.records").commit()  # that of the code in memory
    import_module("pandas").set_option("display.max_columns", 20)  # as in a kernel too
    gc.collect(), gc.freeze()  # what is not looked at stays shared
    askers: dict[socket.socket, int] = {}  # and the numbers of their forks
    living: dict[int, socket.socket] = {}  # a fork's end, as a file, and who asked for it
    while sys.stdin not in (ready := select.select([listener, sys.stdin, *askers, *living], [], [])[0]):
        for end in living.keys() & ready:
            asker = living.pop(end)
            code = os.waitstatus_to_exitcode(os.waitpid(askers.pop(asker), 0)[1])
            with contextlib.suppress(OSError):  # of an asker that is gone
                asker.sendall(str(code % 256).encode())
            asker.close()
            os.close(end)
        for asker in askers.keys() & ready:  # gone
            os.kill(askers[asker], signal.SIGKILL)
            select.select([next(end for end in living if living[end] is asker)], [], [])
        if listener in ready:
            asker = listener.accept()[0]
            with contextlib.suppress(ValueError):  # of one that was gone before it had said what it wants
                askers[asker] = _forked(asker, [listener, *askers])
                living[os.pidfd_open(askers[asker])] = asker
    for number in askers.values():
        os.kill(number, signal.SIGKILL)


def _forked(asker: socket.socket, others: list[socket.socket]) -> int:
    """Fork a process with its asker's streams, folder and environment, and return its number."""
    _, streams, *_ = socket.recv_fds(asker, 1, 3)
    with asker.makefile("rb") as text:
        words, folder, environment = json.loads(text.readline())
    if (number := os.fork()) == 0:
        for other in [asker, *others]:
            other.close()
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        _become(words)
    for stream in streams:
        os.close(stream)
    return number


def _become(words: list[str]) -> NoReturn:
    """Do, in a fork, what its asker wants."""
    import numpy as np
    import torch

    code = 1
    try:
        np.random.seed(), torch.seed()  # as they come, not as every other fork has them
        threads = os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1  # torch read the variable before the fork
        torch.set_num_threads(int(threads))
        if words[0] == "kernel":
            kernel = import_module("ipykernel.kernelapp").IPKernelApp
            sys.argv = ["ipykernel_launcher", *words[1:], f"--IPKernelApp.parent_handle={os.getppid()}"]  # ends with it
            code = kernel.launch_instance(sys.argv[1:]) or 0
        else:
            code = import_module(CLI).main(words)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)


@contextlib.contextmanager
def serving() -> Iterator[tuple[dict[str, str], list[int]]]:
    """Serve while the block runs, and while a process lives that holds the file whose number is yielded.

    Yields variables for the environment of those who may ask; none of either if that environment has them already,
    and where forking is not safe.
    """
    if ADDRESS in os.environ or sys.platform != "linux" or any(Path("/dev", name).exists() for name in DRIVERS):
        yield {}, []
        return
    with tempfile.TemporaryDirectory(prefix="saobp-") as folder, socket.socket(socket.AF_UNIX) as listener:
        address, kernel = Path(folder, "socket"), Path(folder, "kernels", "python3", "kernel.json")
        listener.bind(str(address))
        listener.listen(64)
        kernel.parent.mkdir(parents=True)
        argv = [sys.executable, "-S", __file__, "kernel", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": "Python 3", "language": "python", "interrupt_mode": "message"}
        kernel.write_text(json.dumps(spec))
        places = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
        command = [sys.executable, "-m", "saobp.study.publication.forks", "serve", str(listener.fileno())]
        # in a group of its own: a Ctrl-C of the terminal is for the runs
        how = {"stdin": subprocess.PIPE, "pass_fds": [listener.fileno()], "process_group": 0}
        with subprocess.Popen(command, env=os.environ | SETTINGS, **how) as server:
            listener.close()  # whoever asks a process that died is told so
            try:
                yield {ADDRESS: str(address), "JUPYTER_PATH": places}, [server.stdin.fileno()]
            finally:
                server.terminate()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        sys.exit(serve(socket.socket(fileno=int(sys.argv[2]))))
    if sys.argv[1] != "with":
        sys.exit(ask(sys.argv[1:]))
    with serving() as (served, _), subprocess.Popen(sys.argv[2:], env=os.environ | served) as command:
        with contextlib.suppress(KeyboardInterrupt):  # the command has it too, and ends in its own way
            command.wait()
        command.wait()
    sys.exit(command.returncode)
