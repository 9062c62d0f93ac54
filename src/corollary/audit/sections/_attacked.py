"""How near the nearest input of another class is: found along gradients, and by questions, from which nothing hides.

Whatever finds an input, a forward pass of its own decides whether the class there is another one.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit import _plan
from corollary.audit._sample import exact_interval
from corollary.audit.sections._attackable import SHARE, Attackable
from corollary.robustness import Ball, finite_difference_pgd, smallest_perturbation, straight_attack
from corollary.robustness.distances import behind

#: Radii at which random perturbations are drawn, in distances to the nearest example of another class.
RADII = (0.05, 0.1, 0.25, 0.5, 1.0)
DRAWS = 4
# a witness of the search lies at the boundary, where rounding decides its class: it is taken so much farther
BEYOND = 1.001
# questions have found more than gradients where what they found is nearer by this factor
NEARER = 0.9
# steps and examples of the ascent along difference quotients, twice as many questions per step as there are inputs
STEPS, ASKED = 10, 64
# Gradients that are in order are beaten for less than one example in a hundred of the digits; for three or four where
# one weight is a hundred times as large as the others, and in few dimensions, where the nearest class is not the second
# likeliest one. Hidden ones are beaten for nearly all.
HIDDEN = 0.1


class Attacked(NamedTuple):
    """Distances of every example to an input of another class, in units, as each attack has found it; infinite if none.

    `right` is whether the network is right as is, `certified` the distance within which it certainly stays so. `random`
    are the shares of draws at each of `RADII` that leave it right, (radii, n). `asked` of the examples went through the
    attack by difference quotients. `dead` are those without a slope.
    """

    right: np.ndarray
    certified: np.ndarray
    gradients: np.ndarray
    questions: np.ndarray
    random: np.ndarray
    dead: np.ndarray
    asked: int

    @property
    def beaten(self) -> np.ndarray:
        """Whether questions found what is clearly nearer than what gradients found, for examples it is right on."""
        return (self.questions < NEARER * self.gradients)[self.right]

    @property
    def hidden(self) -> bool:
        """Whether gradients lead attacks astray."""
        beaten = self.beaten
        return exact_interval(beaten.sum(), len(beaten))[0] > HIDDEN

    @property
    def nearest(self) -> np.ndarray:
        """The nearest that any attack has found; of the examples that were asked about, where gradients are hidden."""
        found = np.minimum(self.gradients, self.questions)
        return found[: self.asked] if self.hidden and self.asked else found


def measure(subject, victim: Attackable, certified, budget, key) -> Attacked:
    """All attacks; `certified` are distances in the units of the inputs."""
    search_key, random_key = jax.random.split(key)
    x, y, unit = victim.x, victim.y, victim.unit
    box = {"low": victim.low, "high": victim.high}
    right = _right(subject, x, y)
    near = smallest_perturbation(
        victim.network, victim.data, 2, **box, certified=certified, rounds=victim.rounds, steps=victim.steps,
        key=search_key, batch_size=victim.batch_size,
    )  # fmt: skip
    beyond = np.clip(x + np.asarray(BEYOND * (np.asarray(near.witness) - x), x.dtype), victim.low, victim.high)
    gradients = _turned(subject, victim, beyond)
    straight = straight_attack(
        victim.network, "cross_entropy", victim.data, victim.towards, batch_size=victim.batch_size
    )
    questions = _turned(subject, victim, np.asarray(straight.inputs))
    shares = []
    for radius, k in zip(RADII, jax.random.split(random_key, len(RADII)), strict=True):
        ball = Ball(2, jnp.asarray(radius * unit, x.dtype), **box)
        drawn = [np.asarray(_drawn(ball, jnp.asarray(x), draw)) for draw in jax.random.split(k, DRAWS)]
        shares.append(np.mean([_right(subject, moved, y) for moved in drawn], 0))
        for moved in drawn:
            questions = np.minimum(questions, _turned(subject, victim, moved))
    found = Attacked(
        right, np.asarray(certified) / unit, gradients, questions, np.array(shares), np.asarray(near.dead), 0
    )
    return _asked(subject, victim, found, budget)


def _asked(subject, victim: Attackable, found: Attacked, budget) -> Attacked:
    """With the ascent along difference quotients: at one radius, and where that finds more at all of them."""
    m = min(ASKED, len(victim.x), _affordable(subject, victim, budget))
    if m < _plan.FEWEST:
        return found
    reached = found.gradients[found.right]
    # where gradients have turned half of the examples, and no farther than the other classes
    usual = min(float(np.median(reached)), 0.5) if len(reached) else 0.5
    found = found._replace(asked=m)
    for radius in (NEARER * usual, *RADII[:-1]):
        asked = np.full(len(victim.x), np.inf)
        asked[:m] = _by_differences(subject, victim, radius, m)
        found = found._replace(questions=np.minimum(found.questions, asked))
        if not found.hidden:
            break
    return found


def _affordable(subject, victim, budget) -> int:
    """So many examples may be asked about, at one radius."""
    questions = STEPS * (2 * victim.x[0].size + 1) * _plan.forward(subject)
    return int(SHARE * budget.work / questions)


def _by_differences(subject, victim: Attackable, radius: float, m: int):
    ball = Ball(2, jnp.asarray(radius * victim.unit, victim.x.dtype), victim.low, victim.high)
    # as wide as one input can be moved: what rounding hides within that is no harm
    width = radius * victim.unit
    some = jnp.asarray(victim.x[:m]), jnp.asarray(victim.y[:m])
    attack = finite_difference_pgd(
        victim.network, behind, some, ball, width=width, steps=STEPS, batch_size=min(m, victim.batch_size)
    )
    padded = victim.x.copy()  # one program for all forward passes
    padded[:m] = np.asarray(attack.inputs)
    return _turned(subject, victim, padded)[:m]


def _right(subject, x, y):
    return np.asarray(subject.predict(x)) == y


def _turned(subject, victim: Attackable, inputs):
    """How far inputs are from the examples, in units, where a fresh forward pass gives them another class."""
    shift = np.asarray(inputs, float) - victim.x
    far = np.sqrt(np.sum(shift.reshape(len(shift), -1) ** 2, 1)) / victim.unit
    return np.where(_right(subject, inputs, victim.y), np.inf, far)


@eqx.filter_jit
def _drawn(ball, x, key):
    return jax.vmap(lambda one, k: ball.sample(one, key=k))(x, jax.random.split(key, x.shape[0]))
