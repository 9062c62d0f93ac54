import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import nets
from corollary.nets import MLP, train
from corollary.nets.sets import DeepSets, DeepSetsEquivariant, code, decode, from_power_sums, power_sums

KEYS = jax.random.split(jax.random.key(0), 4)
X = np.random.default_rng(0).normal(size=(5, 2))


def phi(x):
    return jnp.stack([jnp.tanh(x[0]), x[0] * x[1], jnp.cos(x[1])])


def rho(s):
    return jnp.sin(s[:1] + s[1:2] * s[2:])


def test_deep_sets_is_its_formula_and_takes_any_size():
    model = DeepSets(phi, rho)
    np.testing.assert_allclose(model(X), rho(sum(phi(x) for x in X)), rtol=1e-13)
    np.testing.assert_allclose(
        model.representation(X), model.representation(X[:2]) + model.representation(X[2:]), rtol=1e-13
    )
    assert model(X[:1]).shape == (1,)


def test_equivariant_deep_sets_can_centre_and_rank():
    centre = DeepSetsEquivariant(lambda x: jnp.append(x, 1.0), lambda v: v[:2] - v[2:4] / v[4])
    np.testing.assert_allclose(centre(X), X - X.mean(0), atol=1e-15)
    # the rank of x among 0..9: how many of the counts before it are there
    rank = DeepSetsEquivariant(
        lambda x: (jnp.arange(10) == x[0]).astype(float), lambda v: jnp.sum(v[1:] * (jnp.arange(10) < v[0]))
    )
    np.testing.assert_array_equal(rank(np.array([[7.0], [2], [9], [3]])), [2, 0, 3, 1])


def test_it_learns_the_sum_of_a_set():
    x = jax.random.uniform(KEYS[2], (64, 4, 1))
    model = DeepSets(MLP((1, 8, 4), nets.tanh, key=KEYS[0]), MLP((4, 1), key=KEYS[1]))

    losses = train(model, "squared", (x, x.sum((1, 2))), optax.adam(3e-2), steps=150).losses
    assert losses[-1] < 0.02 * losses[0]


def test_power_sums_and_back():
    x = np.array([-1.3, 0.2, 0.21, 1.0, 2.5])
    sums = power_sums(x, 5)
    np.testing.assert_allclose(sums, [np.sum(x**k) for k in range(1, 6)], rtol=1e-13)
    np.testing.assert_allclose(from_power_sums(sums), x, atol=1e-11)
    np.testing.assert_allclose(from_power_sums(power_sums(x[:1], 1)), x[:1])


def test_codes_of_multisets():
    elements = np.array([0, 3, 3, 3, 6, 6])
    total = jnp.sum(code(elements, 7, most=6))
    np.testing.assert_array_equal(decode(total, 7, most=6), np.bincount(elements, minlength=7))
    np.testing.assert_allclose(code([0, 1], 2, most=9), [0.1, 0.01])


def test_bad_input():
    with pytest.raises(ValueError, match=r"x must have shape \(m, d\)"):
        DeepSets(phi, rho)(X[0])
    with pytest.raises(ValueError, match=r"x must have shape \(m, d\)"):
        DeepSetsEquivariant(phi, rho)(X[0])
    with pytest.raises(ValueError, match="order must be at least 1"):
        power_sums(X[:, 0], 0)
    with pytest.raises(ValueError, match="sums must be finite"):
        from_power_sums([1.0, np.nan])
    with pytest.raises(ValueError, match="do not fit in the 52 binary digits"):
        code([0], 40, most=5)
    with pytest.raises(ValueError, match="do not fit"):
        decode(0.5, 40, most=5)
    with pytest.raises(ValueError, match="labels from 0 to 1"):
        code([2], 2, most=5)
