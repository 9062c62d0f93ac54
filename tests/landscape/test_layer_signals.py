"""Signals of the layers found in traced networks, against networks written out by hand and reductions in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import BatchLoss, Network, nets
from corollary.landscape import layer_signals, signal_propagation

KEY = jax.random.key(0)


def _one(out, y):
    return 0.5 * jnp.sum((out - y) ** 2)


def _signals(apply, params, x, y, loss="squared", **kwargs):
    """Of a function on batches."""
    return layer_signals(Network(apply, params, batched=True), loss, (x, y), **kwargs)


def _check(found, by_hand, params, x, y, weights, unit_axes):
    """`by_hand(params, x, shifts)`: output and pre-activations of one example, a shift added to each of the latter.

    `weights` takes the weights out of `params`; `unit_axes` count units in the pre-activations of one example.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    shapes = jax.eval_shape(lambda a: by_hand(params, a, [0.0] * len(unit_axes))[1], x[0])
    zero = [np.zeros(s.shape, s.dtype) for s in shapes]

    def example_loss(params, shifts, a, b):
        out, signals = by_hand(params, a, shifts)
        return _one(out, b), signals

    each = jax.vmap(jax.grad(example_loss, argnums=(0, 1), has_aux=True), (None, None, 0, 0))
    (by_params, deltas), signals = eqx.filter_jit(each)(params, zero, x, y)
    assert len(found) == len(zero)
    for layer, z, delta, axis, w in zip(found, signals, deltas, unit_axes, weights(by_params), strict=True):
        z, delta = np.asarray(z), np.asarray(delta)
        assert layer.shape == z.shape[1:]
        np.testing.assert_allclose(layer.forward, np.mean(z**2), rtol=1e-11)
        np.testing.assert_allclose(layer.backward, np.sum(delta**2) / len(x), rtol=1e-11)
        np.testing.assert_allclose(layer.gradient, np.linalg.norm(np.mean(w, 0)), rtol=1e-11)
        rows = np.moveaxis(z, 1 + axis, -1).reshape(-1, z.shape[1 + axis])
        assert layer.units == rows.shape[1]
        spectrum = np.linalg.eigvalsh(np.atleast_2d(np.cov(rows.T, bias=True)))
        np.testing.assert_allclose(layer.rank, spectrum.sum() ** 2 / np.sum(spectrum**2), rtol=1e-10)
        np.testing.assert_allclose(layer.common, np.sum(rows.mean(0) ** 2) / np.mean(np.sum(rows**2, 1)), rtol=1e-10)


# --- agreement


@pytest.mark.parametrize("batch_size", [4, 7])
def test_agrees_with_signal_propagation(batch_size):
    network = nets.MLP((3, 5, 4, 2), nets.tanh, key=KEY)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(14, 3)), rng.normal(size=(14, 2))
    found = layer_signals(network, "squared", (x, y), batch_size=batch_size)
    assert [layer.name for layer in found] == ["layers.0.weight", "layers.1.weight", "layers.2.weight"]
    # the same network cut before each activation: pre-activations are then what a function passes on
    linear = [lambda v, w=layer.weight, b=layer.bias: w @ v + b for layer in network.layers]
    reference = signal_propagation([linear[0], jnp.tanh, linear[1], jnp.tanh, linear[2]], "squared", (x, y))
    np.testing.assert_allclose([layer.forward for layer in found], reference.forward[1::2], rtol=1e-12)
    np.testing.assert_allclose([layer.backward for layer in found], reference.backward[1::2], rtol=1e-12)
    assert [layer.dead for layer in found] == [0, 0, None]
    assert [layer.saturated for layer in found] == [0, 0, None]


def test_weight_gradients_agree_with_signal_propagation():
    network = nets.DeepLinearNetwork((3, 4, 3), key=KEY)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(9, 3))
    found = layer_signals(network, "squared", (x, y))
    reference = signal_propagation(network, "squared", (x, y))
    np.testing.assert_allclose([layer.gradient for layer in found], reference.gradient, rtol=1e-12)
    np.testing.assert_allclose([layer.forward for layer in found], reference.forward[1:], rtol=1e-12)
    np.testing.assert_allclose([layer.backward for layer in found], reference.backward[1:], rtol=1e-12)


