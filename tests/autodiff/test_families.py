"""Graphs to try algorithms on: fully connected networks, and random ones."""

import jax
import numpy as np
import pytest

from corollary.autodiff import all_pairs, evaluate, mlp_graph, random_graph


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_random_graphs_keep_their_promises():
    for seed in range(20):
        graph = random_graph(4, 60, key=jax.random.key(seed))
        uses = np.bincount([i for node in graph.nodes[:-1] for i in node.inputs], minlength=len(graph.nodes))
        assert uses.max() <= 5
        values = evaluate(graph, np.where(np.arange(4) % 2, 1.0, -1.0))
        assert np.abs(values[:-1]).max() <= 8
        reached = np.array(all_pairs(graph, values).jacobian[graph.output] != 0)
        assert reached.mean() > 0.5  # a product with a zero stops a derivative, but most nodes count
    assert random_graph(4, 60, key=jax.random.key(0)) == random_graph(4, 60, key=jax.random.key(0))


def test_mlp_graph_is_the_network():
    graph = mlp_graph([2, 3, 1])
    leaves = np.random.default_rng(0).normal(size=len(graph.leaves))
    x, w1, w2 = leaves[:2], leaves[2:8].reshape(3, 2), leaves[8:].reshape(1, 3)
    assert evaluate(graph, leaves)[graph.output] == pytest.approx(np.tanh(w2 @ np.tanh(w1 @ x)).sum())
    assert len(graph.leaves) == 2 + 6 + 3
