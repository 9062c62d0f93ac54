r"""The trace of a matrix known only by its products, with its standard error.

Hutchinson: $\mathbb E\,z^\top Hz=\operatorname{tr}H$ for random signs $z$. Hutch++: the part of $H$ inside the span of
a few products is taken exactly, and only the rest is sampled; for a spectrum with a few large eigenvalues, such as a
Hessian's, the error falls like the inverse of the number of products instead of its root.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import PRNGKeyArray
from matfree import stochtrace

from corollary._show import shown
from corollary._validate import whole


class Trace(NamedTuple):
    """An estimate of a trace and its standard error."""

    value: jax.Array
    error: jax.Array

    __repr__ = shown


def hutchinson(
    product: Callable, size: int, *, key: PRNGKeyArray, probes: int = 32, dtype: DTypeLike | None = None
) -> Trace:
    """The mean of `probes` quadratic forms in random signs."""
    size, probes = whole("size", size), whole("probes", probes, 2)
    dtype = jnp.result_type(float) if dtype is None else dtype
    quadratic, one = stochtrace.monte_carlo_trace(), stochtrace.sampler_signs(jnp.zeros(size, dtype), num=1)
    values = jax.lax.map(lambda key: quadratic(product, one(key)[0]), jax.random.split(key, probes))
    return Trace(values.mean(), values.std(ddof=1) / jnp.sqrt(probes))


def hutch_plus_plus(
    product: Callable, size: int, *, key: PRNGKeyArray, probes: int = 32, dtype: DTypeLike | None = None
) -> Trace:
    """A third of the `probes` products spans a subspace, a third gives its trace exactly, a third samples the rest."""
    size, probes = whole("size", size), whole("probes", probes, 6)
    dtype = jnp.result_type(float) if dtype is None else dtype
    third = min(probes // 3, size)
    sketch_key, rest_key = jax.random.split(key)

    def images(vectors):
        return jax.lax.map(product, vectors)

    basis = jnp.linalg.qr(images(_signs(sketch_key, third, size, dtype)).T)[0].T
    inside = jnp.sum(basis * images(basis))
    z = _signs(rest_key, max(third, 2), size, dtype)
    z = z - (z @ basis.T) @ basis
    outside = jnp.sum(z * images(z), axis=1)
    return Trace(inside + outside.mean(), outside.std(ddof=1) / jnp.sqrt(len(outside)))


def _signs(key, count, size, dtype):
    return jax.random.rademacher(key, (count, size)).astype(dtype)
