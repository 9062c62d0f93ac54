"""What is measured and what is predicted at all listed critical points of a linear network."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.claims.landscape._linear_data import linear_data, other_bases
from corollary.landscape import (
    critical_point,
    critical_value,
    deep_linear_loss,
    hessian_inertia,
    hessian_spectrum,
    principal_directions,
)


def survey(sizes, sets):
    """A compiled program that measures at the critical points of all `sets`: value, slope, spectrum of the Hessian.

    For white inputs at the balanced points, otherwise for other inputs and in other bases.
    """

    @jax.jit
    def measure(key, strengths):
        def at(points, x, y):
            def one(weights):
                flat, unravel = ravel_pytree(weights)
                loss = lambda v: deep_linear_loss(unravel(v), x, y)  # noqa: E731
                value, slope = jax.value_and_grad(loss)(flat)
                return value, slope, jnp.linalg.eigvalsh(jax.hessian(loss)(flat))

            return jax.lax.map(one, points)

        data = [
            linear_data(key, strengths, inputs=sizes[0], outputs=sizes[-1], n=3 * max(sizes), white=white)
            for white in (True, False)
        ]
        principals = [principal_directions(x, y) for x, y in data]
        points = [jax.vmap(lambda c, p=p: critical_point(p, c, sizes[1:-1]))(jnp.asarray(sets)) for p in principals]
        points[1] = jax.lax.map(lambda w: other_bases(key, w), points[1])
        # both kinds of data through one loop: the Hessian is compiled once
        (xs, ys), both = (jnp.stack(d) for d in zip(*data, strict=True)), jax.tree.map(lambda *w: jnp.stack(w), *points)
        return jax.lax.map(lambda a: at(*a), (both, xs, ys)), jnp.stack(
            [jax.vmap(lambda c, p=p: critical_value(p, c))(jnp.asarray(sets)) for p in principals]
        )

    return measure


def signs(spectra, rounding=1e-9):
    """Negative, zero and positive eigenvalues; those that are not zero are far above the rounding of 1e-15."""
    spectra = np.asarray(spectra)
    return np.stack([np.sum(c, -1) for c in (spectra < -rounding, np.abs(spectra) <= rounding, spectra > rounding)], -1)


def predictions(strengths, sets, sizes):
    """Counts and eigenvalues at the critical points of all `sets`, from the formulas."""

    @jax.jit
    @jax.vmap
    def formulas(chosen):
        return jnp.stack(hessian_inertia(strengths, chosen, sizes)), hessian_spectrum(strengths, chosen, sizes)

    return map(np.asarray, formulas(sets))


def spaced(count):
    """Distinct strengths from 2 down to 1/2."""
    return np.linspace(2.0, 0.5, count)
