r"""How well a class of networks fits coins: a lower bound of its Rademacher complexity, whatever the networks are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import LossLike, Scalar
from corollary._validate import one_of, whole
from corollary.catalog import implements
from corollary.generalization.bound import confidence
from corollary.nets import train
from corollary.network.apart import output_of
from corollary.network.batches import count, pair
from corollary.network.parts import require_network

#: Losses of one output and a label -1 or 1.
SIGNS = ("logistic", "hinge", "squared", "absolute", "huber")


class RandomLabelFit(NamedTuple):
    r"""With probability `1 - delta` the Rademacher complexity of the signs of the class is at least `lower`.

    `fits` are the means of label times predicted sign that training reached, one for each draw of the labels; 1 is a
    fit without an error, and the most that there is.
    """

    lower: jax.Array
    fits: jax.Array
    delta: jax.Array

    __repr__ = shown


@implements("B08.25")
def random_label_fit(
    make: Callable,
    loss: LossLike,
    data: PyTree,
    *,
    key: PRNGKeyArray,
    draws: int = 4,
    delta: Scalar = 0.05,
    steps: int = 1000,
    optimiser: optax.GradientTransformation | None = None,
    batch_size: int | None = None,
) -> RandomLabelFit:
    r"""Train `make(key)` on the inputs of `data = (x, y)` with labels that are coins, `draws` times in one program.

    What training reaches is no more than the supremum over the class, of which the mean over coins is $\hat R$; the
    mean of $T$ suprema over $m$ coins exceeds it by $\sqrt{2\ln(1/\delta)/(mT)}$ with probability $\delta$ at most,
    since one coin moves a supremum by $2/m$ (McDiarmid). So $\hat R\ge$ mean fit less that root: at 1 no bound by
    Rademacher complexity can be below 1 for this class, whatever else is known about it.

    One output votes by its sign, and the label is -1 or 1 (`"logistic"`, `"hinge"`, `"squared"` and the like), or 0 or
    1 (`"cross_entropy"`, and functions of one's own); of several outputs the vote is whether the second is the largest.
    The `optimiser` is Adam with a step of 0.01 unless told.

    >>> def make(key):
    ...     return eqx.nn.MLP(3, 2, 32, 1, key=key)
    >>> fit = random_label_fit(make, "cross_entropy", data, key=key, draws=2, steps=200)
    >>> fit.fits.shape
    (2,)
    """
    if not callable(make):
        raise TypeError(f"make must be a function of a key that returns a network, got {type(make).__name__}.")
    x, _ = pair("data", data)
    draws, steps, delta, n = whole("draws", draws), whole("steps", steps), confidence(delta), count(x)
    optimiser = optax.adam(1e-2) if optimiser is None else optimiser
    example = make(key)
    require_network(example)
    outputs = output_of(example, x)
    several = outputs.size > 1
    if several and isinstance(loss, str):
        one_of("loss", loss, ("cross_entropy",))
    signed = not several and isinstance(loss, str) and loss in SIGNS

    def fit(key):
        label_key, make_key, train_key = jax.random.split(key, 3)
        coins = jax.random.bernoulli(label_key, shape=(n,))
        y = jnp.where(coins, 1.0, -1.0).reshape(n, *outputs.shape) if signed else coins.astype(int)
        network = train(
            make(make_key), loss, (x, y), optimiser, steps=steps, key=train_key, batch_size=batch_size
        ).network
        found = jax.vmap(network)(x).reshape(n, -1)
        votes = jnp.argmax(found, 1) == 1 if several else found[:, 0] > 0
        return jnp.mean(jnp.where(votes == coins, 1.0, -1.0))

    fits = jax.jit(jax.vmap(fit))(jax.random.split(key, draws))
    return RandomLabelFit(jnp.mean(fits) - jnp.sqrt(2 * jnp.log(1 / delta) / (n * draws)), fits, delta)
