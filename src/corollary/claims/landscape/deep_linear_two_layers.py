"""All critical points of linear networks with one hidden layer, and their Hessians."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.claims.landscape._critical_survey import predictions, signs, spaced, survey
from corollary.claims.landscape._linear_data import linear_data, product
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal
from corollary.landscape import (
    Principal,
    critical_point,
    critical_points,
    deep_linear_loss,
    index_sets,
    principal_directions,
)

Side = Annotated[int, Range(2, 5)]
Width = Annotated[int, Range(1, 4)]


@claim(rows=("B06.08",))
def two_layer_critical_points(key, *, inputs: Side = 4, outputs: Side = 4, width: Width = 2):
    r"""Every set of principal directions gives a critical point of ABx, whose Hessian is known exactly.

    Let $\Sigma_{xx}$ be invertible and $\Sigma_{yx}\Sigma_{xx}^{-1/2}=\sum_is_iu_iv_i^\top$ with distinct $s_i>0$
    ($q$ of them; $\lambda_i=s_i^2$). For $I$ with $|I|=r\le p$, the width, the loss has a critical point with
    $AB=\sum_{i\in I}s_iu_iv_i^\top\Sigma_{xx}^{-1/2}$ and the value
    $\frac12(\mathrm{tr}\Sigma_{yy}-\sum_{i\in I}\lambda_i)$. Its Hessian has
    $$\#\{i\notin I,j\in I:\lambda_i>\lambda_j\}+(p-r)(q-r)\text{ negative and }r^2+(p-r)(k+d-2q+2r)\text{ zero}$$
    eigenvalues, for all data and bases: only the set of the strongest directions has no negative one, every other
    critical point is a strict saddle. For white inputs and balanced factors the eigenvalues are $s_j\pm s_i$
    ($i\notin I,j\in I$), $s_i+s_j$ and 0 ($i,j\in I$), $\pm s_i$ ($i\notin I$; $p-r$ times), $s_j$ ($|k-d|$ times)
    and 0.
    """
    sizes, strengths = (inputs, width, outputs), spaced(min(inputs, outputs))
    sets = index_sets(strengths.size, width)
    measure = survey(sizes, sets)
    (values, slopes, spectra), predicted = measure(key, jnp.asarray(strengths))
    counts, exact = predictions(strengths, sets, sizes)
    measured = signs(spectra)
    yield equal("slope", slopes, np.zeros_like(slopes), atol=1e-12)
    yield equal("value", values, predicted, along="set")
    for i, name in enumerate(("negative", "zero", "positive")):
        yield equal(f"{name} eigenvalues", measured[..., i], np.stack([counts[:, i]] * 2), atol=0, along="set")
    yield equal("all eigenvalues, white inputs", spectra[0], exact, atol=1e-11)
    most = min(width, strengths.size)
    best = (sets.sum(1) == most) & sets[:, :most].all(1)
    yield at_least("negative eigenvalues away from the global minimum", measured[:, ~best, 0], 1, along="set")
    yield equal("negative eigenvalues at the global minimum", measured[:, best, 0], 0.0, atol=0)
    # a direction that is not in the targets: the origin has fewer ways down than a full rank would give
    (_, _, spectra), _ = measure(key, jnp.asarray(np.append(strengths[:-1], 0.0)))
    yield control(
        "targets with all directions: here without one",
        equal("negative eigenvalues", signs(spectra)[..., 0], np.stack([counts[:, 0]] * 2), atol=0),
    )


@claim(rows=("B06.08",))
def no_other_critical_points(key, *, dim: Annotated[int, Range(2, 4)] = 3, starts: Size = 100):
    r"""The critical points of ABx are those of the list and no others, if the strengths are distinct.

    Let $d=k$ and $s_1>\dots>s_d>0$. Wherever the gradient of $\frac12\|Y-ABX\|_F^2$ vanishes, $AB$ is one of the
    $\sum_{r\le p}\binom dr$ maps $\sum_{i\in I}s_iu_iv_i^\top\Sigma_{xx}^{-1/2}$. With $s_i=s_j$ there is a continuum
    of others: every direction between $u_i$ and $u_j$ will do.
    """
    width = 2
    sets = index_sets(dim, width)

    @jax.jit
    def measure(key, strengths):
        data_key, start_key = jax.random.split(key)
        x, y = linear_data(data_key, strengths, inputs=dim, outputs=dim, n=3 * dim)
        principal = principal_directions(x, y)
        listed = jax.vmap(lambda c: principal.outputs @ ((c * principal.strengths)[:, None] * principal.inputs))(
            jnp.asarray(sets)
        )

        def split(v):
            return v[: width * dim].reshape(width, dim), v[width * dim :].reshape(dim, width)

        def nearest(whole):
            apart = jnp.linalg.norm(listed - whole, axis=(1, 2))
            return apart.min(), jnp.argmin(apart)

        found = critical_points(
            lambda v: deep_linear_loss(split(v), x, y), 0.7 * jax.random.normal(start_key, (starts, 2 * width * dim))
        )
        ends = jax.vmap(lambda v: nearest(product(split(v))))(found.points)
        # half way between the last two directions, which have one strength in the control
        turn = jnp.eye(dim).at[-2:, -2:].set(jnp.array([[1.0, 1.0], [-1.0, 1.0]]) / jnp.sqrt(2.0))
        between = Principal(principal.outputs @ turn, principal.strengths, turn.T @ principal.inputs, principal.rest)
        point = critical_point(between, jnp.arange(dim) == dim - 1, (width,))
        slope = ravel_pytree(jax.grad(deep_linear_loss)(point, x, y))[0]
        return ends, found.converged, jnp.linalg.norm(slope), nearest(product(point))[0]

    distinct = spaced(dim)
    (apart, which), converged, slope, _ = measure(key, jnp.asarray(distinct))
    converged = np.asarray(converged)
    # the search stops at a gradient of 1.5e-8, the curvature across the critical sets is of the order 1/10
    yield at_most("distance from the nearest map of the list", apart[converged], 1e-6)
    # about half of the searches get there
    yield at_least("searches that ended at a critical point", converged.sum(), starts // 10)
    yield at_least("maps of the list that were found", np.unique(which[converged]).size, len(sets) // 2)
    yield control("directions of one strength: here distinct ones are mixed", at_most("slope", slope, 1e-6))
    _, _, slope, apart = measure(key, jnp.asarray(np.append(distinct[:-1], distinct[-2])))
    yield at_most("slope at a mixture of directions of one strength", slope, 1e-10)
    yield control(
        "distinct strengths: here two are equal", at_most("distance from the nearest map of the list", apart, 1e-6)
    )
