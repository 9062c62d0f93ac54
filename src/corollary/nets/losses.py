"""Losses of one example from the output of a network, and their averages over data: the empirical risk."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import labels, real, within
from corollary.catalog import implements
from corollary.foundations import cross_entropy


@implements("E02.11")
def half_squared_error(y, prediction):
    r"""$\frac12\|y-\hat y\|^2$ for one label, a number or a vector; its gradient in $\hat y$ is $\hat y-y$."""
    y, prediction = real("y", y), real("prediction", prediction, finite=False)
    if y.ndim > 1 or y.shape != prediction.shape:
        raise ValueError(f"y and prediction must be one label each, got shapes {y.shape} and {prediction.shape}.")
    return 0.5 * jnp.sum((prediction - y) ** 2)


@implements("B02.21", "E02.05")
def logistic_cross_entropy(y, logit):
    r"""$-y\ln\sigma(z)-(1-y)\ln(1-\sigma(z))$ entrywise from the logit $z$, without overflow; derivative $\sigma(z)-y$.

    `y` is 0 or 1, or a probability between.
    """
    y, logit = within("y", real("y", y), 0.0, 1.0), real("logit", logit, finite=False)
    # softplus(z) - yz without the difference of two large numbers
    return y * jax.nn.softplus(-logit) + (1 - y) * jax.nn.softplus(logit)


@implements("B02.16", "B02.21", "E02.12")
def softmax_cross_entropy(y, logits):
    r"""$-\sum_iy_i\ln\mathrm{softmax}_i(z)=-\sum_iy_iz_i+\ln\sum_ie^{z_i}$ for one example; gradient $p-y$.

    `y` is a class, a whole number, or a probability vector of the length of `logits`.
    """
    logits = real("logits", logits, "k", finite=False)
    classes = logits.shape[0]
    if jnp.ndim(y) == 0:
        y = jax.nn.one_hot(labels("y", y, classes, ""), classes, dtype=logits.dtype)
    else:
        y = real("y", y, str(classes))
        cross_entropy(y, y)  # refuses what is not a probability vector
    return -jnp.sum(y * jax.nn.log_softmax(logits))


@implements("E02.13")
def empirical_risk(model, loss, x, y):
    r"""$\frac1s\sum_i\ell(y_i,f(x_i))$ for a model of one example and a loss of one label and one prediction.

    On data that the model was not fitted to, an unbiased estimate of the expected risk.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    if x.ndim == 0 or y.ndim == 0 or x.shape[0] != y.shape[0] or x.shape[0] == 0:
        raise ValueError(f"x and y must have the same first axis of examples, got shapes {x.shape} and {y.shape}.")
    return jnp.mean(jax.vmap(lambda a, b: loss(b, model(a)))(x, y))


class Split(NamedTuple):
    """Two disjoint parts of a data set; each is a tuple of arrays like the whole."""

    train: tuple
    validation: tuple


@implements("E02.13")
def train_validation_split(data, fraction: float, *, key) -> Split:
    """Set a random `fraction` of the examples aside for validation, rounded to a whole number of at least one."""
    data = tuple(map(jnp.asarray, data))
    sizes = {a.shape[0] if a.ndim else None for a in data}
    if len(sizes) != 1 or None in sizes:
        raise ValueError(f"data must be arrays with the same first axis, got shapes {[a.shape for a in data]}.")
    n = sizes.pop()
    if n < 2:
        raise ValueError(f"data must hold at least two examples to split, got {n}.")
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | np.number):
        raise TypeError(f"fraction must be a number known before tracing, got {fraction!r}.")
    within("fraction", fraction, 0.0, 1.0, open="both")
    held_out = min(max(round(fraction * n), 1), n - 1)
    order = jax.random.permutation(key, n)
    return Split(
        tuple(a[order[held_out:]] for a in data),
        tuple(a[order[:held_out]] for a in data),
    )
