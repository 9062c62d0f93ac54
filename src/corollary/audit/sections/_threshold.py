"""Where the network stands from the interpolation threshold: the rank of its tangent features against the equations."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.audit import _plan
from corollary.audit._sample import some
from corollary.audit._tangent import chosen_outputs
from corollary.audit.finding import Finding, Premise, short
from corollary.network.batches import count, each
from corollary.network.parts import split

NAME = "rank of the tangent features against equations"
FACTS = dict(
    theorem="The network linearised at its weights is a linear model whose features are the gradients of its outputs. "
    "It fits any targets where their rank is the number of equations; the expected error of least squares with noise "
    "grows towards as many features as equations, and falls again beyond.",
    claim="generalization.double_descent.exact_law",
)
# gradients beyond a part of the budget are left out, and fewer than these say nothing
SHARE, FEWEST = 8, 32
# rows per example of a kernel, and the part of the memory that the matrix of gradients may take
ROWS, PART = 2, 64
# features that are fewer than half of the equations are far below the threshold
FAR = 0.5


class Features(NamedTuple):
    """The `rank` of the gradients of `rows` outputs, out of `equations` (examples times outputs), by `parameters`."""

    rank: int
    rows: int
    equations: int
    parameters: int

    @property
    def bounds(self) -> tuple[int, int]:
        """What the rank on all equations lies between: each row that was not looked at adds one at most."""
        unseen = self.equations - self.rows
        return self.rank, min(self.parameters, self.rank + unseen)


def measure(subject, budget, key) -> Features | None:
    """The numerical rank (at rounding) of as many gradients as the budget has room for; None if these are too few."""
    example_key, output_key = jax.random.split(key)
    row = max(1, int(np.prod(subject.outputs("train").shape[1:])))
    equations = subject.count() * row
    affordable = budget.work / (SHARE * _plan.GRADIENT * _plan.forward(subject))
    most = int(min(ROWS * budget.kernel, budget.memory // PART // subject.size, affordable))
    if most < min(FEWEST, equations):
        return None
    at = None if row <= most else np.sort(np.asarray(jax.random.permutation(output_key, row)[:most]))
    width = row if at is None else len(at)
    x = some(subject.train[0], max(1, most // width), example_key)
    network, trainable = chosen_outputs(subject.network, at, subject.trainable)
    found = np.asarray(_gradients(network, trainable, x, _plan.gradients_at_once(subject, budget)))
    found = found.reshape(count(x) * width, -1)
    if not np.isfinite(found).all():
        return None
    return Features(int(np.linalg.matrix_rank(found)), len(found), equations, subject.size)


def judge(found: Features | None) -> Finding:
    if found is None:
        why = "This was left out: the gradients of enough outputs take too long or are not finite."
        return Finding(NAME, "not applicable", why, **FACTS)
    rank, rows, equations, parameters = found
    low, high = (end / equations for end in found.bounds)
    text = f"The gradients of {rows:,} outputs by {parameters:,} parameters have rank {rank:,}"
    if rows < equations:
        text += f", those of all {equations:,} (examples times outputs) between {rank:,} and {found.bounds[1]:,}"
    text += ". "
    if low == 1:
        text += "This is beyond the interpolation threshold: near these weights any targets can be fitted."
    elif low > FAR:
        text += (
            "This is near the interpolation threshold, where the error of least squares peaks if labels are noisy."
            if parameters < 2 * equations
            else f"Of what targets could ask for {short(100 * low)} % or more can be fitted near these weights. There "
            "are parameters enough for all, but examples that are alike, or units that are off, share gradients."
        )
    elif high < 1:
        text += (
            f"This is below the interpolation threshold: near these weights at most {short(100 * high)} % of what "
            "targets could ask for can be fitted."
        )
    else:
        text += "On which side of the interpolation threshold that is cannot be told from so few."
    seen = Premise("all training examples were used", rows == equations, f"{rows:,} of {equations:,} outputs")
    linear = Premise("a model that is linear in its parameters", None, "the network linearised at its weights")
    exact = low == high
    return Finding(
        NAME, "fine", text, low, None if exact else (low, high), exact=exact, premises=(seen, linear), **FACTS
    )


@eqx.filter_jit
def _gradients(network, trainable, x, batch):
    """The gradient of every output of every example by all parameters: (examples, outputs, parameters)."""
    parts = split(network, trainable=trainable)
    flat, back = ravel_pytree(parts.params)

    def outputs(flat, one):
        return jnp.ravel(parts.join(back(flat))(one))

    return each(lambda some: jax.vmap(lambda one: jax.jacrev(outputs)(flat, one))(some), x, batch)
