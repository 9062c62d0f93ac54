r"""A network cut in two: an affine first part $h$, and the rest. Then $h(x+\delta)=h(x)+(h(\delta)-h(0))$.

Noise that many examples share passes the first layer, often the widest, once.
"""

import equinox as eqx
import jax

from corollary._engine.jaxpr import run_equation
from corollary._engine.program import Program, Step, depends, trace

#: Operations that are linear in all their inputs together, or in the one that depends on the example.
LINEAR = {"reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "copy", "neg", "rev", "slice"}
LINEAR |= {"reduce_sum", "concatenate", "stack", "pad", "add", "sub", "add_any"}
PRODUCTS = {"dot_general", "mul", "conv_general_dilated"}


def affine_first(network, x):
    """Functions `head` and `tail` with `network(x) = tail(head(x))`, the first affine; the identity if there is none.

    `x` is one example. The cut is behind the longest affine beginning, if all that follows sees the example through
    one array.
    """
    leaves, fixed = eqx.partition(network, eqx.is_array)
    flat, tree = jax.tree.flatten(leaves)
    inputs, form = jax.tree.flatten(x)
    whole = (lambda x: x), network
    if len(inputs) != 1:
        return whole
    try:
        program = trace(lambda p, x: eqx.combine(tree.unflatten(p), fixed)(form.unflatten(x)), flat, inputs)
    except ValueError:  # more than one output
        return whole
    affine, cut = _cut(program)
    if cut is None:
        return whole
    before = [step for step in program.steps if affine.intersection(step.outs)]
    between = {slot for step in before for slot in step.outs}
    after = [step for step in program.steps if not between.intersection(step.outs)]
    start = program.constants | dict(zip(program.leaves, flat, strict=True))
    known = [step for step in after if not depends(program, program.inputs).intersection(step.outs)]
    rest = [step for step in after if step not in known]
    env = _run(known, start)

    def head(x):
        return _run(before, env | {program.inputs[0]: jax.tree.leaves(x)[0]})[cut]

    def tail(h):
        return _run(rest, env | {cut: h})[program.output]

    return head, tail


def _run(steps, env: dict) -> dict:
    env = dict(env)
    for step in steps:
        env |= dict(zip(step.outs, run_equation(step.eqn, [env[s] for s in step.ins]), strict=True))
    return env


def _cut(program: Program) -> tuple[set[int], int | None]:
    """The slots that are affine in the example, and the one through which everything else sees it, if there is one."""
    reached, affine, seen = depends(program, program.inputs), set(program.inputs), set()
    for step in program.steps:
        ours = reached.intersection(step.ins)
        if not ours:
            continue
        if ours <= affine and _is_affine(step, ours):
            affine.update(step.outs)
        else:
            seen |= ours & affine
    if program.output in affine:
        seen.add(program.output)
    (cut,) = seen if len(seen) == 1 else (None,)
    return affine, None if cut in program.inputs else cut


def _is_affine(step: Step, ours: set[int]) -> bool:
    if step.name in LINEAR:
        return True
    dependent = [slot for slot in step.ins if slot in ours]
    if step.name in PRODUCTS:
        return len(dependent) == 1
    return step.name == "div" and step.ins[1] not in ours
