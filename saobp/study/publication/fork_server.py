"""A process that has imported everything and forks each run and each kernel: all runs pay for their imports once.

`python fork_server.py run …`, `report …` or `kernel …` asks the server that `serving` started, and does the same by
itself where there is none: on a cluster, by hand. What it asks for is a process of its own, with the asker's streams,
folder and environment; it gets the asker's signals and ends with it. `with COMMAND …` serves while a command runs.
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
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ADDRESS = "SAOBP_FORK_SERVER"  # the variable that says where the server listens
COLD = {"kernel": "ipykernel_launcher"}  # what does it without a server; the command line does all else
ALSO = (  # what notebooks import at their first use
    "ipykernel.kernelapp", "ipykernel.ipkernel", "matplotlib.pyplot",
    "papermill", "transformers.models.bert.modeling_bert", "transformers.models.llama.modeling_llama",
)  # fmt: skip
DRIVERS = ("nvidiactl", "kfd")  # devices of accelerators, whose drivers do not outlive a fork
SETTINGS = {  # of the server, read once, at the imports: no thread may run at a fork
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # as a kernel has it
}
NUMBER = 8  # digits of a process's number, the first answer; the second is its exit code


def ask(words: list[str]) -> int:
    """Have the server do what the words say and return its exit code; without a server, become what does it."""
    parent, connection = os.getppid(), socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[ADDRESS])
    except (KeyError, OSError):
        module = COLD.get(words[0])
        os.execv(sys.executable, [sys.executable, "-m", *([module, *words[1:]] if module else [CLI, *words])])
    socket.send_fds(connection, [b"."], [0, 1, 2])
    connection.sendall(json.dumps([words, os.getcwd(), dict(os.environ)]).encode() + b"\n")
    number = int(connection.recv(NUMBER))
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, lambda kind, frame: os.kill(number, kind))
    code = b""
    while os.getppid() == parent:
        if select.select([connection], [], [], 1.0)[0]:
            if not (said := connection.recv(NUMBER)):
                break
            code = said
    return int(code or 128 + signal.SIGKILL)


def serve(listener: socket.socket) -> int:
    """Fork a process for everyone who asks, until nobody is left who could: until the end of standard input."""
    for found in pkgutil.walk_packages(import_module("saobp").__path__, "saobp."):
        import_module(found.name)
    for name in ALSO:
        import_module(name)
    import_module("pandas").set_option("display.max_columns", 20)  # as it finds it in a kernel and not in a terminal
    gc.collect(), gc.freeze()  # what is not looked at stays shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in (ready := select.select([listener, sys.stdin], [], [])[0]):
        connection = listener.accept()[0]
        if os.fork() == 0:
            listener.close()
            _become(connection)
        connection.close()
    return 0 if ready else 1


def _become(connection: socket.socket) -> None:
    """Do, in a forked process, what its asker wants; never returns."""
    code = 1
    try:
        words, folder, environment = _asked(connection)
        os.setpgid(0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection.sendall(f"{os.getpid():0{NUMBER}d}".encode())
        threading.Thread(target=_end_with, args=[connection], daemon=True).start()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = _do(words)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):  # of an asker that is gone
            sys.stdout.flush(), sys.stderr.flush()
            connection.sendall(str(code).encode())
        os._exit(code)


def _asked(connection: socket.socket) -> list:
    """Take over the asker's streams and return its words, folder and environment."""
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with connection.makefile("rb") as text:
        return json.loads(text.readline())


def _end_with(connection: socket.socket) -> None:
    """Wait for the asker's end and kill this process with all that it started."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os.killpg(0, signal.SIGKILL)


def _do(words: list[str]) -> int:
    import torch

    sys.argv = list(words)
    torch.seed()  # as it comes, not as every other fork has it
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))  # the variable itself was read before the fork
    if words[0] == "kernel":
        from ipykernel.kernelapp import IPKernelApp

        os.environ["JPY_PARENT_PID"] = str(os.getppid())
        IPKernelApp.launch_instance(words[1:])
        return 0
    return import_module(CLI).main(words)


@contextlib.contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Serve while the block runs: yields the environment of those who may ask, nothing where forking is not safe."""
    if sys.platform != "linux" or any(Path("/dev", name).exists() for name in DRIVERS):
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="saobp-") as folder, socket.socket(socket.AF_UNIX) as listener:
        address, kernel = Path(folder, "socket"), Path(folder, "kernels", "python3", "kernel.json")
        listener.bind(str(address))
        listener.listen(64)
        kernel.parent.mkdir(parents=True)
        argv = [sys.executable, "-S", __file__, "kernel", "-f", "{connection_file}"]
        kernel.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
        command = [sys.executable, "-m", SELF, "serve", str(listener.fileno())]
        places = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
        # not of the terminal's group: a Ctrl-C is for those who ask
        how = {"stdin": subprocess.PIPE, "pass_fds": [listener.fileno()], "process_group": 0}
        server = subprocess.Popen(command, env=os.environ | SETTINGS, **how)
        try:
            yield {ADDRESS: str(address), "JUPYTER_PATH": places}
        finally:
            server.stdin.close()
            server.terminate()
            server.wait()


SELF, CLI = "saobp.study.publication.fork_server", "saobp.study.publication.cli"

if __name__ == "__main__":
    if sys.argv[1] == "serve":
        sys.exit(serve(socket.socket(fileno=int(sys.argv[2]))))
    if sys.argv[1] == "with":
        with serving() as served:
            sys.exit(subprocess.run(sys.argv[2:], env=os.environ | served, check=False).returncode)
    sys.exit(ask(sys.argv[1:]))
