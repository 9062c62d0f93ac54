r"""Where a traced program uses its weights, recognised from the operations.

A weight $W$ that enters a matrix product, a convolution or a table lookup does so linearly, so that its Jacobian for
output $k$ of one example is a sum over positions $p$ of outer products, $\sum_pa_pb_{kp}^\top$: $a_p$ is what came in,
$b_{kp}$ the derivative of output $k$ by what came out. Neither needs the Jacobian itself. A bias that is added is the
case $a_p=1$. A leaf of the parameters is matched when all its uses are of this kind and cut its entries into rows and
columns in one and the same way; on its way to the use it may be transposed, reshaped, cast, sliced or multiplied by a
constant number. Every other leaf (gains, weights inside loops, weights that are normalised first) is left to be
differentiated as a whole.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from corollary._engine.program import Program
from corollary.kernels._factors import REPEATED, Use, View, added_axes, by_label, dot_axes, picked


def find_uses(program: Program, candidates) -> dict[tuple, list[Use]]:
    """The uses of every matched leaf among the slots `candidates`, under (slot of the leaf, part of it)."""
    views = {s: View(s, _axes(program.shape(s)), tuple((0, d) for d in program.shape(s))) for s in candidates}
    constant = set(program.constants)
    uses, whole = [], {program.output}
    for step in program.steps:
        if all(s in constant for s in step.ins):
            constant.update(step.outs)
            continue
        seen = [i for i, s in enumerate(step.ins) if s in views]
        if not seen:
            continue
        moved = _moved(program, step, seen, views, constant)
        if moved is not None:
            views |= moved
        elif (use := _use(program, step, seen, views)) is not None:
            uses.append(use)
        else:
            whole.update(step.ins)
    unmatched = {views[s].leaf for s in whole if s in views}
    by_part = {}
    for use in _delayed(program, uses, constant):
        by_part.setdefault((use.view.leaf, use.view.part), []).append(use)
    for (leaf, part), group in by_part.items():
        overlaps = any(leaf == other and part != p and _overlap(part, p) for other, p in by_part)
        if overlaps or any(use.layout not in (group[0].layout, _turned(group[0].layout)) for use in group):
            unmatched.add(leaf)
    return {key: group for key, group in by_part.items() if key[0] not in unmatched}


def is_turned(use: Use, reference: Use) -> bool:
    """Whether the rows of `use` are the columns of `reference`, as with a matrix and its transpose."""
    return use.layout != reference.layout


def _delayed(program, uses, constant):
    """The uses, each differentiated behind the sums and constant factors that directly follow it.

    The derivative by a summand is that by the sum, so that a weight, its bias and what a residual connection adds to
    them share one.
    """
    readers = {}
    for step in program.steps:
        for slot in step.ins:
            readers.setdefault(slot, []).append(step)
    for use in uses:
        slot, scale = use.output, use.view.scale
        while slot != program.output and len(readers[slot]) == 1:
            (step,) = readers[slot]
            first, other = step.ins[0] == slot, step.ins[-1] if step.ins[0] == slot else step.ins[0]
            factor = other in constant and program.size(other) == 1
            if program.avals[step.outs[0]] != program.avals[slot]:
                break
            if step.name == "neg" or (step.name == "sub" and not first):
                scale += ((None, False),)
            elif (step.name == "mul" and factor) or (step.name == "div" and factor and first):
                scale += ((other, step.name == "div"),)
            elif step.name not in ("add", "sub"):
                break
            slot = step.outs[0]
        yield replace(use, output=slot, view=use.view._replace(scale=scale))


def _turned(layout):
    groups, rows, columns = layout
    return groups, columns, rows


def _axes(shape):
    return tuple(a if d > 1 else None for a, d in enumerate(shape))


def _overlap(a, b) -> bool:
    return all(max(l, m) < min(h, i) for (l, h), (m, i) in zip(a, b, strict=True))


# --- values that are a leaf with its entries moved about


def _moved(program, step, seen, views, constant):
    """The views of the results of a step that only moves or scales the entries of one leaf; None if it does not."""
    view, name, params = views[step.ins[seen[0]]], step.name, step.eqn.params
    if len(seen) > 1:
        return None
    others = [s for i, s in enumerate(step.ins) if i not in seen]
    old, new = program.shape(step.ins[seen[0]]), program.shape(step.outs[0])
    labels = view.labels
    if name == "transpose":
        return {step.outs[0]: view._replace(labels=tuple(labels[a] for a in params["permutation"]))}
    if name in ("reshape", "squeeze", "expand_dims", "broadcast_in_dim") and np.prod(old) == np.prod(new):
        reshaped = _reshaped(labels, old, new)
        return None if reshaped is None else {step.outs[0]: view._replace(labels=reshaped)}
    if name == "broadcast_in_dim":
        return {step.outs[0]: view._replace(labels=_broadcast(labels, old, new, params["broadcast_dimensions"]))}
    if name in ("copy", "name", "sharding_constraint"):
        return {step.outs[0]: view}
    if name == "convert_element_type" and jnp.issubdtype(params["new_dtype"], jnp.floating):
        return {step.outs[0]: view}
    if name == "neg":
        return {step.outs[0]: view._replace(scale=(*view.scale, (None, False)))}
    if (name == "mul" or (name == "div" and seen == [0])) and others[0] in constant and program.size(others[0]) == 1:
        return {step.outs[0]: view._replace(scale=(*view.scale, (others[0], name == "div")))} if old == new else None
    if name == "slice" and params["strides"] in (None, (1,) * len(old)):
        return _sliced(view, old, [(step.outs[0], params["start_indices"], params["limit_indices"])])
    if name == "split":
        return _sliced(view, old, _pieces(step.outs, old, params["axis"], params["sizes"]))
    return None


def _reshaped(labels, old, new):
    kept = [label for label, d in zip(labels, old, strict=True) if d > 1]
    if [d for d in old if d > 1] == [d for d in new if d > 1]:
        names = iter(kept)
    elif REPEATED in kept:
        return None
    else:
        # axes were merged or cut: new names that only the same reshape of the same axes gives again
        names = iter([("reshaped", tuple(kept), new, a) for a, d in enumerate(new) if d > 1])
    return tuple(next(names) if d > 1 else None for d in new)


def _broadcast(labels, old, new, places):
    out = [REPEATED if d > 1 else None for d in new]
    for label, place, d in zip(labels, places, old, strict=True):
        out[place] = label if d > 1 else out[place]
    return tuple(out)


def _pieces(outs, shape, axis, sizes):
    """Starts and stops of the pieces that a split along an axis gives."""
    for out, stop, size in zip(outs, np.cumsum(sizes).tolist(), sizes, strict=True):
        starts, stops = [0] * len(shape), list(shape)
        starts[axis], stops[axis] = stop - int(size), stop
        yield out, starts, stops


def _sliced(view, shape, pieces):
    out = {}
    for slot, starts, stops in pieces:
        part, labels = list(view.part), list(view.labels)
        for axis, (low, high) in enumerate(zip(starts, stops, strict=True)):
            label = view.labels[axis]
            if (low, high) == (0, shape[axis]):
                continue
            if not isinstance(label, int):
                return None
            part[label] = (part[label][0] + low, part[label][0] + high)
            labels[axis] = label if high - low > 1 else None
        out[slot] = view._replace(part=tuple(part), labels=tuple(labels))
    return out


# --- operations that use a weight


def _use(program, step, seen, views):
    if len(seen) > 1:
        return None
    operand, eqn = seen[0], step.eqn
    view, labels = views[step.ins[operand]], views[step.ins[operand]].labels
    if step.name in ("add", "sub"):
        if step.name == "sub" and operand == 1:
            view = view._replace(scale=(*view.scale, (None, False)))
        layout = ((), (), tuple(labels[a] for a in added_axes(labels)))
    elif REPEATED in labels:
        return None
    elif step.name == "dot_general":
        groups, rows, columns = dot_axes(eqn, operand, labels)[operand]
        layout = tuple(tuple(labels[a] for a in axes) for axes in (groups, rows, columns))
    elif step.name == "conv_general_dilated":
        if operand == 0 or eqn.params["batch_group_count"] != 1:
            return None
        out, *rest = (labels[a] for a in eqn.params["dimension_numbers"].rhs_spec)
        grouped = eqn.params["feature_group_count"] > 1
        layout = ((("group", out),) if grouped else (), tuple(rest), (("within", out) if grouped else out,))
    elif step.name in ("gather", "dynamic_slice"):
        axis = picked(eqn, step.name, program.shape(step.ins[operand])) if operand == 0 else None
        if axis is None:
            return None
        layout = ((), (labels[axis],), tuple(labels[a] for a in by_label(labels, axis)))
    else:
        return None
    # axes of length one have no name, and do not matter
    layout = tuple(tuple(label for label in names if label is not None) for names in layout)
    return Use(step, operand, view, layout, step.outs[0])
