"""The graph of runs: one rule a notebook, one record a run, everything below build/<study>/."""

import json
import os
import shlex
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote

# Snakemake puts the repository's folder first; a file of the user's there stands for no module of a library
if workflow.basedir not in os.environ.get("PYTHONPATH", "").split(os.pathsep) and workflow.basedir == sys.path[0]:
    sys.path.append(sys.path.pop(0))

from companion.setup import typed_by_hand
from companion.setup.studies import EXERCISE, SAY_MOST, load_study

ROOT = Path(os.path.relpath(workflow.basedir))  # in a path from / braces would be wildcards
STUDY = unquote(config["study"])  # quoted, as Snakemake reads what follows a blank and # as a comment
study = load_study(STUDY)
THREADS = int(config.get("threads", 1))  # a run; two runs side by side beat one run with two threads


def word(text):
    """Return a text as one word of a shell command, its braces doubled."""
    return shlex.quote(str(text)).replace("{", "{{").replace("}", "}}")


PYTHON = f"OMP_NUM_THREADS={{threads}} PYTHONSAFEPATH=1 {word(sys.executable)}"
SAOBP = f"{PYTHON} -S {word(ROOT / 'companion' / 'publication' / 'forked_runs.py')}"  # what `saobp` does, forked
RUN = (
    f"{SAOBP} run {{input.notebook:q}} {{output.notebook:q}} --own -f {word(STUDY)} "
    "-p record {output.record:q} "
)
PROCESSES = int(config.get("processes", 1))  # that share a pretraining run; notebook 04 then has nothing left to train
SHARED = (
    f"{PYTHON} -m torch.distributed.run --standalone --nproc-per-node {PROCESSES} "
    f"-m companion.training.pretraining --study {word(STUDY)} --model {{wildcards.model:q}} "
    "--algorithm {wildcards.algorithm:q} --seed {wildcards.seed:q} 2>&1 | tee {log:q} && "
    if PROCESSES > 1
    else ""
)
TRAINED = [f"{m}-{a}-{s}" for m, a in study.pairs() for s in study.seeds]
LOOKED_AT = [f"{m}-{a}-{s}-{task}" for m, a, task in study.looked_at() for s in study.seeds]
DECODERS = []
if study.decoder:
    DECODERS = [(m, a, s) for m, a in study.decoder.pairs() for s in study.decoder.seeds]
BEYOND = [f"12-beyond-{study.beyond.model}-{seed}" for seed in study.seeds[:1]] if study.beyond else []
COSTS = study.cost.models if study.cost else []
THEORY = [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if path.stem[:2] in ("01", "02", "03", "09", "13")]
RUNS = (
    THEORY
    + [f"04-pretrain-{t}" for t in TRAINED]
    + [f"05-finetune-{t}-{g}-{s}" for t in TRAINED for g in study.finetune.groups for s in study.finetune.seeds]
    + [f"06-attention-{t}" for t in LOOKED_AT]
    + ["07-decoder-{}-{}-{}".format(*decoder) for decoder in DECODERS]
    + [f"08-cost-{model}" for model in COSTS]
    + BEYOND
)
ALL = [*RUNS, "10-tables", "11-figures"]
# `plan` in a rule is what its run depends on in the study: a change of it is another run, one more seed is not
SOURCE = os.environ.get("SAOBP_DATA") or study.data
TEXT = repr([SOURCE, study.corpus, study.tokenizer, study.vocabulary, *filter(None, [study.tokens])])


PUBLISHED, COMPARED = "data/published/*", "figures/results.csv"
IN_SMOKE = study.name == EXERCISE  # shows the study of `SAY_MOST`
SHOWN = {  # what is tracked and a notebook shows beside its own run: a change of it is another run
    "05-finetune": ["data/results/narrow/*", PUBLISHED, COMPARED],
    "06-attention": ["data/results/narrow/*", COMPARED],
    "07-decoder": ["data/results/narrow/*", PUBLISHED, "figures/*"],
    "08-cost": ["data/results/narrow/*", PUBLISHED, COMPARED],
    "09-audit": [PUBLISHED],
    "10-tables": [PUBLISHED, "figures/claims.csv", "figures/figure6.csv", "figures/table7.csv", COMPARED, "data/results/decoders/*", *(f"data/results/{name}/*" for name in SAY_MOST if IN_SMOKE)],
    "11-figures": [PUBLISHED, "data/plan/*", "data/examples/*", "figures/*"],
    "12-beyond": [*(f"data/results/{name}/*" for name in ("learning", "stories")), "figures/*"],
    "13-retrofit": ["data/results/retrofit/*", "data/plan/*", "figures/*"],
    "report": ["figures/*"],
}
ONCE = ("04-pretrain", "05-finetune", "06-attention", "07-decoder")  # in cells of that tag, for the default run alone


