"""Time the diagnostics: `python benchmarks/diagnostics.py` writes benchmarks/diagnostics.json.

Processor time is taken, over all threads, so that other work on the machine does not count as ours;
with one thread on an idle machine it is the time on the clock. Two ways of doing the same are timed
in turns and compared by their medians, because the speed drifts.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import igraph
import networkx
import torch
from torch import Tensor

from companion.cost.timing import ROUNDS
from companion.records import commit, device
from companion.setup.paths import write_text
from saobp.measure import graph, gtd_and_entropy

SAMPLES, MAPS, TOKENS, BATCH = 1024, 16, 128, 256
GRAPHS, NETWORKX_GRAPHS = SAMPLES * MAPS, 64


def attention(count: int, seed: int = 0) -> Tensor:
    """Softmax of Gaussian scores."""
    scores = 3 * torch.randn(count, TOKENS, TOKENS, generator=torch.Generator().manual_seed(seed))
    return scores.softmax(-1)


def power_sum_gtd(matrices: Tensor, beta: float = 0.9) -> Tensor:
    """GTD as Eq. 12 is printed: three products, three terms."""
    second = matrices @ matrices
    third = second @ matrices
    fourth = third @ matrices
    paths = beta * second + beta**2 * third + beta**3 * fourth
    direct, indirect = matrices.square().sum((-2, -1)), paths.square().sum((-2, -1))
    return indirect / (direct + indirect)


def seconds(call: Callable[[], object]) -> float:
    """Processor time of one call, all threads together."""
    start = time.process_time()
    call()
    return time.process_time() - start


def gtd_against_power_sum() -> dict[str, float]:
    """Compare both at one batch, in turns; the first two rounds warm up."""
    matrices = attention(BATCH)
    torch.testing.assert_close(gtd_and_entropy.gtd(matrices), power_sum_gtd(matrices))
    pairs = [
        (seconds(lambda: gtd_and_entropy.gtd(matrices)), seconds(lambda: power_sum_gtd(matrices)))
        for _ in range(ROUNDS + 2)
    ][2:]
    ours, plain = (statistics.median(column) for column in zip(*pairs))
    ratio = statistics.median(one / other for one, other in pairs)
    return {"gtd_ms": 1e3 * ours, "power_sum_ms": 1e3 * plain, "ratio": ratio, "rounds": ROUNDS}


def a_whole_capture() -> dict[str, float]:
    """Time the diagnostics of 1,024 samples of 16 maps, a batch at a time; making the maps is not
    counted.
    """
    spent = {"gtd": 0.0, "all_of_measure": 0.0}
    for start in range(0, GRAPHS, BATCH):
        matrices = attention(BATCH, seed=start)
        spent["gtd"] += seconds(lambda: gtd_and_entropy.gtd(matrices))  # noqa: B023
        spent["all_of_measure"] += seconds(lambda: gtd_and_entropy.measure(matrices))  # noqa: B023
    return {"samples": SAMPLES, "maps": MAPS} | {
        f"{name}_seconds": value for name, value in spent.items()
    }


def igraph_against_networkx() -> dict[str, float]:
    """Time betweenness and weighted clustering of 40-node graphs; networkx on a few, scaled up."""
    weights = graph.token_graph(attention(BATCH))
    times = {
        "closed_form_clustering": seconds(
            lambda: [graph.clustering(weights, k) for k in graph.CLUSTERINGS]
        ),
        "igraph_betweenness": seconds(lambda: graph.betweenness(weights)),
        "igraph_barrat": seconds(lambda: [igraph_barrat(one) for one in weights]),
    }
    found = {name: value / BATCH * GRAPHS for name, value in times.items()}
    few = [networkx.from_numpy_array(one.numpy()) for one in weights[:NETWORKX_GRAPHS]]
    slow = {
        "networkx_betweenness": lambda one: networkx.betweenness_centrality(one, normalized=False),
        "networkx_onnela": lambda one: networkx.clustering(one, weight="weight"),
    }
    for name, call in slow.items():
        spent = seconds(lambda: [call(one) for one in few])  # noqa: B023
        found[name] = spent / NETWORKX_GRAPHS * GRAPHS
    named = {f"{name}_seconds": value for name, value in found.items()}
    ratio = found["networkx_betweenness"] / found["igraph_betweenness"]
    timed = {"graphs": GRAPHS, "graphs_timed": BATCH, "networkx_graphs_timed": NETWORKX_GRAPHS}
    return (
        timed | {"nodes": weights.shape[-1]} | named | {"networkx_over_igraph_betweenness": ratio}
    )


def igraph_barrat(weights: Tensor) -> list[float]:
    """Barrat's clustering as igraph has it."""
    edges = weights.triu().nonzero()
    one = igraph.Graph(n=len(weights), edges=edges.tolist())
    return one.transitivity_local_undirected(weights=weights[edges[:, 0], edges[:, 1]].tolist())


def main(path: Path) -> None:
    """Run all three and write the numbers."""
    found = {
        "device": device(),
        "code": commit(),
        "torch": torch.__version__,
        "igraph": igraph.__version__,
        "networkx": networkx.__version__,
        "gtd_256x128x128": gtd_against_power_sum(),
        "race_size_capture": a_whole_capture(),
        "token_graphs": igraph_against_networkx(),
    }
    text = json.dumps(found, indent=1)
    write_text(path, text + "\n")
    print(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    main(parser.parse_args().out)
