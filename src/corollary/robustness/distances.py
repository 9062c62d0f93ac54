r"""How far it is to an input of another class: a distance that an attack has found, one below which there is none."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._charts import lines
from corollary._engine.cpu_ready import cpu_ready
from corollary._show import shown
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import concrete, real, whole, within
from corollary.network.batches import each
from corollary.network.parts import is_real
from corollary.robustness._climb import Gradient, Plan, along, climb
from corollary.robustness._victim import hits, require_in_box, victim
from corollary.robustness.attacks import ascent
from corollary.robustness.ball import Ball, norm_order
from corollary.robustness.lipschitz_certificate import lipschitz_certificate

#: Halvings of the way back from an input of another class.
HALVINGS = 24
# by how many roundings of its outputs an input of another class is on the other side: every way of running the network
# then says so
ROUNDINGS = 64


class Perturbation(NamedTuple):
    r"""No input nearer than `lower` has another class, and `witness`, at the distance `upper`, has one; (n,) each.

    The witness has another class by more than the outputs are rounded by, so that every way of running the network says
    so. Where no attack found one `upper` is infinite and `witness` the example. Both are 0 where the network is wrong
    as is. `dead` is whether the slope at the example is zero or not finite: an attack has no way to go there, and its
    failure shows nothing.
    """

    lower: jax.Array
    upper: jax.Array
    witness: jax.Array
    dead: jax.Array

    __repr__ = shown


def smallest_perturbation(
    network: NetworkLike,
    data: PyTree,
    p: Literal[1, 2] | float,
    *,
    low: Float[ArrayLike, "..."] | None = None,
    high: Float[ArrayLike, "..."] | None = None,
    certified: Float[ArrayLike, "n"] | None = None,
    rounds: int = 12,
    steps: int = 40,
    key: PRNGKeyArray,
    batch_size: int = 128,
) -> Perturbation:
    r"""How far each example of `data = (x, y)` is from the nearest input of another class, between two ends.

    Above: attacks on the margin in `rounds` rounds, with radii that double until one succeeds and are halved in between
    from then on; from what was found straight back towards the example. Below: `lipschitz_certificate`, margin over
    Lipschitz constant ($\sqrt2L$ for several outputs), for $p=\infty$ over $\sqrt d$ too; 0 where
    `generalization.lipschitz` knows none. Distances that were `certified` by other means take its place. `low` and
    `high` are the box of the inputs.

    >>> found = smallest_perturbation(network, (x, jnp.sign(jax.vmap(network)(x)[:, 0])), 2, key=key)
    >>> bool((found.lower <= found.upper).all())
    True
    """
    found = victim("smallest_perturbation", network, behind, data)
    if not found.classes:
        raise ValueError("data must have classes for targets: whole numbers from 0, or two labels for a single output.")
    rounds, steps, batch_size = whole("rounds", rounds), whole("steps", steps), whole("batch_size", batch_size)
    ball = Ball(norm_order(p), 1.0, low, high)
    require_in_box(ball, found.x)
    attack_key, key = jax.random.split(key)
    if certified is None:
        lower = _certified(network, (found.x, found.y), ball.p, key=key, batch_size=batch_size)
    else:
        lower = within("certified", real("certified", certified, "n", finite=False), 0)
        if lower.shape[0] != found.x.shape[0]:
            raise ValueError(f"certified must hold a distance for each of {found.x.shape[0]} examples.")
    upper, witness, dead = _nearest(found, ball, rounds, steps, attack_key, batch_size)
    # rounding of the margin and of the distance of a witness that is at the boundary
    if concrete(upper) and np.any(np.asarray(lower) > np.asarray(upper) * (1 + 1e-3) + 1e-6):
        raise ArithmeticError("an input of another class lies within a certified distance: the certificate is wrong.")
    return Perturbation(jnp.minimum(lower, upper), upper, witness, dead)


class RobustAccuracy(NamedTuple):
    """The share of examples that no perturbation of each radius changes: at least `lower`, at most `upper`.

    `interval` holds, with probability `1 - delta` for each radius, that share among all examples that could have been
    drawn: the lower end of Clopper and Pearson's interval for `lower`, the upper one of that for `upper`. `dead` is the
    share of examples whose attack met a slope that was zero, constant or not finite: where it is large, `upper` means
    little.
    """

    radii: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    interval: np.ndarray
    dead: np.ndarray
    delta: float

    __repr__ = shown

    def plot(self) -> Any:
        """An Altair chart of both ends against the radius."""
        rows = [
            {"radius": float(r), "accuracy": float(v), "end": name}
            for name, values in (("certified", self.lower), ("attacked", self.upper))
            for r, v in zip(self.radii, values, strict=True)
        ]
        return lines(rows, "radius", "accuracy", colour="end")


def robust_accuracy(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    radii: Float[ArrayLike, "k"],
    *,
    p: Literal[1, 2] | float,
    low: Float[ArrayLike, "..."] | None = None,
    high: Float[ArrayLike, "..."] | None = None,
    steps: int = 40,
    restarts: int = 1,
    delta: Scalar = 0.05,
    key: PRNGKeyArray,
    batch_size: int = 128,
) -> RobustAccuracy:
    r"""Both ends of what is known about the accuracy under attack, at each of the increasing `radii`.

    From above by `pgd` on `loss`; who falls at one radius has fallen at all larger ones. From below by the certificates
    of `smallest_perturbation`.

    >>> labels = jnp.sign(jax.vmap(network)(x)[:, 0])
    >>> curve = robust_accuracy(network, "logistic", (x, labels), [0.0, 0.1, 1.0], p=2, key=key)
    >>> bool((curve.lower <= curve.upper).all())
    True
    """
    found = victim("robust_accuracy", network, loss, data)
    if not found.classes:
        raise ValueError("data must have classes for targets: whole numbers from 0, or two labels for a single output.")
    radii = np.asarray(within("radii", real("radii", radii, "k"), 0))
    if np.any(np.diff(radii) <= 0):
        raise ValueError("radii must increase.")
    p, delta = norm_order(p), float(within("delta", delta, 0, 1, open="both"))
    require_in_box(Ball(p, 1.0, low, high), found.x)
    lower_key, key = jax.random.split(key)
    safe = _certified(network, (found.x, found.y), p, key=lower_key, batch_size=batch_size)
    fallen, upper, dead = np.zeros(found.x.shape[0], bool), [], []
    for radius in radii:  # one compiled program for all of them
        attack = ascent(
            found, Ball(p, radius, low, high), Gradient(), steps=steps, restarts=restarts, step=None,
            direction="steepest", target=None, stop=True, key=key, batch_size=whole("batch_size", batch_size),
        )  # fmt: skip
        fallen = fallen | np.asarray(attack.success)
        upper.append(~fallen)
        dead.append(np.sum([np.asarray(a) for a in attack.dead], axis=0) > 0)
    held = np.asarray(safe)[None] > radii[:, None]
    lower = held & np.stack(upper)
    return RobustAccuracy(
        radii, lower.mean(1), np.mean(upper, 1), _interval(lower, np.stack(upper), delta), np.mean(dead, 1), delta
    )


def _interval(lower, upper, delta):
    from scipy.stats import binomtest

    def end(right, side):
        return getattr(binomtest(int(right.sum()), right.size).proportion_ci(1 - delta), side)

    return np.array([[end(a, "low"), end(b, "high")] for a, b in zip(lower, upper, strict=True)])


def _certified(network, data, p, *, key, batch_size):
    """How far every input of another class is, at least: a Euclidean radius, over root d for the largest norm."""
    if not any(is_real(leaf) for leaf in jax.tree.leaves(network)):
        return jnp.zeros(data[0].shape[0])  # nothing is known about a function
    radius = lipschitz_certificate(network, data, key=key, batch_size=batch_size).radius
    return radius / (data[0][0].size ** 0.5 if p == np.inf else 1)


def behind(output, y):
    """By how much the largest other output exceeds that of the class: a loss that does not saturate."""
    if output.size == 1:
        return jnp.where(y.reshape(()) > 0, -1, 1) * output.reshape(())
    return jnp.max(jnp.where(jnp.arange(output.size) == y, -jnp.inf, output)) - output[y]


@eqx.filter_jit
def _nearest(found, ball: Ball, rounds, steps, key, batch_size):
    x, y, network = found.x, found.y, found.network
    plan = Plan(steps)

    def estimate(x, y):
        """The margin over the slope, in the dual norm: the distance, if the network were linear."""
        value, slope = jax.value_and_grad(lambda x: behind(network(x), y))(x)
        dead = ~(jnp.all(jnp.isfinite(slope)) & jnp.any(slope != 0))
        size = Ball(ball.p, 1.0).support(jnp.where(dead, 0, slope), jnp.zeros_like(slope))
        return jnp.where(size > 0, jnp.maximum(-value, 0) / jnp.where(size > 0, size, 1), 1.0), dead

    def beyond(x, y, size):
        """Whether the class is another one, beyond rounding of outputs that have this size."""
        output = network(x)
        rounding = ROUNDINGS * jnp.finfo(output.dtype).eps * jnp.maximum(size, jnp.max(jnp.abs(output)))
        return ~hits(output, y) & (behind(output, y) > rounding)

    def back(batch):
        """The nearest inputs of another class on the way back from `there`, where there are any."""
        x, y, there, flipped = batch
        part = lambda share: x + share.reshape(-1, *[1] * (x.ndim - 1)) * (there - x)  # noqa: E731
        sizes = cpu_ready(jax.vmap(lambda x: jnp.max(jnp.abs(network(x)))))(x)
        look = cpu_ready(lambda x: jax.vmap(beyond)(x, y, sizes))

        def halve(ends):
            number, near, far = ends
            middle = (near + far) / 2
            other = look(part(middle))
            return number + 1, jnp.where(other, near, middle), jnp.where(other, middle, far)

        none = jnp.zeros(len(x), x.dtype)
        flipped &= look(there)
        # a batch in which nothing has flipped has no way back
        far = jax.lax.while_loop(lambda e: (e[0] < HALVINGS) & jnp.any(flipped), halve, (0, none, none + 1))[2]
        point = jnp.where(along(far < 1, x), part(far), there)
        point = jnp.where(along(look(point), x), point, there)
        return point, jnp.where(flipped, jax.vmap(ball.distance)(point, x), jnp.inf)

    def round_(carry, key):
        radius, missed, upper, witness = carry
        end = climb(network, found.loss, Gradient(), plan, ball, radius, None, x, y, None, key, batch_size)
        point, distance = each(back, (x, y, end.best, end.flipped), batch_size)
        closer = distance < upper
        upper = jnp.where(closer, distance, upper)
        witness = jnp.where(along(closer, x), point, witness)
        missed = jnp.where(end.flipped, missed, jnp.maximum(missed, radius))
        between = jnp.where(missed < upper, (missed + upper) / 2, 0.95 * upper)
        return (jnp.where(jnp.isfinite(upper), between, 2 * radius), missed, upper, witness), None

    begin, dead = each(lambda batch: cpu_ready(jax.vmap(estimate))(*batch), (x, y), batch_size)
    begin = begin.astype(x.dtype)
    none = jnp.zeros_like(begin)
    (_, _, upper, witness), _ = jax.lax.scan(round_, (begin, none, none + jnp.inf, x), jax.random.split(key, rounds))
    return upper, witness, dead