def rows(task):
    """Return which rows of a task are read, by the recipe of fine-tuning."""
    tuned = study.finetune
    return [tuned.limit_train, tuned.limit_evaluation, tuned.splits.get(task)]


def notebook(stem):
    return ROOT / "notebooks" / f"{stem}.ipynb"


@cache
def usual(stem):
    """Return the parameters of a notebook's default run."""
    cells = json.loads(notebook(stem).read_text(encoding="utf-8"))["cells"]
    tagged = (cell["source"] for cell in cells if "parameters" in cell["metadata"].get("tags", []))
    return typed_by_hand.declared("".join(next(tagged)))


def shown(stem, run=None):
    """Return the tracked files that a run of a notebook shows, as inputs."""
    given = {"finetune_seed" if name == "head" else name: value for name, value in (run or {}).items()}
    if stem in ONCE and any(str(usual(stem)[name]) != value for name, value in given.items()):
        return []
    return sorted(path for pattern in SHOWN.get(stem, []) for path in ROOT.glob(pattern))


onstart:
    others = sorted({path.stem for path in Path("records").glob("*.json")} - {*ALL})
    if others and not int(config.get("wanted", 0)):  # records that were asked for by name may be of any seed
        told = f"saobp: {Path('records').resolve()}: the tables count runs that {study.name} does not name (any more)"
        print(f"{told}; remove what is of an earlier recipe: {', '.join(others)}", file=sys.stderr)


wildcard_constraints:
    model="|".join({*study.models, *COSTS, *(model for model, _, _ in DECODERS)}),
    algorithm="|".join({*(algorithm for _, algorithm in study.pairs()), *(algorithm for _, algorithm, _ in DECODERS)}),
    seed=r"\d+",
    head=r"\d+",
    group="|".join(study.finetune.groups),
    task="|".join({task for _, _, task in study.looked_at()}) or "none",
    theory="|".join(THEORY),


rule all:
    input:
        "index.html",
        # asked for by name, so that one that is deleted is made again
        expand("{kind}s/{run}.{ending}", zip, kind=["record", "notebook"] * len(ALL), ending=["json", "ipynb"] * len(ALL),
               run=[run for run in ALL for _ in range(2)]),


rule theory:
    input:
        notebook=ROOT / "notebooks" / "{theory}.ipynb",
        tracked=lambda run: shown(run.theory),
    output:
        notebook="notebooks/{theory}.ipynb",
        record="records/{theory}.json",
    log:
        "logs/{theory}.log",
    benchmark:
        "timings/{theory}.tsv"
    shell:
        RUN + "2>&1 | tee {log:q}"


rule pretrain:
    input:
        notebook=notebook("04-pretrain"),
        tracked=lambda run: shown("04-pretrain", run),
    output:
        notebook="notebooks/04-pretrain-{model}-{algorithm}-{seed}.ipynb",
        record="records/04-pretrain-{model}-{algorithm}-{seed}.json",
        weights="checkpoints/{model}-{algorithm}-{seed}/model.safetensors",
    threads: THREADS
    params:
        plan=lambda run: f"{TEXT} {study.recipe(run.model)} {study.strengths.get(run.model)}",
    log:
        "logs/04-pretrain-{model}-{algorithm}-{seed}.log",
    benchmark:
        "timings/04-pretrain-{model}-{algorithm}-{seed}.tsv"
    shell:
        SHARED + RUN + "-p model {wildcards.model:q} -p algorithm {wildcards.algorithm:q} -p seed {wildcards.seed:q} 2>&1 | tee -a {log:q}"


rule finetune:
    input:
        notebook=notebook("05-finetune"),
        tracked=lambda run: shown("05-finetune", run),
        weights=rules.pretrain.output.weights,
    output:
        notebook="notebooks/05-finetune-{model}-{algorithm}-{seed}-{group}-{head}.ipynb",
        record="records/05-finetune-{model}-{algorithm}-{seed}-{group}-{head}.json",
    threads: THREADS
    params:
        plan=lambda run: repr(study.finetune.changed(groups={run.group: study.finetune.groups[run.group]}, seeds=[int(run.head)])),
    log:
        "logs/05-finetune-{model}-{algorithm}-{seed}-{group}-{head}.log",
    benchmark:
        "timings/05-finetune-{model}-{algorithm}-{seed}-{group}-{head}.tsv"
    shell:
        RUN + "-p model {wildcards.model:q} -p algorithm {wildcards.algorithm:q} -p seed {wildcards.seed:q} "
        "-p group {wildcards.group:q} -p finetune_seed {wildcards.head:q} 2>&1 | tee {log:q}"


