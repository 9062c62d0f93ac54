"""Large graphs in parts: the same numbers and derivatives, and few programs for many layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.onnx import _graph, _parts
from corollary.onnx._model import read

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)


def model(nodes, tensors):
    """A graph of an input `x` (n, 4) and an output `out`, with nodes as (operator, inputs, output, attributes)."""
    graph = helper.make_graph(
        [helper.make_node(op, ins, [out], **dict(*more)) for op, ins, out, *more in nodes],
        *("g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])]),
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights(name, k, scale=0.5):
    return {f"{name}{i}": scale * RNG.normal(size=(4, 4)).astype(np.float32) for i in range(k)}


def chain(k):
    """MatMul, Tanh, Mul, k times."""
    nodes, h = [], "x"
    for i in range(k):
        nodes += [("MatMul", [h, f"w{i}"], f"m{i}"), ("Tanh", [f"m{i}"], f"t{i}"), ("Mul", [f"t{i}", "two"], f"h{i}")]
        h = f"h{i}"
    return model([*nodes, ("Identity", [h], "out")], {**weights("w", k), "two": np.float32(2)})


def residual(k):
    """h + tanh(h w) v, k times: what is read of a layer before reaches over the border of a part."""
    nodes, h = [], "x"
    for i in range(k):
        nodes += [
            ("MatMul", [h, f"w{i}"], f"m{i}"),
            ("Tanh", [f"m{i}"], f"t{i}"),
            ("MatMul", [f"t{i}", f"v{i}"], f"q{i}"),
        ]
        nodes += [("Add", [h, f"q{i}"], f"h{i}")]
        h = f"h{i}"
    return model([*nodes, ("Identity", [h], "out")], {**weights("w", k), **weights("v", k, 0.1)})


def branches(k):
    """k branches of one input, whose sum is the output: all of them are read at the end."""
    nodes = []
    for i in range(k):
        nodes += [("MatMul", ["x", f"w{i}"], f"m{i}"), ("Sigmoid", [f"m{i}"], f"b{i}")]
    return model([*nodes, ("Sum", [f"b{i}" for i in range(k)], "out")], weights("w", k))


def shapes(k):
    """Shapes are read from what was computed before, in another part than they are used in."""
    nodes, h = [("Shape", ["x"], "shape")], "x"
    for i in range(k):
        nodes += [("MatMul", [h, f"w{i}"], f"m{i}"), ("Reshape", [f"m{i}", "flat"], f"f{i}")]
        nodes += [("Reshape", [f"f{i}", "shape"], f"h{i}"), ("Shape", [f"h{i}"], f"s{i}")]
        h = f"h{i}"
    return model([*nodes, ("Reshape", [h, f"s{k - 1}"], "out")], {**weights("w", k), "flat": np.int64([-1])})


def sequences(k):
    """A sequence passes from node to node, which is no array: such a graph is not taken apart."""
    nodes = [("SequenceConstruct", ["x"], "s0")]
    for i in range(k):
        nodes += [("MatMul", ["x", f"w{i}"], f"m{i}"), ("SequenceInsert", [f"s{i}", f"m{i}"], f"s{i + 1}")]
    return model([*nodes, ("ConcatFromSequence", [f"s{k}"], "out", {"axis": 1})], weights("w", k))


def program(net):
    """`run(tensors, x)` and its parameters."""
    proto = read(net)
    run, params = _graph.function_of(proto), {n: jnp.asarray(t) for n, t in proto.graph.tensors.items() if n[0] in "wv"}
    return lambda tensors, x: run(tensors, {"x": x})[0], params


def derived(net):
    """The outputs, a gradient, and a product with the Hessian."""
    run, params = program(net)

    def loss(params):
        return jnp.sum(jnp.sin(run(params, X)))

    ones = jax.tree.map(jnp.ones_like, params)
    gradient, product = jax.jit(lambda p: jax.jvp(jax.grad(lambda q: loss(q)), (p,), (ones,)))(params)
    return jax.jit(run)(params, X), gradient, product


def calls(net):
    """Of a graph that is traced: how many steps it has, how many of them are parts, and how many of these differ."""
    run, params = program(net)
    eqns = jax.make_jaxpr(run)(params, X).jaxpr.eqns
    parts = [e.params["jaxpr"] for e in eqns if e.params.get("name") == "part_of_program"]
    return len(eqns), len(parts), len({id(part.jaxpr) for part in parts})


@pytest.mark.parametrize("made", [chain, residual, branches, shapes, sequences])
def test_parts_compute_what_the_whole_computes(made, monkeypatch):
    net = made(12)
    whole = derived(net)
    assert calls(net)[1] == 0
    monkeypatch.setattr(_parts, "LARGE", 10)
    monkeypatch.setattr(_parts, "SIZE", 8)
    assert (calls(net)[1] > 1) == (made is not sequences)
    # the same operators in another order of sums
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), derived(net), whole)


def test_what_does_not_run_says_what_it_says_of_the_whole(monkeypatch):
    net = chain(12)
    net.graph.node[20].input[0] = "nowhere"
    monkeypatch.setattr(_parts, "LARGE", 10)
    run, params = program(net)
    with pytest.raises(ValueError, match="uses 'nowhere' before it is computed"):
        jax.eval_shape(run, params, X)


def test_arrays_that_are_known_are_not_traced(monkeypatch):
    """Operators may look at them: what is not zero has no shape before it is known."""
    monkeypatch.setattr(_parts, "LARGE", 2)
    run, _ = program(model([("Relu", ["x"], "r"), ("NonZero", ["r"], "out")], {"w": np.float32([1])}))
    np.testing.assert_array_equal(run({}, jnp.asarray(X)), np.nonzero(np.maximum(X, 0)))


def test_periods():
    assert _parts.period(read(chain(40)).graph.nodes) == 3
    assert _parts.period(read(residual(40)).graph.nodes) == 4


@pytest.mark.parametrize(("made", "layers"), [(chain, 1667), (residual, 1250), (branches, 2500)])
def test_graphs_of_five_thousand_nodes_are_a_handful_of_programs(made, layers):
    net = made(layers)
    assert len(net.graph.node) >= 5000
    steps, parts, differ = calls(net)
    assert parts >= 5000 // 70
    assert differ <= 4
    assert steps <= parts + 20


def test_a_network_of_five_thousand_nodes_is_mapped_and_differentiated_once_for_all_parts():
    network = Network.from_onnx(residual(1250), X[0])

    def loss(network):
        return jnp.sum(jax.vmap(network)(X))

    text = jax.jit(jax.grad(loss)).lower(network).as_text()
    assert text.count("\n") < 20_000  # layer by layer there would be more than a hundred thousand