def test_convolutional_network_by_hand():
    a, b, c = jax.random.split(KEY, 3)
    layers = [
        eqx.nn.Conv2d(2, 4, 3, stride=2, padding=1, key=a),
        eqx.nn.Conv2d(4, 6, 3, groups=2, use_bias=False, key=b),
        eqx.nn.Linear(6 * 4, 3, key=c),
    ]

    def network(layers, x):
        h = jax.nn.relu(layers[0](x))
        h = eqx.nn.AvgPool2d(2, 1)(jax.nn.gelu(layers[1](h)))
        return layers[2](h.reshape(-1))

    def by_hand(layers, x, shifts):
        def convolve(x, w, stride, pad):
            return jax.lax.conv_general_dilated(x[None], w, (stride, stride), [(pad, pad)] * 2)[0]

        first = convolve(x, layers[0].weight, 2, 1) + layers[0].bias + shifts[0]
        h = jnp.maximum(first, 0)
        # two groups are two convolutions side by side
        halves = [convolve(h[2 * g : 2 * g + 2], layers[1].weight[3 * g : 3 * g + 3], 1, 0) for g in (0, 1)]
        second = jnp.concatenate(halves) + shifts[1]
        h = jax.nn.gelu(second)
        h = (h[:, 1:, 1:] + h[:, 1:, :-1] + h[:, :-1, 1:] + h[:, :-1, :-1]) / 4
        third = layers[2].weight @ h.reshape(-1) + layers[2].bias + shifts[2]
        return third, [first, second, third]

    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(6, 2, 10, 10)), rng.normal(size=(6, 3))
    found = layer_signals(Network(network, layers), "squared", (x, y), batch_size=4)
    assert [layer.name for layer in found] == ["0.weight", "1.weight", "2.weight"]
    assert [layer.units for layer in found] == [4, 6, 3]
    _check(found, by_hand, layers, x, y, lambda p: [layer.weight for layer in p], (0, 0, 0))
    assert found[0].dead == found[1].dead == 0


def test_residual_network_with_stored_statistics_by_hand():
    k = iter(jax.random.split(KEY, 8))
    params = {
        "in": jax.random.normal(next(k), (5, 8)),
        "blocks": [
            {
                "w": jax.random.normal(next(k), (8, 8)) / 3,
                "scale": jnp.linspace(0.5, 2, 8),
                "v": jax.random.normal(next(k), (8, 8)) / 3,
            }
            for _ in range(2)
        ],
        "out": jax.random.normal(next(k), (2, 8)),
    }
    mean, variance = jnp.linspace(-1, 1, 8), jnp.linspace(1, 2, 8)

    def apply(params, x):
        h = x @ params["in"]
        for block in params["blocks"]:
            z = (h @ block["w"] - mean) / jnp.sqrt(variance + 1e-5) * block["scale"] + 0.1
            h = h + jnp.tanh(z) @ block["v"]
        return h @ params["out"].T / np.sqrt(8)

    def by_hand(params, x, shifts):
        shifts = iter(shifts)
        h = x @ params["in"] + next(shifts)
        seen = [h]
        for block in params["blocks"]:
            z = (h @ block["w"] - mean) / jnp.sqrt(variance + 1e-5) * block["scale"] + 0.1 + next(shifts)
            branch = jnp.tanh(z) @ block["v"] + next(shifts)
            seen += [z, branch]
            h = h + branch
        out = params["out"] @ h / np.sqrt(8) + next(shifts)
        return out, [*seen, out]

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(10, 5)), rng.normal(size=(10, 2))
    found = _signals(apply, params, x, y, batch_size=6)
    names = ["in", "blocks.0.w", "blocks.0.v", "blocks.1.w", "blocks.1.v", "out"]
    assert [layer.name for layer in found] == names

    def weights(p):
        return [p["in"], *(b[n] for b in p["blocks"] for n in "wv"), p["out"]]

    _check(found, by_hand, params, x, y, weights, (0,) * 6)
    # a sum with what passes by is no nonlinearity
    assert [layer.saturated is None for layer in found] == [True, False, True, False, True, True]


