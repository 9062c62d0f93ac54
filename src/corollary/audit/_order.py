"""Curvature, looked at in an order of the parameters that no library decides.

Random directions are drawn one coordinate after the other. Libraries name, order and transpose parameters as they like,
so that the same draws in the order of the tree are other directions for the same network made with another library, and
findings would differ by chance. Here the coordinates are sorted by the values of the parameters, and by their gradients
where these are equal. A permutation that does not depend on the draws leaves their law what it is.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary import landscape

# examples that the gradient is taken of, which only tells equal parameters apart
FEW = 64
# with more parameters than this sorting them, and every product, would take longer than the network itself
SORTED = 2**22

_places: WeakKeyDictionary = WeakKeyDictionary()


class Ordered(NamedTuple):
    """A `landscape.Curvature` with sorted coordinates: `order` has their places in flat parameters, `rank` inverts it.

    Its methods are those of the operator; eigenvectors come back as flat parameters, in the order of the tree.
    """

    operator: Any
    order: jax.Array
    rank: jax.Array

    @property
    def size(self) -> int:
        return self.operator.size

    @property
    def dtype(self):
        return self.operator.dtype

    def top(self, k: int, *, key, tolerance: float, which: str = "largest", products: int = 1000, basis=None):
        return _top(self, key, jnp.asarray(tolerance, self.dtype), k, which, products, basis)

    def density(self, *, key, probes: int, steps: int):
        return _density(self, key, probes, steps)

    def trace(self, *, key, probes: int, method: str = "hutch++"):
        return _trace(self, key, probes, method)


def curvature(subject, params, plan):
    """The Hessian at these parameters on the data of the plan, in sorted coordinates where sorting costs little."""
    network, options = subject.at(params), dict(batch_size=plan.batch_size, trainable=subject.trainable)
    operator = landscape.hessian(network, subject.loss, plan.data, **options)
    return ordered(subject, operator) if subject.size <= SORTED else operator


def ordered(subject, operator) -> Ordered:
    """An operator on the parameters of the subject, its own or others of the same shapes, in the order of its own."""
    return Ordered(operator, *places(subject))


def places(subject) -> tuple[jax.Array, jax.Array]:
    """The places of the sorted coordinates in flat parameters, and the other way round."""
    if subject not in _places:
        few = jax.tree.map(lambda a: a[:FEW], subject.train)
        values, slopes = map(np.asarray, _values_and_slopes(subject.objective, subject.params, few))
        order = np.lexsort((slopes, values)).astype(np.int32)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order), dtype=order.dtype)
        _places[subject] = jnp.asarray(order), jnp.asarray(rank)
    return _places[subject]


def normal(subject, key):
    """Normal numbers in the place of the parameters, the same for the same values however a library keeps them."""
    rank = places(subject)[1] if subject.size <= SORTED else slice(None)
    return ravel_pytree(subject.params)[1](jax.random.normal(key, (subject.size,), subject.dtype)[rank])


@eqx.filter_jit
def _values_and_slopes(objective, params, few):
    return ravel_pytree(params)[0], ravel_pytree(jax.grad(objective)(params, few))[0]


def _product(ordered: Ordered):
    product = ordered.operator.linearised()
    return lambda v: product(v[ordered.rank])[ordered.order]


@eqx.filter_jit
def _top(ordered, key, tolerance, k, which, products, basis):
    given = dict(which=which, key=key, products=products, tolerance=tolerance, basis=basis, dtype=ordered.dtype)
    found = landscape.eigenpairs(_product(ordered), ordered.size, k, **given)
    return found._replace(vectors=found.vectors[:, ordered.rank])


@eqx.filter_jit
def _density(ordered, key, probes, steps):
    given = dict(key=key, probes=probes, steps=steps, dtype=ordered.dtype)
    return landscape.spectral_density(_product(ordered), ordered.size, **given)


@eqx.filter_jit
def _trace(ordered, key, probes, method):
    estimate = landscape.hutchinson if method == "hutchinson" else landscape.hutch_plus_plus
    return estimate(_product(ordered), ordered.size, key=key, probes=probes, dtype=ordered.dtype)
