"""A network of tokens in two parts: the rows that tokens are looked up as, and a network of these rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.jaxpr import run_equation
from corollary._engine.program import Program
from corollary.network._lookups import read
from corollary.network.network import Network

NO_TABLE = "the tokens are not looked up in one table of the network"
ELSEWHERE = "the tokens are used beside their embeddings too, for a mask of padding, say"


class Embedded(NamedTuple):
    """`rows(x)` are those of a batch of tokens, and `after` the network of the rows of one example."""

    rows: Callable
    after: Network


def embedded(network, x) -> Embedded | str:
    """`network` behind the look-up of its tokens `x`, an array (n, ...); half a sentence on why there is none."""
    program, arrays, found = read(network, x)
    if len(found) != 1:
        return NO_TABLE
    slot = found[0].slot
    after = _needed(program, program.output, slot)
    if {*program.inputs} & {s for step in after for s in step.ins}:
        return ELSEWHERE
    before = _needed(program, slot)
    # all real numbers are parameters, as in any network without more being said
    real = [jnp.issubdtype(a.dtype, np.floating) for a in arrays]

    def run(steps, arrays, known, wanted):
        env = program.constants | dict(zip(program.leaves, arrays, strict=True)) | known
        for step in steps:
            env |= dict(zip(step.outs, run_equation(step.eqn, [env[s] for s in step.ins]), strict=True))
        return env[wanted]

    def rows(x):
        return jax.jit(jax.vmap(lambda one: run(before, arrays, {program.inputs[0]: one}, slot)))(x)

    def apply(params, buffers, e):
        params, buffers = iter(params), iter(buffers)
        own = [next(params if is_real else buffers) for is_real in real]
        return run(after, own, {slot: e}, program.output)

    params, buffers = (
        [a for a, is_real in zip(arrays, real, strict=True) if is_real == kind] for kind in (True, False)
    )
    return Embedded(rows, Network(apply, params, buffers))


def _needed(program: Program, output: int, given: int | None = None) -> tuple:
    """The steps that lead to a slot, without those that lead to a given one."""
    wanted, kept = {output} - {given}, []
    for step in reversed(program.steps):
        if wanted.intersection(step.outs):
            wanted.update(s for s in step.ins if s != given)
            kept.append(step)
    return tuple(reversed(kept))