def test_sequence_positions_are_no_units():
    params = {"w": jax.random.normal(KEY, (3, 5)), "heads": jax.random.normal(KEY, (2, 5, 4))}

    def apply(params, x):
        h = jnp.tanh(x @ params["w"])
        return jnp.einsum("nti,hio->nhto", h, params["heads"]).sum((1, 2))

    def by_hand(params, x, shifts):
        z = x @ params["w"] + shifts[0]
        return jnp.sum(jnp.tanh(z) @ params["heads"], (0, 1)), [z]

    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(6, 7, 3)), rng.normal(size=(6, 4))
    found = _signals(apply, params, x, y)
    _check(found[:1], by_hand, params, x, y, lambda p: [p["w"]], (1,))
    assert (found[1].name, found[1].units) == ("heads", 8)
    assert sorted(found[1].shape) == [2, 4, 7]


def test_layers_inside_a_scan_are_seen_one_by_one():
    stack = nets.Stack(lambda k: nets.ResidualLayer(3, nets.tanh, key=k), 4, key=KEY)
    written_out = [jax.tree.map(lambda a, i=i: a[i], eqx.filter(stack.layers, eqx.is_array)) for i in range(4)]

    def apply(layers, x):
        for layer in layers:
            x = x + jnp.tanh(x @ layer.branch.weight.T + layer.branch.bias)
        return x

    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    found = layer_signals(stack, "squared", (x, y))
    reference = _signals(apply, written_out, x, y)
    assert [layer.name for layer in found] == [f"layers.branch.weight[{i}]" for i in range(4)]
    assert len(reference) == 4
    for a, b in zip(found, reference, strict=True):
        numbers = [[v for v in jax.tree.leaves(layer) if eqx.is_array(v)] for layer in (a, b)]
        assert len(numbers[0]) == 8
        np.testing.assert_allclose(*numbers, rtol=1e-11, atol=1e-14)


def test_a_weight_computed_from_others_goes_by_the_largest():
    params = {"g": jnp.array([1.0, 2.0]), "v": jax.random.normal(KEY, (3, 2))}

    def apply(params, x):
        return x @ (params["v"] / jnp.linalg.norm(params["v"], axis=0) * params["g"])

    x, y = np.random.default_rng(6).normal(size=(4, 3)), np.zeros((4, 2))
    (layer,) = _signals(apply, params, x, y)
    by_v = jax.jit(jax.grad(lambda p: jnp.mean(jnp.sum((apply(p, x) - y) ** 2, 1)) / 2))(params)["v"]
    assert layer.name == "v"
    np.testing.assert_allclose(layer.gradient, jnp.linalg.norm(by_v), rtol=1e-12)


# --- planted defects


def _mlp(activation):
    def apply(params, x):
        h = activation(x @ params["w"] + params["b"])
        return h @ params["v"]

    return apply


def _side_by_side(activations):
    """One hidden layer for each activation, all with the same parameters, in one program; their signals."""

    def apply(params, x):
        return sum(_mlp(phi)(p, x) for phi, p in zip(activations, params, strict=True))

    def measure(params):
        found = _signals(apply, [params] * len(activations), _X, _Y, batch_size=16)
        found = [layer for layer in found if layer.name.endswith("w")]
        assert [layer.name for layer in found] == [f"{i}.w" for i in range(len(activations))]
        return found

    return measure


def _parameters(width=8, scale=1.0):
    a, b = jax.random.split(KEY)
    w, v = jax.random.normal(a, (4, width)), jax.random.normal(b, (width, 2))
    return {"w": scale * w, "b": jnp.zeros(width), "v": v}


_X, _Y = np.random.default_rng(7).normal(size=(40, 4)), np.random.default_rng(8).normal(size=(40, 2))


