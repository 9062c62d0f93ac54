"""The Hessian of a subject's loss, looked at in an order of the parameters that no library decides.

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
BATCH = 1024

_orders: WeakKeyDictionary = WeakKeyDictionary()


class Hessian(NamedTuple):
    """The operator, and the sorted coordinates: `order` has their places in flat parameters, `rank` is its inverse."""

    operator: Any
    order: jax.Array
    rank: jax.Array

    @property
    def size(self) -> int:
        return self.operator.size

    @property
    def dtype(self):
        return self.operator.dtype

    def top(self, k: int, *, key, products: int, tolerance: float, which: str = "largest"):
        """As `landscape.Curvature.top`; vectors are those of flat parameters, as they are kept."""
        return _top(self, key, jnp.asarray(tolerance, self.dtype), k, which, products)

    def density(self, *, key, probes: int, steps: int):
        return _density(self, key, probes, steps)

    def trace(self, *, key, probes: int):
        return _trace(self, key, probes)


def hessian(subject, params, data) -> Hessian:
    """The Hessian of the mean loss over `data` at `params`."""
    operator = landscape.hessian(subject.at(params), subject.loss, data, batch_size=BATCH)
    return Hessian(operator, *_order(subject))


def _order(subject):
    if subject not in _orders:
        few = jax.tree.map(lambda a: a[:FEW], subject.train)
        values, slopes = _values_and_slopes(subject.objective, subject.params, few)
        order = np.lexsort((np.asarray(slopes), np.asarray(values)))
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        index = np.int32 if len(order) < 2**31 else np.int64
        _orders[subject] = jnp.asarray(order.astype(index)), jnp.asarray(rank.astype(index))
    return _orders[subject]


@eqx.filter_jit
def _values_and_slopes(objective, params, few):
    return ravel_pytree(params)[0], ravel_pytree(jax.grad(objective)(params, few))[0]


def _sorted(hessian: Hessian):
    """The product with vectors of sorted coordinates."""
    product = hessian.operator.linearised()
    return lambda v: product(v[hessian.rank])[hessian.order]


@eqx.filter_jit
def _top(hessian, key, tolerance, k, which, products):
    found = landscape.eigenpairs(
        _sorted(hessian),
        hessian.size,
        k,
        which=which,
        key=key,
        products=products,
        tolerance=tolerance,
        dtype=hessian.dtype,
    )
    return found._replace(vectors=found.vectors[:, hessian.rank])


@eqx.filter_jit
def _density(hessian, key, probes, steps):
    return landscape.spectral_density(
        _sorted(hessian), hessian.size, key=key, probes=probes, steps=steps, dtype=hessian.dtype
    )


@eqx.filter_jit
def _trace(hessian, key, probes):
    return landscape.hutch_plus_plus(_sorted(hessian), hessian.size, key=key, probes=probes, dtype=hessian.dtype)
