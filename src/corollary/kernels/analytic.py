r"""Kernels of infinitely wide, fully connected networks, in closed form.

A network of `depth` hidden layers: $f^1=\frac{\sigma_w}{\sqrt d}W^1x+\sigma_bb^1$, then
$f^{l+1}=\frac{\sigma_w}{\sqrt{n_l}}W^{l+1}\phi(f^l)+\sigma_bb^{l+1}$, all entries from $\mathcal N(0,1)$; the output is
$f^{\text{depth}+1}$.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.kernels import _covariance
from corollary.kernels.dual import activation as find_activation


@implements("B07.17", "T09.20")
def nngp(
    x1: Float[ArrayLike, "n d"],
    x2: Float[ArrayLike, "m d"] | None = None,
    *,
    depth: int,
    activation: str | Callable = "relu",
    weight_std: Scalar = 2**0.5,
    bias_std: Scalar = 0.0,
) -> Float[Array, "n _"]:
    r"""Covariance of the output over the weights at the rows of `x1` and `x2`, (n1, n2), as the widths grow.

    $\Sigma^1=\sigma_w^2\langle x,x'\rangle/d+\sigma_b^2$,
    $\Sigma^{l+1}=\sigma_w^2\,\mathbb E[\phi(u)\phi(v)]+\sigma_b^2$ over $(u,v)\sim\mathcal N(0,\Sigma^l|_{x,x'})$.
    One set with itself unless `x2` is given. `activation` is a name, a module of `kernels.dual`, or any function that
    acts entrywise. Differentiable in everything but `depth`; finite also where a point of `x2` is one of `x1`.

    >>> print(nngp(jnp.eye(2), depth=1))
    [[1.    0.318]
     [0.318 1.   ]]
    """
    return _wide(*_checked(x1, x2, depth, activation, weight_std, bias_std), "cross")


@implements("B07.18", "T09.22", "E09.10")
def ntk(
    x1: Float[ArrayLike, "n d"],
    x2: Float[ArrayLike, "m d"] | None = None,
    *,
    depth: int,
    activation: str | Callable = "relu",
    weight_std: Scalar = 2**0.5,
    bias_std: Scalar = 0.0,
) -> Float[Array, "n _"]:
    r"""Tangent kernel at the rows of `x1` and `x2`, (n1, n2), as the widths grow; all parameters are trained.

    $\Theta^1=\Sigma^1$, $\Theta^{l+1}=\sigma_w^2\,\mathbb E[\phi'(u)\phi'(v)]\,\Theta^l+\Sigma^{l+1}$. Arguments as in
    `nngp`.

    >>> print(ntk(jnp.eye(2), depth=1))
    [[2.    0.318]
     [0.318 2.   ]]
    """
    return _wide(*_checked(x1, x2, depth, activation, weight_std, bias_std), "tangent")


@implements("B07.22", "T09.07", "T09.08")
def first_layer_ntk(
    x1: Float[ArrayLike, "n d"], x2: Float[ArrayLike, "m d"] | None = None, *, activation: str | Callable = "relu"
) -> Float[Array, "_ _"]:
    r"""$H^*(x,x')=x\cdot x'\;\mathbb E_{w\sim\mathcal N(0,I)}[\phi'(w\cdot x)\phi'(w\cdot x')]$, (n1, n2).

    The tangent kernel of $f(x)=\frac1{\sqrt m}\sum_ra_r\phi(w_r\cdot x)$ with signs $a_r$, as $m$ grows, where only the
    $w_r$ are trained. For ReLU and unit vectors $x\cdot x'\,(\pi-\arccos x\cdot x')/2\pi$.
    """
    x1, x2, _, phi, _, _ = _checked(x1, x2, 1, activation, 1.0, 0.0)
    dim = x1.shape[-1]
    state = _covariance.of_inputs(x1, x2, False)
    return dim * state.cross * phi.pair(dim * state.first[:, None], dim * state.cross, dim * state.second)[1]


@partial(jax.jit, static_argnames=("depth", "part"))
def _wide(x1, x2, depth, phi, weight_std, bias_std, part):
    """One part of the state only: what is not returned is not computed."""

    def layer(state):
        return _covariance.affine(_covariance.activate(state, phi), weight_std, bias_std)

    state = _covariance.affine(_covariance.of_inputs(x1, x2, False), weight_std, bias_std)
    if depth > _covariance.FUSED:  # a loop keeps them apart, and compiles in the time of one
        return getattr(lax.fori_loop(0, depth, lambda _, s: layer(s), state), part)
    for _ in range(depth):
        state = layer(state)
    return getattr(state, part)


def _checked(x1, x2, depth, activation, weight_std, bias_std):
    dims = {}
    x1 = real("x1", x1, "n d", dims)
    x2 = None if x2 is None else real("x2", x2, "m d", dims)
    dtype = x1.dtype if x2 is None else jnp.result_type(x1, x2)
    stds = (
        within(n, real(n, v, ""), 0.0).astype(dtype) for n, v in (("weight_std", weight_std), ("bias_std", bias_std))
    )
    points = x1.astype(dtype), None if x2 is None else x2.astype(dtype)
    return *points, whole("depth", depth, 0), find_activation(activation), *stds