def test_planted_dead_units():
    rectifiers = [jax.nn.relu, lambda z: jnp.maximum(z, 0), lambda z: jnp.where(z > 0, z, 0.0), jax.nn.relu6]
    # an affine map behind it, as of a normalisation, does not hide that a unit is off
    normalised = [lambda z, phi=phi: (phi(z) - 0.3) * 2 + 1 for phi in rectifiers]
    measure, params = _side_by_side([*rectifiers, *normalised]), _parameters()
    for healthy in measure(params):
        assert healthy.dead == healthy.saturated == healthy.without_gradient == 0
    params["b"] = params["b"].at[jnp.array([1, 6])].set(-100.0)
    for sick in measure(params):
        assert sick.dead == sick.without_gradient == 2 / 8
        assert sick.saturated == 0


def test_a_dead_channel_is_one_at_all_positions():
    params = {"w": jax.random.normal(KEY, (3, 3, 1, 4)), "b": jnp.array([0.0, -50.0, 0.0, 0.0])}

    def apply(params, x):
        z = jax.lax.conv_general_dilated(x, params["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(z + params["b"]).mean((1, 2))

    x = np.random.default_rng(9).normal(size=(5, 6, 6, 1))
    (layer,) = _signals(apply, params, x, np.zeros((5, 4)))
    assert (layer.units, layer.shape) == (4, (6, 6, 4))
    assert layer.dead == layer.without_gradient == 0.25


def test_planted_saturation():
    squashing = [jnp.tanh, jax.nn.sigmoid, jax.nn.hard_tanh, lambda z: 1 / (1 + jnp.exp(-z)), lambda z: jnp.tanh(z) + 3]
    measure, params = _side_by_side(squashing), _parameters(scale=0.3)
    assert [layer.saturated for layer in measure(params)] == [0] * 5
    params["b"] = params["b"].at[:4].set(jnp.array([30.0, -30.0, 12.0, -12.0]))
    assert [layer.saturated for layer in measure(params)] == [0.5] * 5
    assert [layer.dead for layer in measure(params)] == [0] * 5


def test_slopes_of_nonlinearities():
    nonlinear = [jax.nn.silu, jax.nn.elu, jax.nn.selu, jax.nn.softplus, jax.nn.mish, jax.nn.gelu, jax.nn.leaky_relu]
    params = _parameters(32)
    params["b"] = jnp.linspace(-12.0, 3.0, 32)
    for phi, found in zip(nonlinear, _side_by_side(nonlinear)(params), strict=True):
        slopes = jax.jit(jax.vmap(jax.vmap(jax.grad(phi))))(_X @ params["w"] + params["b"])
        expected = np.mean(np.mean(np.abs(slopes) < 1e-2, 0) >= 0.95)
        # far on the left some of them are zero to the last digit
        assert found.saturated + found.dead == pytest.approx(expected, abs=1e-12)
        assert found.dead == np.mean(np.all(np.asarray(phi(_X @ params["w"] + params["b"])) == 0, 0))


def test_own_derivative_rules():
    @jax.custom_vjp
    def straight(z):
        return jnp.sign(z)

    straight.defvjp(lambda z: (jnp.sign(z), z), lambda z, g: (g * (jnp.abs(z) < 1),))
    params = _parameters(scale=0.1)
    params["b"] = params["b"].at[:2].set(9.0)
    found = _signals(_mlp(straight), params, _X, _Y)[0]
    assert (found.saturated, found.dead, found.without_gradient) == (0.25, 0, 0.25)


def test_planted_rank_collapse():
    params = _parameters(50)
    healthy = _signals(_mlp(jnp.tanh), params, _X, _Y)[0]
    assert 2 < healthy.rank <= 4
    params["w"] = jnp.outer(jnp.arange(1.0, 5.0), params["v"][:, 0])
    params["b"] = jnp.ones(50)
    collapsed = _signals(_mlp(jnp.tanh), params, _X, _Y, batch_size=16)[0]
    np.testing.assert_allclose(collapsed.rank, 1, rtol=1e-10)
    # what does not depend on the input at all
    params["w"] = jnp.zeros((4, 50))
    constant = _signals(_mlp(jnp.tanh), params, _X, _Y, batch_size=16)[0]
    assert constant.rank == 0
    assert constant.common == pytest.approx(1, abs=1e-12)
    params["b"] = jnp.zeros(50)
    silent = _signals(_mlp(jnp.tanh), params, _X, _Y)[0]
    assert (silent.rank, silent.common, silent.forward, silent.dead) == (0, 1, 0, 1)


def test_no_gradient_behind_a_zero_layer():
    params = _parameters()
    params["v"] = jnp.zeros((8, 2))
    hidden, last = _signals(_mlp(jnp.tanh), params, _X, _Y)
    assert (hidden.without_gradient, hidden.dead, hidden.backward, hidden.gradient) == (1, 0, 0, 0)
    assert (last.without_gradient, last.rank) == (0, 0)


# --- the boundary


def test_many_units_have_no_rank():
    params = {"w": jnp.ones((1, 4097)), "v": jnp.ones((4097, 1))}
    wide, last = _signals(lambda p, x: x @ p["w"] @ p["v"], params, _X[:, :1], _Y[:, :1])
    assert wide.rank is None
    np.testing.assert_allclose(last.rank, 1)


def test_single_precision_labels_jit_and_trees():
    params = jax.tree.map(lambda a: a.astype(jnp.float32), _parameters())
    x = {"left": _X[:, :2].astype(np.float32), "right": _X[:, 2:].astype(np.float32)}
    labels = np.arange(40) % 2

    def apply(params, x):
        return _mlp(jnp.tanh)(params, jnp.concatenate([x["left"], x["right"]], 1))

    found = _signals(apply, params, x, labels, "cross_entropy", batch_size=16)
    assert found[0].forward.dtype == found[0].rank.dtype == jnp.float32
    jitted = eqx.filter_jit(lambda p: _signals(apply, p, x, labels, "cross_entropy", batch_size=16))(params)
    np.testing.assert_allclose(jitted[0].backward, found[0].backward, rtol=1e-5)
    double = _signals(_mlp(jnp.tanh), _parameters(), _X, labels, "cross_entropy")
    for a, b in zip(found, double, strict=True):
        # float32 rounds each of 40 examples' numbers to 6e-8
        np.testing.assert_allclose(
            [a.forward, a.backward, a.gradient, a.rank], [b.forward, b.backward, b.gradient, b.rank], rtol=1e-4
        )


def _looping(params, x):
    def halved(v):
        return jax.lax.while_loop(lambda v: jnp.any(v > 1), lambda v: v / (2 + params["b"][0]), v)

    return jax.vmap(halved)(x @ params["w"][:, :2])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"apply": 3}, "apply must be a function of parameters and an example, got int"),
        ({"loss": 3}, "loss must be a name, a function of one output and one target"),
        ({"loss": BatchLoss(lambda n, b: 0.0)}, "layer_signals needs the loss of every example on its own"),
        ({"params": {}}, "network must have at least one floating-point array"),
        ({"params": {"w": jnp.full((4, 2), jnp.nan)}}, r"network.params\['w'\] must be finite"),
        ({"y": _Y[1:]}, "one common first axis"),
        ({"x": _X * np.nan}, r"data\[0\] must be finite"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"apply": lambda p, x: (x, x)}, "network must return one real floating-point array"),
        ({"loss": lambda f, y: f - y}, "loss must return one number per example"),
        ({"apply": _mlp(lambda z: z - z.mean(0))}, "changes with the other examples in its batch"),
        ({"apply": _mlp(lambda z: z / 0)}, "network must return finite numbers"),
        ({"apply": lambda p, x: x[:, :2] + p["b"][:2]}, "no such layer was found"),
        ({"apply": _looping}, "network must have a gradient"),
    ],
)
def test_sentences(change, sentence):
    arguments = {"apply": _mlp(jnp.tanh), "params": _parameters(), "x": _X, "y": _Y}
    with pytest.raises((TypeError, ValueError), match=sentence):
        _signals(**(arguments | change))
