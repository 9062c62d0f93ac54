"""Epochs and growing networks, against loops written out."""

import jax
import numpy as np
import optax

from corollary.nets import Classifier, GrowingNetwork, epoch_batches, mean_loss, train_epochs, train_growing
from corollary.network import BatchLoss

KEY = jax.random.key(0)
LOSS = BatchLoss(mean_loss)
X = jax.random.normal(KEY, (30, 4))
Y = (X[:, 0] > 0).astype(int)


def test_an_epoch_is_a_permutation_cut_into_rows():
    order = np.asarray(epoch_batches(30, 10, key=KEY))
    assert order.shape == (3, 10)
    assert sorted(order.ravel()) == list(range(30))
    assert epoch_batches(32, 10, key=KEY).shape == (3, 10)


def test_training_in_epochs_is_the_loop():
    model = Classifier(4, 5, 1, 2, key=KEY)
    out = train_epochs(
        model, LOSS, (X, Y), optax.sgd(0.3), epochs=3, batch_size=10, key=KEY, measure=lambda m: mean_loss(m, (X, Y))
    )
    losses, record = [], [mean_loss(model, (X, Y))]
    for k in range(3):
        for chosen in epoch_batches(30, 10, key=jax.random.fold_in(KEY, k)):
            value, slope = jax.value_and_grad(mean_loss)(model, (X[chosen], Y[chosen]))
            model = jax.tree.map(lambda a, g: a - 0.3 * g, model, slope)
            losses.append(value)
        record.append(mean_loss(model, (X, Y)))
    np.testing.assert_allclose(out.losses.ravel(), losses, rtol=1e-12)
    np.testing.assert_allclose(out.record, record, rtol=1e-12)


def test_a_growing_network_in_one_program_is_the_define_by_run_loop():
    network = GrowingNetwork(4, 6, 2, key=KEY, most=3)
    got = train_growing(network, (X, Y), epochs=6, batch_size=10, key=KEY, step=0.2, gain=0.05, wait=0)
    weights, outer = [np.asarray(network.first)], np.asarray(network.outer)
    spare, previous, accuracies, layers = list(np.asarray(network.spare)), 0.0, [], []
    x, y = np.asarray(X), np.asarray(Y)
    for k in range(6):
        rate, rights = 0.2 / len(weights), []
        layers.append(len(weights))
        for chosen in np.asarray(epoch_batches(30, 10, key=jax.random.fold_in(KEY, k))):
            states = [x[chosen].T]
            for w in weights:
                states.append(np.tanh(w @ states[-1]))
            v = outer @ states[-1]
            p = np.exp(v) / np.exp(v).sum(0)
            rights.append(np.mean(v.argmax(0) == y[chosen]))
            slope = (p - np.eye(2)[y[chosen]].T) / 10
            by_outer, delta = slope @ states[-1].T, outer.T @ slope
            for i in reversed(range(len(weights))):
                delta = delta * (1 - states[i + 1] ** 2)
                weights[i], delta = weights[i] - rate * delta @ states[i].T, weights[i].T @ delta
            outer = outer - rate * by_outer
        accuracies.append(np.mean(rights))
        if accuracies[-1] < previous + 0.05 and len(weights) < 3 and k > 0:
            weights.append(spare.pop(0))
        previous = accuracies[-1]
    np.testing.assert_allclose(got.accuracies, accuracies, atol=1e-12)
    np.testing.assert_array_equal(got.layers, layers)
    assert layers[-1] == 3
    np.testing.assert_allclose(got.network.outer, outer, atol=1e-12)
    np.testing.assert_allclose(got.network.spare[1], weights[2], atol=1e-12)
