r"""A network that learns the values of actions, with the transitions that it learns from in place of labels.

    subject = QSubject(network, rollout(env, policy, 1000, key=key), beta=0.99, learning_rate=1e-2)
    audit(subject)                                  # will value learning be stable?

From the command line: `corollary audit my_file.py:make`, where `make()` returns it.
"""

from __future__ import annotations

import copy
from typing import Any

import jax
import numpy as np

from corollary._types import NetworkLike, Scalar
from corollary._validate import positive, whole
from corollary.audit._checks import number
from corollary.audit._cost import cost
from corollary.audit._errors import SubjectError, sentences
from corollary.audit._facts import raised, said_of_halves
from corollary.audit._kinds import Special
from corollary.audit.finding import short
from corollary.network.parts import split
from corollary.reinforcement import History
from corollary.reinforcement.values import checked, discount, values_of

#: What `QSubject.replaced` puts in place of what was given.
FACTS = ("network", "transitions", "beta", "learning_rate", "target_every")


class QSubject(Special):
    r"""A network of values with its transitions, checked.

    `network(x)` gives the values of all actions for one observation; `transitions` is a `History`, as `rollout` returns
    it or made of arrays. The discount is `beta`. `learning_rate` is the step $\eta$ of
    $\theta\leftarrow\theta+\eta\cdot\mathrm{mean}(\delta\nabla Q)$, plain descent of half the squared error: a squared
    error without the half takes twice that. Leave it out where an optimiser with a memory, such as Adam, takes the
    steps. `target_every` is the number of steps after which a target network is renewed; 1 stands for none.

    One sentence in a `SubjectError` says what does not fit.

    >>> moves = History(x, jnp.zeros(4, int), jnp.ones(4), x[::-1], jnp.zeros(4, bool), jnp.zeros(4, bool))
    >>> QSubject(network, moves, beta=0.9, learning_rate=0.1)
    <QSubject of 21 parameters, 1 action, 4 transitions, discount 0.9>
    """

    sections = ("value_learning",)

    def __init__(
        self,
        network: NetworkLike,
        transitions: History,
        *,
        beta: Scalar,
        learning_rate: float | None = None,
        target_every: int = 1,
    ):
        with sentences():
            self.transitions, self.actions = checked(network, transitions)
            self.notes = (*getattr(network, "notes", ()), *said_of_halves(network))
            parts = split(network)
            self.network = raised(parts.join())
            self.params = raised(parts.params)
            self.beta = float(discount(beta))
            step = learning_rate
            self.learning_rate = None if step is None else number(positive, "learning_rate", step)
            self.target_every = whole("target_every", target_every)
            self._look_at_values()
            self.cost = cost(self.network, self.transitions.observation)

    def _look_at_values(self):
        for name in ("observation", "next_observation"):
            values = np.asarray(values_of(self.network, getattr(self.transitions, name)), float)
            bad = ~np.isfinite(values).all(1)
            if bad.any():
                raise SubjectError(
                    f"the values must be finite, got NaN or infinity at the {name} of {bad.sum()} of {bad.size} "
                    f"transitions, first at index {int(bad.argmax())}."
                )

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    def count(self) -> int:
        """The number of transitions."""
        return self.transitions.action.shape[0]

    def replaced(self, **facts: Any) -> QSubject:
        """The same with other facts: `network`, `transitions`, `beta`, `learning_rate` or `target_every`."""
        unknown = facts.keys() - FACTS
        if unknown:
            raise SubjectError(f"a subject has no fact {min(unknown)!r} to be replaced: {', '.join(FACTS)}.")
        other = copy.copy(self)
        given = {name: getattr(self, name) for name in FACTS} | facts
        other.__init__(given.pop("network"), given.pop("transitions"), **given)
        return other

    def summary(self) -> dict[str, Any]:
        """What stands at the top of a report."""
        step = None if self.learning_rate is None else short(self.learning_rate)
        every = "moves along" if self.target_every == 1 else f"is renewed every {self.target_every} steps"
        facts = [
            (f"{self.size:,}", f"parameters in {len(jax.tree.leaves(self.params))} arrays"),
            (f"{self.actions}", "action" if self.actions == 1 else "actions"),
            (f"{self.count():,}", "transitions"),
            (short(self.beta), "discount"),
            ("No" if step is None else step, "learning rate was given" if step is None else "learning rate"),
            ("The target", every),
        ]
        numbers = {"parameters": self.size, "transitions": self.count(), "actions": self.actions, "beta": self.beta}
        numbers |= {"learning_rate": self.learning_rate, "target_every": self.target_every}
        return numbers | {"facts": facts, "notes": list(self.notes), "left_out": None}

    def __repr__(self) -> str:
        actions = f"{self.actions} action{'s' if self.actions > 1 else ''}"
        moves = f"{self.count()} transition{'s' if self.count() > 1 else ''}"
        return f"<QSubject of {self.size} parameters, {actions}, {moves}, discount {short(self.beta)}>"
