"""The layers of a traced network: where a weight multiplies a signal, and the nonlinearity that follows.

A layer is a matrix product or a convolution of a value that depends on the input with one that does not, but does
depend on the parameters. Its pre-activation is the result after all that directly follows and acts on every unit by a
fixed affine map: a bias, a constant factor, a normalisation by stored statistics. Its nonlinearity is what is computed
from the pre-activation entry by entry.

Libraries keep the gates of a recurrent layer, or the projections of an attention, in one matrix or in several, and take
the products of a sequence at once or one after the other. What must not depend on that is one layer: products, with no
nonlinearity of their own, of the same signals, and uses of one weight none of which depends on another. Such a layer is
looked at where all libraries agree, before biases are added: they share these out as they like.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.program import Program, _bodies, depends, evaluate
from corollary._engine.unroll import PRODUCTS

_MOVES = ("reshape", "squeeze", "expand_dims", "broadcast_in_dim")
_SAME = ("convert_element_type", "copy", "name", "sharding_constraint")
_AFFINE = ("add", "sub", "mul", "div", "neg", *_SAME)
# fmt: off
_ELEMENTWISE = frozenset((
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil",
    "clamp", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor",
    "ge", "gt", "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min",
    "mul", "ne", "neg", "nextafter", "not", "or", "pow", "rem", "round", "rsqrt", "select_n", "sign", "sin",
    "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor", *_SAME,
))
# fmt: on
_CUTS = ("slice", "split", "dynamic_slice", "gather")
_CALLS = ("jit", "pjit", "custom_jvp_call", "custom_vjp_call")


@dataclass(frozen=True)
class Layer:
    """A layer by its slots: `sources` are the weights as they are stored, `blocks` the pre-activation.

    A block is a slot with those of its axes that count units; the others count positions. Blocks in a row, one for each
    weight, are side by side and have units of their own; rows are further positions. `activation` computes the slots
    `activated` from the pre-activation, which is one block then; None if nothing nonlinear follows.
    """

    name: str
    sources: tuple[int, ...]
    blocks: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    activation: Program | None
    activated: tuple[int, ...]

    @property
    def outputs(self) -> list[int]:
        return [slot for row in self.blocks for slot, _ in row]

    def slopes(self, kept):
        """Largest modulus of the nonlinearity's values and of its slopes, from what stood in the slots `needed`."""
        program = self.activation
        (output,) = self.outputs

        def run(z):
            outputs = evaluate(program, [kept[s] for s in program.leaves], [z], {}, self.activated)[1]
            return list(outputs.values())

        # entry by entry: one reverse pass of ones has the derivatives of all entries
        values, pull = jax.vjp(run, kept[output])
        slopes = [pull([jnp.full_like(v, i == j) for j, v in enumerate(values)])[0] for i in range(len(values))]
        return jnp.abs(jnp.stack(values)).max(0), jnp.abs(jnp.stack(slopes)).max(0)

    @property
    def needed(self) -> set[int]:
        return {*self.outputs, *(self.activation.leaves if self.activation else ())}


class _Product(NamedTuple):
    """One use of a weight: its result as it is and as a pre-activation, each a slot with its axes of units.

    `matrix` says that it is no convolution, `signal` what it multiplies whatever its layout, `sizes` how many positions
    of how many numbers that are.
    """

    name: str
    source: int
    raw: tuple[int, tuple[int, ...]]
    output: tuple[int, tuple[int, ...]]
    activation: Program | None
    activated: tuple[int, ...]
    matrix: bool
    signal: Hashable
    sizes: tuple[int, int]


def find_layers(program: Program, names) -> tuple[Layer, ...]:
    """The layers in the order of the program; `names` are those of the leaves."""
    signals, weights = depends(program, program.inputs), depends(program, program.leaves)
    flow = _Flow(program, signals, weights)
    together: dict[Hashable, list[list[_Product]]] = {}
    for uses in _uses(program, _products(flow, names)):
        plain = uses[0].matrix and (len(uses) > 1 or uses[0].activation is None)
        signal = tuple((use.signal, use.sizes) for use in uses) if plain else uses[0].raw
        together.setdefault(signal, []).append(uses)
    return tuple(_layer(flow, members) for members in together.values())


