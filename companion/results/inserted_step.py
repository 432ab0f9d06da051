"""Rows of the step put into public models: fine-tuned with it, and as they are."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from companion.records import kinds
from companion.records.schema import Record
from companion.results.row import CONTRAST, Endpoint, Row
from companion.results.study import UNTRAINED, Study
from companion.setup import labels, paths
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import Estimate, mean_interval, over_samples

MEAN = Endpoint("mean score", "points", 1, planned="primary")
OF_ARM = "the same mean of each secondary arm at three seeds"
OF_TASK = Endpoint("score", "points", 1, planned="the score of each task")
LONG_TASK = "RACE-Middle and SQuAD by the mirror's splits at three seeds"
OF_EPOCH = "the same mean after epochs 1 and 2"
FLOOR = Endpoint("mean score", "percent")
STRENGTH = Endpoint("strength", "nats")
SIMILARITY = Endpoint("similarity", "points", 1, of_what="pairs", planned="primary")
ONE_LAYER = Endpoint("similarity with the step in one layer", "points", 1, of_what="pairs")
LAYERS = {"entropy": "row entropy", "gtd": "GTD", "largest_column_share": "largest column's share"}
PERPLEXITY = Endpoint("perplexity of a novel", "percent", -1, of_what="paragraphs")
BLOCKS = Endpoint("loss on Wikipedia", "nats", -1, of_what="blocks")
ENCODER = "public encoder (MiniLM)"
DECODER = "public decoder (SmolLM2, 4-bit weights, dequantised)"
ANSWERS = Endpoint("zero-shot accuracy", "points", 1, of_what="questions")


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of a public encoder that was fine-tuned, or of public models as they are."""
    if study.runs("retrofit"):
        yield from _fine_tuned(study)
    for run in study.runs(UNTRAINED):
        if run["metrics"].get("similarity"):
            yield from _within(f"{ENCODER}, pairs of STS-B", _similarity(study, run))
            yield from _within(ENCODER, _layers(study, run))
    if study.runs(UNTRAINED, model="smollm2"):
        yield from _within(DECODER, _decoder(study))
        yield from _within(DECODER, _novel(study))


