"""What stands in the place of the loss: names, functions of one example, losses of a batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.network import LOSSES, BatchLoss
from corollary.network.loss import ExampleLoss, of_examples, resolved

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=6)
KEY = jax.random.key(0)


def network(x):
    return x @ jnp.array([1.0, -2.0])


class Noisy(eqx.Module):
    def __call__(self, x, *, key=None):
        return network(x) + (0.0 if key is None else jax.random.normal(key))


def test_three_ways_to_say_the_same():
    expected = np.mean((X @ [1, -2] - Y) ** 2) / 2
    by_hand = BatchLoss(lambda network, batch: jnp.mean((jax.vmap(network)(batch[0]) - batch[1]) ** 2) / 2)
    for loss in ("squared", LOSSES["squared"], lambda f, y: (f - y) ** 2 / 2, by_hand):
        np.testing.assert_allclose(resolved(loss)(network, (X, Y)), expected, rtol=1e-12)
    np.testing.assert_allclose(resolved("squared", "sum")(network, (X, Y)), 6 * expected, rtol=1e-12)
    np.testing.assert_allclose(resolved("squared").of_outputs(X @ np.array([1, -2]), Y), expected, rtol=1e-12)


def test_targets_and_inputs_may_be_trees():
    weighted = lambda f, target: target["weight"] * (f - target["y"]) ** 2  # noqa: E731
    data = {"a": X[:, 0], "b": X[:, 1]}, {"y": Y, "weight": np.arange(6.0)}
    found = resolved(weighted)(lambda x: x["a"] - 2 * x["b"], data)
    np.testing.assert_allclose(found, np.mean(np.arange(6) * (X @ [1, -2] - Y) ** 2), rtol=1e-12)


def test_each_example_gets_a_key_of_its_own():
    loss = resolved(lambda f, y: f)
    quiet = loss(Noisy(), (X, Y))
    np.testing.assert_allclose(quiet, np.mean(X @ [1, -2]), rtol=1e-12)
    noise = jnp.stack([jax.random.normal(k) for k in jax.random.split(KEY, 6)])
    np.testing.assert_allclose(loss(Noisy(), (X, Y), key=KEY), quiet + noise.mean(), rtol=1e-12)


def test_a_batch_loss_gets_what_it_names():
    seen = {}

    def plain(network, batch):
        return 1.0

    def stateful(network, batch, *, state):
        seen["state"] = state
        return 1.0, state + 1

    def anything(network, batch, **others):
        seen.update(others)
        return 1.0

    assert BatchLoss(plain)(network, X, key=KEY, state=3) == 1.0
    assert BatchLoss(stateful)(network, X, key=KEY, state=3) == (1.0, 4)
    BatchLoss(anything)(network, X, key=5, state=6)
    assert seen == {"state": 6, "key": 5}
    assert [BatchLoss(f).names for f in (plain, stateful, anything)] == [(), ("state",), ("key", "state")]
    assert repr(BatchLoss(plain)).startswith("BatchLoss(<test_a_batch_loss")


def test_losses_are_compared_by_what_they_do():
    def of(weight):
        return BatchLoss(lambda network, batch: weight * jnp.mean(network(batch)))

    assert of(1.0) == of(1.0)
    assert hash(of(1.0)) == hash(of(1.0))
    assert of(1.0) != of(2.0)
    assert of(1.0) != 3
    assert resolved(lambda f, y: f - y) != resolved(lambda f, y: f + y)
    assert resolved("squared") == resolved("squared") != resolved("squared", "sum")
    weights = [1.0]
    loss = of(weights)
    before = resolved(loss)
    weights[0] = 2.0
    assert resolved(loss) != before  # what it encloses has changed since
    example = resolved(lambda f, y: weights[0] * f)
    weights[0] = 3.0
    assert resolved(example) != example


def test_where_outputs_are_needed_one_by_one():
    assert isinstance(of_examples("hinge", who="gauss_newton"), ExampleLoss)
    with pytest.raises(
        TypeError, match=r"gauss_newton needs the loss of every example on its own, loss\(output, targe"
    ):
        of_examples(BatchLoss(lambda network, batch: 0.0), who="gauss_newton")


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: BatchLoss(3), TypeError, "BatchLoss takes a function of network and batch, got int"),
        (
            lambda: resolved(3),
            TypeError,
            "loss must be a name, a function of one output and one target, or a BatchLoss",
        ),
        (
            lambda: resolved("cubic"),
            ValueError,
            "loss must be one of 'cross_entropy', 'binary_cross_entropy', 'squared'",
        ),
        (lambda: resolved("squared", "max"), ValueError, "reduction must be one of 'mean', 'sum', got 'max'"),
        (
            lambda: resolved(BatchLoss(lambda n, b: 0.0), "sum"),
            ValueError,
            "reduction must be left out with a BatchLoss",
        ),
        (
            lambda: resolved(lambda f, y: jnp.ones(3))(network, (X, Y)),
            ValueError,
            r"loss must return one number per example, got shape \(3,\)",
        ),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
