r"""The two factors of a weight's Jacobian, from what one use of it met and from the derivative by its result.

Each kind of use brings them into the same form: rows (groups, positions, r) and columns (outputs, groups, positions,
c), so that the Jacobian of output $k$ in group $g$ is $\sum_pa_{gp}b_{kgp}^\top$. A lookup has indices (positions,) in
place of rows: its rows are unit vectors.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._engine.program import Step

# the label of an axis along which a leaf is repeated
REPEATED = "repeated"


class View(NamedTuple):
    """A value that is a leaf with its entries moved about: `labels` say which axis of the leaf each axis is.

    `part` is the range of the leaf that is seen, per axis, and `scale` the constants (slot, is it a divisor) that it
    was multiplied with; slot None is -1.
    """

    leaf: int
    labels: tuple
    part: tuple[tuple[int, int], ...]
    scale: tuple = ()


@dataclass(frozen=True)
class Use:
    """A use of a weight: the `step`, which operand the weight is, and the labels of its groups, rows and columns.

    `output` is the slot by which to differentiate: the result of the step, or what that soon becomes.
    """

    step: Step
    operand: int
    view: View
    layout: tuple[tuple, tuple, tuple]
    output: int

    @property
    def input(self) -> int:
        """The slot of what the weight meets: an activation, or the indices of a lookup."""
        return self.step.ins[1 - self.operand] if self.step.name != "dynamic_slice" else self.step.ins[1:][self._axis]

    @property
    def lookup(self) -> bool:
        return self.step.name in ("gather", "dynamic_slice")

    @property
    def _axis(self) -> int:
        """The axis that a lookup picks from."""
        return picked(self.step.eqn, self.step.name, np.shape(self.step.eqn.invars[0].aval))

    def factors(self, value, delta):
        """Rows or indices, and columns; `value` is what stood in the slot `input`."""
        return _FACTORS[self.step.name](self, value, delta)


def order(labels, axes):
    return sorted(range(len(axes)), key=lambda i: str(labels[axes[i]]))


def by_label(labels, axis):
    axes = [a for a in range(len(labels)) if a != axis]
    return [axes[i] for i in order(labels, axes)]


def dot_axes(eqn, operand, labels):
    """For either operand of a matrix product: its batch axes, contracted axes and free axes, in a common order."""
    contracted, batch = eqn.params["dimension_numbers"]
    by_batch, by_row = order(labels, batch[operand]), order(labels, contracted[operand])
    out = []
    for side in (0, 1):
        b, c = [batch[side][i] for i in by_batch], [contracted[side][i] for i in by_row]
        free = [a for a in range(len(eqn.invars[side].aval.shape)) if a not in b and a not in c]
        out.append((b, c, [free[i] for i in order(labels, free)] if side == operand else free))
    return out


def _dot(use, value, delta):
    eqn, w = use.step.eqn, use.operand
    axes = dot_axes(eqn, w, use.view.labels)
    (wb, _, wf), (hb, hc, hf) = axes[w], axes[1 - w]
    shape = eqn.invars[w].aval.shape
    groups, columns = int(np.prod([shape[a] for a in wb])), int(np.prod([shape[a] for a in wf]))
    rows = value.transpose(hb + hf + hc)
    positions = int(np.prod([value.shape[a] for a in hf]))
    # the result has its batch axes first, then the free axes of the left and of the right operand
    batch = eqn.params["dimension_numbers"][1][w]
    first = len(batch) + (0 if w == 0 else len(hf))
    own = {a: first + i for i, a in enumerate(sorted(wf))}
    other = len(batch) + (len(wf) if w == 0 else 0)
    order = [list(batch).index(a) for a in wb] + [other + i for i in range(len(hf))] + [own[a] for a in wf]
    delta = delta.transpose(0, *(1 + a for a in order))
    return rows.reshape(groups, positions, -1), delta.reshape(-1, groups, positions, columns)


def _conv(use, value, delta):
    eqn = use.step.eqn
    params, weight = eqn.params, eqn.invars[1].aval.shape
    lhs, rhs, out = params["dimension_numbers"]
    groups = params["feature_group_count"]
    patches = lax.conv_general_dilated_patches(
        value.transpose(lhs),
        [weight[a] for a in rhs[2:]],
        params["window_strides"],
        params["padding"],
        lhs_dilation=params["lhs_dilation"],
        rhs_dilation=params["rhs_dilation"],
        precision=lax.Precision.HIGHEST,  # it only copies, and must do so exactly
    )
    images, spatial = patches.shape[0], int(np.prod(patches.shape[2:]))
    rows = patches.reshape(images, groups, -1, spatial).transpose(1, 0, 3, 2)
    delta = delta.transpose(0, *(1 + a for a in out)).reshape(-1, images, groups, weight[rhs[0]] // groups, spatial)
    rows = rows.reshape(groups, images * spatial, -1)
    return rows, delta.transpose(0, 2, 1, 4, 3).reshape(-1, groups, images * spatial, delta.shape[3])


def added_axes(labels):
    """The axes of a summand that are its own, in a common order: not those along which it is repeated."""
    own = [a for a, label in enumerate(labels) if label not in (REPEATED, None)]
    return [own[i] for i in order(labels, own)]


def _add(use, value, delta):
    own = added_axes(use.view.labels)  # a summand has the axes of the sum, or none at all
    repeated = [a for a in range(delta.ndim - 1) if a not in own]
    positions = int(np.prod([delta.shape[1 + a] for a in repeated]))
    delta = delta.transpose(0, *(1 + a for a in repeated + own)).reshape(delta.shape[0], 1, positions, -1)
    return jnp.ones((1, positions, 1), delta.dtype), delta


def picked(eqn, name, shape):
    """The one axis that a lookup picks single entries of; None if it does anything else."""
    sizes = eqn.params["slice_sizes"]
    cut = [a for a, (s, d) in enumerate(zip(sizes, shape, strict=True)) if s != d]
    if len(cut) > 1 or any(sizes[a] != 1 for a in cut):
        return None
    if name == "dynamic_slice":
        return cut[0] if cut else None
    numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    indexed = numbers.start_index_map
    # indices of axes that are taken in full are clipped to zero, unless they may lie outside
    several = len(indexed) > 1 and mode == lax.GatherScatterMode.FILL_OR_DROP
    if numbers.operand_batching_dims or several or not set(cut) <= set(indexed):
        return None
    return cut[0] if cut else indexed[0] if len(indexed) == 1 and sizes[indexed[0]] == 1 else None


def _lookup(use, value, delta):
    eqn, labels = use.step.eqn, use.view.labels
    shape = eqn.invars[0].aval.shape
    axis = picked(eqn, use.step.name, shape)
    rest = by_label(labels, axis)
    columns = int(np.prod([shape[a] for a in rest]))
    if use.step.name == "dynamic_slice":
        index = jnp.clip(value, 0, shape[axis] - 1).reshape(1)
        own = {a: a for a in range(len(shape))}
    else:
        numbers = eqn.params["dimension_numbers"]
        index = value[..., numbers.start_index_map.index(axis)].reshape(-1)
        if eqn.params["mode"] == lax.GatherScatterMode.CLIP:
            index = jnp.clip(index, 0, shape[axis] - 1)
        taken = [a for a in range(len(shape)) if a not in numbers.collapsed_slice_dims]
        own = dict(zip(taken, numbers.offset_dims, strict=True))
    kept = [own[a] for a in rest if a in own]  # an axis of length one may be gone
    places = [a for a in range(delta.ndim - 1) if a not in kept]
    delta = delta.transpose(0, *(1 + a for a in places + kept))
    # what lies outside the table has no derivative
    index = jnp.where((index >= 0) & (index < shape[axis]), index, -1)
    return index, delta.reshape(delta.shape[0], 1, -1, columns)


_FACTORS = {
    "dot_general": _dot,
    "conv_general_dilated": _conv,
    "gather": _lookup,
    "dynamic_slice": _lookup,
    "add": _add,
    "sub": _add,
}
