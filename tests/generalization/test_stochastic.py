"""Stochastic networks: the noise behind products has the law of drawn weights, and errors are counted as they occur."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from corollary import Network
from corollary.generalization._layerwise import layerwise
from corollary.generalization.stochastic import StochasticNetwork
from corollary.nets import MLP, tanh
from corollary.network.parts import split

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (3, 4))
NET = MLP((4, 5, 2), tanh, key=KEY)


class Image(eqx.Module):
    """A convolution, a product with several vectors of one example, a gain, and a dense layer."""

    kernel: jax.Array
    mixed: jax.Array
    gain: jax.Array
    dense: jax.Array

    def __call__(self, x):
        h = jax.lax.conv_general_dilated(x[None, None], self.kernel, (1, 1), "VALID")[0].reshape(2, -1)
        return self.dense.T @ (self.gain * jnp.tanh(self.mixed @ h).ravel())


def _image():
    kernel, mixed, gain, dense = jax.random.split(KEY, 4)
    return Image(
        jax.random.normal(kernel, (2, 1, 2, 2)),
        jax.random.normal(mixed, (3, 2)),
        jax.random.normal(gain, (12,)),
        jax.random.normal(dense, (12, 2)),
    )


def _behind(network, x):
    parts = split(network)
    plan = layerwise(parts, x)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(parts.params)]
    return {name for name, slot in zip(names, plan.program.leaves, strict=True) if slot in plan.behind}


@jax.jit
def _both(key):
    """Outputs of fresh networks by layers, and of networks that were drawn whole."""
    law = StochasticNetwork(NET, 0.4)
    keys = jax.random.split(key, 20_000)
    return jax.jit(jax.vmap(lambda k: law(X[0], key=k)))(keys), jax.jit(jax.vmap(lambda k: law.draw(key=k)(X[0])))(keys)


def test_weights_that_meet_one_vector_are_found():
    assert _behind(NET, X[0]) == {".layers[0].weight", ".layers[1].weight"}
    assert _behind(_image(), jnp.ones((3, 3))) == {".dense"}
    scaled = MLP((4, 5, 2), tanh, key=KEY, scaling="ntk")
    assert _behind(scaled, X[0]) == {".layers[0].weight", ".layers[1].weight"}
    batched = Network(
        lambda p, x: jnp.tanh(x @ p["a"].T) @ p["b"], {"a": jnp.ones((5, 4)), "b": jnp.ones((5, 2))}, batched=True
    )
    assert _behind(batched, X[0]) == {".params['a']", ".params['b']"}
    tied = Network(lambda w, x: w @ jnp.tanh(w @ x), jnp.ones((4, 4)))
    assert _behind(tied, X[0]) == set()


def test_layers_have_the_law_of_whole_networks():
    layers, whole = map(np.asarray, _both(jax.random.key(1)))
    for of_layers, of_whole in (
        (layers[:, 0], whole[:, 0]),
        (layers[:, 1], whole[:, 1]),
        (layers.sum(1), whole.sum(1)),
    ):
        assert stats.ks_2samp(of_layers, of_whole).pvalue > 1e-6
    # what would be another law is seen at this size
    assert stats.ks_2samp(1.3 * layers[:, 0], whole[:, 0]).pvalue < 1e-6


# a weight as it is, and one that is turned, negated and multiplied by a constant before it meets its vector
FORMS = [(1.0, lambda w, x: w @ x), (-1.5, lambda w, x: x @ (3 * -w.T / 2))]


@pytest.mark.parametrize(("factor", "form"), FORMS)
def test_variance_of_one_layer_is_the_sum_of_squares(factor, form):
    weight, scale = jax.random.normal(KEY, (2, 4)), jnp.abs(jax.random.normal(jax.random.key(3), (2, 4)))
    law = StochasticNetwork(Network(form, weight), scale)
    assert len(_behind(law.mean, X[1])) == 1
    out = jax.vmap(lambda k: law(X[1], key=k))(jax.random.split(KEY, 50_000))
    # relative standard errors 1/√n of a mean in units of its deviation, √(2/n) of a variance
    deviation = abs(factor) * np.sqrt(np.asarray(scale**2 @ X[1] ** 2))
    np.testing.assert_allclose((out.mean(0) - factor * weight @ X[1]) / deviation, 0, atol=6 / 50_000**0.5)
    np.testing.assert_allclose(out.var(0) / deviation**2, 1, atol=6 * (2 / 50_000) ** 0.5)
    np.testing.assert_allclose(np.corrcoef(out.T)[0, 1], 0, atol=6 / 50_000**0.5)


def test_other_weights_are_drawn_for_each_example():
    network = _image()
    law = StochasticNetwork(network, 0.3)
    keys = jax.random.split(jax.random.key(5), 4000)
    x = jax.random.normal(KEY, (3, 3))
    layers, whole = (
        np.asarray(jax.jit(jax.vmap(f))(keys)) for f in (lambda k: law(x, key=k), lambda k: law.draw(key=k)(x))
    )
    assert stats.ks_2samp(layers[:, 0], whole[:, 0]).pvalue > 1e-6
    assert stats.ks_2samp(layers[:, 1], whole[:, 1]).pvalue > 1e-6


def test_batch_shares_what_is_drawn_and_has_the_same_means():
    law = StochasticNetwork(NET, 0.4)
    batch = jax.jit(jax.vmap(lambda k: law.on_batch(X, key=k)))(jax.random.split(KEY, 8000))
    single, _ = _both(jax.random.key(1))
    spread = np.asarray(single.std(0))
    np.testing.assert_allclose(
        batch[:, 0].mean(0), single.mean(0), atol=6 * spread.max() * (1 / 8000 + 1 / 20_000) ** 0.5
    )
    np.testing.assert_allclose(batch[:, 0].std(0) / spread, 1, atol=6 / 8000**0.5)


def test_errors_are_those_of_drawn_networks():
    law, y = StochasticNetwork(NET, 1.0), jnp.array([0, 1, 1])
    trials = int(law.errors((X, y), draws=4000, key=KEY))
    outputs = jax.jit(jax.vmap(lambda k: jax.vmap(law.draw(key=k))(X)))(jax.random.split(jax.random.key(7), 4000))
    whole = np.asarray(jnp.argmax(outputs, -1) != y)
    # both counts have means of the same probabilities; those of whole networks depend on each other within a draw
    error = np.sqrt(whole.mean(1).var() / 4000 + 0.25 / 12_000)
    assert abs(trials / 12_000 - whole.mean()) < 6 * error
    assert 0.05 < whole.mean() < 0.95


def test_small_noise_is_the_network_itself():
    still = StochasticNetwork(NET, 0.0)
    np.testing.assert_allclose(still(X[0], key=KEY), NET(X[0]), rtol=1e-12)
    y = jnp.argmax(jax.vmap(NET)(X), -1)
    assert int(still.errors((X, y), draws=3, key=KEY)) == 0
    assert int(still.errors((X, 1 - y), draws=3, key=KEY)) == 9
    slope = jax.jit(jax.grad(lambda s: jnp.sum(StochasticNetwork(NET, s)(jnp.zeros(4), key=KEY) ** 2)))(0.1)
    assert np.isfinite(slope)


def test_relative_entropy_of_two_laws_by_quadrature():
    one = Network(lambda w, x: w @ x, jnp.array([[0.3, -0.2]]))
    other = Network(lambda w, x: w @ x, jnp.array([[0.0, 0.5]]))
    law, prior = StochasticNetwork(one, jnp.array([[0.2, 0.7]])), StochasticNetwork(other, 0.5)
    grid = np.linspace(-8, 8, 200_001)
    expected = 0
    for m, s, c in ((0.3, 0.2, 0.0), (-0.2, 0.7, 0.5)):
        q = stats.norm(m, s)
        expected += np.trapezoid(q.pdf(grid) * (q.logpdf(grid) - stats.norm(c, 0.5).logpdf(grid)), grid)
    np.testing.assert_allclose(law.kl(prior), expected, rtol=1e-8)
    assert StochasticNetwork(one, 0.0).kl(prior) == np.inf


class Counting(eqx.Module):
    weight: jax.Array
    seen: eqx.nn.StateIndex

    def __call__(self, x):
        return self.weight @ x


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: StochasticNetwork(NET, -1.0), "standard deviation"),
        (lambda: StochasticNetwork(NET, [jnp.ones(2)]), "one array per parameter"),
        (
            lambda: StochasticNetwork(Network(lambda w, x: w @ x, jnp.ones((2, 4))), jnp.ones(3)),
            "shape of its parameter",
        ),
        (lambda: StochasticNetwork(Counting(jnp.ones((1, 4)), eqx.nn.StateIndex(jnp.zeros(1))), 0.1), "has state"),
        (lambda: StochasticNetwork(NET, 0.1).errors((X, X), key=KEY), "one class per example"),
        (lambda: StochasticNetwork(NET, 0.1).errors((X, jnp.array([0.5, 1, 0])), key=KEY), "classes 0 to 1"),
        (lambda: StochasticNetwork(NET, 0.1).errors((X, jnp.array([0, 1, 2])), key=KEY), "classes 0 to 1"),
    ],
)
def test_what_is_no_law_of_networks_is_said(make, says):
    with pytest.raises((ValueError, TypeError), match=says):
        make()
