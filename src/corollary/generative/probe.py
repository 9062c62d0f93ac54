r"""Probes: how well a linear classifier does on a representation with few labels."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray
from scipy import stats

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete, labels, positive, real, whole, within
from corollary.catalog import implements
from corollary.linear import fit_softmax


class Probe(NamedTuple):
    """The share of test examples that a linear classifier gets right, for each draw of the labelled examples."""

    accuracies: jax.Array

    __repr__ = shown

    @property
    def accuracy(self) -> Float[Array, ""]:
        """The mean over the draws."""
        return jnp.mean(self.accuracies)

    def interval(self, level: float = 0.95) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Student's interval for the mean over draws, of which there must be two or more."""
        n = self.accuracies.shape[0]
        if n < 2:
            raise ValueError("interval takes two draws or more: linear_probe(..., draws=20).")
        level = float(within("level", level, 0.0, 1.0, open="both"))
        half = float(stats.t.ppf((1 + level) / 2, n - 1)) * jnp.std(self.accuracies, ddof=1) / n**0.5
        return self.accuracy - half, self.accuracy + half


@implements("T17.01")
def linear_probe(
    features: NetworkLike,
    train: tuple[Float[ArrayLike, "n ..."], Float[ArrayLike, "n"]],
    test: tuple[Float[ArrayLike, "m ..."], Float[ArrayLike, "m"]],
    labels: int,
    *,
    key: PRNGKeyArray,
    draws: int = 1,
    penalty: Scalar = 1e-3,
    batch_size: int = 1000,
) -> Probe:
    r"""The accuracy on `test` of softmax regression on `features(x)`, from the labels of `labels` examples of `train`.

    `features` is any function of one example: a network, or `lambda x: x` for the inputs themselves. Features are
    centred and divided by the root of their mean square length over all of `train`, whose other labels are not looked
    at, so that `penalty`, the factor of the squares of the weights, means the same for all. Each of `draws` labels
    other examples, at random.

    >>> probe = linear_probe(lambda x: x, (x, [0, 1, 0, 1]), (x, [0, 1, 0, 1]), 3, key=key, draws=5)
    >>> probe.accuracies.shape
    (5,)
    """
    if not callable(features):
        raise TypeError(f"features must be a function of one example, got {type(features).__name__}.")
    (x, y), (x_test, y_test), classes = _data("train", train), _data("test", test), 2
    if concrete(y) and concrete(y_test):
        classes = max(int(np.max(y)), int(np.max(y_test)), 1) + 1
    else:
        raise TypeError("train and test must hold labels that can be looked at: their number is the number of classes.")
    count, draws = whole("labels", labels, 1, x.shape[0]), whole("draws", draws)
    penalty, batch_size = positive("penalty", real("penalty", penalty, "")), whole("batch_size", batch_size)
    seen, held = (_mapped(features, a, batch_size) for a in (x, x_test))
    return Probe(_fitted(seen, y, held, y_test, key, penalty, classes, count, draws))


@eqx.filter_jit
def _mapped(features, x, batch_size):
    return jax.lax.map(lambda one: jnp.ravel(features(one)), x, batch_size=min(batch_size, x.shape[0]))


# a program of its own, which the features of other networks find again
@eqx.filter_jit
def _fitted(seen, y, held, y_test, key, penalty, classes, count, draws):
    mean = jnp.mean(seen, 0)
    scale = jnp.sqrt(jnp.mean(jnp.sum((seen - mean) ** 2, 1)))
    seen, held = ((a - mean) / jnp.where(scale > 0, scale, 1.0) for a in (seen, held))

    def one(key):
        chosen = jax.random.choice(key, seen.shape[0], (count,), replace=False)
        inputs, outside = seen[chosen], held
        if count < seen.shape[1]:
            # the weights lie in the span of the inputs: in a basis of that the problem is the same, and smaller
            basis = jnp.linalg.qr(inputs.T)[0]
            inputs, outside = inputs @ basis, held @ basis
        theta = fit_softmax(inputs, y[chosen], classes, penalty=penalty, steps=50).theta
        scores = outside @ theta[:, :-1].T + theta[:, -1]
        return jnp.mean(jnp.argmax(scores, 1) == y_test, dtype=held.dtype)

    return jax.lax.map(one, jax.random.split(key, draws))


def _data(name, pair):
    try:
        x, y = pair
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a pair (x, y) of examples and labels, got {type(pair).__name__}.") from None
    x, dims = real(f"{name}[0]", x), {}
    if x.ndim == 0:
        raise ValueError(f"{name}[0] must have examples along its first axis, got a number.")
    dims["n"] = x.shape[0]
    return x, labels(f"{name}[1]", y, None, "n", dims)