def _products(flow, names):
    program, signals, weights = flow.program, flow.signals, flow.weights
    for step in program.steps:
        if step.name not in PRODUCTS:
            continue
        operands = [i for i, s in enumerate(step.ins[:2]) if s in weights and s not in signals]
        if len(operands) != 1 or step.ins[1 - operands[0]] not in signals:
            continue
        raw, signal = (step.outs[0], _units(program, step, operands[0])), step.ins[1 - operands[0]]
        output = flow.preactivation(*raw)
        source, name = flow.source(step.ins[operands[0]], names)
        matrix = step.name == "dot_general"
        axes = step.eqn.params["dimension_numbers"][0][1 - operands[0]] if matrix else ()
        summed = int(np.prod([program.shape(signal)[a] for a in axes]))
        sizes = program.size(signal) // max(1, summed), summed
        yield _Product(name, source, raw, output, *flow.nonlinearity(output[0]), matrix, flow.place(signal), sizes)


def _uses(program, products) -> list[list[_Product]]:
    """Products with one weight, none of which depends on another, together unless each has a nonlinearity behind it."""
    by_source: dict[Hashable, list[_Product]] = {}
    for product in products:
        alone = () if product.matrix else product.raw
        by_source.setdefault((product.source, len(product.raw[1]), product.sizes, alone), []).append(product)
    chained = {one: _depths(program, [p.raw[0] for p in all_]) for one, all_ in by_source.items() if len(all_) > 1}
    found: dict[Hashable, list[_Product]] = {}
    for one, all_ in by_source.items():
        for product in all_:
            slot = product.raw[0]
            found.setdefault((one, chained[one][slot] if one in chained else 0), []).append(product)
    split = []
    for uses in found.values():
        whole = len(uses) == 1 or any(use.activation is None for use in uses)
        split += [uses] if whole else [[use] for use in uses]
    return sorted(split, key=lambda uses: uses[0].raw[0])


def _depths(program, slots) -> dict[int, int]:
    """How many of these slots stand one after the other on the way to each of them."""
    wanted, depths = set(slots), {}
    for step in program.steps:
        before = max((depths.get(s, 0) for s in step.ins), default=0)
        for out in step.outs:
            depths[out] = before + (out in wanted)
    return {slot: depths[slot] for slot in slots}


def _layer(flow, members: list[list[_Product]]) -> Layer:
    """The layer of weights that meet the same signals; `members` are the uses of each."""
    first = members[0][0]
    alone = len(members) == len(members[0]) == 1
    if alone and (first.activation is not None or not first.matrix or not flow.cut(first.output[0])):
        return Layer(first.name, (first.source,), ((first.output,),), first.activation, first.activated)
    name = ", ".join(uses[0].name for uses in members)
    sources = tuple(dict.fromkeys(uses[0].source for uses in members))
    return Layer(name, sources, tuple(zip(*([u.raw for u in uses] for uses in members), strict=True)), None, ())


def _units(program, step, operand) -> tuple[int, ...]:
    """The axes of a product along which the weight, and not the signal, varies; those of length one do not count."""
    shape = program.shape(step.outs[0])
    if step.name == "conv_general_dilated":
        axes = [step.eqn.params["dimension_numbers"].out_spec[1]]
    else:
        contracted, batch = step.eqn.params["dimension_numbers"]
        free = [len(program.shape(step.ins[i])) - len(contracted[i]) - len(batch[i]) for i in (0, 1)]
        first = len(batch[0]) + (free[0] if operand == 1 else 0)
        # a weight for each group, as in heads: every group has units of its own
        axes = [*range(len(batch[0])), *range(first, first + free[operand])]
    return tuple(a for a in axes if shape[a] > 1)


