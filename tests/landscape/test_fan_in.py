"""Fan-in, read off the program, against shapes known by hand; and layers that are one however they are written."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, nets
from corollary.landscape import fan_in, layer_signals

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5, 3))
Y = RNG.normal(size=(12, 2))


def test_of_dense_layers():
    network = nets.MLP((3, 5, 2), nets.tanh, key=jax.random.key(0))
    found = fan_in(network, np.ones((1, 3)))
    assert [(layer.weight, layer.bias) for layer in found.layers] == [(3, 0), (5, 0)]


def test_of_convolutions_and_tables():
    conv = eqx.nn.Conv2d(4, 6, 3, groups=2, key=jax.random.key(0))
    assert fan_in(conv, np.ones((1, 4, 5, 5))).weight == 2 * 3 * 3
    table = {"table": jnp.ones((7, 4)), "w": jnp.ones((4, 2))}
    assert fan_in(Network(lambda p, x: p["table"][x] @ p["w"], table), np.zeros(1, int)).params == {"table": 0, "w": 4}


def test_whichever_way_a_matrix_lies():
    wide = {"w": jnp.ones((3, 8))}
    assert fan_in(Network(lambda p, x: x @ p["w"], wide), X[:, 0]).params == {"w": 3}
    tall = {"w": jnp.ones((8, 3))}
    assert fan_in(Network(lambda p, x: p["w"] @ x, tall), X[:, 0]).params == {"w": 3}
    heads = {"w": jnp.ones((3, 2, 4))}
    assert fan_in(Network(lambda p, x: jnp.einsum("i,ihk->hk", x, p["w"]), heads), X[:, 0]).params == {"w": 3}


# --- one layer, several matrices


def summed(*parts):
    """A nonlinear function of three signals, so that none has a nonlinearity of its own."""
    a, b, c = parts
    return (a * b + jnp.sin(a + b * c)).sum(0)


def apart(p, x):
    return summed(*(x @ p[name] for name in "abc"))


def together(p, x):
    return summed(*jnp.split(x @ p["w"], 3, -1))


def later(p, x):
    """As `together`, one position after the other."""

    def step(total, one):
        return total + summed(*(part[None] for part in jnp.split(one @ p["w"], 3))), None

    return jax.lax.scan(step, jnp.zeros(2), x)[0]


PARTS = {name: jnp.asarray(RNG.normal(size=(3, 2))) for name in "abc"}
WHOLE = {"w": jnp.concatenate([PARTS[name] for name in "abc"], 1)}


@pytest.mark.parametrize(("apply", "params"), [(together, WHOLE), (later, WHOLE)])
def test_products_of_one_signal_are_one_layer(apply, params):
    (expected,) = layer_signals(Network(apart, PARTS), "squared", (X, Y))
    (found,) = layer_signals(Network(apply, params), "squared", (X, Y))
    assert expected.name == "a, b, c"
    assert found.name == "w"
    assert (found.units, found.shape) == (expected.units, expected.shape) == (6, (5, 6))
    z = (X @ np.asarray(WHOLE["w"])).reshape(-1, 6)
    np.testing.assert_allclose(found.forward, np.mean(z**2), rtol=1e-12)
    for name in ("forward", "backward", "gradient", "rank", "common", "without_gradient"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, err_msg=name)


def test_uses_that_follow_on_each_other_stay_apart():
    """Through time the gradient of a recurrent network may vanish: its layers are its rounds."""

    def apply(p, x):
        return jax.lax.scan(lambda h, one: (jnp.tanh(h @ p["w"] + one), None), jnp.ones(3) * x[0], x)[0][:2]

    found = layer_signals(Network(apply, {"w": 0.1 * jnp.eye(3)}), "squared", (X, Y))
    assert [layer.name for layer in found] == ["w"] * 5
    assert float(found[0].backward) < 1e-6 * float(found[-1].backward)


def test_nonlinearities_of_their_own_are_told_apart():
    """Two branches of one signal, one of them dead."""

    def apply(p, x):
        return jax.nn.relu(x[0] @ p["a"] - 100) + jax.nn.relu(x[0] @ p["b"] + 100)

    found = layer_signals(Network(apply, {"a": PARTS["a"], "b": PARTS["b"]}), "squared", (X, Y))
    assert [(layer.name, float(layer.dead)) for layer in found] == [("a", 1), ("b", 0)]
