r"""A deep linear classifier $p=\mathrm{softmax}(W_L\cdots W_1x)$ under the cross-entropy: both passes written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._show import shown
from corollary._validate import labels, real
from corollary.catalog import implements
from corollary.landscape._chain import chain


class Passes(NamedTuple):
    r"""Of one example: `loss` $-\ln p_y$, `probabilities` $p$, `activations` $a^0=x,\dots,a^L=z$, `errors`
    $\delta^1,\dots,\delta^L$ with $\delta^l=\partial\ell/\partial a^l$, and `gradients` $\partial\ell/\partial W^l$.
    """

    loss: jax.Array
    probabilities: jax.Array
    activations: tuple[jax.Array, ...]
    errors: tuple[jax.Array, ...]
    gradients: tuple[jax.Array, ...]

    __repr__ = shown


@implements("B06.22")
def classifier_passes(weights: Sequence[Array], x: Float[ArrayLike, "_"], y: Int[ArrayLike, ""]) -> Passes:
    r"""Forward $a^l=W^la^{l-1}$, backward $\delta^L=p-e_y$, $\delta^l=(W^{l+1})^\top\delta^{l+1}$, and the gradients
    $\delta^l(a^{l-1})^\top$, for an input `x` (d,) and its class `y`.
    """
    weights = chain("weights", weights)
    classes = weights[-1].shape[0]
    x, y = real("x", x, str(weights[0].shape[1])), labels("y", y, classes, "")
    activations = [x.astype(weights[0].dtype)]
    for w in weights:
        activations.append(w @ activations[-1])
    log_p = jax.nn.log_softmax(activations[-1])
    errors = [jnp.exp(log_p) - jax.nn.one_hot(y, classes, dtype=log_p.dtype)]
    for w in weights[:0:-1]:
        errors.append(w.T @ errors[-1])
    errors.reverse()
    gradients = tuple(jnp.outer(delta, a) for delta, a in zip(errors, activations[:-1], strict=True))
    return Passes(-log_p[y], jnp.exp(log_p), tuple(activations), tuple(errors), gradients)


@implements("B06.22")
def classifier_loss(weights: Sequence[Array], x: Float[ArrayLike, "_"], y: Int[ArrayLike, ""]) -> Float[Array, ""]:
    r"""$-\ln p_y$ with $p=\mathrm{softmax}(W_L\cdots W_1x)$, for an input `x` (d,) and its class `y`."""
    return classifier_passes(weights, x, y).loss
