"""The notebooks that train or read a study run to their end by papermill with other parameters.

Notebooks 01, 02, 03, 09 and 13 have their sets in test_notebooks.py.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import small_repository

from companion.setup import paths

SIXTY_WORDS = " ".join(["a", "cat", "sat", "on", "my", "mat"] * 10)
CHANGES = {
    "04-pretrain": [
        {"strength": 0.0, "learning_rate": 1e-8, "steps": 1, "layers": 1, "algorithm": "original"},
        {"strength": 1.0, "learning_rate": 0.1, "steps": 60, "layers": 3, "seed": 5},
        {"strength": 2.0, "learning_rate": 1e-5, "steps": 7, "model": "small-quarter"},
    ],
    "05-finetune": [
        {"strength": 0.0, "learning_rate": 1e-8, "steps": 1, "small_task": "mrpc"},
        {"strength": 1.0, "learning_rate": 0.1, "steps": 7, "small_task": "cola"},
        {"strength": 2.0, "steps": 2, "small_task": "qqp", "finetune_seed": 3},
    ],
    "06-attention": [
        {"strength": 0.0, "texts": 2, "task": "sst2"},
        {"strength": 1.0, "texts": 32, "task": "squad"},
        {"strength": 2.0, "texts": 3},
    ],
    "07-decoder": [
        {
            "strength": 0.0,
            "learning_rate": 1e-8,
            "steps": 1,
            "prefix_sequences": 1,
            "algorithm": "original",
        },
        {"strength": 5.0, "learning_rate": 0.1, "steps": 20, "algorithm": "low"},
        {"strength": 0.2, "steps": 50, "prefix_sequences": 3, "algorithm": "elemmul", "seed": 7},
    ],
    "08-cost": [
        {"strength": 0.0, "tokens": 1, "sequences": 1, "rounds": 2},
        {"strength": 5.0, "tokens": 2048, "sequences": 2, "rounds": 3},
        {"model": "small-quarter", "tokens": 512},
    ],
    "10-tables": [
        {"study_name": "narrow", "confidence": 0.5, "rows": ["scratch/gtd/high"]},
        {"study_name": "stories", "confidence": 0.9999},
        {"study_name": "ladder", "rows": ["scratch/gtd/the-step-raises-it"] * 8},
    ],
    "11-figures": [
        {"texts": 1, "strength": 0.0, "sentence": "mice", "width": 3.03},
        {"texts": 32, "study_name": "narrow", "strength": 2.0, "sentence": SIXTY_WORDS},
        {"study_name": "ladder", "strength": 1.0, "sentence": "", "width": 20, "colour_high": "r"},
    ],
    "12-beyond": [
        {"arm": "straight-through", "level": 0.5, "pair_steps": 0},
        {"arm": "warmup-1000", "level": 0.75, "pair_strength": 0.0, "pair_steps": 3},
        {"arm": "learned-bias", "pair_strength": 1.0, "pair_rate": 0.1, "pair_steps": 2},
    ],
}
REFUSED = {
    "04-pretrain": ({"steps": 0}, "parameter 'steps': 0 is not between"),
    "05-finetune": ({"small_task": "poems"}, "poems"),
    "06-attention": ({"texts": 0}, "parameter 'texts': 0 is not between"),
    "07-decoder": ({"learning_rate": -1.0}, "parameter 'learning_rate': -1.0 is not between"),
    "08-cost": ({"tokens": 0}, "parameter 'tokens': 0 is not between"),
    "10-tables": ({"confidence": 1.0}, "parameter 'confidence': 1.0 is not between"),
    "11-figures": ({"texts": 0}, "parameter 'texts': 0 is not between"),
    "12-beyond": ({"arm": "original"}, "parameter 'arm': 'original' is none of high, "),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository of links whose smoke study has its pretrained encoder."""
    folder = small_repository.repository(tmp_path_factory.mktemp("changed") / "here", "little")
    studies = folder / "notebooks" / "studies"
    for study in (paths.root() / "notebooks" / "studies").glob("*.yaml"):
        (studies / study.name).symlink_to(study)
    ran = run(folder, "04-pretrain", {"steps": 2})
    assert ran.returncode == 0, ran.stderr[-2000:]
    return folder


def run(folder, notebook, values):
    """Execute a notebook by the project's own command and return what it printed."""
    parameters = []
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        parameters += ["--parameter", name, text]
    record = folder / "records" / f"{notebook}.json"
    record.unlink(missing_ok=True)
    command = [str(Path(sys.executable).with_name("saobp")), "run"]
    command += [f"notebooks/{notebook}.ipynb", f"build/changed/{notebook}.ipynb"]
    command += [*parameters, "--parameter", "record", str(record)]
    environment = small_repository.given()
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "notebook, values", [(name, values) for name, sets in CHANGES.items() for values in sets]
)
def test_a_notebook_runs_to_its_end_by_papermill_with_other_parameters(
    repository, notebook, values
):
    ran = run(repository, notebook, values)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert (repository / "records" / f"{notebook}.json").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("notebook", REFUSED)
def test_a_parameter_without_a_meaning_is_refused_by_papermill_in_one_line(repository, notebook):
    values, reason = REFUSED[notebook]
    ran = run(repository, notebook, values)
    assert ran.returncode != 0
    assert reason in ran.stderr.strip().splitlines()[-1]
