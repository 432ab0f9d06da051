"""What a run inherits from the environment of whoever starts it: one list for every command that
runs a notebook.

All else is cleared, or set by the project. What a process has all the same, because it was started
in another way, is told in its record.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

# names, or patterns of names
INHERITED = (
    # who runs it, and where
    "HOME",
    "LANG",
    "LC_*",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    # this machine's compiler and libraries
    "CC",
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
    "DYLD_*",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "VIRTUAL_ENV",
    # its devices, and the threads of a run
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "ROCR_VISIBLE_DEVICES",
    # its way to the network
    "*_proxy",
    "*_PROXY",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    # where the hub is, and what was fetched from it
    "HF_DATASETS_CACHE",
    "HF_DATASETS_OFFLINE",
    "HF_ENDPOINT",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "HF_TOKEN_PATH",
    "TRANSFORMERS_OFFLINE",
    # a cluster that takes jobs
    "AWS_*",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "KUBERNETES_*",
    "SLURM*",
    "SNAKEMAKE_KUBERNETES_*",
    "SNAKEMAKE_SLURM_*",
    "SNAKEMAKE_STORAGE_*",
    # ours
    "SAOBP_*",
)
SET = {"PYTHONWARNINGS": "ignore", "TOKENIZERS_PARALLELISM": "false"}
# what may change the numbers of a run
TOLD = (
    "ACCELERATE_*",
    "CUBLAS*",
    "CUDNN_*",
    "DNNL_*",
    "KMP_*",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MATPLOTLIBRC",
    "MKL_*",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_*",
    "ONEDNN_*",
    "OPENBLAS_*",
    "PYTHONHASHSEED",
    "PYTHONHOME",
    "PYTHONOPTIMIZE",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTORCH_*",
    "SAOBP_NATIVE",
    "TORCH*",
    "TRITON_*",
)
# told elsewhere in a record, or set by a library when it is imported
UNTOLD = (
    "KMP_DUPLICATE_LIB_OK",
    "KMP_INIT_AT_FORK",
    "OMP_NUM_THREADS",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
)


# letters of a temporary folder: the address of a socket in it may have 107
ROOM = 60


def make_room_for_sockets() -> None:
    """Keep the temporary files of this process, and of those it starts, where the addresses of
    sockets fit, if TMPDIR is too long for them.

    Kernels, pools of processes and the workers that load batches speak through sockets there.
    """
    if len(os.fsencode(tempfile.gettempdir())) > ROOM and os.path.isdir("/tmp"):
        os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"


def of_a_run() -> dict[str, str]:
    """Return the environment that a run starts with: what it inherits, and what the project sets.

    Of PYTHONPATH only the folder of this very package stays, where the package is found by it.
    """
    kept = {name: value for name, value in os.environ.items() if _any_of(INHERITED, name)}
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    top = Path(__file__).resolve().parents[2]
    if any(place and Path(place).resolve() == top for place in places):
        kept["PYTHONPATH"] = str(top)
    return kept | SET


@contextmanager
def cleared(**more: str) -> Iterator[None]:
    """Give this process, and what it starts, the environment of a run while the block lasts."""
    before = dict(os.environ)
    _become(of_a_run() | more)
    try:
        yield
    finally:
        _become(before)


def settings() -> dict[str, str]:
    """Return what may change the numbers of this process and was not cleared: for its record.

    Of paths it is told only that they are there.
    """
    package = of_a_run().get("PYTHONPATH")
    values = {}
    for name, value in sorted(os.environ.items()):
        usual = not value or name in UNTOLD or (name == "PYTHONPATH" and value == package)
        if _any_of(TOLD, name) and not usual:
            values[name] = "a path" if os.sep in value else value
    if sys.flags.optimize:
        values["python -O"] = str(sys.flags.optimize)
    return values


def _become(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _any_of(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
