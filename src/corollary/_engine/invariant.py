"""What a loop need not compute again: the operations of a function that do not depend on its argument.

XLA moves some of them out of a loop itself, but not the copy of a matrix that it wants transposed.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jax.extend.core import Literal

from corollary._engine.jaxpr import run_equation


class Prepared(NamedTuple):
    """`run(values, x)` is the function at `x`; all that it reads beside its argument are the arrays `values`."""

    run: Callable
    values: list


def prepared(function: Callable, x) -> Prepared:
    """`function` of one array and to one, for arguments like `x`, with what does not depend on them computed now."""
    closed = jax.make_jaxpr(function)(x)
    jaxpr, known, later = closed.jaxpr, dict(zip(closed.jaxpr.constvars, closed.consts, strict=True)), []
    for eqn in jaxpr.eqns:
        read = [v for v in eqn.invars if not isinstance(v, Literal)]
        if read and all(v in known for v in read) and not eqn.effects and not _grows(eqn):
            values = [v.val if isinstance(v, Literal) else known[v] for v in eqn.invars]
            known |= dict(zip(eqn.outvars, run_equation(eqn, values), strict=True))
        else:
            later.append(eqn)
    atoms = [*(v for eqn in later for v in eqn.invars), *jaxpr.outvars]
    kept = list(dict.fromkeys(v for v in atoms if not isinstance(v, Literal) and v in known))

    def run(values, x):
        env = dict(zip([*kept, *jaxpr.invars], [*values, x], strict=True))

        def value(atom):
            return atom.val if isinstance(atom, Literal) else env[atom]

        for eqn in later:
            env |= dict(zip(eqn.outvars, run_equation(eqn, [value(v) for v in eqn.invars]), strict=True))
        return value(jaxpr.outvars[0])

    return Prepared(run, [known[v] for v in kept])


def _grows(eqn) -> bool:
    """Whether the results are larger than what they are made of: then they are cheaper made than kept."""
    return sum(v.aval.size for v in eqn.outvars) > sum(v.aval.size for v in eqn.invars)
