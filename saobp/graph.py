"""The names of `saobp.measure.graph`, importable from their former place."""

from saobp.measure.graph import CLUSTERINGS, SYMMETRIES, betweenness, clustering, graph_measures, token_graph

__all__ = [
    "CLUSTERINGS",
    "SYMMETRIES",
    "betweenness",
    "clustering",
    "graph_measures",
    "token_graph",
]
