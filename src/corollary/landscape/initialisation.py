r"""What random weights do to the variance of signals: the delta method, one layer, and the recursion over layers."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


@implements("M19.01")
def delta_method_variance(g: Callable, mean: Scalar, variance: Scalar) -> Float[Array, ""]:
    r"""$\mathrm{Var}\,g(X)\approx g'(\mu)^2\,\mathrm{Var}X$ for a smooth $g$ of one number.

    For $X=\mu+sZ$ the error is $s^3g'(\mu)g''(\mu)\,\mathbb EZ^3+O(s^4)$: $O(s^4)$ if $Z$ is symmetric.
    """
    if not callable(g):
        raise TypeError(f"g must be a function of a number, got {type(g).__name__}.")
    mean, variance = real("mean", mean, ""), within("variance", real("variance", variance, ""), 0.0)
    return jax.grad(g)(mean) ** 2 * variance


@implements("M19.02")
def linear_layer_variances(weights: Float[ArrayLike, "m n"], variances: Float[ArrayLike, "n"]) -> Float[Array, "_"]:
    r"""$\mathrm{Var}(\sum_iw_{ji}H_i)=\sum_iw_{ji}^2\,\mathrm{Var}H_i$ for uncorrelated inputs and `weights` (m, n)."""
    weights, variances = _layer(weights, variances)
    return weights**2 @ variances


@implements("M19.02")
def layer_variance_bound(
    weights: Float[ArrayLike, "m n"], variances: Float[ArrayLike, "n"], slope: Scalar = 1.0
) -> Float[Array, ""]:
    r"""$\sum_j\mathrm{Var}(\sigma(Z_j))^2\le C^4\sum_{ij}w_{ji}^4\,\sum_i\mathrm{Var}(H_i)^2$, the right side.

    For uncorrelated inputs and a $C$-Lipschitz $\sigma$.
    """
    weights, variances = _layer(weights, variances)
    slope = positive("slope", real("slope", slope, ""))
    return slope**4 * jnp.sum(weights**4) * jnp.sum(variances**2)


@implements("M19.03")
def product_variance(
    mean_u: Float[ArrayLike, "..."],
    variance_u: Float[ArrayLike, "..."],
    mean_v: Float[ArrayLike, "..."],
    variance_v: Float[ArrayLike, "..."],
) -> Float[Array, "..."]:
    r"""$\mathrm{Var}(UV)=(\mathbb EU)^2\mathrm{Var}V+(\mathbb EV)^2\mathrm{Var}U+\mathrm{Var}U\,\mathrm{Var}V$ for
    independent $U$ and $V$.
    """
    mean_u, mean_v = real("mean_u", mean_u), real("mean_v", mean_v)
    variance_u = within("variance_u", real("variance_u", variance_u), 0.0)
    variance_v = within("variance_v", real("variance_v", variance_v), 0.0)
    return mean_u**2 * variance_v + mean_v**2 * variance_u + variance_u * variance_v


@implements("M19.03")
def variance_profile(activation: Callable, gain: Scalar, start: Scalar, depth: int) -> Float[Array, "..."]:
    r"""$v_\ell=\mathbb E\,\phi(\sqrt{c\,v_{\ell-1}}\,Z)^2$, $\ell=0..$`depth`, $v_0=$ `start`.

    The mean squares of very wide random layers: `gain` is $c=N\,\mathrm{Var}w$ and $Z$ standard normal, by
    Gauss-Hermite quadrature with 200 nodes. For $\phi$ with $\phi'(0)=1$ and small $v$ this is about $cv$, the rule of
    thumb.
    """
    if not callable(activation):
        raise TypeError(f"activation must be a function of an array, got {type(activation).__name__}.")
    gain, start = positive("gain", real("gain", gain, "")), positive("start", real("start", start, ""))
    depth = whole("depth", depth)
    return _variance_profile(activation, gain, start, depth)


@eqx.filter_jit
def _variance_profile(activation, gain, start, depth):
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    nodes, weights = jnp.asarray(nodes, start.dtype), jnp.asarray(weights / weights.sum(), start.dtype)

    def advance(v, _):
        v = weights @ activation(jnp.sqrt(gain * v) * nodes) ** 2
        return v, v

    _, rest = jax.lax.scan(advance, start, None, length=depth)
    return jnp.concatenate([start[None], rest])


def _layer(weights, variances):
    dims = {}
    weights = real("weights", weights, "m n", dims)
    return weights, within("variances", real("variances", variances, "n", dims), 0.0)
