"""Single steps against the loop of `train`."""

import jax
import numpy as np
import optax
import pytest

from corollary.nets import MLP, stepwise, tanh, train

RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(8, 2)), RNG.normal(size=(8, 1))


def test_steps_are_those_of_train():
    network = MLP((2, 3, 1), tanh, key=jax.random.key(0))
    training = stepwise(network, "squared", DATA, optax.adam(0.1))

    @jax.jit
    def run(progress):
        return jax.lax.scan(lambda p, _: training.step(p, DATA), progress, length=5)

    progress, losses = run(training.start)
    trained = train(network, "squared", DATA, optax.adam(0.1), steps=5)
    np.testing.assert_allclose(losses, trained.losses, rtol=1e-12)
    np.testing.assert_allclose(training.network(progress)(DATA[0][0]), trained.network(DATA[0][0]), rtol=1e-12)


def test_what_is_no_optimiser():
    with pytest.raises(TypeError, match="optimiser must be an Optax transformation"):
        stepwise(MLP((2, 1), tanh, key=jax.random.key(0)), "squared", DATA, 0.1)
