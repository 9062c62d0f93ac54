"""Reverse mode on a graph: every node adds up its messages and passes them on, once, from the output downwards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corollary.autodiff import (
    Graph,
    Node,
    all_pairs,
    backprop,
    clamped_derivatives,
    evaluate,
    gradient_graph,
    graph_hessian_vector,
    random_graph,
)

ARITY = {"sum": 3, "mul": 2, "dot": 4, "tanh": 1, "exp": 1, "neg": 1, "complement": 1}


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@st.composite
def graphs(draw, operations=12):
    """A graph of any shape, with shared nodes and dead ends, and a point at which nothing is large."""
    leaves = draw(st.integers(1, 3))
    nodes = [Node("leaf")] * leaves
    for _ in range(draw(st.integers(1, operations))):
        op = draw(st.sampled_from(sorted(ARITY)))
        inputs = draw(st.lists(st.integers(0, len(nodes) - 1), min_size=ARITY[op], max_size=ARITY[op]))
        nodes.append(Node(op, tuple(inputs)))
    output = draw(st.integers(leaves, len(nodes) - 1))
    graph = Graph(tuple(nodes), output)
    z = np.array(draw(st.lists(st.floats(-1, 1, width=32), min_size=leaves, max_size=leaves)))
    with np.errstate(over="ignore", invalid="ignore"):
        values = evaluate(graph, z)
    assume(np.isfinite(values).all() and np.abs(values).max() < 20)
    return graph, z


def as_function(graph):
    return lambda z: evaluate(graph, list(z))[graph.output] + 0 * z[0]


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_backprop_is_jax_grad_on_every_leaf(case):
    graph, z = case
    back = backprop(graph, evaluate(graph, z))
    expected = jax.grad(as_function(graph))(jnp.asarray(z))
    scale = 1 + np.abs(np.array(back.derivatives, float)).max()
    np.testing.assert_allclose(back.at(graph.leaves), expected, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(clamped_derivatives(graph, z), back.derivatives, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(
        all_pairs(graph, evaluate(graph, z)).jacobian[graph.output], back.derivatives, rtol=0, atol=1e-12 * scale
    )
    assert back.messages <= graph.edges
    big = gradient_graph(graph)
    values = evaluate(Graph(big.nodes, 0), z)
    np.testing.assert_allclose([values[i] for i in big.gradient], expected, rtol=0, atol=1e-12 * scale)
    assert big.size <= 6 * graph.size + 2


@settings(max_examples=10, deadline=None)
@given(graphs(operations=6), st.integers(0, 100))
def test_hessian_vector_products_are_jax_hessian(case, seed):
    graph, z = case
    v = np.random.default_rng(seed).normal(size=z.size)
    expected = jax.jit(jax.hessian(as_function(graph)))(jnp.asarray(z)) @ v
    scale = 1 + float(np.abs(expected).max()) + np.abs(np.array(evaluate(graph, z))).max() ** 4
    product, _ = graph_hessian_vector(graph, z, v)
    np.testing.assert_allclose(product, expected, rtol=0, atol=1e-11 * scale)
    paired = gradient_graph(graph).paired(v)
    twice = backprop(paired, evaluate(paired, z)).at(paired.leaves)
    np.testing.assert_allclose(twice, expected, rtol=0, atol=1e-11 * scale)


def test_works_under_jit_vmap_and_grad():
    graph = random_graph(3, 15, key=jax.random.key(0))
    points = jax.random.uniform(jax.random.key(1), (5, 3), minval=-1)
    ours = jax.jit(jax.vmap(lambda z: jnp.stack(backprop(graph, evaluate(graph, list(z))).at(graph.leaves))))(points)
    np.testing.assert_allclose(ours, jax.vmap(jax.grad(as_function(graph)))(points), rtol=1e-10, atol=1e-12)
    pairs = jax.jit(lambda z: all_pairs(graph, evaluate(graph, list(z))).jacobian[graph.output, :3])(points[0])
    np.testing.assert_allclose(pairs, ours[0], rtol=1e-10, atol=1e-12)
