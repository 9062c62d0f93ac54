r"""Scaling laws: the loss as a function of a model's size and of its data, fitted and spent."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements


class ScalingLaw(NamedTuple):
    r"""$L(N,D)=A+BN^{-a}+CD^{-b}$: what stays, and factors and exponents of size and data."""

    constant: Scalar
    size_factor: Scalar
    size_exponent: Scalar
    data_factor: Scalar
    data_exponent: Scalar

    __repr__ = shown


#: as the text prints it; Hoffmann et al. (2022), whom it cites, have the constant 1.69
CHINCHILLA = ScalingLaw(1.61, 406.4, 0.34, 410.7, 0.28)


class Budget(NamedTuple):
    """A number of parameters, a number of training tokens, and the loss that a law says they lead to."""

    size: jax.Array
    tokens: jax.Array
    loss: jax.Array

    __repr__ = shown


@implements("T15.10")
def chinchilla_loss(
    size: Float[ArrayLike, "..."], tokens: Float[ArrayLike, "..."], law: ScalingLaw = CHINCHILLA
) -> Float[Array, "..."]:
    r"""$A+\frac B{N^a}+\frac C{D^b}$ nats per token, for $N$ parameters and $D$ training tokens.

    >>> round(float(chinchilla_loss(70e9, 1.4e12)), 4)
    1.8566
    """
    size, tokens = (positive(n, real(n, v)) for n, v in (("size", size), ("tokens", tokens)))
    constant, b, a, c, d = _law(law)
    try:
        return constant + b * size**-a + c * tokens**-d
    except (TypeError, ValueError):
        got = f"{size.shape} and {tokens.shape}"
        raise ValueError(f"The shapes of size and tokens must broadcast, got {got}.") from None


@implements("T15.10")
def compute_optimal(compute: Float[ArrayLike, "..."], law: ScalingLaw = CHINCHILLA) -> Budget:
    r"""The size and the number of tokens of the least loss with $6ND$ operations.

    $N=\big(\frac{aB}{bC}\big)^{1/(a+b)}\big(\frac{\rm compute}6\big)^{b/(a+b)}$, where both terms fall at the same
    rate.
    """
    product = positive("compute", real("compute", compute)) / 6
    _, b, a, c, d = _law(law)
    size = (a * b / (d * c)) ** (1 / (a + d)) * product ** (d / (a + d))
    return Budget(size, product / size, chinchilla_loss(size, product / size, law))


@implements("T15.10")
def fit_scaling_law(
    size: Float[ArrayLike, "n"], tokens: Float[ArrayLike, "n"], losses: Float[ArrayLike, "n"], *, steps: int = 200
) -> ScalingLaw:
    """The law with the least squares of errors in the losses of five or more runs.

    Levenberg-Marquardt steps from every start of a small grid of exponents; the best end is taken. A step that
    raises the sum of squares is not made.
    """
    dims, steps = {}, whole("steps", steps)
    size = positive("size", real("size", size, "n", dims))
    tokens = positive("tokens", real("tokens", tokens, "n", dims))
    losses = real("losses", losses, "n", dims)
    if size.shape[0] < 5:
        raise ValueError(f"losses must have at least five runs, one for each number of the law, got {size.shape[0]}.")
    # in units of the mean size, so that factors are of the order of the losses
    logs = jnp.log(size), jnp.log(tokens)
    centres = [jnp.mean(v) for v in logs]
    u, v = (log - centre for log, centre in zip(logs, centres, strict=True))

    def terms(exponents):
        return jnp.stack([jnp.ones_like(u), jnp.exp(-exponents[0] * u), jnp.exp(-exponents[1] * v)], 1)

    def residuals(theta):
        return terms(jnp.exp(theta[3:])) @ theta[:3] - losses

    def descend(start):
        theta = jnp.concatenate([jnp.linalg.lstsq(terms(start), losses)[0], jnp.log(start)])

        def step(carry, _):
            theta, damping = carry
            r, slope = residuals(theta), jax.jacfwd(residuals)(theta)
            square = slope.T @ slope
            scale = jnp.diag(jnp.diag(square) + 1e-12 * jnp.trace(square))
            moved = theta - jnp.linalg.solve(square + damping * scale, slope.T @ r)
            better = jnp.sum(residuals(moved) ** 2) < jnp.sum(r**2)
            damping = jnp.clip(jnp.where(better, damping / 5, damping * 4), 1e-15, 1e10)
            return (jnp.where(better, moved, theta), damping), None

        (theta, _), _ = jax.lax.scan(step, (theta, jnp.asarray(1e-3, losses.dtype)), None, length=steps)
        return theta, jnp.sum(residuals(theta) ** 2)

    grid = jnp.stack(jnp.meshgrid(*[jnp.array([0.1, 0.3, 0.9], losses.dtype)] * 2), -1).reshape(-1, 2)
    ends, errors = jax.vmap(descend)(grid)
    constant, b, c, a, d = ends[jnp.nanargmin(errors)]
    a, d = jnp.exp(a), jnp.exp(d)
    return ScalingLaw(constant, b * jnp.exp(a * centres[0]), a, c * jnp.exp(d * centres[1]), d)


def _law(law):
    if not isinstance(law, ScalingLaw):
        raise TypeError(f"law must be a ScalingLaw, got {type(law).__name__}.")
    return [real(name, value, "") for name, value in zip(law._fields, law, strict=True)]
