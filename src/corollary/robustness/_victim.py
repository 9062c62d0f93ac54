"""The network under attack, its loss and its examples, checked; and what a fresh forward pass says about new inputs."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete, labels
from corollary.network.apart import output_of, require_apart
from corollary.network.batches import each, pair
from corollary.network.loss import of_examples
from corollary.network.losses import hinge, logistic, require_targets
from corollary.network.parts import require_network
from corollary.robustness.ball import Ball


class Victim(NamedTuple):
    """`classes` says whether targets are classes, so that there is something to flip."""

    network: Any
    loss: Any
    x: Any
    y: Any
    classes: bool


def victim(who: str, network, loss, data, ball: Ball | None = None) -> Victim:
    """The arguments of an attack; one sentence for what is wrong with them."""
    require_network(network)
    x, y = pair("data", data)
    if not isinstance(x, jax.Array):
        raise TypeError(f"{who} moves one array of inputs, got a {type(x).__name__}: let the network take one array.")
    if not jnp.issubdtype(x.dtype, np.floating):
        raise TypeError(
            f"{who} moves inputs by small amounts, and these have dtype {x.dtype}: convert them to floating-point "
            "numbers, or, if the network takes whole numbers only, attack one that does not and use transfer."
        )
    if not isinstance(y, jax.Array):
        raise TypeError(f"data must have one array of targets, got a {type(y).__name__}.")
    loss = of_examples(loss, who=who).function
    network = eqx.nn.inference_mode(network)
    require_apart(network, x)
    out = output_of(network, x)
    require_targets(loss, out, y)
    if ball is not None:
        require_in_box(ball, x)
    return Victim(network, loss, x, y, _has_classes(out, y, loss))


def require_in_box(ball, x) -> None:
    """One sentence unless `ball` is a ball in whose box the inputs lie."""
    if not isinstance(ball, Ball):
        raise TypeError(f"ball must be a Ball, such as Ball(2, 0.5), got {type(ball).__name__}.")
    for name, end, outside in (("low", ball.low, np.less), ("high", ball.high, np.greater)):
        if end is None:
            continue
        try:
            np.broadcast_shapes(end.shape, x.shape[1:])
        except ValueError:
            raise ValueError(f"{name} must fit one input of shape {x.shape[1:]}, got shape {end.shape}.") from None
        if concrete(end) and concrete(x) and np.any(outside(np.asarray(x), np.asarray(end))):
            most = np.min if name == "low" else np.max
            raise ValueError(
                f"the inputs must lie in the box of the ball: one is {most(np.asarray(x)):.6g}, {name} is "
                f"{most(np.asarray(end)):.6g}. Give the box in the unit of x."
            )


def hits(output, y):
    """Whether the class that an output stands for is `y`: its largest entry, or the sign of a single one."""
    if output.size > 1:
        return jnp.argmax(output) == y
    return (output.reshape(()) > 0) == (y.reshape(()) > 0)


def forward(found: Victim, x, batch_size: int, target=None):
    """The loss of every example at the inputs `x`, and whether the network gives the class `target` there, or `y`."""
    wanted = found.y if target is None else target
    return _forward(found.network, found.loss, found.classes, x, found.y, wanted, batch_size)


@eqx.filter_jit
def _forward(network, loss, classes, x, y, wanted, batch_size):
    def one(x, y, wanted):
        output = network(x)
        return loss(output, y), hits(output, wanted) if classes else jnp.array(True)

    return each(lambda batch: jax.vmap(one)(*batch), (x, y, wanted), batch_size)


def _has_classes(out, y, loss) -> bool:
    whole = jnp.issubdtype(y.dtype, jnp.integer) or y.dtype == jnp.bool_
    if out.size > 1:
        if not (whole and y.ndim == 1 and len(out.shape) == 1):
            return False
        labels("y", y, out.size)
        return True
    if y.size != y.shape[0]:
        return False
    by_sign = getattr(loss, "function", loss) in (logistic, hinge)
    if not concrete(y):
        return bool(whole or by_sign)
    pairs = ((-1, 1),) if by_sign else ((-1, 1), (0, 1))
    two = any(np.isin(np.asarray(y), pair).all() for pair in pairs)
    if by_sign and not two:
        raise ValueError("y must hold labels -1 and 1 for this loss.")
    return two
