"""A study says only what it may say, and a mistake in it is named before anything runs."""

import json
import math
import re

import pytest

from companion import records
from companion.setup import paths, studies
from companion.setup.recipes import Schedule
from companion.setup.studies import StudyError, available, load_study

SMOKE = (paths.root() / "notebooks" / "studies" / "smoke.yaml").read_text()


def test_seeds_that_some_algorithms_have_more_are_run_after_those_of_all():
    plan, more = load_study("stories").multihop, {"high": [2]}
    plan = plan.changed(layers=[2], algorithms=["low", "high"], seeds=[0, 1], more_seeds=more)
    assert plan.runs() == [
        (2, "low", 0),
        (2, "high", 0),
        (2, "low", 1),
        (2, "high", 1),
        (2, "high", 2),
    ]
    for name, seeds in (("original", [2]), ("high", [1, 2])):
        with pytest.raises(
            ValueError,
            match=f"more_seeds: {name} is not among the algorithms, or has a seed of all",
        ):
            plan.changed(more_seeds={name: seeds})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": 90.5}, "steps\n  Input should be a valid integer"),
        ({"stepz": 90}, "stepz\n  Extra inputs are not"),
        ({"warmup": 91}, "its warmup of 91 steps is longer than its 90 steps"),
        ({"masking": math.nan}, "finite number"),
        ({"dropout": 1.5}, "less than or equal to 1"),
        ({"precision": "fp16"}, "'auto', 'bf16' or 'fp32'"),
    ],
)
def test_a_changed_copy_is_checked_as_what_is_read_from_a_file(changes, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        load_study("smoke").pretrain.changed(**changes)


def test_a_changed_copy_has_all_else_alike_and_nothing_changes_in_place():
    study = load_study("smoke")
    other = study.changed(seeds=[7])
    assert other.seeds == [7] and study.seeds == [42] and other.pretrain is study.pretrain
    assert other != study and other.changed(seeds=[42]) == study
    assert (
        hash(study.pretrain.changed())
        == hash(study.pretrain)
        != hash(study.pretrain.changed(batch=1))
    )
    with pytest.raises(ValueError, match="Instance is frozen"):
        study.seeds = [7]
    with pytest.raises(ValueError, match="pretrain.length 32: no later position is trained"):
        study.changed(pretrain=study.pretrain.changed(length=32), beyond=None)


def test_the_text_of_a_recipe_by_which_runs_are_found_names_it_and_every_value():
    schedule = Schedule(steps=3, learning_rate=0.5, warmup=1)
    assert f"{schedule}" == repr(schedule) == "Schedule(steps=3, learning_rate=0.5, warmup=1)"


def test_every_study_that_comes_along_is_valid_and_a_size_may_have_tasks_of_its_own_to_look_at():
    assert [load_study(name).name for name in available()] == [*available()]
    read = {(model, task) for model, _, task in load_study("smoke").looked_at()}
    assert read == {
        *(("mini-quarter", task) for task in ("race", "squad", "sst2")),
        ("small-quarter", "race"),
    }


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("  steps:", "  stepz:", "unknown key 'pretrain.stepz': did you mean 'steps'?"),
        (
            "larger: [{model: small-quarter}]",
            "larger: [{model: small-quarter, learn_rate: 1.0}]",
            "unknown key 'beyond.larger.0.learn_rate': did you mean 'learning_rate'?",
        ),
        (
            "  warmup: 30",
            "  warmup: soon",
            "key 'pretrain.warmup': input should be a valid integer, not 'soon'",
        ),
        ("algorithms: [original, high]", "algorithms: [original, hihg]", "key 'algorithms.1'"),
        ("tokenizer: wordpiece\n", "", "key 'tokenizer' is missing"),
        ("name: smoke", "name: [", "cannot be read as YAML"),
        ("name: smoke", "name: other", "key 'name' must be the file's own, 'smoke'"),
        (
            "[cola, mrpc",
            "[cola, rte, mrpc",
            "key 'finetune': groups: rte would be run, and counted, twice",
        ),
        (
            "finetune:\n",
            "finetune:\n  splits: {race: [train, validation, test]}\n",
            "key 'finetune.splits.race",
        ),
        ("seeds: [42]", "seeds: [42, 42]", "key 'seeds': one stands there twice"),
        ("seeds: [42]", "seeds: [4294967296]", "key 'seeds.0'"),
        (
            "seeds: [42]",
            "seeds: [42]\nstrengths: {mini-quarter: .nan}",
            "strengths.mini-quarter': input should be a fin",
        ),
        (
            "  warmup: 30",
            "  warmup: 91",
            "key 'pretrain': its warmup of 91 steps is longer than its 90 steps",
        ),
        (
            "  warmup: 30",
            "  warmup: 73\n  scheduler: warmup_stable_decay",
            "key 'pretrain': its warmup of 73 steps and fall of 18 is longer than its 90 steps",
        ),
        (
            "  warmup: 30",
            "  warmup: 0\n  scheduler: warmup_stable_decay\n  falling: 91",
            "key 'pretrain': its warmup of 0 steps and fall of 91 is longer than its 90 steps",
        ),
        (
            "rate: 2.0e-3, warmup: 10}",
            "rate: 2.0e-3, warmup: 41}",
            "key 'schedules.small-quarter': its warmup of 41 steps is longer than its 40 steps",
        ),
        (
            "beyond:\n  model: mini-quarter",
            "beyond:\n  model: mini",
            "beyond.model: 'mini' is none of `models`",
        ),
        (
            "vocabulary: 2048\n",
            "",
            "tokenizer 'wordpiece' is trained on the corpus: give it a vocabulary",
        ),
        (
            "tokenizer: wordpiece",
            "tokenizer: gpt2",
            "tokenizer 'gpt2' has no [MASK], which encoders need",
        ),
        (
            "  tokenizer: bpe\n  vocabulary: 1024\n",
            "  tokenizer: bpe\n",
            "key 'decoder': tokenizer 'bpe' is trained on the corpus",
        ),
        (
            "  batch: 16\n  length: 64",
            "  batch: 16\n  length: 65",
            "attention.length 65 is more than pretrain.length 64",
        ),
        (
            "    length: 64\n    batch: 32\n    steps: 12",
            "    length: 32\n    batch: 32\n    steps: 12",
            "beyond.pretrain.length 32 is not pretrain.length 64: give both the same",
        ),
        (
            "    limit_tokens: 400000\n  sequences",
            "  sequences",
            "beyond.pretrain.limit_tokens None is not pretrain.limit_tokens 400000",
        ),
        (
            "  length: 12",
            "  length: 18",
            "pretrain.length: 2 hops in 3 chains make stories of 12 sentences",
        ),
        (
            "  vocabulary: 1024\n  length: 64",
            "  vocabulary: 1024",
            "key 'decoder': length 128 is more than pretrain.le",
        ),
    ],
)
def test_a_mistake_is_named_in_one_line(tmp_path, old, new, said):
    assert old in SMOKE
    path = paths.write_text(tmp_path / "smoke.yaml", SMOKE.replace(old, new, 1))
    with pytest.raises(StudyError, match=f"^{path}: .*{re.escape(said)}.*$"):
        load_study(path)


