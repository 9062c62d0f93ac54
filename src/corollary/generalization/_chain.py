r"""Networks that are $A_d\,\mathrm{ReLU}(A_{d-1}\cdots\mathrm{ReLU}(A_1x))$, recognised from the traced program.

A layer with a bias is one without, of one more unit that is always 1: $\begin{pmatrix}W&b\\0&1\end{pmatrix}$, and a 1
beside the input. Factors of the units after a product, such as those of a batch normalisation by stored statistics,
belong to the matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.jaxpr import evaluate, run_equation
from corollary._engine.unroll import unrolled
from corollary.generalization._signals import Product, inside_of, matrices_of
from corollary.network.parts import split

_SAME = {"reshape", "squeeze", "expand_dims", "broadcast_in_dim", "convert_element_type", "copy", "copy_p", "name"}


class OtherNetwork(ValueError):
    """The network is no row of dense layers with ReLU between them; the sentence says why."""


class Chain(NamedTuple):
    """The matrices $A_1,\\dots,A_d$, and whether there is a 1 beside the input."""

    matrices: tuple
    biased: bool

    @property
    def outputs(self) -> int:
        return self.matrices[-1].shape[0]

    def radius(self, radius):
        """The length of the input of the first matrix, from that of the input of the network."""
        return jnp.sqrt(radius**2 + 1) if self.biased else radius


class _Units(NamedTuple):
    """Units on their way: the pairs (matrix, bias) so far, and whether the ReLU came after the last."""

    layers: tuple[tuple[Any, Any], ...]
    active: bool


class _Positive(NamedTuple):
    """Whether units are above zero, or whether they are not."""

    units: _Units
    above: bool


def chain_of(network, x) -> Chain:
    """The matrices of `network` on examples `x`; `OtherNetwork` if it has other operations."""
    parts = split(network)
    leaves, tree = jax.tree.flatten(parts.params)
    one = jax.tree.leaves(jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x))
    if len(one) != 1 or not jnp.issubdtype(one[0].dtype, np.floating):
        raise OtherNetwork("the input is not one array of floating-point numbers")

    def apply(leaves, x):
        return eqx.combine(tree.unflatten(leaves), parts.fixed)(x)

    closed = jax.make_jaxpr(unrolled(apply))(leaves, one[0])
    (units,) = evaluate(closed.jaxpr, closed.consts, [*leaves, _Units((), True)], _run)
    if not isinstance(units, _Units) or units.active:
        raise OtherNetwork("the last operation is no affine layer")
    biased = any(b is not None for _, b in units.layers)
    if not biased:
        return Chain(tuple(w for w, _ in units.layers), False)
    *first, (w, b) = units.layers
    rows = [_with_one(w, b) for w, b in first]
    return Chain((*rows, jnp.concatenate([w, _bias(w, b)[:, None]], 1)), True)


def _bias(w, b):
    return jnp.zeros(w.shape[0], w.dtype) if b is None else b


def _with_one(w, b):
    last = jnp.zeros((1, w.shape[1] + 1), w.dtype).at[0, -1].set(1)
    return jnp.concatenate([jnp.concatenate([w, _bias(w, b)[:, None]], 1), last])


def _run(eqn, values) -> list:
    places = [i for i, v in enumerate(values) if isinstance(v, _Units | _Positive)]
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    if not places:
        return run_equation(eqn, values)
    if (body := inside_of(eqn)) is not None:
        return evaluate(body.jaxpr, body.consts, values, _run)
    if name == "select_n" and isinstance(values[0], _Positive):
        return [_rectified(*values)]
    units, size = values[places[0]], eqn.invars[places[0]].aval.size
    if isinstance(units, _Positive):
        raise OtherNetwork(f"it has the operation {name} of a comparison")
    if name in ("le", "lt", "ge", "gt") and not units.active and len(places) == 1 and _zero(values[1 - places[0]]):
        return [_Positive(units, (name in ("ge", "gt")) == (places[0] == 0))]
    if len(places) == 1 and name in _SAME and out.size == size:
        return [units]
    if len(places) == 1 and name == "dot_general" and units.active:
        matrices = matrices_of(Product(None, eqn, values[1 - places[0]], 1 - places[0], None))
        if matrices.shape[0] == 1 and matrices.shape[2] == size:
            return [_Units((*units.layers, (matrices[0], None)), False)]
    if len(places) == 1 and len(values) == 2 and not units.active and out.size == size:
        changed = _after(name, units.layers[-1], values, places[0])
        if changed is not None:
            return [_Units((*units.layers[:-1], changed), False)]
    if name == "max" and len(places) == 1 and not units.active and _zero(values[1 - places[0]]):
        return [_Units(units.layers, True)]
    raise OtherNetwork(f"it has the operation {name} where dense layers and ReLU are expected")


def _rectified(test: _Positive, otherwise, chosen) -> _Units:
    """The ReLU, written as a choice between the units and zero."""
    kept, dropped = (chosen, otherwise) if test.above else (otherwise, chosen)
    if kept is not test.units or isinstance(dropped, _Units | _Positive) or not _zero(dropped):
        raise OtherNetwork("it has a choice between other values than its units and zero")
    return _Units(test.units.layers, True)


def _after(name, layer, values, place):
    """The affine layer after one more affine operation on its units; None if the operation is none."""
    (w, b), other = layer, values[1 - place]
    vector = jnp.broadcast_to(jnp.ravel(other), (w.shape[0],)) if np.size(other) in (1, w.shape[0]) else None
    if vector is None or (name in ("sub", "div") and place == 1):
        return None
    if name in ("add", "sub"):
        return w, _bias(w, b) + (vector if name == "add" else -vector)
    if name in ("mul", "div"):
        factor = vector if name == "mul" else 1 / vector
        return w * factor[:, None], None if b is None else b * factor
    return None


def _zero(value) -> bool:
    return not isinstance(value, jax.core.Tracer) and not np.any(np.asarray(value))
