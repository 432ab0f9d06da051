"""Rows of what the paper prints, for claims and texts that set it beside ours."""

from collections.abc import Iterator

from companion.paper import comparisons, numbers
from companion.results.row import CONTRAST, Endpoint, Row
from companion.results.study import Study
from companion.setup.tasks_and_metrics import PRINTED

# the size of the paper that ours is scaled down from
SIZE = "Mini"
GLUE = Endpoint("mean of GLUE tasks", "points")
GTD = Endpoint("GTD", "")
INDIRECT = Endpoint("indirect entropy", "nats")
SPARSITY = Endpoint("sparsity", "share of entries")
CLUSTERING = Endpoint("GTD and clustering", "r")
BETWEENNESS = Endpoint("GTD and betweenness", "r")
FALL = Endpoint("log perplexity", "nats")
TIME = Endpoint("time of training step", "ratio")
# of Table 6, and what our endpoints call them
TASKS = {"WikiText_PPL": "perplexity", "SST2_Acc": "SST2"}
# of sparsity with High and without, by the id of the number in the text
SPARSITIES = ("C42", "C41")


def rows() -> Iterator[Row]:
    """Yield the paper's numbers for BERT-Mini, and the ends of those that it prints for each size."""
    paper, study = numbers.load(), Study("printed", (), data="printed numbers")
    printed = ((GTD, 1, "GTD"), (INDIRECT, 1, "IE"), (GLUE, 2, PRINTED["glue"]))
    for endpoint, number, metric in printed:
        high = paper.value(number, model=SIZE, algorithm="High", metric=metric)
        plain = paper.value(number, model=SIZE, algorithm="Original", metric=metric)
        yield study.level(endpoint, CONTRAST, high - plain)
    high, plain = (paper.claim(name) for name in SPARSITIES)
    yield study.level(SPARSITY, CONTRAST, high - plain)
    yield study.level(CLUSTERING, "over heads", paper.claim("C18"))
    yield study.level(BETWEENNESS, "over heads", paper.claim("C19"))
    for task, name in TASKS.items():
        r = paper.value(6, gtd_kind="Single GTD", task=task)
        yield study.level(Endpoint(f"GTD and {name}", "r"), "over checkpoints", r)
    falls = comparisons.perplexities(paper)["fall"]
    yield study.level(FALL, f"{CONTRAST}, smallest", -falls.min())
    yield study.level(FALL, f"{CONTRAST}, largest", -falls.max())
    steps = comparisons.times(paper)["train"]["step_per_s (ms)"].unstack("algorithm", sort=False)
    ratios = steps["High"] / steps["Original"]
    yield study.level(TIME, "smallest High / Original", ratios.min())
    yield study.level(TIME, "largest High / Original", ratios.max())
    yield study.level(TIME, "High / Original", ratios[SIZE])
