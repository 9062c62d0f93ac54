r"""The smooth maximum, and continuous piecewise linear functions of one number as ReLU networks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, positive, real
from corollary.catalog import implements
from corollary.nets.activations import identity, relu
from corollary.nets.feedforward import FeedForward


@implements("M05.24")
def smooth_maximum(x: Float[ArrayLike, "... d"], beta: Scalar) -> Array:
    r"""$\beta\ln\sum_ie^{x_i/\beta}$ over the last axis, without overflow.

    Between $\max_ix_i$ and $\max_ix_i+\beta\ln d$. Of $(x,0)$ it is the softplus with the inverse parameter,
    $\mathrm{Softplus}_{1/\beta}(x)$. The gradient is softmax$(x/\beta)$.
    """
    x, beta = real("x", x, "... d"), positive("beta", real("beta", beta, ""))
    return beta * jax.nn.logsumexp(x / beta, axis=-1)


@implements("M05.29")
def piecewise_linear(
    x: Float[ArrayLike, "..."], knots: Float[ArrayLike, "k"], slopes: Float[ArrayLike, "m"], value: Scalar = 0.0
) -> Array:
    r"""The continuous function with these `slopes` between increasing `knots`, and `value` at the first knot.

    $k$ knots, $k+1$ slopes: the first to the left of all knots, the last to the right. Entrywise.
    """
    x, (knots, slopes, value) = real("x", x), _pieces(knots, slopes, value)
    heights = value + jnp.concatenate([jnp.zeros(1, knots.dtype), jnp.cumsum(slopes[1:-1] * jnp.diff(knots))])
    piece = jnp.searchsorted(knots, x, side="right")
    anchor = jnp.maximum(piece - 1, 0)
    return heights[anchor] + slopes[piece] * (x - knots[anchor])


@implements("M05.28", "M05.29")
def relu_network(knots: Float[ArrayLike, "k"], slopes: Float[ArrayLike, "m"], value: Scalar = 0.0) -> FeedForward:
    r"""The same function as `piecewise_linear`, as a network 1-(k+1)-1 with one ReLU layer.

    $$f(x)=v-s_0(\kappa_1-x)_++s_1(x-\kappa_1)_++\sum_{i\ge2}(s_i-s_{i-1})(x-\kappa_i)_+ .$$
    One unit a knot, and one more for the slope on the left; a unit with outer weight 0 can be left out.
    """
    knots, slopes, value = _pieces(knots, slopes, value)
    one = jnp.ones((1, 1), knots.dtype)
    weight = jnp.concatenate([-one, jnp.broadcast_to(one, (len(knots), 1))])
    bias = jnp.concatenate([knots[:1], -knots])
    outer = jnp.concatenate([-slopes[:1], slopes[1:2], jnp.diff(slopes[1:])])
    return FeedForward.of([(weight, bias), (outer[None], value[None])], (relu, identity))


def _pieces(knots, slopes, value):
    knots, slopes, value = real("knots", knots, "k"), real("slopes", slopes, "m"), real("value", value, "")
    if slopes.shape[0] != knots.shape[0] + 1:
        raise ValueError(f"slopes must be one more than the knots, {knots.shape[0] + 1}, got {slopes.shape[0]}.")
    if concrete(knots) and (np.diff(np.asarray(knots)) <= 0).any():
        raise ValueError(f"knots must increase, got {np.asarray(knots).tolist()}.")
    return knots, slopes, value
