"""Layers against NumPy, kernels against brute force over pixels, and against exact averages over weights."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.kernels import (
    Activation,
    Architecture,
    Conv,
    Dense,
    Flatten,
    GlobalAveragePool,
    LeakyReLU,
    Residual,
    flow_predictions,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 5)), RNG.normal(size=(4, 5))
IMAGES, OTHERS = RNG.normal(size=(2, 5, 4, 3)), RNG.normal(size=(3, 5, 4, 3))
SERIES = RNG.normal(size=(2, 7, 2))
KEY = jax.random.key(0)


def brute(x, y, layers, pool):
    """NNGP and NTK of a network of convolutions and ReLUs, pair by pair of images and pixels, in plain loops."""

    def places(shape):
        return list(itertools.product(*map(range, shape)))

    def conv(q, shape, layer):
        pads = [layer.pads(n, a) for a, n in enumerate(shape)]
        k, s = layer.kernel_size, layer.stride
        out = [1 + (n + sum(p) - w) // s for n, p, w in zip(shape, pads, k, strict=True)]

        def source(place, offset):
            at = [i * s + o - p[0] for i, o, p in zip(place, offset, pads, strict=True)]
            if layer.padding == "CIRCULAR":
                return tuple(i % n for i, n in zip(at, shape, strict=True))
            return tuple(at) if all(0 <= i < n for i, n in zip(at, shape, strict=True)) else None

        new = {}
        for a, b in itertools.product(places(out), repeat=2):
            total = 0.0
            for offset in places(k):
                u, v = source(a, offset), source(b, offset)
                total += q[u, v] if u is not None and v is not None else 0.0
            new[a, b] = total / np.prod(k)
        return new, tuple(out)

    def start(x, y):
        return {(a, b): x[a] @ y[b] / x.shape[-1] for a, b in itertools.product(places(x.shape[:-1]), repeat=2)}

    def relu(c, a, b):
        angle = np.arccos(np.clip(c / np.sqrt(a * b), -1, 1))
        return np.sqrt(a * b) * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi), (np.pi - angle) / (
            2 * np.pi
        )

    kernels = np.zeros((2, len(x), len(y)))
    for (i, a), (j, b) in itertools.product(enumerate(x), enumerate(y)):
        q, own1, own2 = start(a, b), start(a, a), start(b, b)
        tangent = dict.fromkeys(q, 0.0)
        shape = a.shape[:-1]
        for layer in layers:
            if layer == "relu":
                values = {k: relu(q[k], own1[k[0], k[0]], own2[k[1], k[1]]) for k in q}
                tangent = {k: tangent[k] * values[k][1] for k in q}
                own1, own2 = ({k: relu(o[k], o[k[0], k[0]], o[k[1], k[1]])[0] for k in o} for o in (own1, own2))
                q = {k: v[0] for k, v in values.items()}
                continue
            ws, bs = layer.weight_std**2, layer.bias_std**2
            (q, new), (own1, _), (own2, _), (tangent, _) = (conv(o, shape, layer) for o in (q, own1, own2, tangent))
            shape = new
            q, own1, own2 = ({k: ws * v + bs for k, v in o.items()} for o in (q, own1, own2))
            tangent = {k: ws * tangent[k] + q[k] for k in q}
        picked = list(q) if pool else [k for k in q if k[0] == k[1]]
        kernels[:, i, j] = [np.mean([o[k] for k in picked]) for o in (q, tangent)]
    return kernels


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pool", [False, True])
def test_convolutions_against_brute_force(padding, stride, pool):
    layers = [
        Conv(4, (3, 2), weight_std=1.3, bias_std=0.3, padding=padding, stride=stride),
        "relu",
        Conv(4, (2, 1), bias_std=0.2, padding=padding),
    ]
    network = Architecture(
        [Activation(p) if p == "relu" else p for p in layers]
        + [GlobalAveragePool() if pool else Flatten(), Dense(1, weight_std=1.0)]
    )
    for x, y in ((IMAGES, OTHERS), (IMAGES, IMAGES)):
        covariance, tangent = brute(x, y, layers, pool)
        second = None if y is x else y
        np.testing.assert_allclose(network.nngp(x, second), covariance, rtol=1e-7)
        # the last layer: its inputs' covariance comes on top
        np.testing.assert_allclose(network.ntk(x, second), tangent + covariance, rtol=1e-7)


@pytest.mark.parametrize("pool", [False, True])
def test_sequences_against_brute_force(pool):
    layers = [Conv(3, 3, bias_std=0.1), "relu", Conv(3, 2, padding="CIRCULAR", stride=3)]
    network = Architecture(
        [Activation(p) if p == "relu" else p for p in layers] + [GlobalAveragePool() if pool else Flatten()]
    )
    covariance, tangent = brute(SERIES, SERIES, layers, pool)
    np.testing.assert_allclose(network.nngp(SERIES), covariance, rtol=1e-7)
    np.testing.assert_allclose(network.ntk(SERIES), tangent, rtol=1e-7)


@pytest.mark.parametrize("padding", ["SAME", "VALID", "CIRCULAR"])
@pytest.mark.parametrize("end", [Flatten(), GlobalAveragePool()])
def test_the_network_and_its_kernel_agree_on_windows(padding, end):
    # one layer of convolution: the output is linear in its weights, and the average over them is a sum over a basis
    network = Architecture([Conv(1, (3, 3), 1.7, 0.4, padding, 2), end])
    params = network.init(IMAGES.shape[1:], key=KEY).params
    flat, rebuild = jax.flatten_util.ravel_pytree(params)
    outputs = jax.jit(jax.vmap(lambda e: network.apply(rebuild(e), IMAGES)))(jnp.eye(flat.size))
    np.testing.assert_allclose(
        network.nngp(IMAGES), jnp.einsum("pnk,pmk->nm", outputs, outputs) / outputs.shape[-1], rtol=1e-12
    )
    np.testing.assert_allclose(network.ntk(IMAGES), network.nngp(IMAGES))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolution_against_scipy(padding):
    from scipy.signal import correlate

    network = Architecture([Conv(2, (3, 3), 1.5, 0.5, padding)])
    ((params,),) = (network.init((6, 5, 3), key=KEY).params,)
    x = RNG.normal(size=(1, 6, 5, 3))
    got = network.apply((params,), x)[0]
    w, b = params["weight"], params["bias"]
    for channel in range(2):
        parts = [correlate(x[0, :, :, c], w[:, :, c, channel], mode=padding.lower()) for c in range(3)]
        np.testing.assert_allclose(got[..., channel], 1.5 * sum(parts) / np.sqrt(27) + 0.5 * b[channel], rtol=1e-10)


def test_dense_network_against_numpy():
    network = Architecture([Dense(6, 1.2, 0.3), Activation("relu"), Dense(2, 0.7)])
    first, none, last = network.init(5, key=KEY).params
    assert none == {}
    assert "bias" not in last
    assert first["weight"].shape == (5, 6)
    hidden = np.maximum(1.2 * X @ first["weight"] / np.sqrt(5) + 0.3 * first["bias"], 0)
    np.testing.assert_allclose(
        network.apply((first, none, last), X), 0.7 * hidden @ last["weight"] / np.sqrt(6), rtol=1e-12
    )


def test_the_scales_are_differentiable_and_precision_is_kept():
    def entry(std):
        return Architecture([Dense(4, std, 0.1), Activation(LeakyReLU(0.2)), Dense(1, std)]).ntk(X)[0, 1]

    slope = (entry(1.3 + 1e-5) - entry(1.3 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.jit(jax.grad(entry))(1.3), slope, rtol=1e-7)
    network = Architecture([Conv(4, (3, 3)), Activation("relu"), Flatten(), Dense(1)])
    single = IMAGES.astype(np.float32)
    assert network.ntk(single).dtype == np.float32
    assert network.apply(network.init((5, 4, 3), key=KEY, dtype=jnp.float32).params, single).dtype == np.float32
    np.testing.assert_allclose(network.ntk(single), network.ntk(IMAGES), rtol=1e-5)


SMALL = Architecture([Dense(3), Activation("relu"), Dense(1)])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: Dense(0), ValueError, "width must be at least 1, got 0."),
        (lambda: Dense(3, -1.0), ValueError, "weight_std must be zero or more, got -1.0."),
        (lambda: Dense(3, 1.0, -1.0), ValueError, "bias_std must be zero or more, got -1.0."),
        (lambda: Conv(0, 3), ValueError, "channels must be at least 1, got 0."),
        (lambda: Conv(2, (1, 2, 3)), ValueError, "kernel_size must have one or two entries, got (1, 2, 3)."),
        (lambda: Conv(2, 0), ValueError, "kernel_size must be at least 1, got 0."),
        (lambda: Conv(2, 3, padding="same"), ValueError, "padding must be one of 'SAME', 'VALID', 'CIRCULAR'"),
        (lambda: Conv(2, 3, stride=0), ValueError, "stride must be at least 1, got 0."),
        (lambda: Architecture([]), ValueError, "layers must have at least one layer."),
        (lambda: Architecture([3]), TypeError, "layers must hold layers such as Dense or Activation, got int."),
        (
            lambda: Residual([Activation("relu")]),
            ValueError,
            "branch must end in a Dense or Conv layer, got Activation.",
        ),
        (lambda: SMALL.ntk(X[0]), ValueError, "x1 must hold examples in its rows"),
        (lambda: SMALL.apply((), X[0]), ValueError, "x must hold examples in its rows"),
        (lambda: SMALL.ntk(X, Y[:, :2]), ValueError, "x2 must hold examples of shape (5,) as x1 does, got (2,)."),
        (lambda: SMALL.init(0, key=KEY).params, ValueError, "shape must be at least 1, got 0."),
        (lambda: SMALL.ntk(IMAGES), ValueError, "Dense needs vectors: put Flatten or GlobalAveragePool before it"),
        (lambda: Architecture([Conv(2, (3, 3))]).ntk(X), ValueError, "Conv with kernel_size (3, 3) needs 2 axes of"),
        (
            lambda: Architecture([Conv(2, (6, 3))]).init((5, 4, 3), key=KEY).params,
            ValueError,
            "kernel_size must be at most the",
        ),
        (lambda: Architecture([Conv(2, (3, 3))]).ntk(IMAGES), ValueError, "layers must end in vectors, got"),
        (lambda: Architecture([Activation("relu")]).ntk(X), ValueError, "Activation needs Gaussian inputs"),
        (
            lambda: Architecture([Dense(3), Activation("relu"), Activation("relu")]).ntk(X),
            ValueError,
            "Activation needs Gaussian inputs",
        ),
        (
            lambda: Architecture([Residual([Dense(5)])]).ntk(X),
            ValueError,
            "Residual needs a Dense or Conv layer before",
        ),
        (
            lambda: Architecture([Dense(4), Residual([Dense(3)])]).init(5, key=KEY).params,
            ValueError,
            "branch must keep the shape (4,) of its inputs, got (3,).",
        ),
        (lambda: Architecture([GlobalAveragePool()]).ntk(X), ValueError, "GlobalAveragePool needs axes of pixels"),
    ],
)
def test_sentences(call, error, sentence):
    import re

    with pytest.raises(error, match=re.escape(sentence)):
        call()


def test_predictions_are_those_of_kernel_regression_with_the_spread_of_the_start():
    with jax.enable_x64(True):
        network = Architecture([Dense(64), Activation("erf"), Dense(2, bias_std=0.1)])
        keys = jax.random.split(jax.random.key(0), 3)
        x, new = jax.random.normal(keys[0], (6, 3)), jax.random.normal(keys[1], (4, 3))
        y = jax.random.normal(keys[2], (6, 2))
        theta = network.ntk(x), network.ntk(new, x), network.ntk(new)
        sigma = network.nngp(x), network.nngp(new, x), network.nngp(new)
        law = network.predict(x, y, new)
        reach = np.linalg.solve(theta[0], theta[1].T).T
        np.testing.assert_allclose(law.mean, reach @ y, rtol=1e-8)
        across = sigma[1] @ reach.T
        spread = sigma[2] - across - across.T + reach @ sigma[0] @ reach.T
        np.testing.assert_allclose(law.covariance, spread, atol=1e-9)
        early = network.predict(x, y[:, 0], new, time=0.3)
        expected = flow_predictions(theta[0], y[:, 0], [0.3], cross=theta[1]).test[0]
        np.testing.assert_allclose(early.mean, expected, rtol=1e-10)
        at_training_points = network.predict(x, y, x).covariance
        np.testing.assert_allclose(at_training_points, 0, atol=1e-9)
        with pytest.raises(ValueError, match="one label for each of 6 examples"):
            network.predict(x, y[:3], new)
