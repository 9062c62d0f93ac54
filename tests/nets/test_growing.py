"""The network that grows while it is trained (M section 7.5.3), as one compiled program."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.nets import Classifier, GrowingNetwork, epoch_batches, grows, mean_loss, train_epochs, train_growing
from corollary.network import BatchLoss

KEY = jax.random.key(0)
LOSS = BatchLoss(mean_loss)
X = jax.random.normal(KEY, (30, 4))
Y = (X[:, 0] > 0).astype(int)


def test_the_rule():
    assert grows(21, 0.9, 0.9, 1)
    assert grows(21, 0.9009, 0.9, 2)
    assert not grows(20, 0.9, 0.9, 1)
    assert not grows(21, 0.902, 0.9, 1)
    assert not grows(21, 0.9, 0.9, 3)


def test_an_identity_layer_waits_as_the_identity():
    network = GrowingNetwork(4, 6, 2, key=KEY, most=2, added="identity")
    np.testing.assert_array_equal(network.spare[0], np.eye(6))
    np.testing.assert_allclose(network(X[0]), network.outer @ jnp.tanh(network.first @ X[0]), rtol=1e-14)


def _train(**changes):
    arguments = {"epochs": 1, "batch_size": 10, "key": KEY} | changes
    data, optimiser = arguments.pop("data", (X, Y)), arguments.pop("optimiser", optax.sgd(0.1))
    network, loss = arguments.pop("network", Classifier(4, 5, 1, 2, key=KEY)), arguments.pop("loss", LOSS)
    return train_epochs(network, loss, data, optimiser, **arguments)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: epoch_batches(5, 6, key=KEY), "batch_size must be at most the number of examples 5, got 6"),
        (lambda: _train(loss=3), "loss must be a name, a function"),
        (lambda: _train(measure=3), "measure must be a function of the network, got int"),
        (lambda: _train(optimiser=0.1), "optimiser must be an Optax transformation, got float"),
        (lambda: _train(data=X, loss="squared"), r"data must be a pair \(x, y\) of inputs and targets, got ArrayImpl"),
        (lambda: _train(data=(X, Y[:3])), "data must hold arrays with the examples along one common first axis"),
        (lambda: _train(batch_size=31), "batch_size must be from 1 to 30, got 31"),
        (lambda: _train(key=None), "key must be given"),
        (lambda: _train(network=()), "network must have at least one floating-point array"),
        (
            lambda: GrowingNetwork(4, 6, 2, key=KEY, added="zero"),
            "added must be one of 'random', 'identity', got 'zero'",
        ),
        (
            lambda: train_growing(3, (X, Y), epochs=1, batch_size=1, key=KEY),
            "network must be a GrowingNetwork, got int",
        ),
        (
            lambda: train_growing(GrowingNetwork(3, 6, 2, key=KEY), (X, Y), epochs=1, batch_size=1, key=KEY),
            r"x must have shape \(n, 3\), got \(30, 4\)",
        ),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
