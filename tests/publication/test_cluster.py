"""Many machines: Snakemake's own slurm executor on a cluster of one, and torchrun inside the
workflow.
"""

import os
import re
from pathlib import Path

import pytest
import yaml
from small_repository import ODD, made, repository

from companion.publication import cli, workflow
from companion.setup import paths

STUB = Path(__file__).parents[1] / "helpers" / "cluster" / "slurm"
CLUSTERS = paths.root() / "profiles" / "cluster"
SLURM = (
    "--workflow-profile",
    CLUSTERS / "slurm",
    "--latency-wait",
    "5",
    "--slurm-status-command",
    "squeue",
    "--slurm-init-seconds-before-status-checks",
    "2",
)


# minutes: the executor looks after its jobs at the pace of a cluster
@pytest.mark.slow
def test_a_run_is_a_job_as_its_rule_asks_in_a_folder_of_any_name_and_is_tried_again_when_it_fails(
    tmp_path, monkeypatch
):
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs the extra 'cluster'")
    # the first job dies before it has begun
    programs, jobs = tmp_path / "bin", tmp_path / "jobs"
    programs.mkdir()
    for name in ("sbatch", "squeue", "sacct", "srun", "scontrol", "sinfo", "scancel"):
        (programs / name).symlink_to(STUB)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    for name, value in {"PATH": path, "STUB_SLURM": str(jobs), "STUB_SLURM_FAIL": "1"}.items():
        monkeypatch.setenv(name, value)
    folder = repository(tmp_path / ODD, "little")
    done = made(folder, "little", "records/09-audit.json", options=SLURM)
    assert done.returncode == 0 and "Trying to restart job" in done.stderr, (
        done.stdout + done.stderr
    )
    assert (folder / "build" / "little" / "records" / "09-audit.json").is_file()
    calls = (jobs / "calls").read_text()
    assert len(re.findall(r"sbatch .*-t 60 --mem 8000 ", calls)) == 2 and "srun -n1" in calls
    assert sorted(path.read_text().split()[1] for path in jobs.glob("*.state")) == [
        "COMPLETED",
        "FAILED",
    ]


@pytest.mark.parametrize("name", ["slurm", "kubernetes"])
def test_every_rule_that_trains_asks_for_a_device_memory_and_time(name):
    settings = yaml.safe_load((CLUSTERS / name / "config.yaml").read_text())
    assert settings["executor"] == name and settings["retries"] >= 1
    assert set(settings["set-resources"]) == {
        "pretrain",
        "decoder",
        "finetune",
        "attention",
        "beyond",
        "cost",
    }
    assert all(
        {"gpu", "mem_mb", "runtime"} <= set(asked) for asked in settings["set-resources"].values()
    )


def test_a_cluster_is_found_by_name_or_folder_and_an_unknown_one_is_refused(tmp_path, capsys):
    assert workflow.cluster_profile("slurm") == (CLUSTERS / "slurm").resolve()
    (tmp_path / "config.yaml").write_text("executor: slurm\n")
    assert workflow.cluster_profile(str(tmp_path)) == tmp_path
    for words in (["--cluster", "moon"], ["--cluster", "moon", "--dry-run"]):
        assert cli.main(["reproduce", *words]) == 1
        assert (
            "no cluster is called 'moon': give kubernetes, slurm, or a folder"
            in capsys.readouterr().err
        )
