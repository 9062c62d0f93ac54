"""What of a network's Jacobian is computed for a block of examples, and how two blocks are contracted.

One reverse pass per example and output gives the derivatives by everything that was put into the program: by the
result of each use of a matched weight, and by each leaf that is differentiated as a whole.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from corollary._engine.program import Program, depends, evaluate, only_forward, trace
from corollary.kernels import _contraction as contraction
from corollary.kernels._contraction import Weight
from corollary.kernels._uses import find_uses


@dataclass(frozen=True)
class Tangents:
    """The plan for one network: its `weights`, the slots of the leaves taken as a `whole`, the number of outputs."""

    program: Program
    weights: tuple[Weight, ...]
    whole: tuple[int, ...]
    outputs: int
    traced: bool
    forward: bool
    dtype: np.dtype

    def bytes(self) -> tuple[int, int, int]:
        """What a pass with all outputs makes of an example, what is kept of it, and workspace per pair of examples."""
        program, k = self.program, self.outputs
        own = depends(program, program.inputs)
        sizes = [program.size(s) for step in program.steps for s in step.outs if s in own] or [0]
        made = sum(sizes) + 2 * k * max(sizes) + sum(contraction.factor_floats(w, k) for w in self.weights)
        kept = sum(contraction.kept_floats(w, k) for w in self.weights) + k * sum(map(program.size, self.whole))
        pair = max([contraction.pair_floats(w, k, self.traced) for w in self.weights], default=0)
        item = self.dtype.itemsize
        return item * made, item * kept, item * (pair + (1 if self.traced else k**2))

    def leaner(self) -> "Tangents":
        """The same with every weight in the form that keeps less of an example, whatever it costs."""
        return replace(self, weights=tuple(contraction.leaner(w, self.outputs) for w in self.weights))

    def features(self, leaves, inputs, basis):
        """For the examples in the first axis of `inputs` and the output cotangents `basis`."""
        factors, whole = jax.vmap(lambda one: self._example(leaves, one, basis))(inputs)
        made = [
            f if w.gram else contraction.jacobian(w, f, self.dtype) for w, f in zip(self.weights, factors, strict=True)
        ]
        return made, whole

    def contract(self, f, g):
        """(i, j), or (i, j, k, l) without the trace."""
        total = 0
        for w, a, b in zip(self.weights, f[0], g[0], strict=True):
            total += contraction.contract(w, a, b, self.traced, self.dtype)
        for a, b in zip(f[1], g[1], strict=True):
            total += contraction.contract_whole(a, b, self.traced, self.dtype)
        return total if self.traced else total.swapaxes(1, 2)

    def _example(self, leaves, inputs, basis):
        program = self.program
        uses = [use for weight in self.weights for use in weight.uses]
        keep = {use.input for use in uses} | {s for use in uses for s, _ in use.view.scale if s is not None}
        slots = [*self.whole, *(use.output for use in uses)]
        zeros = {s: jnp.zeros(program.shape(s), program.avals[s].dtype) for s in slots}

        def run(added):
            return evaluate(program, leaves, inputs, added, keep)

        _, pull, kept = jax.vjp(run, zeros, has_aux=True)
        (delta,) = jax.vmap(pull)(basis)

        def weight(w):
            factors = [_scaled(use, *use.factors(kept[use.input], delta[use.output]), kept) for use in w.uses]
            return contraction.merge(w, factors)

        return list(map(weight, self.weights)), [delta[s].reshape(basis.shape[0], -1) for s in self.whole]


def plan(function, leaves, inputs, candidates, n1: int, n2: int | None, traced: bool) -> Tangents:
    """How to compute the kernel of `function(leaves, inputs)`, for one example, by the leaves `candidates`."""
    program = trace(function, leaves, inputs)
    slots = [program.leaves[i] for i in candidates]
    read = {s for step in program.steps for s in step.ins} | {program.output}
    slots = [s for s in slots if s in read]
    out = program.avals[program.output]
    dtype = jnp.result_type(out.dtype, jnp.float32, *(program.avals[s].dtype for s in slots))
    forward = only_forward(program, slots)
    uses = {} if forward else find_uses(program, slots)
    matched = {leaf for leaf, _ in uses}
    weights = [contraction.plan_weight(program, group, n1, n2, out.size, traced) for group in uses.values()]
    whole = tuple(s for s in slots if s not in matched)
    return Tangents(program, tuple(weights), whole, out.size, traced, forward, np.dtype(dtype))


def forward_contract(tangents: Tangents, leaves, a, b, width: int = 32):
    """The same from forward mode, `width` parameters at a time: for programs that have no reverse mode."""
    program = tangents.program

    def of_leaf(slot):
        shape, size = program.shape(slot), program.size(slot)
        dtype = program.avals[slot].dtype

        def change(inputs, direction):
            def run(value):
                return evaluate(program, leaves, inputs, {slot: value})[0].reshape(-1)

            return jax.jvp(run, (jnp.zeros_like(direction),), (direction,))[1]

        of = jax.vmap(jax.vmap(change, (None, 0)), (0, None))

        def some(total, start):
            directions = jax.nn.one_hot(start + jnp.arange(width), size, dtype=dtype).reshape(width, *shape)
            f, g = of(a, directions), of(b, directions)
            axes = "idk,jdk->ij" if tangents.traced else "idk,jdl->ijkl"
            return total + jnp.einsum(axes, f, g, preferred_element_type=tangents.dtype), None

        n, m, k = a[0].shape[0], b[0].shape[0], tangents.outputs
        zero = jnp.zeros((n, m) if tangents.traced else (n, m, k, k), tangents.dtype)
        return lax.scan(some, zero, jnp.arange(0, size, width))[0]

    return sum(of_leaf(slot) for slot in tangents.whole)


def _scaled(use, value, delta, kept):
    """The constants that the weight was multiplied with, put into the smaller factor."""
    for slot, divides in use.view.scale:
        constant = -1 if slot is None else jnp.reshape(kept[slot], ())
        constant = 1 / constant if divides else constant
        value, delta = (value, delta * constant) if use.lookup else (value * constant, delta)
    return value, delta
