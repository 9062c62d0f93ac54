r"""Fully connected networks whose layers are normalised before the activation, over the batch or over the units."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import one_of, real, whole
from corollary.catalog import implements
from corollary.nets.activations import relu
from corollary.nets.initialisations import he_normal
from corollary.nets.normalisation.batch import BatchMoments, batch_normalise
from corollary.nets.normalisation.layer import layer_normalise

KINDS = ("batch", "layer", "none")


@implements("B10.68", "B10.31")
class NormalisedMLP(eqx.Module):
    r"""$\tilde h^0=x$, $h^{l+1}=W^{l+1}\tilde h^l$, $z=\gamma\odot\frac{h-\mu}{\sigma}+\theta$, $\tilde h=\phi(z)$ and
    $f=W^{L+1}\tilde h^L$, for `sizes` $=(d,d_1,\dots,d_L,d_{L+1})$ and no biases but $\theta$.

    `batch` maps a batch, with the statistics of that batch, and returns them; called on one example, the network takes
    statistics that it is given. `kind="layer"` normalises over the units and `"none"` not at all: both have no
    statistics. `rescale=False` leaves $\gamma=1$, $\theta=0$ out of training. Problem 2 of B's chapter 10 has
    `unbiased=True`, `eps=0.0`.
    """

    weights: tuple[jax.Array, ...]
    scales: tuple[jax.Array, ...] | None
    shifts: tuple[jax.Array, ...] | None
    activation: Callable = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    unbiased: bool = eqx.field(static=True)
    eps: float = eqx.field(static=True)

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Callable = relu,
        *,
        key: PRNGKeyArray,
        kind: str = "batch",
        rescale: bool = True,
        unbiased: bool = False,
        eps: float = 1e-5,
        initialisation: Callable = he_normal,
    ):
        if not isinstance(sizes, Sequence) or len(sizes) < 3:
            raise TypeError(f"sizes must be a sequence of input, one or more hidden and output sizes, got {sizes!r}.")
        sizes = tuple(whole("sizes", n) for n in sizes)
        keys = jax.random.split(key, len(sizes) - 1)
        dtype = jnp.result_type(float)
        self.weights = tuple(
            initialisation(k, (m, n), dtype) for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
        )
        self.kind = one_of("kind", kind, KINDS)
        self.scales = tuple(jnp.ones(n) for n in sizes[1:-1]) if rescale and kind != "none" else None
        self.shifts = tuple(jnp.zeros(n) for n in sizes[1:-1]) if rescale else None
        self.activation, self.unbiased, self.eps = activation, bool(unbiased), float(eps)

    def batch(self, x: Float[ArrayLike, "n _"]) -> tuple:
        """The outputs of a batch (n, d), and the `Moments` of every hidden layer (empty unless kind is "batch")."""
        h = real("x", x, f"n {self.weights[0].shape[1]}", finite=False)
        statistics = []
        for i, weight in enumerate(self.weights[:-1]):
            h = h @ weight.T
            if self.kind == "batch":
                h, moments = batch_normalise(h, *self._affine(i), eps=self.eps, unbiased=self.unbiased)
                statistics.append(moments)
            else:
                h = self._alone(h, i)
            h = self.activation(h)
        return h @ self.weights[-1].T, tuple(statistics)

    def __call__(self, x: Float[ArrayLike, "_"], statistics: tuple[BatchMoments, ...] = ()) -> Float[Array, "_"]:
        """The output of one example (d,) under the given statistics of the hidden layers."""
        h = real("x", x, str(self.weights[0].shape[1]), finite=False)
        if self.kind == "batch" and len(statistics) != len(self.weights) - 1:
            raise ValueError(
                f"statistics must hold the moments of {len(self.weights) - 1} hidden layers, got {len(statistics)}."
            )
        for i, weight in enumerate(self.weights[:-1]):
            h = weight @ h
            if self.kind == "batch":
                scale, shift = self._affine(i)
                away = (h - statistics[i].mean) * jax.lax.rsqrt(statistics[i].variance + self.eps)
                h = away if scale is None else scale * away + shift
            else:
                h = self._alone(h, i)
            h = self.activation(h)
        return self.weights[-1] @ h

    def _affine(self, i):
        return None if self.scales is None else self.scales[i], None if self.shifts is None else self.shifts[i]

    def _alone(self, h, i):
        scale, shift = self._affine(i)
        if self.kind == "layer":
            return layer_normalise(h, scale, shift, eps=self.eps)
        return h if shift is None else h + shift
