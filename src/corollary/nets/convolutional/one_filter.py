r"""A convolutional network with one filter: the reference signal is learned along with the decision."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, positive, real, whole
from corollary.catalog import implements
from corollary.nets.convolutional.detection import sliding_windows
from corollary.nets.convolutional.operator import cross_correlate
from corollary.nets.epochs import train_epochs
from corollary.network.loss import BatchLoss
from corollary.network.losses import cross_entropy


@implements("M14.09")
def maximum(x: Float[ArrayLike, "n"]) -> Float[Array, ""]:
    r"""$M(x)=\max_ix_i$."""
    return jnp.max(real("x", x, "n"))


class MaximumGradient(NamedTuple):
    r"""$\mathbf 1_{\{n=\arg\max x\}}$, at ties the first index, and whether the derivative exists: no tie."""

    gradient: jax.Array
    differentiable: jax.Array

    __repr__ = shown


@implements("M14.09")
def maximum_gradient(x: Float[ArrayLike, "n"]) -> MaximumGradient:
    r"""$\partial M/\partial x_n$. At a tie the one-sided derivatives differ, and the first of the largest gets all."""
    x = real("x", x, "n")
    winner = jnp.argmax(x)
    return MaximumGradient(jax.nn.one_hot(winner, x.shape[0], dtype=x.dtype), jnp.sum(x == x[winner]) == 1)


class OneFilterGradient(NamedTuple):
    """The gradient of the loss of one signal by filter, weight and bias, and the start of the window that matched."""

    filter: jax.Array
    weight: jax.Array
    bias: jax.Array
    window: jax.Array

    __repr__ = shown


@implements("M14.08", "M14.11")
class OneFilterCNN(eqx.Module):
    r"""$m(\mathbf X;r,w,b)=S(w\max_n(\mathbf r\star\mathbf X)_n+b)$ with $N'+2$ parameters, called on one signal.

    The output is the same for $(c\,\mathbf r,w/c)$, $c>0$. `relu` takes $\max_n\mathrm{ReLU}((\mathbf r\star\mathbf
    X)_n)$ instead: where all correlations are negative, the filter has no gradient.
    """

    filter: jax.Array
    weight: jax.Array
    bias: jax.Array
    relu: bool = eqx.field(static=True)

    def __init__(
        self, size: int, *, key: PRNGKeyArray, scale: Scalar = 0.1, weight: ArrayLike = 0.5, relu: bool = False
    ):
        self.filter = positive("scale", scale) * jax.random.normal(key, (whole("size", size),))
        self.weight, self.bias = jnp.asarray(float(weight)), jnp.zeros(())
        self.relu = bool(relu)

    def feature(self, x: Float[ArrayLike, "N"]) -> Float[Array, ""]:
        r"""$\max_n(\mathbf r\star\mathbf X)_n$, with `relu` of its positive part."""
        correlation = sliding_windows(x, self.filter.shape[0]) @ self.filter
        return jnp.max(jax.nn.relu(correlation) if self.relu else correlation)

    def logit(self, x: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        return self.weight * self.feature(x) + self.bias

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return jax.nn.sigmoid(self.logit(x))

    def loss(self, x: Float[ArrayLike, "..."], y: Int[ArrayLike, ""]) -> Float[Array, ""]:
        r"""$\ell_y(m(\mathbf X))$ of one signal."""
        return cross_entropy(self.logit(x), labels("y", y, 2, ""))

    def fit(
        self,
        x: Float[ArrayLike, "n N"],
        y: Int[ArrayLike, "n"],
        *,
        key: PRNGKeyArray,
        epochs: int = 20,
        step: Scalar = 0.02,
    ) -> "OneFilterCNN":
        """Stochastic gradient descent over signals `x` (n, N), one at a time, each once in an epoch."""
        x = real("x", x, "n N", dims := {})
        y = labels("y", y, 2, "n", dims)
        loss = BatchLoss(_mean_loss)
        return train_epochs(self, loss, (x, y), optax.sgd(step), epochs=epochs, batch_size=1, key=key).network


@implements("M14.10", "M14.11", "M14.23")
def one_filter_gradient(network: OneFilterCNN, x: Float[ArrayLike, "N"], y: Int[ArrayLike, ""]) -> OneFilterGradient:
    r"""The gradient (14.6), written out: with $n^*=\arg\max_n(\mathbf r\star\mathbf X)_n$ and $g=S(wM+b)-y$,
    $\partial_{r_j}=g\,w\,X_{n^*+j}$, $\partial_w=gM$, $\partial_b=g$.

    The filter moves along the piece of the signal that it matches best now. With `relu` the first two vanish where
    $M=0$.
    """
    if not isinstance(network, OneFilterCNN):
        raise TypeError(f"network must be a OneFilterCNN, got {type(network).__name__}.")
    x = real("x", x, "N")
    correlation = cross_correlate(network.filter, x)
    start = jnp.argmax(correlation)
    size = network.filter.shape[0]
    alive = (correlation[start] > 0) if network.relu else True
    match = jnp.where(alive, correlation[start], 0.0)
    g = jax.nn.sigmoid(network.weight * match + network.bias) - labels("y", y, 2, "")
    piece = jax.lax.dynamic_slice(x, (start,), (size,))
    return OneFilterGradient(jnp.where(alive, g * network.weight, 0.0) * piece, g * match, g, start)


def _mean_loss(network, batch):
    return jnp.mean(jax.vmap(network.loss)(*batch))