@dataclass(frozen=True)
class _Flow:
    """What reads and what makes each value of a program."""

    program: Program
    signals: set
    weights: set

    def __post_init__(self):
        readers, makers = {}, {}
        for step in self.program.steps:
            for slot in set(step.ins):
                readers.setdefault(slot, []).append(step)
            makers |= dict.fromkeys(step.outs, step)
        object.__setattr__(self, "readers", readers)
        object.__setattr__(self, "makers", makers)

    def place(self, slot) -> Hashable:
        """Where a signal is from, without what only lays it out in another way: equal where the numbers are."""
        step = self.makers.get(slot)
        if step is None:
            return slot
        inside = [s for s in step.ins if s in self.signals]
        if step.name in ("transpose", *_MOVES, *_SAME) and len(inside) == 1:
            return self.place(inside[0])
        if step.name == "slice":
            part = step.eqn.params["start_indices"], step.eqn.params["limit_indices"], step.eqn.params["strides"]
            return (self.place(inside[0]), *part)
        return slot

    def cut(self, slot) -> bool:
        """Whether the numbers in a slot are taken apart, behind what acts on all of them alike."""
        ways = [slot]
        while ways:
            slot = ways.pop()
            for step in self.readers.get(slot, ()):
                if step.name in _CUTS:
                    return True
                if step.name == "transpose" or (
                    step.name in (*_MOVES, *_AFFINE) and self._fixed_otherwise(step, {slot})
                ):
                    ways += step.outs
        return False

    def preactivation(self, slot, units):
        program = self.program
        while slot != program.output and len(self.readers.get(slot, ())) == 1:
            (step,) = self.readers[slot]
            out = step.outs[0]
            old, new = program.shape(slot), program.shape(out)
            if step.name == "transpose":
                permutation = step.eqn.params["permutation"]
                units = tuple(permutation.index(a) for a in units)
            elif step.name in (*_MOVES, *_AFFINE) and self._fixed_otherwise(step, {slot}):
                if step.name == "div" and step.ins[0] != slot:
                    break
                if not jnp.issubdtype(program.avals[out].dtype, np.floating):
                    break
                # only axes of length one may come and go
                if [d for d in old if d > 1] != [d for d in new if d > 1]:
                    break
                places = [[a for a, d in enumerate(shape) if d > 1] for shape in (old, new)]
                units = tuple(places[1][places[0].index(a)] for a in units)
            else:
                break
            slot = out
        return slot, units

    def source(self, slot, names):
        """The leaf, or the part of a leaf, that the weight in `slot` is, and its name.

        A weight that is computed from several leaves goes by the largest one of them.
        """
        program, leaves = self.program, self.program.leaves
        first = slot
        while slot not in leaves:
            step = self.makers[slot]
            inside = [s for s in step.ins if s in self.weights]
            if step.name == "slice" and inside[0] in leaves:
                return slot, names[leaves.index(inside[0])] + _part(step.eqn.params, program.shape(inside[0]))
            if step.name not in ("transpose", *_MOVES, *_AFFINE) or len(inside) != 1:
                roots = [leaf for leaf in leaves if first in depends(program, [leaf])]
                slot = max(roots, key=program.size)
                break
            (slot,) = inside
        return slot, names[leaves.index(slot)]

    def nonlinearity(self, z):
        program = self.program
        inside, steps = {z}, []
        for step in program.steps:
            if self._fixed_otherwise(step, inside) and _elementwise(step.eqn, program.shape(z)):
                inside.update(step.outs)
                steps.append(step)
        own = {id(step) for step in steps}
        ends = {
            s
            for s in inside - {z}
            if s == program.output or any(id(reader) not in own for reader in self.readers.get(s, ()))
        }
        activated = {self._before_affine(s, inside, z) for s in ends} - {z}
        activated = tuple(sorted(s for s in activated if jnp.issubdtype(program.avals[s].dtype, np.floating)))
        if not activated:
            return None, ()
        outside = {s for step in steps for s in step.ins} - inside - set(program.constants)
        part = replace(program, leaves=tuple(sorted(outside)), inputs=(z,), output=activated[0], steps=tuple(steps))
        return part, activated

    def _before_affine(self, slot, inside, z):
        """What a value was before fixed affine maps: a unit that is off should read zero, whatever is added to it."""
        while slot != z:
            step = self.makers[slot]
            read = [s for s in step.ins if s in inside]
            if step.name not in _AFFINE or len(read) != 1 or (step.name == "div" and step.ins[0] != read[0]):
                break
            (slot,) = read
        return slot

    def _fixed_otherwise(self, step, inside) -> bool:
        """Whether a step reads some of the slots `inside`, and else only what the input does not change."""
        return bool(inside.intersection(step.ins)) and all(s in inside or s not in self.signals for s in step.ins)


def _elementwise(eqn, shape) -> bool:
    if any(v.aval.shape not in (shape, ()) for v in eqn.outvars):
        return False
    if eqn.primitive.name in _CALLS:
        inner = list(_bodies(eqn.params))
        return bool(inner) and all(_elementwise(e, shape) for jaxpr in inner for e in jaxpr.eqns)
    if eqn.primitive.name == "broadcast_in_dim":
        return eqn.invars[0].aval.shape == ()
    return eqn.primitive.name in _ELEMENTWISE


def _part(params, shape) -> str:
    """How the slice is written: `[3]`, or `[0:5, 2]`."""
    if any(s != 1 for s in params["strides"] or ()):
        return "[...]"
    words = []
    for low, high, size in zip(params["start_indices"], params["limit_indices"], shape, strict=True):
        words.append(":" if (low, high) == (0, size) else f"{low}" if high == low + 1 else f"{low}:{high}")
    while words and words[-1] == ":":
        words.pop()
    return f"[{', '.join(words)}]" if words else ""
