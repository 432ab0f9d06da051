"""Attention as a graph of tokens: clustering and betweenness (Fig. 2 and 5, Table 1).

The paper names the threshold and 40 nodes and leaves open which nodes, which symmetrisation, which
weights.
Here: the first real tokens; an edge where the mean of both directions exceeds the threshold, no
    loops. A node with fewer than two neighbours has no clustering coefficient: NaN, left out of
    means and counted by the caller.
Source: Lee et al. 2025, Sec. 7; Freeman 1977 (betweenness); Barrat et al. 2004 and Onnela et al.
2005 (clustering).
"""

from __future__ import annotations

import math
from numbers import Real

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saobp.equations.checks import check_shape, check_whole, quoted
from saobp.equations.masks import check_tokens

try:
    import igraph
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "saobp.measure.graph needs igraph: pip install 'saobp[measure]'", name="igraph"
    ) from None

CLUSTERINGS = ("binary", "onnela", "barrat")


def token_graph(
    attention: Float[Tensor, "*batch L L"],
    nodes: int = 40,
    threshold: float = 1e-4,
    *,
    mask: Bool[Tensor, " L"] | None = None,
) -> Float[Tensor, "*batch n n"]:
    """Project attention to weighted adjacency matrices of undirected token graphs; the mask is that
    of one sample.

    Takes the first `nodes` real tokens, all if there are fewer. An entry is the mean of the
    attention in both directions, 0 where there is no edge.
    Raises ValueError that names the argument.
    """
    check_shape(attention)
    check_threshold(threshold)
    chosen = _choose(attention.shape[-1], nodes, mask).to(attention.device)
    weights = attention[..., chosen[:, None], chosen].double()
    weights = (weights + weights.mT) / 2
    loops = torch.eye(len(chosen), dtype=torch.bool, device=weights.device)
    return weights.masked_fill((weights <= threshold) | loops, 0.0)


def clustering(
    weights: Float[Tensor, "*batch n n"], kind: str = "barrat"
) -> Float[Tensor, "*batch n"]:
    """Share of a node's pairs of neighbours that are neighbours of each other, one value a node.

    "binary" counts triangles; "onnela" takes the geometric mean of a triangle's weights over the
    graph's largest (this is networkx's weighted clustering); "barrat" weighs a triangle by its two
    edges at the node (the paper's citation). From 0 to 1; NaN where a node has fewer than two
    neighbours. `weights` are symmetric.
    """
    _check_weights(weights)
    if kind not in CLUSTERINGS:
        raise ValueError(f"kind must be one of {', '.join(CLUSTERINGS)}, got {quoted(kind)}")
    weights = weights.masked_fill(
        torch.eye(weights.shape[-1], dtype=torch.bool, device=weights.device), 0
    )
    edges = torch.where(weights.isnan(), weights, (weights != 0).to(weights.dtype))
    edge = edges
    if kind == "onnela" and weights.numel():
        # 0 in a graph without edges
        largest = weights.amax((-2, -1), keepdim=True)
        edge = (weights / torch.where(largest == 0, 1.0, largest)).pow(1 / 3)
    strength = weights if kind == "barrat" else edges
    around, twice = strength + strength.mT, edge + edge.mT
    triangles = ((around if kind == "barrat" else twice) * (twice @ twice)).sum(-1)
    degree, mutual = (edges + edges.mT).sum(-1), (around * edges * edges.mT).sum(-1)
    pairs = 2 * (around.sum(-1) * (degree - 1) - mutual)
    return triangles / pairs.masked_fill((edges + edges.mT > 0).sum(-1) < 2, math.nan)


def betweenness(weights: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch n"]:
    """Number of shortest paths through a node, ties shared, not normalised (Freeman 1977).

    From 0 (everybody is a neighbour) to (n-1)(n-2)/2 at the centre of a star; every edge is as long
    as another.
    Raises ValueError if the matrix is not symmetric.
    """
    _check_weights(weights)
    if not torch.equal(torch.nan_to_num(weights), torch.nan_to_num(weights.mT)):
        raise ValueError("weights must be symmetric, as token_graph returns them")
    size, centralities = weights.shape[-1], []
    for matrix in weights.detach().cpu().reshape(math.prod(weights.shape[:-2]), size, size):
        graph = igraph.Graph(n=size, edges=matrix.triu().nonzero().tolist())
        # all of it, by one weight
        undefined = matrix.isnan().any()
        centralities.append([math.nan] * size if undefined else graph.betweenness())
    return torch.tensor(centralities, dtype=torch.float64).reshape(weights.shape[:-1])


def graph_measures(
    attention: Float[Tensor, "*batch L L"],
    nodes: int = 40,
    threshold: float = 1e-4,
    *,
    mask: Bool[Tensor, " L"] | None = None,
) -> dict[str, Float[Tensor, "*batch"]]:
    """Mean clustering, in three definitions, and mean betweenness of every matrix as an undirected
    graph.

    Means are over the nodes where the value is defined; NaN if it is at none.
    """
    weights = token_graph(attention, nodes, threshold, mask=mask)
    measures = {f"clustering_{kind}": clustering(weights, kind).nanmean(-1) for kind in CLUSTERINGS}
    return measures | {"betweenness": betweenness(weights).nanmean(-1)}


def check_threshold(threshold: float, name: str = "threshold") -> None:
    """Refuse anything but a number in [0, 1) with a ValueError."""
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0 <= threshold < 1:
        raise ValueError(f"{name} must be a number in [0, 1), got {quoted(threshold)}")


def _check_weights(weights: Tensor) -> None:
    """Refuse what are no weights of edges between nodes."""
    shape = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
    if (
        not isinstance(weights, Tensor)
        or weights.dim() < 2
        or weights.shape[-1] != weights.shape[-2]
    ):
        raise ValueError(
            f"weights must be a tensor (..., n, n), as token_graph returns; got {shape}"
        )
    if (
        not weights.is_floating_point()
        or weights.layout != torch.strided
        or bool((weights < 0).any())
    ):
        raise ValueError(
            "weights must be a dense floating tensor without negative numbers, as token_graph returns"
        )


def _choose(tokens: int, nodes: int, mask: Tensor | None) -> Tensor:
    """Indices of the tokens that become nodes, in their order."""
    check_whole("nodes", nodes, 1)
    if mask is None:
        return torch.arange(tokens)[:nodes]
    check_tokens(mask, tokens)
    return mask.nonzero().squeeze(-1)[:nodes]
