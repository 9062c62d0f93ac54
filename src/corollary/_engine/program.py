"""The traced program of one example: calls inlined, loops over layers written out, dead steps removed, and evaluated
with perturbations put in.

Values live in numbered slots, because one inner program may be inlined several times. Functions with derivative rules
of their own (`custom_jvp`, `custom_vjp`) stay whole, since the rule and not the body is their derivative.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from corollary._engine.jaxpr import body_of, loop_of, run_equation

# a program grows with what is written out; longer loops (over the time steps of a sequence, say) stay loops
LONGEST = 256


class Step(NamedTuple):
    """One operation: reads the slots `ins` (one per operand, literals too), writes `outs`."""

    eqn: JaxprEqn
    ins: tuple[int, ...]
    outs: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.eqn.primitive.name


@dataclass(frozen=True)
class Program:
    """Steps from the slots `leaves` (parameters) and `inputs` (one example) to the slot `output`."""

    leaves: tuple[int, ...]
    inputs: tuple[int, ...]
    output: int
    steps: tuple[Step, ...]
    constants: dict
    avals: tuple

    def size(self, slot: int) -> int:
        return self.avals[slot].size

    def shape(self, slot: int) -> tuple[int, ...]:
        return self.avals[slot].shape


def trace(function, leaves, inputs) -> Program:
    """The program of `function(leaves, inputs)` for lists of arrays or shapes, its result one array."""
    closed = jax.make_jaxpr(function)(leaves, inputs)
    build, k = _Builder(), len(leaves)
    slots = [build.slot(v.aval) for v in closed.jaxpr.invars]
    build.of_leaves.update(slots[:k])
    build.of_inputs.update(slots[k:])
    (output,) = build.inline(closed.jaxpr, closed.consts, slots)
    steps = _alive(build.steps, output)
    return Program(tuple(slots[:k]), tuple(slots[k:]), output, steps, build.constants, tuple(build.avals))


def evaluate(program: Program, leaves, inputs, added: dict, keep=()):
    """The output of the program with `added[slot]` added to the value of that slot as soon as it is known.

    Second: the values of the slots in `keep`.
    """
    env = dict(program.constants)

    def write(slot, value):
        env[slot] = value + added[slot] if slot in added else value

    for slot, value in zip(program.leaves + program.inputs, [*leaves, *inputs], strict=True):
        write(slot, value)
    for step in program.steps:
        for slot, value in zip(step.outs, run_equation(step.eqn, [env[s] for s in step.ins]), strict=True):
            write(slot, value)
    return env[program.output], {slot: env[slot] for slot in keep}


def depends(program: Program, sources) -> set[int]:
    """The slots whose values depend on those of the slots `sources`."""
    found = set(sources)
    for step in program.steps:
        if found.intersection(step.ins):
            found.update(step.outs)
    return found


def only_forward(program: Program, sources) -> bool:
    """Whether a loop without a known end depends on `sources`: then there is no reverse mode."""
    reached = depends(program, sources)
    return any("while" in _names([step.eqn]) for step in program.steps if reached.intersection(step.ins))


def only_reverse(function, *arguments) -> bool:
    """Whether a function has parts with a rule for the reverse mode alone."""
    return "custom_vjp_call" in _names(jax.make_jaxpr(function)(*arguments).jaxpr.eqns)


class _Builder:
    def __init__(self):
        self.avals, self.steps, self.constants = [], [], {}
        self.of_leaves, self.of_inputs = set(), set()

    def slot(self, aval) -> int:
        self.avals.append(aval)
        return len(self.avals) - 1

    def constant(self, value, aval) -> int:
        slot = self.slot(aval)
        self.constants[slot] = value
        return slot

    def inline(self, jaxpr, consts, args):
        """Append the steps of `jaxpr`; the slots of its results."""
        env = dict(zip(jaxpr.invars, args, strict=True))
        env |= {v: self.constant(c, v.aval) for v, c in zip(jaxpr.constvars, consts, strict=True)}

        def read(atom):
            return self.constant(atom.val, atom.aval) if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            ins = tuple(map(read, eqn.invars))
            body = body_of(eqn)
            if body is not None:
                outs = self.inline(*body, ins)
            elif eqn.primitive.name == "scan" and self.over_layers(eqn, ins):
                outs = self.layers(eqn, ins)
            else:
                outs = tuple(self.slot(v.aval) for v in eqn.outvars)
                self.steps.append(Step(eqn, ins, outs))
                for known in (self.of_leaves, self.of_inputs):
                    known.update(outs if known.intersection(ins) else ())
            env |= dict(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def over_layers(self, eqn, ins) -> bool:
        """Whether a loop takes parameters slice by slice, and nothing of the example."""
        slices = set(loop_of(eqn, ins).xs)
        ours = bool(slices & self.of_leaves) and not slices & self.of_inputs
        return ours and eqn.params["length"] <= LONGEST

    def layers(self, eqn, ins):
        """The loop written out, so that every layer's use of its own parameters can be seen."""
        body, length = eqn.params["jaxpr"], eqn.params["length"]
        consts, carry, xs = loop_of(eqn, ins)
        made = {}
        for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
            one = [self.traced(lambda a, i=i: lax.index_in_dim(a, i, keepdims=False), x) for x in xs]
            out = self.inline(body.jaxpr, body.consts, [*consts, *carry, *one])
            carry, made[i] = out[: len(carry)], out[len(carry) :]
        columns = zip(*(made[i] for i in range(length)), strict=True)
        return [*carry, *(self.traced(lambda *a: jnp.stack(a), *column) for column in columns)]

    def traced(self, function, *slots) -> int:
        """The slot of a function's value at these slots."""
        shapes = [jax.ShapeDtypeStruct(self.avals[s].shape, self.avals[s].dtype) for s in slots]
        closed = jax.make_jaxpr(function)(*shapes)
        return self.inline(closed.jaxpr, closed.consts, list(slots))[0]


def _alive(steps, output) -> tuple[Step, ...]:
    """The steps that the output depends on, and those that have effects."""
    needed, kept = {output}, []
    for step in reversed(steps):
        if step.eqn.effects or needed.intersection(step.outs):
            needed.update(step.ins)
            kept.append(step)
    return tuple(reversed(kept))


def _bodies(params):
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item


def _names(eqns):
    for eqn in eqns:
        yield eqn.primitive.name
        # what has a derivative rule of its own is differentiated by the rule, whatever its body does
        if not eqn.primitive.name.startswith("custom_"):
            for inner in _bodies(eqn.params):
                yield from _names(inner.eqns)
