"""Inputs that the network never reads: no output moves with them, on any example."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._sample import some
from corollary.audit.action import Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short

NAME = "inputs that the network never reads"
# The last rows that strides do not reach are a tenth of an image; of what is read by less than half most is lost.
MOST = 0.5
# examples at which derivatives are taken
EXAMPLES = 256


class Unread(NamedTuple):
    """How many of the inputs that vary move no output on any of `examples` examples, and how many vary."""

    unread: int
    vary: int
    examples: int


def measure(subject) -> Unread | None:
    """None for tables, whose columns may be left out on purpose, for whole numbers, and for constant networks."""
    leaves = jax.tree.leaves(subject.train[0])
    if len(leaves) > 1 or leaves[0].ndim < 3 or not jnp.issubdtype(leaves[0].dtype, np.floating):
        return None
    few = some(subject.train[0], EXAMPLES, jax.random.key(0))
    x = np.asarray(jax.tree.leaves(few)[0])
    shape = jax.eval_shape(subject.network, jax.tree.map(lambda a: a[0], few))
    # a random mixture of the outputs moves with whatever one of them moves with
    mixture = jax.random.normal(jax.random.key(1), shape.shape, shape.dtype)
    slopes = jax.jit(jax.vmap(jax.grad(lambda a: jnp.vdot(mixture, subject.network(a)))))(few)
    vary = x.std(axis=0) > 0
    read = (np.asarray(jax.tree.leaves(slopes)[0]) != 0).any(axis=0)
    if not (vary & read).any():
        return None
    return Unread(int(np.sum(vary & ~read)), int(vary.sum()), len(x))


def judge(found: Unread) -> Finding:
    share = found.unread / found.vary
    text = f"Of {found.vary:,} inputs that vary {found.unread:,} ({short(100 * share)} %) move no output on any of "
    text += f"{found.examples} training examples"
    if share > MOST:
        text += (
            ": the network never reads them. Are its strides longer than its kernels, is most of the image cut off, or "
            "is only the last step of a sequence read?"
        )
    else:
        text += ": it reads what it is given." if share == 0 else ": it reads most of what it is given."
    seen = Premise("derivatives at all training examples", None, f"{found.examples} examples")
    return Finding(
        NAME,
        "look" if share > MOST else "fine",
        text,
        100 * share,
        exact=True,
        unit="% of the inputs that vary",
        theorem="An input that the outputs do not depend on costs nothing when it is shuffled, whatever it could tell.",
        claim="attribution.permutation.average_over_shuffles",
        premises=(seen,),
        headline="The network never reads most of its inputs",
    )


def read_all(subject, finding) -> Action:
    """An architecture is changed by a person; how much of the error it takes away is not known before."""
    effect = Effect(NAME, finding.value, 0.0, (0.0, 100 * MOST), _share)
    what = "let the network read all of its inputs (shorter strides, larger kernels, all steps) and train again"
    return Action(what, NAME, effect, "theorem", by_hand)


def _share(subject) -> float:
    found = measure(subject)
    return 0.0 if found is None else 100 * found.unread / found.vary
