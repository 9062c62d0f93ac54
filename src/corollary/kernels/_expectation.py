r"""$\mathbb E[f(u)f(v)]$ of two jointly Gaussian numbers, for any function $f$, by quadrature."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from corollary.foundations import normal_rule


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def product_mean(f, nodes, q11, q12, q22):
    r"""$\mathbb E[f(u)f(v)]$ with $\operatorname{Var}u=q_{11}$, $\operatorname{Var}v=q_{22}$, covariance $q_{12}$.

    `f` acts entrywise. Derivatives are expectations too, hence right at correlation 1, where the quadrature's own are
    not: $\partial_{12}=\mathbb E[f'(u)f'(v)]$ and $2q_{11}\partial_{11}=\mathbb E[uf'(u)f(v)]-q_{12}\partial_{12}$.
    """
    return _mean(lambda u, v: f(u) * f(v), nodes, q11, q12, q22)


@product_mean.defjvp
def _product_mean_jvp(f, nodes, primals, tangents):
    q11, q12, q22 = primals
    slope = slope_of(f)
    cross = product_mean(slope, nodes, q11, q12, q22)
    scaled1 = _mean(lambda u, v: u * slope(u) * f(v), nodes, q11, q12, q22)
    scaled2 = _mean(lambda u, v: v * slope(v) * f(u), nodes, q11, q12, q22)
    half1 = (scaled1 - q12 * cross) / jnp.where(q11 > 0, 2 * q11, 1)
    half2 = (scaled2 - q12 * cross) / jnp.where(q22 > 0, 2 * q22, 1)
    tangent = half1 * tangents[0] + cross * tangents[1] + half2 * tangents[2]
    return product_mean(f, nodes, *primals), tangent


def slope_of(f):
    r"""$f'$ of a function that acts entrywise."""
    return _Slope(f)


class _Slope:
    """Equal for equal functions, so that a compiled program is found again."""

    def __init__(self, f):
        self.f = f

    def __call__(self, z):
        return jax.jvp(self.f, (z,), (jnp.ones_like(z),))[1]

    def __eq__(self, other):
        return isinstance(other, _Slope) and other.f == self.f

    def __hash__(self):
        return hash((_Slope, self.f))


def _mean(g, nodes, q11, q12, q22):
    """The mean of `g(u, v)`: one fused reduction over a square of nodes, which is never stored."""
    z, weights = normal_rule(nodes, q12.dtype)
    z1, z2 = np.meshgrid(z, z, indexing="ij")
    w = np.multiply.outer(weights, weights).ravel()
    z1, z2, w = (jnp.asarray(a.ravel(), q12.dtype) for a in (z1, z2, w))
    r1, r2 = jnp.sqrt(q11)[..., None], jnp.sqrt(q22)[..., None]
    scale = r1 * r2
    rho = jnp.clip(q12[..., None] / jnp.where(scale > 0, scale, 1), -1, 1)
    return jnp.sum(g(r1 * z1, r2 * (rho * z1 + jnp.sqrt((1 - rho) * (1 + rho)) * z2)) * w, -1)
