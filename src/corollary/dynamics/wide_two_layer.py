r"""The two-layer network of fixed signs, $f(x)=\frac1{\sqrt m}\sum_ra_r\sigma(w_r\cdot x)$, and its training.

It is a `ShallowNetwork` whose outer weights are signs; what training the $w_r$ gives is the second of its
`tangent_parts`, $H_{ij}=x_i\cdot x_j\frac1m\sum_r\sigma'(w_r\cdot x_i)\sigma'(w_r\cdot x_j)$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import concrete, labels, positive, real, whole
from corollary.catalog import implements
from corollary.dynamics.shallow import ScaledNetwork, shallow_velocity


@implements("T09.07", "E09.12")
def draw_signed(
    units: int, features: int, *, key: PRNGKeyArray, antisymmetric: bool = False, **options: Any
) -> ScaledNetwork:
    r"""$w_r\sim\mathcal N(0,I)$ and $a_r$ uniform on $\pm1$. `options` are those of `ShallowNetwork`.

    `antisymmetric` draws half of the units and pairs each $(a,w)$ with $(-a,w)$, so that the outputs are zero before
    training and the kernel is that of the half.
    """
    units, features = whole("units", units), whole("features", features)
    if antisymmetric:
        if units % 2:
            raise ValueError(f"units must be even, because they come in pairs of opposite signs, got {units}.")
        width = options.get("width")
        if width is not None and concrete(width) and np.asarray(width) % 2:
            raise ValueError(f"width must be even, because units come in pairs of opposite signs, got {width}.")
    sign_key, weight_key = jax.random.split(key)
    drawn, dtype = units // 2 if antisymmetric else units, jnp.result_type(float)
    signs = jax.random.rademacher(sign_key, (drawn,), dtype)
    weights = jax.random.normal(weight_key, (drawn, features), dtype)
    if antisymmetric:  # neighbours, so that every even width has whole pairs
        signs, weights = jnp.stack([signs, -signs], 1).ravel(), jnp.repeat(weights, 2, 0)
    return ScaledNetwork(signs, weights, **options)


@implements("T09.03", "T09.07")
def wide_descent(
    network: ScaledNetwork,
    x: Float[ArrayLike, "n d"],
    y: Float[ArrayLike, "n"],
    step: Scalar,
    checkpoints: Int[ArrayLike, "t"],
    *,
    outer: bool = False,
    observe: Callable | None = None,
) -> tuple[Float[Array, "_ _"], Any]:
    r"""Gradient descent on $\frac12\sum_i(f(x_i)-y_i)^2$: what `observe(network)` gives after each of `checkpoints`.

    `checkpoints` are increasing numbers of steps, of which the last is the end; they may be traced. The inner weights
    are trained, and the outer ones with `outer`. The rate is `step` times $N^{2\gamma-1}$: `step` itself for
    $\gamma=\frac12$, and the one that moves the outputs as much for the average $\gamma=1$. `observe` is the outputs at
    `x` unless given. Returns the observations, stacked, and the network at the end.
    """
    if not isinstance(network, ScaledNetwork):
        raise TypeError(f"network must be a ShallowNetwork, got {type(network).__name__}.")
    dims = {"d": network.inner.shape[1] - network.bias}
    x, y = real("x", x, "n d", dims), real("y", y, "n", dims)
    step = positive("step", real("step", step, ""))
    points = labels("checkpoints", checkpoints, None, "t")
    if concrete(checkpoints) and (np.diff(np.asarray(checkpoints)) < 0).any():
        raise ValueError("checkpoints must increase.")
    if observe is not None and not callable(observe):
        raise TypeError(f"observe must be a function of the network, got {type(observe).__name__}.")
    observe = observe or (lambda network: network(x))

    def one(_, network):
        # the velocity is that of the mean over the examples
        outward, inward = shallow_velocity(network, x, y, step * y.shape[0])
        weights = network.outer + outward if outer else network.outer, network.inner + inward
        return eqx.tree_at(lambda n: (n.outer, n.inner), network, weights)

    def onward(state, end):
        begin, network = state
        network = jax.lax.fori_loop(begin, end, one, network)
        return (end, network), observe(network)

    (_, network), observed = jax.lax.scan(onward, (jnp.zeros((), points.dtype), network), points)
    return observed, network
