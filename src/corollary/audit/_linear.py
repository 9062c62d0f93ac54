"""Is a network linear in its parameters? Then the curvature of a squared loss is the same everywhere."""

import equinox as eqx
import jax
import jax.numpy as jnp

FEW = 8
# of the first difference: rounding of outputs in single precision is a thousandth of that
TOLERANCE = 1e-4


def linear(subject) -> bool:
    """Whether the outputs are affine in the parameters, by second differences along a random direction."""
    few = jax.tree.map(lambda a: a[:FEW], subject.train[0])
    return bool(_linear(subject.apply, subject.params, few))


@eqx.filter_jit
def _linear(apply, params, x):
    leaves, form = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    along = form.unflatten(
        [jax.random.normal(k, a.shape, a.dtype) * (1 + jnp.std(a)) for k, a in zip(keys, leaves, strict=True)]
    )

    def at(t):
        return apply(jax.tree.map(lambda p, v: p + t * v, params, along), x)

    here, there, beyond = at(0.0), at(1.0), at(2.0)
    first = jnp.max(jnp.abs(there - here))
    return (first > 0) & (jnp.max(jnp.abs(beyond - 2 * there + here)) <= TOLERANCE * first)
