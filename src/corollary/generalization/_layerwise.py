r"""The output of a network whose weights are normal, without drawing them where that can be avoided.

A weight matrix that is used once, in a product with one vector $h$, is never needed itself: with independent entries
$W_{ij}\sim N(M_{ij},S_{ij}^2)$ the entries of $Wh$ are independent too, $N\big((Mh)_i,\sum_jS_{ij}^2h_j^2\big)$. One
number per unit is drawn in place of one per weight, the law is the same, and a fresh network for every example of a
batch costs two products. Weights that are used otherwise (kernels of convolutions, biases, gains, whatever meets
several vectors of one example) are drawn.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.jaxpr import run_equation
from corollary._engine.program import Program, trace
from corollary.network.parts import Parts

# operations that leave every entry what it is, or multiply all of them by constants
MOVES = ("transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "convert_element_type", "copy", "neg")


class Layerwise(NamedTuple):
    """The program of one example, the slots of parameters whose noise is drawn behind their product, and its step."""

    program: Program
    behind: dict[int, int]


def layerwise(parts: Parts, x) -> Layerwise:
    """The traced program of `parts` for one example like `x`, looked through for products."""
    leaves, tree = jax.tree.flatten(parts.params)
    inputs, form = jax.tree.flatten(x)
    program = trace(lambda p, x: parts.join(tree.unflatten(p))(form.unflatten(x)), leaves, inputs)
    readers: dict[int, list[int]] = {}
    for number, step in enumerate(program.steps):
        for slot in step.ins:
            readers.setdefault(slot, []).append(number)
    found = {slot: _product_with_one_vector(program, readers, slot) for slot in program.leaves}
    return Layerwise(program, {slot: number for slot, number in found.items() if number is not None})


def inputs_first(plan: Layerwise) -> list[bool]:
    """Of each array of parameters, whether it is a matrix that has its inputs along its rows.

    Libraries store one layer either way. What is drawn for its weights need not depend on that.
    """
    return [_contracted(plan, slot) == 0 for slot in plan.program.leaves]


def _contracted(plan, slot) -> int | None:
    """Which axis of a matrix of weights its product adds up; None if it is no such matrix."""
    program, end = plan.program, plan.behind.get(slot)
    if end is None or len(program.shape(slot)) != 2:
        return None
    axes = (0, 1)
    for step in program.steps[:end]:
        if slot in step.ins:
            if step.name == "transpose":
                axes = tuple(axes[i] for i in step.eqn.params["permutation"])
            elif program.shape(step.outs[0]) != program.shape(slot) or step.name == "reshape":
                return None
            slot = step.outs[0]
    step = program.steps[end]
    (axis,) = step.eqn.params["dimension_numbers"][0][step.ins.index(slot)]
    return axes[axis]


def normals(key, means: list) -> list:
    """Normal noise like each array."""
    keys = jax.random.split(key, len(means))
    return [jax.random.normal(k, m.shape, m.dtype) for m, k in zip(means, keys, strict=True)]


def draw(key, means: list, scales: list) -> list:
    """Every array drawn: its mean plus its scale times normal noise."""
    return [m + s * z for m, s, z in zip(means, scales, normals(key, means), strict=True)]


class Noise(NamedTuple):
    """Of the arrays that are drawn, in turn, and of the units behind each product, by the number of its step."""

    weights: list
    units: dict


def noise(plan: Layerwise, key, means: list, n: int | None = None) -> Noise:
    """For one example, or for `n` of them: the units' for each, the weights' once."""
    weight_key, unit_key = jax.random.split(key)
    some = [mean for mean, slot in zip(means, plan.program.leaves, strict=True) if slot not in plan.behind]
    units = partial(_of_units, plan)
    each = units(unit_key) if n is None else jax.vmap(units)(jax.random.split(unit_key, n))
    return Noise(normals(weight_key, some), each)


def _of_units(plan, key) -> dict:
    # the products are numbered among themselves: libraries write the same network with more or fewer other steps
    draws = {}
    for rank, number in enumerate(sorted(set(plan.behind.values()))):
        kind = plan.program.avals[plan.program.steps[number].outs[0]]
        draws[number] = jax.random.normal(jax.random.fold_in(key, rank), kind.shape, kind.dtype)
    return draws


def batch_output(plan: Layerwise, noise: Noise, means: list, scales: list, x):
    """Outputs for a batch with the noise of its examples."""
    leaves = drawn(plan, noise, means, scales)
    return jax.vmap(lambda one, units: output(plan, units, leaves, scales, one))(x, noise.units)


def drawn(plan: Layerwise, noise: Noise, means: list, scales: list) -> list:
    """As `draw`, but for those arrays whose noise comes behind their product: these stay at their means."""
    some, flat = iter(noise.weights), zip(plan.program.leaves, means, scales, strict=True)
    return [mean if slot in plan.behind else mean + scale * next(some) for slot, mean, scale in flat]


def output(plan: Layerwise, units: dict, leaves: list, scales: list, x):
    """The output for one example: `leaves` as `drawn` leaves them, the noise `units` behind the products."""
    program = plan.program
    env = dict(program.constants)
    env |= dict(zip(program.leaves + program.inputs, [*leaves, *jax.tree.leaves(x)], strict=True))
    # variances from the start: squared as they lie, and not behind a transpose, their derivative lies so too
    spread = {slot: s**2 for slot, s in zip(program.leaves, scales, strict=True) if slot in plan.behind}
    for number, step in enumerate(program.steps):
        values = [env[slot] for slot in step.ins]
        out = run_equation(step.eqn, values)
        noisy = [i for i, slot in enumerate(step.ins) if slot in spread]
        if noisy and step.name == "dot_general":
            variance = run_equation(step.eqn, _squares(spread, step, values))[0]
            out = [out[0] + _root(variance) * units[number]]
        elif noisy and step.name == "neg":
            spread[step.outs[0]] = spread[step.ins[0]]
        elif noisy:
            spread[step.outs[0]] = run_equation(step.eqn, _squares(spread, step, values))[0]
        env |= dict(zip(step.outs, out, strict=True))
    return env[program.output]


def _squares(spread, step, values) -> list:
    """What a step works on to have variances: those that are known, and the squares of all else."""
    return [spread[slot] if slot in spread else v**2 for slot, v in zip(step.ins, values, strict=True)]


def _root(variance):
    """The root, with the derivative 0 at 0: an example that no unit sees has no noise."""
    some = variance > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, variance, 1)), 0)


def _product_with_one_vector(program, readers, slot) -> int | None:
    """The step that multiplies a parameter with what has one vector per example, if that is its one use."""
    while slot != program.output and len(readers.get(slot, ())) == 1:
        (number,) = readers[slot]
        step = program.steps[number]
        if step.name == "dot_general":
            side = 1 - step.ins.index(slot)
            return number if _single(program, step, step.ins[side], side) else None
        if not _moves(program, step, slot):
            return None
        slot = step.outs[0]
    return None


def _single(program, step, other, side) -> bool:
    contracted, batch = (axes[side] for axes in step.eqn.params["dimension_numbers"])
    free = [d for axis, d in enumerate(program.shape(other)) if axis not in (*contracted, *batch)]
    return int(np.prod(free)) == 1


def _moves(program, step, slot) -> bool:
    if program.size(step.outs[0]) != program.size(slot):
        return False
    if step.name in MOVES:
        return jnp.issubdtype(program.avals[step.outs[0]].dtype, np.floating)
    others = [s for s in step.ins if s != slot]
    constant = all(s in program.constants for s in others)
    return constant and (step.name == "mul" or (step.name == "div" and step.ins[0] == slot))
