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


def random_graph(size, seed):
    """A token graph sparse enough to have nodes without two neighbours."""
    return g.token_graph(rows(size, size, seed=seed), size, 0.02)


def loop_barrat(weights):
    """Clustering from its definition: weigh the pairs of edges at a node that a third closes."""
    size, coefficients = len(weights), []
    for i in range(size):
        around = [(j, weights[i, j].item()) for j in range(size) if weights[i, j] > 0]
        closed = possible = 0.0
        for (j, w_j), (h, w_h) in itertools.combinations(around, 2):
            possible += w_j + w_h
            closed += (w_j + w_h) * int(weights[j, h] > 0)
        coefficients.append(closed / possible if possible else math.nan)
    return coefficients


@pytest.mark.parametrize("seed", range(5))
def test_clustering_agrees_with_networkx_and_the_loop_also_on_what_is_undefined(seed):
    weights = random_graph(12, seed)
    graph = networkx.from_numpy_array(weights.numpy())
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


@pytest.mark.parametrize("seed", range(4))
def test_betweenness_agrees_with_networkx(seed):
    weights = random_graph(14, seed)
    graph = networkx.from_numpy_array(weights.numpy())
    expected = networkx.betweenness_centrality(graph, normalized=False)
    assert g.betweenness(weights).tolist() == pytest.approx(list(expected.values()), abs=1e-9)


def test_the_first_real_tokens_become_the_nodes_all_of_them_where_there_are_fewer():
    attention = rows(10, 10)
    mask = torch.tensor([False, True, True, False] + [True] * 6)
    assert g.token_graph(attention, mask=mask).shape == (8, 8)
    chosen = torch.tensor([1, 2, 4])
    block = attention[chosen][:, chosen]
    expected = ((block + block.T) / 2).fill_diagonal_(0)
    torch.testing.assert_close(g.token_graph(attention, 3, 0.0, mask=mask), expected)


def test_edges_at_or_below_the_threshold_are_dropped_after_joining_both_directions():
    attention = torch.tensor(
        [[0.9, 0.1, 0.0], [0.3, 0.2, 0.5], [0.0, 0.0, 1.0]], dtype=torch.float64
    )
    expected = torch.tensor([[0, 0.2, 0], [0.2, 0, 0.25], [0, 0.25, 0]], dtype=torch.float64)
    torch.testing.assert_close(g.token_graph(attention, 3, 0.1), expected)
    assert g.token_graph(attention, 3, 0.2)[0].count_nonzero() == 0


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
        ("mask", lambda a: g.token_graph(a, mask=[True] * 4)),
        ("threshold", lambda a: g.token_graph(a, threshold=-0.1)),
        ("nodes", lambda a: g.token_graph(a, 0)),
        ("mask", lambda a: g.token_graph(a, mask=torch.ones(4))),
        ("kind", lambda a: g.clustering(a, "zhang")),
        ("weights", lambda a: g.betweenness(a)),
        ("weights", lambda a: g.clustering(5)),
        ("weights", lambda a: g.clustering(a[:2])),
        ("weights", lambda a: g.betweenness(a[0])),
        ("weights", lambda a: g.clustering(a > 0)),
        ("weights", lambda a: g.betweenness(-a)),
        ("attention", lambda a: g.graph_measures(a.to_sparse())),
    ],
)
def test_a_wrong_argument_is_named(argument, call):
    with pytest.raises(ValueError, match=f"^{argument}"):
        call(rows(4, 4))
