r"""Sums of cosines: smooth, bounded, not convex, with certified constants."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import real, whole
from corollary.optimization.problem import Problem


def cosines(
    amplitudes: Float[ArrayLike, "m"],
    directions: Float[ArrayLike, "m d"],
    phases: Float[ArrayLike, "m"],
    start: Float[ArrayLike, "d"] | None = None,
) -> Problem:
    r"""$f(w)=\sum_jc_j\cos(a_j\cdot w+b_j)$ with $L\le\lambda_{\max}\big(\sum_j|c_j|a_ja_j^\top\big)$.

    Values lie within $\pm\sum_j|c_j|$, coordinate $i$ of the gradient within $\pm\sum_j|c_ja_{ji}|$.
    """
    dims = {}
    amplitudes, directions = real("amplitudes", amplitudes, "m", dims), real("directions", directions, "m d", dims)
    phases = real("phases", phases, "m", dims)
    start = jnp.zeros_like(directions[0]) if start is None else real("start", start, "d", dims)

    def value(w, amplitudes, directions, phases):
        return amplitudes @ jnp.cos(directions @ w + phases)

    L = jnp.linalg.eigvalsh((directions.T * jnp.abs(amplitudes)) @ directions)[-1]
    return Problem(value, (amplitudes, directions, phases), start, L=L)


def random_cosines(
    dim: int, *, key: PRNGKeyArray, terms: int = 10, scale: Scalar = 1.0, frequency: Scalar = 1.0
) -> Problem:
    r"""A sum of cosines with normal amplitudes of size `scale`/`terms` and normal directions of length about
    `frequency`.
    """
    dim, terms = whole("dim", dim), whole("terms", terms)
    scale, frequency = real("scale", scale, ""), real("frequency", frequency, "")
    c_key, a_key, b_key = jax.random.split(key, 3)
    amplitudes = scale * jax.random.normal(c_key, (terms,), scale.dtype) / terms
    directions = frequency * jax.random.normal(a_key, (terms, dim), scale.dtype) / jnp.sqrt(dim)
    phases = jax.random.uniform(b_key, (terms,), scale.dtype, 0.0, 2 * jnp.pi)
    return cosines(amplitudes, directions, phases)
