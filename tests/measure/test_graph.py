"""saobp.measure.graph against networkx, slow loops and graphs worked by hand."""

import itertools
import math

import networkx
import pytest
import torch
from beartype import beartype
from jaxtyping import jaxtyped

from saobp.measure import graph as g


def rows(*shape, seed=0, scale=3.0):
    """Row-stochastic matrices from Gaussian scores."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).softmax(-1)


def random_graph(size, seed, directed):
    """A token graph sparse enough to have nodes without two neighbours."""
    return g.token_graph(rows(size, size, seed=seed), size, 0.02, directed=directed)


def to_networkx(weights, directed=False):
    kind = networkx.DiGraph if directed else networkx.Graph
    return networkx.from_numpy_array(weights.numpy(), create_using=kind)


def loop_barrat(weights):
    """Clustering from its definition: weigh the ordered pairs of edges at a node that a third
    closes.
    """
    size, found = len(weights), []
    for i in range(size):
        around = [(j, weights[i, j].item()) for j in range(size) if weights[i, j] > 0]
        around += [(j, weights[j, i].item()) for j in range(size) if weights[j, i] > 0]
        closed = possible = 0.0
        for first, (j, w_j) in enumerate(around):
            for second, (h, w_h) in enumerate(around):
                if first != second and j != h:
                    closed += (w_j + w_h) / 2 * (int(weights[j, h] > 0) + int(weights[h, j] > 0))
                    possible += (w_j + w_h) / 2 * 2
        found.append(closed / possible if possible else math.nan)
    return found


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_clustering_agrees_with_networkx_and_the_loop_also_on_what_is_undefined(seed, directed):
    weights = random_graph(12, seed, directed)
    graph = to_networkx(weights, directed)
    for kind, weight in (("binary", None), ("onnela", "weight")):
        expected = list(networkx.clustering(graph, weight=weight).values())
        assert g.clustering(weights, kind).nan_to_num(0.0).tolist() == pytest.approx(
            expected, abs=1e-12
        )
    assert g.clustering(weights).tolist() == pytest.approx(
        loop_barrat(weights), abs=1e-12, nan_ok=True
    )


def test_barrats_coefficient_of_four_nodes_worked_by_hand():
    weights = torch.zeros(4, 4, dtype=torch.float64)
    # a triangle with a tail at node 0
    for i, j, weight in ((0, 1, 0.5), (0, 2, 0.3), (0, 3, 0.2), (1, 2, 0.4)):
        weights[i, j] = weights[j, i] = weight
    # node 0: strength 1, 3 neighbours, one closed pair (1, 2): 2 * (0.5 + 0.3) / 2 / (1 * 2) = 0.4
    # nodes 1 and 2: their only pair is closed; node 3: one neighbour
    assert g.clustering(weights).tolist() == pytest.approx([0.4, 1.0, 1.0, math.nan], nan_ok=True)
    assert g.clustering(weights, "binary").tolist()[0] == pytest.approx(1 / 3)
    onnela = (0.5 * 0.3 * 0.4) ** (1 / 3) / 0.5 / 3
    assert g.clustering(weights, "onnela").tolist()[0] == pytest.approx(onnela)
    # nobody is a neighbour of its own
    for kind in g.CLUSTERINGS:
        loops = g.clustering(weights + torch.eye(4), kind)
        torch.testing.assert_close(loops, g.clustering(weights, kind), equal_nan=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_betweenness_agrees_with_networkx(directed, weighted):
    for seed in range(4):
        weights = random_graph(14, seed, directed)
        graph = to_networkx(weights, directed)
        for _, _, data in graph.edges(data=True):
            data["length"] = 1 / data["weight"]
        length = "length" if weighted else None
        expected = networkx.betweenness_centrality(graph, normalized=False, weight=length)
        found = g.betweenness(weights, directed=directed, weighted=weighted)
        assert found.tolist() == pytest.approx(list(expected.values()), abs=1e-9)


def test_the_first_real_tokens_become_the_nodes_all_of_them_where_there_are_fewer():
    attention = rows(10, 10)
    mask = torch.tensor([False, True, True, False] + [True] * 6)
    assert g.token_graph(attention, mask=mask).shape == (8, 8)
    chosen = torch.tensor([1, 2, 4])
    block = attention[chosen][:, chosen]
    expected = ((block + block.T) / 2).fill_diagonal_(0)
    torch.testing.assert_close(g.token_graph(attention, 3, 0.0, mask=mask), expected)


def test_a_seeded_sample_is_repeatable_and_keeps_the_order_of_the_tokens():
    attention = torch.arange(1, 65, dtype=torch.float64).reshape(8, 8) / 600
    first = g.token_graph(attention, 4, 0.0, directed=True, seed=3)
    torch.testing.assert_close(first, g.token_graph(attention, 4, 0.0, directed=True, seed=3))
    assert not torch.equal(first, g.token_graph(attention, 4, 0.0, directed=True))
    assert (first[0, 1:].diff() > 0).all() and (first[1:, 0].diff() > 0).all()


def test_edges_at_or_below_the_threshold_are_dropped_after_joining_both_directions():
    attention = torch.tensor(
        [[0.9, 0.1, 0.0], [0.3, 0.2, 0.5], [0.0, 0.0, 1.0]], dtype=torch.float64
    )
    assert g.token_graph(attention, 3, 0.1, directed=True).tolist() == [
        [0, 0, 0],
        [0.3, 0, 0.5],
        [0, 0, 0],
    ]
    for name, first in {"mean": [0, 0.2, 0], "max": [0, 0.3, 0], "min": [0, 0, 0]}.items():
        assert g.token_graph(attention, 3, 0.1, symmetry=name)[0].tolist() == pytest.approx(first)
    assert g.token_graph(attention, 3, 0.1, symmetry="min").count_nonzero() == 0


def test_measures_of_a_stack_are_those_of_its_matrices():
    # which look at shapes and types
    attention, checked = rows(2, 3, 20, 20), jaxtyped(typechecker=beartype)
    found = checked(g.graph_measures)(attention, 15, 0.02)
    weights = checked(g.token_graph)(attention, 15, mask=torch.ones(20, dtype=torch.bool))
    checked(g.clustering)(weights)
    checked(g.betweenness)(weights)
    for layer, head in itertools.product(range(2), range(3)):
        weights = g.token_graph(attention[layer, head], 15, 0.02)
        expected = {
            f"clustering_{kind}": g.clustering(weights, kind).nanmean() for kind in g.CLUSTERINGS
        }
        for name, value in (expected | {"betweenness": g.betweenness(weights).mean()}).items():
            assert found[name][layer, head].item() == pytest.approx(value.item())


def test_what_is_undefined_stays_nan():
    # no edges: nobody has neighbours, nobody lies between
    identity = torch.eye(5)
    found = g.graph_measures(identity)
    assert all(found[f"clustering_{kind}"].isnan() for kind in g.CLUSTERINGS)
    assert found["betweenness"].item() == 0
    nobody = g.graph_measures(rows(2, 5, 5), mask=torch.zeros(5, dtype=torch.bool))
    assert all(values.isnan().tolist() == [True, True] for values in nobody.values())
    broken = rows(2, 5, 5)
    broken[0, 2, 1] = math.nan
    for name, values in g.graph_measures(broken).items():
        assert values.isnan().tolist() == [True, False], name


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("attention", lambda a: g.token_graph(a[:2])),
        ("attention", lambda a: g.token_graph(a.tolist())),
        ("attention", lambda a: g.token_graph(a > 0)),
        ("threshold", lambda a: g.token_graph(a, threshold="0.1")),
        ("threshold", lambda a: g.token_graph(a, threshold=math.nan)),
        ("nodes", lambda a: g.token_graph(a, 2.5)),
        ("nodes", lambda a: g.token_graph(a, True)),
        ("seed", lambda a: g.token_graph(a, seed=0.5)),
        ("mask", lambda a: g.token_graph(a, mask=[True] * 4)),
        ("symmetry", lambda a: g.token_graph(a, symmetry="sum")),
        ("threshold", lambda a: g.token_graph(a, threshold=-0.1)),
        ("nodes", lambda a: g.token_graph(a, 0)),
        ("mask", lambda a: g.token_graph(a, mask=torch.ones(4))),
        ("kind", lambda a: g.clustering(a, "zhang")),
        ("weights", lambda a: g.betweenness(a)),
        ("weights", lambda a: g.clustering(5)),
        ("weights", lambda a: g.clustering(a[:2])),
        ("weights", lambda a: g.betweenness(a[0])),
        ("weights", lambda a: g.clustering(a > 0)),
        ("weights", lambda a: g.betweenness(-a, weighted=True)),
        ("attention", lambda a: g.graph_measures(a.to_sparse())),
        ("seed", lambda a: g.token_graph(a, seed=2**70)),
    ],
)
def test_a_wrong_argument_is_named(argument, call):
    with pytest.raises(ValueError, match=f"^{argument}"):
        call(rows(4, 4))
