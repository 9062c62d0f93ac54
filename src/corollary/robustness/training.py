r"""Training against an attacker, and the theorem behind it: the gradient of a maximum is that at the maximiser."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from corollary._engine.trees import normal_like, squared_norm
from corollary._show import shown
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.network import BatchLoss
from corollary.network.apart import output_of
from corollary.network.loss import of_examples
from corollary.network.losses import require_targets
from corollary.network.parts import matched, split
from corollary.robustness._climb import Gradient, Plan, climb
from corollary.robustness._victim import require_in_box, victim
from corollary.robustness.ball import Ball


@implements("B12.25", "T18.08")
def adversarial_loss(loss: LossLike, ball: Ball, *, steps: int = 10) -> BatchLoss:
    r"""The mean over a batch of $\max\ell(f(x'),y)$ over `ball` around each $x$: for `nets.fit` and `nets.train`.

    The maximum is sought by `steps` steps of `pgd` from the example, with the parameters of the moment; one step
    is that of `fgsm`. Its gradient by the parameters is that of the loss at the inputs found (Danskin). A compiled
    training cannot look at its data: call the loss once on all of them to see that they have labels that there are
    and lie in the box, `adversarial_loss("cross_entropy", ball)(network, data)`.

    >>> from corollary.nets import train
    >>> run = train(network, adversarial_loss("squared", Ball(2, 0.1)), data, optax.sgd(0.1), steps=20)
    >>> bool(run.losses[-1] < run.losses[0])
    True
    """
    loss, steps = of_examples(loss, who="adversarial_loss"), whole("steps", steps)
    if not isinstance(ball, Ball):
        raise TypeError(f"ball must be a Ball, such as Ball(2, 0.5), got {type(ball).__name__}.")

    def on_batch(network, batch):
        x, y = batch
        if not jnp.issubdtype(jnp.result_type(x), jnp.floating):
            raise TypeError(
                f"adversarial_loss moves inputs by small amounts, and these have dtype {jnp.result_type(x)}: convert "
                "them to floating-point numbers."
            )
        require_in_box(ball, x)
        require_targets(loss.function, output_of(network, x), y)
        return loss.of_outputs(jax.vmap(network)(_worst_inputs(network, loss.function, ball, x, y, steps)), y)

    return BatchLoss(on_batch)


class Danskin(NamedTuple):
    r"""Slopes of $\max_\delta\ell$ along one direction of the parameters.

    `slope` is $\langle\nabla_\theta\ell(\theta,\delta^*),h\rangle$ at the maximiser found, `forward` and `backward` are
    the difference quotients of the maximum to either side. Where the maximiser is unique all three are one number.
    """

    slope: jax.Array
    forward: jax.Array
    backward: jax.Array

    @property
    def gap(self) -> jax.Array:
        """How far the slope at the maximiser is from the quotient that is farther from it."""
        return jnp.maximum(jnp.abs(self.slope - self.forward), jnp.abs(self.slope - self.backward))

    __repr__ = shown


@implements("B12.26")
def danskin_gap(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    ball: Ball,
    *,
    width: Scalar = 1e-4,
    direction: NetworkLike | None = None,
    steps: int = 40,
    key: PRNGKeyArray | None = None,
) -> Danskin:
    r"""Does Danskin's theorem hold here? The slope at the maximisers against quotients of the maximum, sought anew.

    `direction` is a network of the same kind, whose parameters it is; unless given it is random (`key`), of length 1.
    `width` is the length of the step in the parameters.

    >>> found = danskin_gap(network, "squared", data, Ball(2, 0.1), key=key)
    >>> bool(found.gap < 1e-2)
    True
    """
    found = victim("danskin_gap", network, loss, data, ball)
    width, steps = positive("width", real("width", width, "")), whole("steps", steps)
    parts = split(found.network)
    if direction is None:
        if key is None:
            raise TypeError("key must be given where the direction is a random one.")
        direction = normal_like(key, parts.params)
        length = jnp.sqrt(squared_norm(direction))
        direction = jax.tree.map(lambda a: a / length.astype(a.dtype), direction)
    else:
        direction = matched("direction", split(direction, name="direction").params, parts.params)
    return _slopes(parts, found.loss, ball, found.x, found.y, width, direction, steps)


@eqx.filter_jit
def _slopes(parts, loss, ball, x, y, width, direction, steps) -> Danskin:
    def mean(params, x):
        network = parts.join(params)
        return jnp.mean(jax.vmap(lambda x, y: loss(network(x), y))(x, y))

    def worst(t):
        params = jax.tree.map(lambda p, h: p + (t * h).astype(p.dtype), parts.params, direction)
        inputs = _worst_inputs(parts.join(params), loss, ball, x, y, steps)
        return mean(params, inputs), inputs

    here, inputs = worst(jnp.zeros_like(width))
    slope = jax.jvp(lambda params: mean(params, inputs), (parts.params,), (direction,))[1]
    return Danskin(slope, (worst(width)[0] - here) / width, (here - worst(-width)[0]) / width)


def _worst_inputs(network, loss, ball, x, y, steps):
    """Inputs of a large loss, one for each example; nothing is differentiated through the search for them."""
    arrays, rest = eqx.partition(network, eqx.is_array)
    fixed = eqx.combine(jax.lax.stop_gradient(arrays), rest)
    plan = Plan(steps, stop=False, classes=False)
    found = climb(fixed, loss, Gradient(), plan, ball, ball.radius, None, x, y, None, jax.random.key(0), x.shape[0])
    return jax.lax.stop_gradient(found.best)
