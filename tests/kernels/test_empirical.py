"""The empirical tangent kernel of all kinds of networks against the contraction of their full Jacobians."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from corollary import Network
from corollary.kernels import empirical_ntk, empirical_ntk_matvec
from corollary.kernels._tangents import plan

# float64 sums of a few thousand products of moderate numbers
TOLERANCE = 1e-10


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def split(leaves):
    """Which leaves are differentiated."""
    return [i for i, a in enumerate(leaves) if jnp.issubdtype(jnp.asarray(a).dtype, jnp.floating)]


def of(apply, params):
    """The network of a function on batches."""
    return Network(apply, params, batched=True)


def brute(apply, params, x1, x2):
    """All pairs of outputs from the full Jacobians by the floating-point leaves, which reverse mode gives."""
    leaves, tree = jax.tree.flatten(params)
    at = split(leaves)

    def run(chosen, x):
        new = list(leaves)
        for i, a in zip(at, chosen, strict=True):
            new[i] = a
        return apply(tree.unflatten(new), x)

    def jacobian(x):
        n = jax.tree.leaves(x)[0].shape[0]
        found = jax.jacrev(run)([jnp.asarray(leaves[i]) for i in at], x)
        return jnp.concatenate([j.reshape(n, -1, np.size(leaves[i])) for i, j in zip(at, found, strict=True)], -1)

    return jnp.einsum("ikp,jlp->ijkl", jacobian(x1), jacobian(x2))


def agrees(apply, params, x1, x2, every=False):
    """All pairs of outputs of two sets in one block, and the trace of one set in several; `every`: all combinations."""
    n = jax.tree.leaves(x1)[0].shape[0]
    both = jax.tree.map(lambda a, b: np.concatenate([a, b]), x1, x2)
    reference = np.asarray(jax.jit(lambda p, x: brute(apply, p, x, x))(params, both))
    size = np.abs(reference).max()
    assert size > 0
    options = [(two, trace, batch) for two in (True, False) for trace in (True, False) for batch in (None, 2)]
    for two, trace, batch in options if every else [(True, False, None), (False, True, 2)]:
        found = empirical_ntk(of(apply, params), x1, x2 if two else None, trace=trace, batch_size=batch)
        expected = reference[:n, n:] if two else reference[:n, :n]
        expected = np.einsum("ijkk->ij", expected) if trace else expected
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * size)


def matched(apply, params, x):
    """How many weights are contracted from their factors, and how many leaves are differentiated as a whole."""
    leaves, tree = jax.tree.flatten(params)
    leaves = [jnp.asarray(a) for a in leaves]
    found = plan(
        lambda ls, xs: apply(tree.unflatten(ls), xs[0][None])[0], leaves, [x[0]], split(leaves), len(x), None, True
    )
    return len(found.weights), len(found.whole)


def standardise(h):
    return (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)


# --- networks: name -> (apply, params, x1, x2, matched weights, leaves as a whole)


def dense():
    params = [(normal(i, a, b), normal(9 + i, b)) for i, (a, b) in enumerate([(4, 6), (6, 5), (5, 3)])]

    def apply(params, x):
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w / w.shape[0] ** 0.5 + 0.1 * b)
        w, b = params[-1]
        return x @ w + b

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 6, 0


def transposed_weights():
    params = {"w": normal(0, 6, 4), "v": normal(1, 2, 3, 6), "c": normal(2)}

    def apply(params, x):
        h = jnp.tanh(-(x @ params["w"].T) / 2.0)
        return jnp.einsum("ni,abi->nab", h, params["v"]) - params["c"]

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 3, 0


def convolution(**options):
    def make():
        channels = 4
        groups = options.get("feature_group_count", 1)
        params = {
            "first": normal(0, 3, 3, 2, channels),
            "b": normal(1, channels),
            "second": normal(2, 3, 2, channels // groups, 6),
            "last": normal(3, 6, 2),
        }
        numbers = ("NHWC", "HWIO", "NHWC")

        def apply(params, x):
            x = lax.conv_general_dilated(x, params["first"], (1, 1), "SAME", dimension_numbers=numbers)
            x = jnp.tanh(x + params["b"])
            given = {"window_strides": (1, 1), "padding": "VALID"} | options
            x = lax.conv_general_dilated(x, params["second"], dimension_numbers=numbers, **given)
            return jnp.tanh(x).mean((1, 2)) @ params["last"]

        return apply, params, normal(4, 4, 6, 5, 2), normal(5, 3, 6, 5, 2), 4, 0

    return make


def convolution_other_layout():
    params = {"w": normal(0, 5, 2, 3), "v": normal(1, 20, 2)}

    def apply(params, x):
        x = lax.conv_general_dilated(x, params["w"], (2,), [(2, 1)], lhs_dilation=(2,), rhs_dilation=(2,))
        return jax.nn.relu(x).reshape(len(x), -1)[:, :20] @ params["v"]

    return apply, params, normal(2, 4, 2, 5), normal(3, 3, 2, 5), 2, 0


def residual():
    params = {"in": normal(0, 3, 5), "blocks": [(normal(i, 5, 5), normal(5 + i, 5)) for i in range(3)]}

    def apply(params, x):
        h = x @ params["in"]
        for w, b in params["blocks"]:
            h = h + 0.5 * jax.nn.gelu(h @ w + b)
        return h.sum(-1)

    return apply, params, normal(1, 5, 3), normal(2, 4, 3), 7, 0


def layer_normalised():
    params = {"w": normal(0, 3, 6), "g": normal(1, 6), "c": normal(2, 6), "v": normal(3, 6, 2)}

    def apply(params, x):
        return jnp.tanh(standardise(x @ params["w"]) * params["g"] + params["c"]) @ params["v"]

    return apply, params, normal(1, 5, 3), normal(2, 4, 3), 3, 1


def batch_normalised():
    params = {"w": normal(0, 3, 6), "g": normal(1, 6), "c": normal(2, 6), "v": normal(3, 6, 2)}
    mean, var = normal(4, 6), normal(5, 6) ** 2 + 0.5

    def apply(params, x):
        h = (x @ params["w"] - mean) / jnp.sqrt(var + 1e-5)
        return jax.nn.relu(h * params["g"] + params["c"]) @ params["v"]

    return apply, params, normal(1, 5, 3), normal(2, 4, 3), 3, 1


def recurrent():
    params = {"w": normal(0, 5, 5) / 3, "u": normal(1, 2, 5), "b": normal(2, 5), "v": normal(3, 5, 2)}

    def apply(params, x):
        def step(h, x):
            return jnp.tanh(h @ params["w"] + x @ params["u"] + params["b"]), None

        h, _ = lax.scan(step, jnp.zeros((len(x), 5)), x.swapaxes(0, 1))
        return h @ params["v"]

    return apply, params, normal(1, 4, 6, 2), normal(2, 3, 6, 2), 1, 3


def unrolled_recurrent():
    _, params, x1, x2, _, _ = recurrent()

    def unrolled(params, x):
        h = jnp.zeros((len(x), 5))
        for t in range(x.shape[1]):
            h = jnp.tanh(h @ params["w"] + x[:, t] @ params["u"] + params["b"])
        return h @ params["v"]

    return unrolled, params, x1, x2, 4, 0


def attention():
    d, heads = 6, 2
    params = {
        "table": normal(0, 7, d),
        "place": normal(1, 5, d),
        **{name: normal(i, d, heads, d // heads) for i, name in enumerate(("q", "k", "v"))},
        "o": normal(5, heads, d // heads, d),
        "g": normal(6, d),
        "up": normal(7, d, 8),
        "down": normal(8, 8, d),
    }

    def apply(params, tokens):
        h = params["table"][tokens] + params["place"]
        z = standardise(h) * params["g"]
        q, k, v = (jnp.einsum("ntd,dhe->nthe", z, params[name]) for name in ("q", "k", "v"))
        scores = jnp.einsum("nthe,nshe->nhts", q, k) / np.sqrt(d // heads)
        scores = jnp.where(np.tril(np.ones((5, 5), bool)), scores, -jnp.inf)
        mixed = jnp.einsum("nhts,nshe->nthe", jax.nn.softmax(scores), v)
        h = h + jnp.einsum("nthe,hed->ntd", mixed, params["o"])
        h = h + jax.nn.silu(standardise(h) @ params["up"]) @ params["down"]
        return h.mean(1) @ params["table"].T  # the table is tied to the read-out

    rng = np.random.default_rng(0)
    return apply, params, rng.integers(0, 7, (4, 5)), rng.integers(0, 7, (3, 5)), 8, 1


def tied():
    params = {"w": normal(0, 4, 4), "b": normal(1, 4)}

    def apply(params, x):
        h = jnp.tanh(x @ params["w"] + params["b"])
        h = jnp.tanh(h @ params["w"].T + params["b"])
        return h @ (2.0 * params["w"])

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 2, 0


def tied_positions():
    params = {"w": normal(0, 4, 4)}

    def apply(params, x):
        h = jnp.tanh(x @ params["w"])
        return jnp.tanh(h @ params["w"].T).sum(1)

    return apply, params, normal(1, 5, 6, 4), normal(2, 3, 6, 4), 1, 0


def embedding():
    params = {"table": normal(0, 30, 3), "w": normal(1, 3, 2)}

    def apply(params, tokens):
        return jnp.tanh(jnp.take(params["table"] * 0.5, tokens, axis=0, mode="clip").sum(1)) @ params["w"]

    rng = np.random.default_rng(0)
    # -1 counts from the end, and what is too large is clipped
    return apply, params, rng.integers(-1, 33, (4, 6)), rng.integers(0, 30, (3, 6)), 2, 0


def single_lookup():
    params = {"table": normal(0, 3, 9), "w": normal(1, 3, 2)}

    def apply(params, tokens):
        return jax.vmap(lambda t: jnp.tanh(params["table"][:, t]) @ params["w"])(tokens)

    return apply, params, np.array([1, 4, 8, 1]), np.array([4, -1, 2]), 2, 0


def weight_normalised():
    params = {"direction": normal(0, 4, 5), "length": normal(1, 5), "v": normal(2, 5, 2)}

    def apply(params, x):
        w = params["length"] * params["direction"] / jnp.linalg.norm(params["direction"], axis=0)
        return jnp.tanh(x @ w) @ params["v"]

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 1, 2


def stacked_layers():
    params = {"layers": normal(0, 3, 4, 4), "two": normal(1, 4, 6)}

    def apply(params, x):
        for i in range(3):
            x = x + jnp.tanh(x @ params["layers"][i])
        left, right = jnp.split(params["two"], 2, axis=1)
        return jnp.tanh(x @ left) * (x @ right)

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 5, 0


def overlapping_slices():
    params = {"w": normal(0, 5, 4)}

    def apply(params, x):
        return jnp.tanh(x @ params["w"][:4]) @ params["w"][1:].T

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 0, 1


def reshaped_weight():
    params = {"w": normal(0, 24), "v": normal(1, 2, 3, 2)}

    def apply(params, x):
        w = params["w"].reshape(4, 6)
        h = jnp.tanh(x @ w) + jnp.sin(x @ w)
        return jnp.einsum("ngd,gde->ne", h.reshape(-1, 2, 3), params["v"])

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 2, 0


def grouped_product():
    params = {"w": normal(0, 3, 2, 4), "v": normal(1, 3, 2, 4)}

    def apply(params, x):
        h = jnp.tanh(jnp.einsum("ntgi,gij->ntgj", x, params["w"]))
        return jnp.einsum("ntgj,gij->ni", h, params["v"])

    return apply, params, normal(1, 4, 3, 3, 2), normal(2, 3, 3, 3, 2), 2, 0


def product_of_weights():
    params = {"a": normal(0, 4, 3), "b": normal(1, 3, 2)}
    return (lambda p, x: x @ (p["a"] @ p["b"])), params, normal(1, 5, 4), normal(2, 3, 4), 0, 2


def stopped():
    params = {"w": normal(0, 4, 3), "b": normal(1, 3)}

    def apply(params, x):
        return jnp.tanh(x @ params["w"]) * (x @ lax.stop_gradient(params["w"])) + params["b"]

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 1, 1


def scanned_layers():
    params = {"layers": normal(0, 3, 4, 4), "v": normal(1, 4)}

    def apply(params, x):
        x, _ = lax.scan(jax.checkpoint(lambda h, w: (jnp.tanh(h @ w), None)), x, params["layers"])
        return x @ params["v"]

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 4, 0


def branching():
    params = {"a": normal(0, 4, 3), "b": normal(1, 4, 3)}

    def apply(params, x):
        return jax.vmap(lambda z: lax.cond(z[0] > 0, lambda: z @ params["a"], lambda: jnp.sin(z @ params["b"])))(x)

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 0, 2


def rematerialised():
    params = {"w": normal(0, 4, 5), "b": normal(1, 5), "v": normal(2, 5, 2)}

    @jax.jit
    @jax.checkpoint
    def hidden(params, x):
        return jax.nn.silu(x @ params["w"] + params["b"])

    return (lambda p, x: hidden(p, x) @ p["v"]), params, normal(1, 5, 4), normal(2, 3, 4), 3, 0


def own_rule():
    """A custom derivative that is not the derivative of the body: it must be respected."""

    @jax.custom_vjp
    def layer(w, x):
        return jnp.round(x @ w)

    layer.defvjp(lambda w, x: (jnp.round(x @ w), (w, x)), lambda saved, g: (saved[1].T @ g, g @ saved[0].T))
    params = {"w": normal(0, 4, 5), "v": normal(2, 4, 4)}
    return (lambda p, x: layer(p["w"], jnp.tanh(x @ p["v"]))), params, normal(1, 5, 4), normal(2, 3, 4), 1, 1


def output_is_a_parameter():
    params = {"b": normal(0, 3), "w": normal(1, 4, 3)}

    def apply(params, x):
        return jnp.concatenate([jnp.broadcast_to(params["b"], (len(x), 3)), x @ params["w"]], 1)

    return apply, params, normal(1, 5, 4), normal(2, 3, 4), 1, 1


def other_leaves():
    """Integers among the parameters, a parameter that is not used, one used by itself, and several inputs."""
    params = {"w": normal(0, 4, 3), "order": np.array([2, 0, 1]), "unused": normal(1, 7), "gain": 1.5}

    def apply(params, x):
        return params["gain"] * jnp.tanh(x["a"] @ params["w"])[:, params["order"]] + x["b"][:, None]

    x1, x2 = ({"a": normal(n, n, 4), "b": normal(n, n)} for n in (5, 3))
    return apply, params, x1, x2, None, None


NETWORKS = [
    dense,
    transposed_weights,
    convolution(),
    convolution(window_strides=(2, 1), padding=[(1, 2), (0, 1)]),
    convolution(rhs_dilation=(2, 3), padding="SAME"),
    convolution(feature_group_count=2, padding="SAME"),
    convolution(lhs_dilation=(2, 2), padding=[(0, 0), (-1, 3)]),
    convolution_other_layout,
    residual,
    layer_normalised,
    batch_normalised,
    recurrent,
    unrolled_recurrent,
    attention,
    tied,
    tied_positions,
    embedding,
    single_lookup,
    weight_normalised,
    stacked_layers,
    overlapping_slices,
    reshaped_weight,
    grouped_product,
    product_of_weights,
    stopped,
    scanned_layers,
    branching,
    rematerialised,
    own_rule,
    output_is_a_parameter,
    other_leaves,
]


@pytest.mark.parametrize("make", NETWORKS, ids=lambda m: getattr(m, "__qualname__", "").split(".")[0])
def test_agrees_with_the_full_jacobian(make):
    apply, params, x1, x2, weights, whole = make()
    agrees(apply, params, x1, x2, every=make is dense)
    if weights is not None:
        assert matched(apply, params, jnp.asarray(x1)) == (weights, whole)


def test_outside_of_the_table():
    """What a lookup fills in has no derivative."""
    params = {"table": normal(0, 5, 3)}

    def apply(params, tokens):
        return jnp.take(params["table"], tokens, axis=0, mode="fill", fill_value=0.0).sum((1, 2))

    tokens = np.array([[0, 7], [1, 1], [9, 9]])
    expected = np.array([[3.0, 0, 0], [0, 12, 0], [0, 0, 0]])  # three entries per row, twice in the second example
    np.testing.assert_allclose(empirical_ntk(of(apply, params), tokens), expected, rtol=0, atol=0)


def test_forward_mode_where_a_loop_has_no_known_end():
    params = {"w": normal(0, 3, 3) / 4, "b": normal(1, 3)}

    def newton(params, x, rounds):
        body = lambda _, h: jnp.tanh(h @ params["w"] + params["b"] + x)  # noqa: E731
        return lax.fori_loop(0, rounds, body, jnp.zeros_like(x))

    def until(params, x):
        return newton(params, x, jnp.where(x[0, 0] < jnp.inf, 6, 7))

    x = normal(2, 4, 3)
    for trace in (True, False):
        found = empirical_ntk(of(until, params), x, trace=trace, batch_size=2)
        expected = empirical_ntk(of(lambda p, x: newton(p, x, 6), params), x, trace=trace)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_no_dependence_on_the_parameters():
    found = empirical_ntk(of(lambda p, x: x * lax.stop_gradient(p), 2.0), normal(0, 4, 2))
    np.testing.assert_array_equal(found, np.zeros((4, 4)))
    found = empirical_ntk(of(lambda p, x: x, {"unused": normal(0, 3)}), normal(0, 4, 2), trace=False)
    np.testing.assert_array_equal(found, np.zeros((4, 4, 2, 2)))


def test_few_outputs_at_a_time(monkeypatch):
    """With too little workspace for all outputs of sixteen examples they are taken in turn."""
    from corollary.kernels import _blocks

    apply, params, _, _, _, _ = dense()
    x = normal(1, 20, 4)
    whole = empirical_ntk(of(apply, params), x)
    monkeypatch.setattr(_blocks, "workspace", lambda: 20_000)
    seen = []
    original = _blocks.block_sizes
    monkeypatch.setattr(_blocks, "block_sizes", lambda *a: seen.append(original(*a)) or seen[-1])
    np.testing.assert_allclose(empirical_ntk(of(lambda p, x: apply(p, x), params), x), whole, rtol=1e-12)
    assert seen[0].examples < 20
    assert seen[0].outputs < 3


def test_tiles_of_features_that_are_held(monkeypatch):
    from corollary.kernels import _blocks

    apply, params, x, y, _, _ = attention()
    options = [(right, trace) for right in (None, y) for trace in (True, False)]
    expected = [empirical_ntk(of(apply, params), x, right, trace=trace) for right, trace in options]
    monkeypatch.setattr(_blocks, "BLOCK", 3)
    again = [empirical_ntk(of(lambda p, x: apply(p, x), params), x, right, trace=trace) for right, trace in options]
    for a, b in zip(expected, again, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(a).max())


def test_equinox_module():
    keys = jax.random.split(jax.random.key(0), 4)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 3, 3, stride=2, key=keys[0]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.LayerNorm(27),
            eqx.nn.Linear(27, 2, key=keys[1]),
        ]
    )
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def apply(params, x):
        return jax.vmap(eqx.combine(params, static))(x)

    x = normal(0, 4, 1, 8, 8)
    agrees(apply, params, x, normal(1, 3, 1, 8, 8))
    np.testing.assert_allclose(empirical_ntk(model, x), empirical_ntk(of(apply, params), x), rtol=1e-12)
    last = eqx.tree_at(lambda m: m[4].bias, jax.tree.map(lambda _: False, model), True)
    # by the two biases of the last layer alone
    np.testing.assert_allclose(empirical_ntk(model, x, trainable=last), np.full((4, 4), 2.0), rtol=1e-12)


def test_callable_without_hash():
    class Unhashable:
        __hash__ = None

        def __call__(self, params, x):
            return x @ params

    x = normal(0, 4, 3)
    np.testing.assert_allclose(empirical_ntk(of(Unhashable(), normal(1, 3, 2)), x), 2 * x @ x.T, rtol=1e-12)


def test_transformations_and_precision():
    apply, params, x, _, _, _ = dense()
    expected = empirical_ntk(of(apply, params), x)
    for batch in (None, 2):
        jitted = jax.jit(lambda p, x, b=batch: empirical_ntk(of(apply, p), x, batch_size=b))
        np.testing.assert_allclose(jitted(params, x), expected, rtol=1e-12)
        # as constants of a program that is being traced
        inside = jax.jit(lambda s, b=batch: s * empirical_ntk(of(apply, params), x, batch_size=b))(1.0)
        np.testing.assert_allclose(inside, expected, rtol=1e-12)
    several = jax.jit(jax.vmap(lambda s: empirical_ntk(of(apply, jax.tree.map(lambda a: s * a, params)), x)))(
        jnp.array([1.0, 2.0])
    )
    np.testing.assert_allclose(several[0], expected, rtol=1e-12)

    def size(scale, batch):
        return empirical_ntk(of(apply, jax.tree.map(lambda a: scale * a, params)), x, batch_size=batch).sum()

    slope = [jax.jit(jax.grad(size), static_argnums=1)(1.0, batch) for batch in (None, 2)]
    once = jax.jit(size, static_argnums=1)
    central = (once(1 + 1e-5, None) - once(1 - 1e-5, None)) / 2e-5
    np.testing.assert_allclose(slope, [central] * 2, rtol=1e-7)  # h² of the difference quotient, and rounding over h
    for dtype, tolerance in ((jnp.float32, 1e-5), (jnp.bfloat16, 0.1)):
        narrow = jax.tree.map(lambda a, d=dtype: jnp.asarray(a, d), (params, x))
        found = empirical_ntk(of(apply, narrow[0]), narrow[1])
        assert found.dtype == dtype
        np.testing.assert_allclose(np.asarray(found, float), expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("make", [dense, own_rule, recurrent], ids=lambda m: m.__name__)
def test_matvec(make):
    apply, params, x1, x2, _, _ = make()
    full = np.asarray(jax.jit(lambda p, a, b: brute(apply, p, a, b))(params, x1, x2))
    n, m, _, k = full.shape
    v = normal(0, m, k)
    for batch in (None, 2):
        size = {} if batch is None else {"batch_size": batch}
        product = empirical_ntk_matvec(of(apply, params), x1, x2, trace=False, **size)
        np.testing.assert_allclose(product(v), np.einsum("ijkl,jl->ik", full, v), rtol=1e-10, atol=1e-9)
    traced = empirical_ntk_matvec(of(apply, params), x1, x2, batch_size=2)
    np.testing.assert_allclose(traced(v[:, 0]), np.einsum("ijkk,j->i", full, v[:, 0]), rtol=1e-10, atol=1e-9)
    own = empirical_ntk_matvec(of(apply, params), x1, batch_size=3)
    square = empirical_ntk(of(apply, params), x1)
    np.testing.assert_allclose(jax.jit(jax.vmap(own))(np.eye(n)), square, rtol=1e-10, atol=1e-9)


SPREAD = """
import jax, numpy as np
from corollary import Network
from corollary.kernels import empirical_ntk
import jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
params = [rng.normal(size=(4, 6)), rng.normal(size=(6, 2))]
def apply(params, x):
    return jnp.tanh(x @ params[0]) @ params[1]