rule attention:
    input:
        notebook=notebook("06-attention"),
        tracked=lambda run: shown("06-attention", run),
        weights=rules.pretrain.output.weights,
    output:
        notebook="notebooks/06-attention-{model}-{algorithm}-{seed}-{task}.ipynb",
        record="records/06-attention-{model}-{algorithm}-{seed}-{task}.json",
    threads: THREADS
    params:
        plan=lambda run: f"{study.attention.changed(tasks=[], tasks_of={}, algorithms=None)} {rows(run.task)}",
    log:
        "logs/06-attention-{model}-{algorithm}-{seed}-{task}.log",
    benchmark:
        "timings/06-attention-{model}-{algorithm}-{seed}-{task}.tsv"
    shell:
        RUN + "-p model {wildcards.model:q} -p algorithm {wildcards.algorithm:q} -p seed {wildcards.seed:q} "
        "-p task {wildcards.task:q} 2>&1 | tee {log:q}"


rule decoder:
    input:
        notebook=notebook("07-decoder"),
        tracked=lambda run: shown("07-decoder", run),
    output:
        notebook="notebooks/07-decoder-{model}-{algorithm}-{seed}.ipynb",
        record="records/07-decoder-{model}-{algorithm}-{seed}.json",
    threads: THREADS
    params:
        plan=lambda run: f"{TEXT} {study.strengths.get(run.model)} {study.decoder_recipe(run.model)} "
        + repr(study.decoder.changed(models=[run.model], algorithms=[run.algorithm], algorithms_of={}, seeds=[int(run.seed)])),
    log:
        "logs/07-decoder-{model}-{algorithm}-{seed}.log",
    benchmark:
        "timings/07-decoder-{model}-{algorithm}-{seed}.tsv"
    shell:
        RUN + "-p model {wildcards.model:q} -p algorithm {wildcards.algorithm:q} -p seed {wildcards.seed:q} 2>&1 | tee {log:q}"


rule cost:
    input:
        notebook=notebook("08-cost"),
        tracked=lambda run: shown("08-cost", run),
    output:
        notebook="notebooks/08-cost-{model}.ipynb",
        record="records/08-cost-{model}.json",
    params:
        plan=lambda run: repr(study.cost.changed(models=[run.model])),
    log:
        "logs/08-cost-{model}.log",
    benchmark:
        "timings/08-cost-{model}.tsv"
    threads: workflow.cores  # nothing beside it while it takes times
    shell:
        RUN + "-p model {wildcards.model:q} 2>&1 | tee {log:q}"


rule beyond:
    input:
        notebook=notebook("12-beyond"),
        weights="checkpoints/{model}-high-{seed}/model.safetensors",
        tracked=shown("12-beyond"),
    output:
        notebook="notebooks/12-beyond-{model}-{seed}.ipynb",
        record="records/12-beyond-{model}-{seed}.json",
    priority: 1  # the longest run: started late, it would run alone at the end
    threads: THREADS
    params:
        plan=f"{TEXT} {study.beyond} {study.multihop}",
    log:
        "logs/12-beyond-{model}-{seed}.log",
    benchmark:
        "timings/12-beyond-{model}-{seed}.tsv"
    shell:
        RUN + "-p model {wildcards.model:q} -p seed {wildcards.seed:q} 2>&1 | tee {log:q}"


rule summary:
    input:
        notebook=ROOT / "notebooks" / "{summary}.ipynb",
        tracked=lambda run: shown(run.summary),
        records=expand("records/{run}.json", run=RUNS),
    output:
        notebook="notebooks/{summary}.ipynb",
        record="records/{summary}.json",
    wildcard_constraints:
        summary="10-tables|11-figures",
    log:
        "logs/{summary}.log",
    benchmark:
        "timings/{summary}.tsv"
    shell:
        RUN + "2>&1 | tee {log:q}"


rule report:
    input:
        expand("notebooks/{run}.ipynb", run=RUNS),
        tables="notebooks/10-tables.ipynb",
        figures="notebooks/11-figures.ipynb",
        tracked=shown("report"),
    output:
        "index.html",
    log:
        "logs/report.log",
    benchmark:
        "timings/report.tsv"
    shell:
        f"{SAOBP} report --study {word(STUDY)} 2>&1 | tee {{log:q}}"
