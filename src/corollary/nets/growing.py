r"""The network that grows while it is trained (M section 7.5.3), as one compiled program.

$V=C\tanh(W_n\cdots\tanh(W_0x))$ without biases. It starts with one hidden layer; after an epoch in which the training
accuracy has hardly improved, another one is put on top, and the step is divided by the number of layers. The listing
is there to show that a graph which is defined by running it can change on the way. A compiled program can do the same:
all layers are allocated from the start, and the number in use is a value like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, one_of, positive, real, whole
from corollary.catalog import implements
from corollary.nets.epochs import epoch_batches
from corollary.nets.initialisations import standard_normal


@implements("M07.25")
class GrowingNetwork(eqx.Module):
    r"""$C\tanh(W_{n-1}\cdots\tanh(W_0x))$ for the first `layers` $=n$ of at most `1 + spare.shape[0]` hidden layers."""

    first: jax.Array
    spare: jax.Array
    outer: jax.Array
    layers: jax.Array

    def __init__(
        self,
        inputs: int,
        width: int,
        classes: int,
        *,
        key: PRNGKeyArray,
        most: int = 3,
        added: str = "random",
        init: Callable = standard_normal,
    ):
        """`added` says what a new layer is before it is trained: `"random"` as in the listing, or the `"identity"`."""
        inputs, width, classes, most = (
            whole("inputs", inputs),
            whole("width", width),
            whole("classes", classes),
            whole("most", most),
        )
        one_of("added", added, ("random", "identity"))
        first_key, spare_key, outer_key = jax.random.split(key, 3)
        dtype = jnp.result_type(float)
        self.first = init(first_key, (width, inputs), dtype)
        if added == "identity":
            self.spare = jnp.tile(jnp.eye(width, dtype=dtype), (most - 1, 1, 1))
        else:
            self.spare = jax.vmap(lambda k: init(k, (width, width), dtype))(jax.random.split(spare_key, most - 1))
        self.outer = init(outer_key, (classes, width), dtype)
        self.layers = jnp.ones((), int)

    def __call__(self, x: Float[ArrayLike, "_"]) -> Array:
        x = real("x", x, str(self.first.shape[1]), finite=False)
        h = jnp.tanh(x @ self.first.T)
        for i in range(self.spare.shape[0]):
            h = jnp.where(i + 1 < self.layers, jnp.tanh(h @ self.spare[i].T), h)
        return h @ self.outer.T


@implements("M07.25")
def grows(
    epoch: int, accuracy: float, previous: float, layers: int, *, most: int = 3, gain: float = 0.001, wait: int = 20
) -> Array:
    """Whether a layer is added after `epoch` (0 is the first): past epoch `wait`, fewer than `most` layers, and the
    accuracy, a share, not at least `gain` above that of the epoch before.
    """
    return (accuracy < previous + gain) & (layers < most) & (epoch > wait)


class Growth(NamedTuple):
    """The network at the end; training accuracy, number of layers in use and what `measure` gave, epoch by epoch."""

    network: GrowingNetwork
    accuracies: jax.Array
    layers: jax.Array
    record: jax.Array

    __repr__ = shown


@implements("M07.25")
def train_growing(
    network: GrowingNetwork,
    data: PyTree,
    *,
    epochs: int,
    batch_size: int,
    key: PRNGKeyArray,
    step: Scalar = 0.1,
    gain: Scalar = 0.001,
    wait: int = 20,
    measure: Callable | None = None,
) -> Growth:
    """SGD on the cross-entropy of `data`, a pair `(x, y)`, with the step `step / layers`, growing as `grows` says.

    The accuracy of an epoch is the average over its batches, each before its update, as in the listing.
    """
    if not isinstance(network, GrowingNetwork):
        raise TypeError(f"network must be a GrowingNetwork, got {type(network).__name__}.")
    x, y = data
    x, dims = jnp.asarray(x), {}
    if x.ndim != 2 or x.shape[1] != network.first.shape[1] or x.shape[0] == 0:
        raise ValueError(f"x must have shape (n, {network.first.shape[1]}), got {x.shape}.")
    dims["n"] = x.shape[0]
    y = labels("y", y, network.outer.shape[0], "n", dims)
    epochs, batch_size = whole("epochs", epochs), whole("batch_size", batch_size, 1, x.shape[0])
    step = positive("step", real("step", step, ""))
    return _train_growing(network, x, y, epochs, batch_size, key, step, gain, whole("wait", wait, -1), measure)


@eqx.filter_jit
def _train_growing(network, x, y, epochs, batch_size, key, step, gain, wait, measure):
    def objective(weights, layers, x, y):
        network_now = eqx.tree_at(pieces, network, (*weights, layers))
        scores = jax.vmap(network_now)(x)
        loss = -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], axis=1))
        return loss, jnp.mean(jnp.argmax(scores, axis=1) == y, dtype=scores.dtype)

    def pieces(n):
        return n.first, n.spare, n.outer, n.layers

    def epoch(carry, k):
        weights, layers, previous = carry
        rate = (step / layers).astype(weights[0].dtype)

        def advance(weights, chosen):
            slope, right = jax.grad(objective, has_aux=True)(weights, layers, x[chosen], y[chosen])
            return tuple(w - rate * g for w, g in zip(weights, slope, strict=True)), right

        order = epoch_batches(x.shape[0], batch_size, key=jax.random.fold_in(key, k))
        weights, rights = jax.lax.scan(advance, weights, order)
        accuracy = rights.mean()
        used = layers
        more = grows(k, accuracy, previous, layers, most=1 + network.spare.shape[0], gain=gain, wait=wait)
        seen = None if measure is None else measure(eqx.tree_at(pieces, network, (*weights, layers)))
        return (weights, layers + more, accuracy), (accuracy, used, seen)

    *weights, layers = pieces(network)
    start = (tuple(weights), layers, jnp.zeros((), network.first.dtype))
    (weights, layers, _), (accuracies, used, record) = jax.lax.scan(epoch, start, jnp.arange(epochs))
    return Growth(eqx.tree_at(pieces, network, (*weights, layers)), accuracies, used, record)