@pytest.mark.parametrize(
    ("notebook", "study", "section"),
    [
        ("08-cost", "stories", "cost"),
        ("12-beyond", "laptop", "beyond"),
    ],
)
def test_a_notebook_of_a_section_refuses_a_study_without_it(notebook, study, section):
    cells = json.loads((paths.root() / "notebooks" / f"{notebook}.ipynb").read_text())["cells"]
    sources = ("".join(cell["source"]) for cell in cells)
    (opening,) = (source for source in sources if "load_study(study_name)" in source)
    with pytest.raises(
        StudyError, match=f"study {study} has no section `{section}`: add it, or take"
    ):
        exec(opening, {"load_study": load_study, "study_name": study})


@pytest.mark.parametrize(
    "name",
    ["..", ".", "cache", "Cache", ".git", "-f", "a/b", "../data", "a\\b", "a\nb", "", "x" * 200],
)
def test_a_studys_name_is_that_of_a_folder_of_its_own(tmp_path, name):
    said = "is no name of a study; take letters, digits"
    for place in (paths.build, paths.results):
        with pytest.raises(ValueError, match=said):
            place(name)
    with pytest.raises(ValueError, match=said):
        load_study("smoke").changed(name=name)
    if name.strip("/") == name and name.isprintable() and 0 < len(name) < 99 and "/" not in name:
        file = tmp_path / f"{name}.yaml"
        file.write_text(studies.find("smoke").read_text().replace("name: smoke", f"name: {name!r}"))
        with pytest.raises(StudyError, match="yaml: .*is no name of a study") as error:
            load_study(str(file))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["..", "a/b", ".*", "{x}"])
def test_a_groups_name_is_a_part_of_a_files(name):
    tuned = load_study("smoke").finetune
    groups = {name: next(iter(tuned.groups.values()))}
    with pytest.raises(ValueError, match="finetune.groups: .* is no name of a group"):
        load_study("smoke").changed(finetune=tuned.changed(groups=groups))


def test_a_run_of_a_study_that_is_another_folder_is_refused_before_it_runs():
    with pytest.raises(ValueError, match="is no name of a study"):
        records.Run("audit", study_name="...yaml", parameters={})
