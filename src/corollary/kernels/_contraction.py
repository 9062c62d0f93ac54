r"""Inner products of Jacobians that are known as sums of outer products, in the cheaper of two ways.

The Jacobian of a weight is $J_{ik}=\sum_pa_{ip}b_{ikp}^\top$ for example $i$ and output $k$. Then
$$\langle J_{ik},J_{jl}\rangle=\sum_{p,q}(a_{ip}\cdot a_{jq})(b_{ikp}\cdot b_{jlq}),$$
the Gram form, which never makes a Jacobian; or the sum over $p$ is carried out first, the Jacobian form, one matrix
product afterwards. Few positions and large weights ask for the first, many positions and small weights for the second.
"""

from dataclasses import dataclass, replace
from math import prod

import jax
import jax.numpy as jnp

from corollary._engine.program import Program
from corollary.kernels._factors import Use
from corollary.kernels._uses import is_turned


@dataclass(frozen=True)
class Weight:
    """A weight (a leaf, or a part of one) with all its uses; `shape` is (groups, rows, columns)."""

    uses: tuple[Use, ...]
    shape: tuple[int, int, int]
    positions: dict[tuple[bool, bool], int]
    gram: bool

    @property
    def kinds(self):
        """The kinds of use that occur: (is it turned, is it a lookup)."""
        return tuple(self.positions)


