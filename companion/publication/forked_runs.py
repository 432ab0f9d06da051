"""Runs and kernels forked from one process that has done their imports: the runs of a study wait
for them once.

`serving` starts that process and returns the environment in which runs and Jupyter find it. A small
command, `run …`, `report …` or `kernel …`, asks the process to fork; the fork ends with the
command. Without the process, on a cluster or by hand, the command does the same by itself. `python
-m … with COMMAND` serves while a command runs.
"""

import contextlib
import fcntl
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

# the variable that says where the process listens
ADDRESS = "SAOBP_FORKS"
CLI = "companion.publication.cli"
KERNEL = "companion.setup.kernel"
# what runs and notebooks import at its first use
ALSO = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "matplotlib.pyplot",
    "transformers.models.bert.modeling_bert",
    "transformers.models.llama.modeling_llama",
)
# devices of accelerators, whose drivers do not outlive a fork
DRIVERS = ("nvidiactl", "kfd")
# read once, at the imports: no thread may run at a fork
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    # as a kernel has it
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}


def ask(words: list[str]) -> int:
    """Have a process forked that does what the words say, and return its exit code; without a
    server, become it.
    """
    parent, connection = os.getppid(), socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[ADDRESS])
    except (KeyError, OSError):
        alone = [KERNEL, *words[1:]] if words[0] == "kernel" else [CLI, *words]
        os.execv(sys.executable, [sys.executable, "-P", "-m", *alone])
    with contextlib.suppress(KeyboardInterrupt):
        socket.send_fds(connection, [b"."], [0, 1, 2])
        connection.sendall(json.dumps([words, os.getcwd(), dict(os.environ)]).encode() + b"\n")
        while os.getppid() == parent:
            if select.select([connection], [], [], 1.0)[0]:
                return int(connection.recv(8) or 128 + signal.SIGKILL)
    return 128 + signal.SIGINT


class Forks(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Forks for each who asks, until the end of standard input: until nobody is left who could
    ask.
    """

    # beyond which it would wait
    max_children = 1000

    def service_actions(self) -> None:
        """Collect what has ended, and end."""
        super().service_actions()
        if select.select([sys.stdin], [], [], 0)[0]:
            sys.exit()

    def finish_request(self, asker: socket.socket, _: str) -> None:
        """Do, in a fork, what its asker wants, with its streams, folder and environment, and tell
        it the exit code.
        """
        self.socket.close()
        streams = socket.recv_fds(asker, 1, 3)[1]
        # of one that was gone before it had said what it wants
        if not streams:
            return
        words, folder, environment = json.loads(asker.makefile("rb").readline())
        fcntl.fcntl(asker, fcntl.F_SETOWN, os.getpid())
        # its end is a SIGIO, which ends this process
        fcntl.fcntl(asker, fcntl.F_SETFL, os.O_ASYNC)
        if select.select([asker], [], [], 0)[0]:
            return
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = 1
        try:
            code = _become(words)
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else int(done.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            asker.sendall(str(code % 256).encode())


def serve(listener: int) -> None:
    """Import what runs and kernels need, and fork for whoever asks at a socket of this number."""
    # bars as in a kernel, not as in a terminal
    sys.modules["tqdm.autonotebook"] = import_module("tqdm.notebook")
    for package in ("saobp", "companion"):
        for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            # of the kernels, where there is no Triton
            with contextlib.suppress(ModuleNotFoundError):
                import_module(module.name)
    for name in ALSO:
        import_module(name)
    # that of the code in memory
    import_module("companion.records").commit()
    # as in a kernel too
    import_module("pandas").set_option("display.max_columns", 20)
    # what is not looked at stays shared
    gc.collect(), gc.freeze()
    server = Forks("", None, bind_and_activate=False)
    server.socket = socket.socket(fileno=listener)
    server.serve_forever()


def _become(words: list[str]) -> int:
    """Be a kernel or a command of `saobp`; returns the exit code."""
    import numpy as np
    import torch

    # as they come, not as every other fork has them
    np.random.seed(), torch.seed()
    # torch read the variable before the fork
    threads = os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1
    torch.set_num_threads(int(threads))
    if words[0] != "kernel":
        return import_module(CLI).main(words)
    # ends with it
    return import_module(KERNEL).main([*words[1:], f"--IPKernelApp.parent_handle={os.getppid()}"])


@contextlib.contextmanager
def serving() -> Iterator[tuple[dict[str, str], list[int]]]:
    """Serve while the block runs, and while a process lives that holds the file whose number is
    yielded.

    Yields variables for the environment of those who may ask, and for that of Jupyter; none if that
    environment has them already. Where forking is not safe, kernels start by themselves.
    """
    # not above: who asks imports nothing
    from companion.setup import environment, kernel

    if ADDRESS in os.environ:
        yield {}, []
        return
    asking = [sys.executable, "-S", __file__, "kernel"]
    with kernel.offered(asking) as folder, socket.socket(socket.AF_UNIX) as listener:
        variables = kernel.variables(folder)
        if sys.platform != "linux" or any(Path("/dev", name).exists() for name in DRIVERS):
            yield variables, []
            return
        listener.bind(str(folder / "socket"))
        listener.listen(64)
        here = [sys.executable, "-P", "-m", "companion.publication.forked_runs"]
        command = [*here, "serve", str(listener.fileno())]
        # in a group of its own: a Ctrl-C of the terminal is for the runs
        how = {"stdin": subprocess.PIPE, "pass_fds": [listener.fileno()], "process_group": 0}
        how |= {"cwd": folder, "env": environment.of_a_run() | SETTINGS}
        with subprocess.Popen(command, **how) as server:
            # whoever asks a process that died is told so
            listener.close()
            try:
                yield variables | {ADDRESS: str(folder / "socket")}, [server.stdin.fileno()]
            finally:
                server.terminate()


def attend(words: list[str]) -> int:
    """Serve while a command runs, in the environment of a run, and return its exit code."""
    from companion.setup import environment

    with serving() as (served, _):
        surroundings = environment.of_a_run() | served
        with subprocess.Popen(words, env=surroundings) as command:
            # the command has it too, and ends in its own way
            with contextlib.suppress(KeyboardInterrupt):
                command.wait()
            command.wait()
    return command.returncode


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        sys.exit(serve(int(sys.argv[2])))
    sys.exit(attend(sys.argv[2:]) if sys.argv[1] == "with" else ask(sys.argv[1:]))
