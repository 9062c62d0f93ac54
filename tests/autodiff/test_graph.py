"""Graphs, messages and dual numbers against jax.grad, jax.jvp and jax.hessian, on graphs drawn by Hypothesis."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corollary.autodiff import (
    Dual,
    Graph,
    Node,
    all_pairs,
    backprop,
    elementary,
    evaluate,
    forward_derivative,
    forward_gradient,
    gradient_graph,
    graph_hessian_vector,
    mlp_graph,
    random_graph,
    trace,
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


@settings(max_examples=25, deadline=None)
@given(graphs(), st.integers(0, 100))
def test_duals_are_jax_jvp(case, seed):
    graph, z = case
    v = np.random.default_rng(seed).normal(size=z.size)
    value, tangent, tally = forward_derivative(lambda x: evaluate(graph, x)[graph.output], z, v)
    expected = jax.jvp(as_function(graph), (jnp.asarray(z),), (jnp.asarray(v),))
    scale = 1 + np.abs(np.array(backprop(graph, evaluate(graph, z)).derivatives, float)).max()
    np.testing.assert_allclose(value, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tangent, expected[1], rtol=0, atol=1e-11 * scale)
    assert tally.tangents <= 3 * tally.values


def test_trace_records_what_is_done():
    def f(x):
        a, b = x
        return elementary.tanh(a * b) - 3 * elementary.exp(b) * a + (1 - a) + (2 - b)

    graph = trace(f, 2)
    z = np.array([0.3, -0.7])
    assert evaluate(graph, z)[graph.output] == pytest.approx(f(z))
    gradient = backprop(graph, evaluate(graph, z)).at(graph.leaves)
    expected = jax.grad(lambda x: f(list(x)))(jnp.asarray(z))
    np.testing.assert_allclose(gradient, expected, rtol=1e-13)


def program(x):
    a, b = x
    return (a**3 / b + 2 / a - elementary.log(b) * elementary.sin(a)) * elementary.cos(b) + (1 - a) * (b - 2) - a**0


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (lambda: Graph((Node("leaf"), Node("sqrt", (0,))), 1), "Node 1 must be one of"),
        (lambda: Graph((Node("leaf"), Node("neg", (1,))), 1), "Node 1 must use earlier nodes only"),
        (lambda: Graph((Node("leaf"), Node("neg")), 1), "cannot have 0 inputs"),
        (lambda: Graph((Node("leaf"),), 3), "output must be from 0 to 0"),
        (lambda: evaluate(mlp_graph([2, 1]), [1.0]), "leaves must hold 4 values"),
        (lambda: backprop(mlp_graph([2, 1]), [1.0]), "values must hold"),
        (lambda: backprop(mlp_graph([1, 1]), [1.0] * 5, order=[0] * 5), "order must name each"),
        (lambda: all_pairs(mlp_graph([1, 1]), [np.ones(2)] * 5), "values must be scalars"),
        (lambda: all_pairs(mlp_graph([1, 1]), [1.0]), "values must hold 5"),
        (lambda: gradient_graph(mlp_graph([1, 1])).paired([1.0]), "vector must hold 2 numbers"),
        (lambda: graph_hessian_vector(mlp_graph([1, 1]), [1.0, 1.0], [1.0]), "vector must hold 2 numbers"),
        (lambda: mlp_graph([3]), "widths must hold"),
        (lambda: random_graph(2, 2, key=jax.random.key(0), fan_out=1), "fan_out must be at least 4"),
        (lambda: forward_derivative(program, [1.0, 2.0], [1.0]), "direction must have shape"),
        (lambda: forward_gradient(lambda x: [x[0]], [1.0]), "must return one number"),
        (lambda: Dual(1.0, 1.0) + Dual(1.0, 1.0), "two different differentiations"),
    ],
)
def test_sentences(action, sentence):
    with pytest.raises(ValueError, match=sentence):
        action()


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (lambda: forward_derivative(1, [1.0], [1.0]), "f must be a function"),
        (lambda: trace(1, 2), "f must be a function"),
        (lambda: trace(lambda x: 1.0, 1), "f must return one number"),
        (lambda: Dual(1.0, 1.0) ** Dual(1.0, 1.0), "exponent of a dual number"),
        (lambda: elementary.exp("a"), "exp takes a number"),
    ],
)
def test_type_sentences(action, sentence):
    with pytest.raises(TypeError, match=sentence):
        action()
