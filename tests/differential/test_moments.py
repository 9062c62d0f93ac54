import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.differential import NeuralSDE, euler_maruyama, moment_loss, one_path_gradient, two_path_gradient

KEY = jax.random.key(0)


class Scale(eqx.Module):
    theta: jax.Array

    def __call__(self, x):
        return self.theta * x


def made(theta):
    return NeuralSDE(lambda x: 0.1 * x, Scale(jnp.asarray(theta)))


def payoffs(x):
    return jnp.stack([x[0], jax.nn.relu(x[0] - 1.1)])


Y = jnp.array([1.2, 0.3])
WAY = {"steps": 3, "paths": 7}


def test_loss_is_that_of_the_means():
    ends = euler_maruyama(made(0.5), jnp.ones(1), 1.0, key=KEY, **WAY)[:, 0]
    means = np.array([ends.mean(), np.maximum(ends - 1.1, 0).mean()])
    found = moment_loss(made(0.5), payoffs, Y, jnp.ones(1), 1.0, key=KEY, **WAY)
    assert float(found) == pytest.approx(((means - Y) ** 2).sum() / 4)


def test_gradients_against_differences():
    def means(theta, key):
        ends = euler_maruyama(made(theta), jnp.ones(1), 1.0, key=key, **WAY)
        return jax.vmap(payoffs)(ends).mean(0)

    key, other = jax.random.split(KEY)
    one = one_path_gradient(made(0.5), payoffs, Y, jnp.ones(1), 1.0, key=KEY, **WAY).diffusion.theta
    two = two_path_gradient(made(0.5), payoffs, Y, jnp.ones(1), 1.0, key=KEY, **WAY).diffusion.theta
    slope = lambda key: (means(0.5 + 1e-6, key) - means(0.5 - 1e-6, key)) / 2e-6  # noqa: E731
    np.testing.assert_allclose(one, (means(0.5, KEY) - Y) @ slope(KEY) / 2, rtol=1e-6)
    # which of the two groups is differentiated is free, as long as it is the same one throughout
    np.testing.assert_allclose(two, (means(0.5, other) - Y) @ slope(key) / 2, rtol=1e-6)


@pytest.mark.parametrize("loss", [moment_loss, one_path_gradient, two_path_gradient])
def test_paths_that_explode_are_no_gradient(loss):
    sde = NeuralSDE(lambda x: x**3, lambda x: x)
    with pytest.raises(ValueError, match="explodes: at time 9 it is not finite"):
        loss(sde, lambda x: x, Y[:1], jnp.full(1, 9.0), 9.0, steps=9, paths=4, key=KEY)


@pytest.mark.parametrize(
    ("payoffs", "y", "sentence"),
    [
        (3.0, Y, "payoffs must be a function"),
        (lambda x: x, Y, r"as many numbers as y has, shape \(2,\)"),
        (lambda x: (x > 1).astype(float), Y[:1], "step function"),
        (lambda x: x > 1, Y[:1], "step function"),
        (lambda x: jnp.where(x > 1, 1.0, 0.0), Y[:1], "step function"),
    ],
)
def test_bad_input(payoffs, y, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        two_path_gradient(made(0.5), payoffs, y, jnp.ones(1), 1.0, key=KEY, **WAY)