def plan_weight(program: Program, uses, n1: int, n2: int | None, outputs: int, trace: bool) -> Weight:
    """Choose the form with fewer operations for an (n1, n2) matrix, n2 None where both sides are one set."""
    counted, shape = {}, None
    for use in uses:
        value = jax.ShapeDtypeStruct(program.shape(use.input), program.avals[use.input].dtype)
        delta = jax.ShapeDtypeStruct((1, *program.shape(use.output)), program.avals[use.output].dtype)
        _, columns = jax.eval_shape(use.factors, value, delta)
        kind = (is_turned(use, uses[0]), use.lookup)
        counted[kind] = counted.get(kind, 0) + columns.shape[2]
        if shape is None:
            size = prod(h - l for l, h in use.view.part)
            shape = (columns.shape[1], size // (columns.shape[1] * columns.shape[3]), columns.shape[3])
    weight = Weight(tuple(uses), shape, counted, True)
    made = n1 + (n2 or 0)
    jacobian = made * _forming(weight, outputs) + n1 * (n2 or n1) * _size(weight) * outputs ** (1 if trace else 2)
    gram = n1 * (n2 or n1) * _pairing(weight, outputs, trace)
    # a bias at one position: its inner products are those of the weight before it, and are computed once
    bias = shape[1] == 1 and sum(counted.values()) == 1
    return Weight(tuple(uses), shape, counted, bias or gram <= jacobian)


def factor_floats(weight: Weight, outputs: int) -> int:
    """How many numbers per example the factors of a weight's Jacobian have."""
    groups, rows, columns = weight.shape
    made = 0
    for (turned, lookup), p in weight.positions.items():
        inside, outside = (columns, rows) if turned else (rows, columns)
        made += groups * p * ((0 if lookup else inside) + outputs * outside)
    return made


def kept_floats(weight: Weight, outputs: int) -> int:
    """How many numbers per example its features have: factors, or the Jacobian."""
    return factor_floats(weight, outputs) if weight.gram else outputs * _size(weight)


def leaner(weight: Weight, outputs: int) -> Weight:
    """In the form with fewer numbers per example."""
    return replace(weight, gram=factor_floats(weight, outputs) <= outputs * _size(weight))


def pair_floats(weight: Weight, outputs: int, trace: bool) -> int:
    """How many numbers per pair of examples the Gram form makes on its way."""
    total = sum(weight.positions.values())
    several = len(weight.positions) > 1 or not trace
    return 2 * weight.shape[0] * total**2 * (outputs ** (1 if trace else 2) if several else 1) if weight.gram else 0


def merge(weight: Weight, factors):
    """The factors of all uses of one example, positions of one kind of use put side by side."""
    out = {kind: ([], []) for kind in weight.kinds}
    for use, (value, delta) in zip(weight.uses, factors, strict=True):
        kind = (is_turned(use, weight.uses[0]), use.lookup)
        out[kind][0].append(value)
        out[kind][1].append(delta)
    return {
        kind: (jnp.concatenate(v, 0 if kind[1] else 1), jnp.concatenate(d, 2)) if len(v) > 1 else (v[0], d[0])
        for kind, (v, d) in out.items()
    }


def jacobian(weight: Weight, factors, dtype):
    """The Jacobian as (examples, groups, rows, outputs, columns)."""
    return sum(_outer(weight, kind, value, delta, dtype) for kind, (value, delta) in factors.items())


def contract(weight: Weight, f, g, trace: bool, dtype):
    """Inner products of the Jacobians of two blocks: (i, j), or (i, k, j, l) without the trace."""
    if not weight.gram:
        return matrix(f, g, dtype) if trace else jnp.einsum("igrkc,jgrlc->ikjl", f, g, preferred_element_type=dtype)
    right, total = "jkq" if trace else "jlq", 0
    for kind, first in f.items():
        for other, second in g.items():
            rows, columns = zip(_sides(kind, *first, "ikp"), _sides(other, *second, right), strict=True)
            total = total + _summed(_inner(*rows, dtype), _inner(*columns, dtype), trace)
    return total


def contract_whole(a, b, trace: bool, dtype):
    """The same for Jacobians (examples, outputs, parameters) that are there already."""
    return matrix(a, b, dtype) if trace else jnp.einsum("ikd,jld->ikjl", a, b, preferred_element_type=dtype)


def matrix(a, b, dtype):
    """Inner products of the rows, whatever axes they have."""
    a, b = a.reshape(a.shape[0], -1), b.reshape(b.shape[0], -1)
    return jnp.einsum("id,jd->ij", a, b, preferred_element_type=dtype)


# --- letters: i j examples, k l outputs, g groups, p q positions, d the contracted axis


def _sides(kind, value, delta, letters):
    """What stands on the side of the rows and on that of the columns, each with its letters."""
    example, output, position = letters
    turned, lookup = kind
    inside = (example + position if lookup else f"{example}g{position}d", value)
    outside = (f"{example}{output}g{position}d", delta)
    return (outside, inside) if turned else (inside, outside)


def _inner(first, second, dtype):
    """Inner products of vectors at all pairs of positions, and the letters of the result."""
    (one, a), (two, b) = first, second
    if "d" in one and "d" in two:
        if one[1:2] == two[1:2] and a.shape[-3:-1] == b.shape[-3:-1] == (1, 1):
            return "ij", matrix(a, b, dtype)
        # an output that both carry is summed over here: this is the trace, and the other side carries none
        out = "g" + "".join(c for c in one if c not in two) + "".join(c for c in two if c not in one)
        return out, jnp.einsum(f"{one},{two}->{out}", a, b, preferred_element_type=dtype)
    if "d" in two:  # the inner product with a unit vector picks an entry
        return two[:-1] + one, jnp.where(a >= 0, jnp.take(b, a, axis=-1, mode="clip"), 0).astype(dtype)
    if "d" in one:
        return one[:-1] + two, jnp.where(b >= 0, jnp.take(a, b, axis=-1, mode="clip"), 0).astype(dtype)
    same = (a[:, :, None, None] == b) & (a >= 0)[:, :, None, None]
    return one + two, same.astype(dtype)


def _summed(first, second, trace):
    """The product of two arrays with lettered axes, summed over all axes but examples and, without trace, outputs."""
    order = "gikpjq" if trace else "gikpjlq"
    product = _aligned(*first, order) * _aligned(*second, order)
    kept = "ij" if trace else "ikjl"
    return product.sum([axis for axis, letter in enumerate(order) if letter not in kept])


def _aligned(letters, array, order):
    present = [c for c in order if c in letters]
    array = array.transpose([letters.index(c) for c in present])
    return jnp.expand_dims(array, [axis for axis, c in enumerate(order) if c not in letters])


def _outer(weight, kind, value, delta, dtype):
    """The sum over positions of the outer products of one kind of use."""
    turned, lookup = kind
    _, rows, columns = weight.shape
    if not lookup:
        axes = "ikgpr,igpc->igrkc" if turned else "igpr,ikgpc->igrkc"
        pair = (delta, value) if turned else (value, delta)
        return jnp.einsum(axes, *pair, preferred_element_type=dtype)
    n, outputs, _, _, width = delta.shape
    table = jnp.zeros((n, columns if turned else rows, outputs, width), dtype)
    index = jnp.where(value >= 0, value, table.shape[1])
    table = table.at[jnp.arange(n)[:, None], index].add(delta[:, :, 0].swapaxes(1, 2).astype(dtype), mode="drop")
    return table.transpose(0, 3, 2, 1)[:, None] if turned else table[:, None]


# --- operations, multiply and add counted as one


def _size(weight):
    return prod(weight.shape)


def _forming(weight, outputs):
    """Operations per example of carrying out the sum over positions."""
    groups, rows, columns = weight.shape
    wide = {kind: (rows if kind[0] else columns) if kind[1] else rows * columns for kind in weight.kinds}
    return sum(outputs * groups * p * wide[kind] for kind, p in weight.positions.items())


def _pairing(weight, outputs, trace):
    """Operations per pair of examples of the Gram form."""
    groups, rows, columns = weight.shape
    many = outputs if trace else outputs**2
    total = 0
    for (turned, lookup), p in weight.positions.items():
        for (other, looks), q in weight.positions.items():
            one_side = outputs if turned != other else (many if turned else 1)
            other_side = outputs if turned != other else (1 if turned else many)
            row = one_side * (1 if (lookup and not turned) or (looks and not other) else rows)
            column = other_side * (1 if (lookup and turned) or (looks and other) else columns)
            # the product of the two sides is bound by memory, which a few more operations stand for
            total += groups * p * q * (row + column + 4 * (many if turned != other or not trace else 1))
    return total