def _within(scope: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows of one of the two public models that the plan's scope names together."""
    for row in rows:
        yield replace(row, scope=scope)


def scores(study: Study) -> pd.DataFrame:
    """Return one row a fine-tuned run that did not fail: arm, task, seed, machine, score (percent),
    the score after each epoch, and the bag of words' ("floor").
    """
    table = []
    runs = study.runs("retrofit")
    kind = kinds(run["device"]["name"] for run in runs)
    for run in runs:
        parameters, metrics, device = run["parameters"], run["metrics"], run["device"]
        if "failed" in metrics:
            continue
        row = {name: parameters[name] for name in ("arm", "task", "seed", "strength")}
        row["machine"] = (kind[device["name"]], device["precision"])
        row["score"] = metrics["headline"]
        row["floor"] = metrics["floor"].get("headline")
        headline = TASKS[parameters["task"]].headline
        for number, epoch in enumerate(metrics["epochs"], 1):
            row[f"epoch {number}"] = epoch["scores"][headline]
        table.append(row)
    return pd.DataFrame(table)


def gaps(
    frame: pd.DataFrame, arms: tuple[str, str], column: str = "score", *, alike: bool = False
) -> pd.Series:
    """Return one arm's score minus another's, by seed and task.

    `alike`: of pairs of one kind of machine and one precision alone.
    """
    scores = frame[frame["arm"].isin(arms)]
    if alike:
        scores = scores[scores.groupby(["seed", "task"])["machine"].transform("nunique") == 1]
    wide = scores.pivot(index=["seed", "task"], columns="arm", values=column).reindex(
        columns=[*arms]
    )
    return (wide[arms[0]] - wide[arms[1]]).dropna()


def over_tasks(differences: pd.Series, tasks: list[str]) -> Estimate | None:
    """Return the mean over seeds of their means over tasks, of the seeds that have all of them."""
    by_seed = differences.unstack("task").reindex(columns=tasks).dropna().mean(axis=1)
    return mean_interval(by_seed.tolist()) if len(by_seed) else None


def title(study: Study, arm: str) -> str:
    """Return what an arm is called: its algorithm, and its λ where another arm has the paper's."""
    if arm in labels.ALGORITHMS:
        return labels.algorithm_title(arm)
    algorithm, _, strength = arm.rpartition("-")
    return f"{labels.algorithm_title(algorithm)} at λ {strength}"


def _fine_tuned(study: Study) -> Iterator[Row]:
    """Yield each arm − Original over the planned tasks, epochs, single tasks, and levels."""
    frame, model = scores(study), "minilm"
    tasks = _tasks(study, frame)
    for arm in dict.fromkeys(frame["arm"]):
        if arm == "original":
            continue
        contrast = f"{title(study, arm)} − Original"
        endpoint = MEAN if arm in ("high", "uniform") else replace(MEAN, planned=OF_ARM)
        estimate = over_tasks(gaps(frame, (arm, "original")), tasks)
        if estimate is not None:
            yield study.row(endpoint, contrast, estimate, model)
        yield from _alike(study, frame, (arm, "original"), estimate)
    beside = over_tasks(gaps(frame, ("high", "uniform")), tasks)
    if beside is not None:
        yield study.row(replace(MEAN, planned=""), "High − Uniform", beside, model)
        yield from _alike(study, frame, ("high", "uniform"), beside)
    epochs = [name for name in frame if name.startswith("epoch ")]
    for epoch in epochs[:-1]:
        endpoint = MEAN.of(f" after {epoch}", planned=OF_EPOCH)
        estimate = over_tasks(gaps(frame, ("high", "original"), epoch), tasks)
        if estimate is not None:
            yield study.row(endpoint, CONTRAST, estimate, model)
    yield from _by_task(study, frame, tasks)
    plain = frame[(frame["arm"] == "original") & frame["task"].isin(tasks)]
    for column, what in (("score", "Original"), ("floor", "bag of words")):
        mean = plain.groupby("task")[column].mean().mean()
        yield study.level(FLOOR, what, mean, plain["seed"].nunique())
    for arm, strength in frame.groupby("arm")["strength"].first().items():
        yield study.level(STRENGTH, title(study, arm), strength)


def _tasks(study: Study, frame: pd.DataFrame) -> list[str]:
    """Return the tasks that the mean is over: the plan's, else all that were run."""
    if study.plan is None:
        return sorted(set(frame["task"]))
    return study.plan.model_extra["tasks"]


def _alike(
    study: Study, frame: pd.DataFrame, arms: tuple[str, str], every: Estimate | None
) -> Iterator[Row]:
    """Yield the mean of the seeds whose pairs all come from one kind of machine, where these are
    fewer.
    """
    estimate = over_tasks(gaps(frame, arms, alike=True), _tasks(study, frame))
    if estimate is not None and every is not None and estimate.seeds < every.seeds:
        endpoint = MEAN.of(" in pairs of one kind of machine", planned="")
        contrast = f"{title(study, arms[0])} − {title(study, arms[1])}"
        yield study.row(endpoint, contrast, estimate, "minilm", "post hoc")


def _by_task(study: Study, frame: pd.DataFrame, tasks: list[str]) -> Iterator[Row]:
    """Yield High − Original on each task, over the seeds that have it."""
    differences = gaps(frame, ("high", "original"))
    for task, values in differences.groupby("task"):
        planned = OF_TASK.planned if task in tasks else LONG_TASK
        endpoint = replace(OF_TASK, name=f"score on {TASKS[task].title}", planned=planned)
        yield study.row(endpoint, CONTRAST, mean_interval(values.tolist()), "minilm")


def _similarity(study: Study, run: Record) -> Iterator[Row]:
    """Yield what each form at each strength changes, in points of Spearman's correlation.

    Nothing is drawn: the interval is over the pairs of sentences (bootstrap).
    """
    metrics, model = run["metrics"], run["parameters"]["model"]
    pairs = metrics["pairs"]
    for arm in metrics["similarity"]:
        algorithm = labels.algorithm_title(arm["factor"])
        if arm["factor"] == "none":
            levels = replace(SIMILARITY, unit="percent")
            yield study.level(levels, "Original", arm["spearman"], pairs, model)
            continue
        strength = f" at {arm['strength']:g}" if arm["strength"] else ""
        estimate = Estimate(arm["difference"], *arm["interval"], pairs)
        yield study.row(SIMILARITY, f"{algorithm}{strength} − Original", estimate, model)
    for alone in metrics["one_layer"]:
        estimate = Estimate(alone["difference"], *alone["interval"], pairs)
        endpoint = ONE_LAYER.of(f", {alone['layer']}")
        yield study.row(endpoint, CONTRAST, estimate, model)


def _layers(study: Study, run: Record) -> Iterator[Row]:
    """Yield each layer's attention in the plain model and, with High in all layers, before and after
    the step.
    """
    metrics = run["metrics"]
    strength = metrics["one_layer"][0]["strength"]
    arms = {arm["factor"]: arm for arm in metrics["similarity"] if arm["strength"] in (0, strength)}
    sides = (("none", "raw", "plain"), ("high", "raw", "before"), ("high", "refined", "after"))
    for measure, name in LAYERS.items():
        for number in range(len(arms["none"]["layers"])):
            endpoint = Endpoint(f"{name} of layer {number + 1}", "", of_what="texts")
            for factor, matrix, what in sides:
                value = arms[factor]["layers"][number][measure][matrix]
                yield study.level(endpoint, what, value, metrics["texts"], "minilm")


def _decoder(study: Study) -> Iterator[Row]:
    """Yield what the step changes in a public decoder by strength: nats per token, and points."""
    for task in ("wikipedia", "boolq", "race"):
        runs = study.runs(UNTRAINED, model="smollm2", task=task)
        by_strength = {run["parameters"]["strength"]: run["metrics"] for run in runs}
        for strength in sorted(set(by_strength) - {0.0}):
            contrast = f"High at {strength:g} − Original"
            before, after = by_strength[0.0], by_strength[strength]
            if task == "wikipedia":
                estimate = _over_samples(after["losses"], before["losses"], 1)
                yield study.row(BLOCKS, contrast, estimate, "smollm2")
            else:
                estimate = _over_samples(after["outcomes"], before["outcomes"], 100)
                endpoint = ANSWERS.of(f" on {TASKS[task].title}")
                yield study.row(endpoint, contrast, estimate, "smollm2")


def _over_samples(after: list[float], before: list[float], unit: float) -> Estimate:
    estimate = over_samples(unit * (np.asarray(after) - np.asarray(before)))
    return replace(estimate, seeds=estimate.items)


def _novel(study: Study) -> Iterator[Row]:
    """Yield by how much the step raises a public decoder's perplexity on paragraphs of a novel.

    `saobp inspect` measured it: data/results/smollm2.csv.
    """
    file = paths.root() / "data" / "results" / "smollm2.csv"
    for row in pd.read_csv(file).itertuples():
        if row.strength:
            ends = (100 * (ratio - 1) for ratio in (row.ratio, row.ratio_low, row.ratio_high))
            estimate = Estimate(*ends, row.texts)
            yield study.row(PERPLEXITY, f"High at {row.strength:g} − Original", estimate, "smollm2")
