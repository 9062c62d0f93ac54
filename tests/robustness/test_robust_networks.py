"""Robust networks against their closed forms, and changes of sign along rays against a fine search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.robustness import (
    TwoLayerNetwork,
    coherence,
    random_two_layer,
    ray_flip,
    robust_network,
    sphere_points,
)

KEY = jax.random.key(0)
with jax.enable_x64(True):
    X = sphere_points(6, 20, key=KEY)
Y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])


def test_the_network_fits_and_vanishes_at_its_exact_radius():
    made = robust_network(X, Y)
    gram = np.abs(np.asarray(X @ X.T)) / 20
    np.fill_diagonal(gram, 0)
    assert made.coherence == pytest.approx(gram.max())
    assert made.radius == pytest.approx((1 - gram.max()) / 4 * 20**0.5)
    np.testing.assert_allclose(jax.vmap(made.network)(X), Y, atol=1e-12)
    inwards = jax.vmap(lambda x: ray_flip(made.network, x, -x))(X)
    np.testing.assert_allclose(inwards, 2 * made.radius, rtol=1e-12)
    np.testing.assert_allclose(made.exact_radius, 2 * made.radius)
    assert robust_network(X, Y, 0.9).radius == pytest.approx(0.1 / 4 * 20**0.5)


def test_one_example_alone_is_robust():
    assert robust_network(X[:1], Y[:1]).coherence == 0


@pytest.mark.parametrize("opposite", [False, True])
def test_rays_against_a_fine_search(opposite):
    keys = jax.random.split(KEY, 12)

    @jax.jit
    def both(key):
        a, b, c, d = jax.random.split(key, 4)
        drawn = random_two_layer(15, 4, jax.nn.relu, key=a)
        network = TwoLayerNetwork(drawn.outer, drawn.inner, 0.5 * jax.random.normal(b, (15,)))
        x, v = jax.random.normal(c, (4,)), jax.random.normal(d, (4,))
        t = jnp.linspace(0, 40, 40_001)
        values = jax.vmap(lambda s: network(x + s * v / jnp.linalg.norm(v)))(t) * jnp.sign(network(x))
        turned = values < 0
        return ray_flip(network, x, v, opposite=opposite), jnp.where(turned.any(), t[jnp.argmax(turned)], jnp.inf)

    exact, searched = map(np.asarray, jax.vmap(both)(keys))
    near = np.isfinite(searched)
    assert near.sum() >= 3
    # the search stops at the next point of its grid
    np.testing.assert_array_less(exact[near] - 1e-9, searched[near])
    np.testing.assert_array_less(searched[near], exact[near] + 1.001e-3)
    assert (exact[~near] > 39.9).all()


def test_a_unit_that_goes_off_and_an_output_that_stays_zero():
    unit = TwoLayerNetwork([1.0], [[1.0]], [0.0])  # max(x, 0)
    assert ray_flip(unit, [2.0], [-1.0]) == 2
    assert ray_flip(unit, [2.0], [-1.0], opposite=True) == np.inf
    assert ray_flip(unit, [2.0], [1.0]) == np.inf
    assert ray_flip(unit, [-1.0], [1.0]) == 0  # the output is zero from the start


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: robust_network(2 * X, Y), "x must lie on the sphere of radius √d = 4.47214, and example"),
        (lambda: robust_network(X, np.arange(6.0)), "y must hold the labels -1 and 1"),
        (lambda: robust_network(np.concatenate([X, X]), np.concatenate([Y, Y])), "the same example twice"),
        (lambda: robust_network(X, Y, 0.01), "c must be in"),
        (lambda: robust_network(X, Y, 1.0), "c must be in"),
        (lambda: coherence(np.ones((2, 3)) * 4), "x must lie on the sphere"),
        (lambda: TwoLayerNetwork([1.0], [[1.0]], [0.0], 3), "activation must be a function"),
        (lambda: TwoLayerNetwork([1.0, 2.0], [[1.0]], [0.0]), "inner must have shape"),
        (lambda: ray_flip(TwoLayerNetwork([1.0], [[1.0]], [0.0], jnp.tanh), [1.0], [1.0]), "with ReLU units"),
        (lambda: ray_flip(robust_network(X, Y).network, X[0], 0 * X[0]), "the length of direction must be positive"),
        (lambda: sphere_points(0, 3, key=KEY), "points must be at least 1"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
