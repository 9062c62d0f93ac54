"""The point where training started, as far as it is known."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from corollary.audit import _checks
from corollary.audit.finding import Premise

#: How often `init` is drawn from, when the start itself is not known.
DRAWS = 5

WHERE = {"given": "At the start", "drawn": "At a random start", "trained": "At the trained weights"}
MEASURED = {
    "given": "at the initial network",
    "drawn": f"at {DRAWS} draws of init, the first of which is described",
    "trained": "at the trained weights: neither initial nor init was given",
}


class Start(NamedTuple):
    """`params` to measure at, `others` drawn like them, and where they are from: `given`, `drawn` or `trained`."""

    params: Any
    others: tuple
    kind: str

    @property
    def where(self) -> str:
        return WHERE[self.kind]

    @property
    def premise(self) -> Premise:
        return Premise("measured where training starts", self.kind != "trained", MEASURED[self.kind])


def start_of(subject, key) -> Start:
    if subject.initial_params is not None:
        return Start(_like(subject.initial_params, subject.params), (), "given")
    if subject.init is not None:
        init = jax.jit(subject.init)
        drawn = [_like(init(k), subject.params) for k in jax.random.split(key, DRAWS)]
        return Start(drawn[0], tuple(drawn[1:]), "drawn")
    return Start(subject.params, (), "trained")


def losses_at(subject, start: Start):
    """The outputs at the start for all training examples, and each example's own loss."""
    if start.kind == "trained":
        outputs = subject.outputs("train")
    else:
        outputs = _checks.outputs(subject.apply, start.params, subject.train[0], subject.cost)
    return outputs, np.asarray(_losses(subject.loss, outputs, subject.train[1]), float)


@eqx.filter_jit
def _losses(loss, outputs, y):
    return jax.vmap(loss.function)(outputs, y)


def _like(params, other):
    """In the types of the trained weights, so that compiled programs serve both."""
    return jax.tree.map(lambda p, q: p.astype(q.dtype), params, other)