assert len(jax.devices()) == 4
for n, batch in ((8, None), (7, None), (12, 2), (3, None)):
    x, y = rng.normal(size=(n, 4)), rng.normal(size=(5, 4))
    for right in (None, y):
        network = Network(apply, params, batched=True)
        alone = empirical_ntk(network, x, right, devices=jax.devices()[:1])
        spread = empirical_ntk(network, x, right, batch_size=batch)
        np.testing.assert_allclose(spread, alone, rtol=1e-12)
        if n % 4 == 0:
            assert len(spread.sharding.device_set) == 4, spread.sharding
            assert spread.addressable_shards[0].data.shape == (n // 4, alone.shape[1])
print("spread")
"""


def test_rows_are_spread_over_devices(four_devices):
    run = subprocess.run([sys.executable, "-c", SPREAD], env=four_devices, capture_output=True, text=True, timeout=240)
    assert run.stdout.strip() == "spread", run.stderr


def linear(params, x):
    return x @ params


BAD = [
    (dict(network=3), TypeError, "network must be callable with one example, got int"),
    (dict(params=np.ones((3, 2)) * 1j), ValueError, "network must have at least one floating-point array"),
    (dict(params=np.ones((3, 2), int)), ValueError, "network must have at least one floating-point array"),
    (dict(params=np.full((3, 2), np.nan)), ValueError, "network.params must be finite"),
    (dict(x1=np.array([[1.0, np.inf, 0]])), ValueError, "x1 must be finite"),
    (dict(x2=np.array([[1.0, np.inf, 0]])), ValueError, "x2 must be finite"),
    (dict(x1=1.0), ValueError, "x1 must hold arrays with the examples along one common first axis, got shapes ()"),
    (dict(x1=[]), ValueError, "x1 must hold at least one array."),
    (dict(x1=np.ones((0, 3))), ValueError, "x1 must not be empty, got shapes (0, 3)"),
    (dict(x1=np.ones((4, 5))), ValueError, "network(x) failed for one example of shape (5,)"),
    (dict(x2=np.ones((2, 4))), ValueError, "x2 must have examples like those of x1"),
    (dict(trace="yes"), TypeError, "trace must be True or False, got 'yes'."),
    (dict(batch_size=0), ValueError, "batch_size must be at least 1, got 0."),
    (dict(batch_size=2.0), TypeError, "batch_size must be an integer, got 2.0."),
    (dict(apply=lambda p, x: (x @ p,) * 2), TypeError, "network must return one real floating-point array, got tuple."),
    (dict(apply=lambda p, x: (x @ p).astype(int)), TypeError, "network must return one real floating-point array"),
    (dict(apply=lambda p, x: (x @ p)[:, :0]), ValueError, "network must return at least one number, got shape (0,)."),
    (dict(apply=lambda p, x: jnp.log(x @ p - 1e3)), ValueError, "network must return finite numbers"),
    (dict(apply=lambda p, x: x @ p - (x @ p).mean(0)), ValueError, "changes with the other examples in its batch"),
]


@pytest.mark.parametrize(("change", "kind", "sentence"), BAD, ids=[str(i) for i in range(len(BAD))])
@pytest.mark.parametrize("function", [empirical_ntk, empirical_ntk_matvec])
def test_bad_input(function, change, kind, sentence):
    given = dict(apply=linear, params=normal(0, 3, 2), x1=normal(1, 4, 3)) | change
    network = of(given.pop("apply"), given.pop("params"))
    with pytest.raises(kind) as error:
        function(**(dict(network=network) | given))
    assert sentence in str(error.value)


def test_passes_of_a_few_examples_whose_features_are_held(monkeypatch):
    """What a pass makes is large, what is kept of it small: the network is run once for every example."""
    from corollary.kernels import _blocks

    x = normal(1, 20, 4)

    def apply(p, x):
        return jnp.tanh(jnp.tanh(x @ p["w"].T)[:, :, None] * jnp.arange(1.0, 200.0)).sum((1, 2))

    params = {"w": normal(0, 3, 4)}
    whole = empirical_ntk(of(apply, params), x)
    monkeypatch.setattr(_blocks, "workspace", lambda: 60_000)
    seen = []
    original = _blocks.block_sizes
    monkeypatch.setattr(_blocks, "block_sizes", lambda *a: seen.append(original(*a)) or seen[-1])
    np.testing.assert_allclose(empirical_ntk(of(lambda p, x: apply(p, x), params), x), whole, rtol=1e-12)
    assert seen[0].held
    assert seen[0].passes < 20


def test_the_leaner_form_where_features_do_not_fit(monkeypatch):
    """Many positions ask for Jacobians, which are large here; factors of all examples fit."""
    from corollary.kernels import _blocks

    x, params = normal(1, 12, 8, 30), {"w": normal(0, 30, 30)}

    def apply(p, x):
        return jnp.sum(jnp.tanh(x @ p["w"]) ** 2, axis=(1, 2))

    whole = empirical_ntk(of(apply, params), x)
    monkeypatch.setattr(_blocks, "workspace", lambda: 110_000)
    seen = []
    original = _blocks.chosen
    monkeypatch.setattr(_blocks, "chosen", lambda *a: seen.append(original(*a)) or seen[-1])
    np.testing.assert_allclose(empirical_ntk(of(lambda p, x: apply(p, x), params), x), whole, rtol=1e-12)
    tangents, blocks = seen[0]
    assert blocks.held
    assert tangents.weights[0].gram
