r"""What the removal of a training point does to a network that is trained on, with the point and without.

A network that was trained for hours is not trained again ten times. Descent from its own weights, as many steps with a
point as without it, measures what the point holds in place there.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Int, PyTree

from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import labels, positive, real, whole, within
from corollary.attribution._targets import require_labels
from corollary.attribution.retraining import Removal
from corollary.network.apart import require_apart
from corollary.network.batches import count, pair
from corollary.network.loss import of_examples
from corollary.network.parts import require_network, split


def continued_removal(
    network: NetworkLike,
    loss: LossLike,
    train: PyTree,
    test: PyTree,
    removed: Int[ArrayLike, "r"],
    *,
    step: Scalar,
    steps: int,
    momentum: Scalar = 0.9,
    penalty: Scalar = 0.0,
    batch_size: int | None = None,
    trainable: Any = None,
) -> Removal:
    r"""The change of every test loss, (r, m), by `steps` steps of descent without each of the points `removed`.

    Against as many with all points, whose test losses are `losses`; all of them go down
    $\frac1n\sum_iw_i\ell(x_i,\theta)+\frac c2\|\theta\|^2$ with the `penalty` $c$ from the weights of `network`, and a
    weight 0 for what is removed, by
    $v\leftarrow\mu v-\eta\nabla$, $\theta\leftarrow\theta+v$. With a quadratic loss they come near the minimum along
    curvatures above about $\frac{1-\mu}{\eta\,\text{steps}}$, and stay behind along smaller ones, which is what damping
    does in `influence`. `batch_size` of the trainings run side by side, all of them unless given.

    >>> continued_removal(network, "squared", data, data, [0, 2], step=0.1, steps=5).changes.shape
    (2, 4)
    """
    loss, train, test = of_examples(loss, who="continued_removal"), pair("train", train), pair("test", test)
    removed = labels("removed", removed, count(train), "r", {})
    step = positive("step", real("step", step, ""))
    momentum = within("momentum", real("momentum", momentum, ""), 0.0, 1.0, open="high")
    penalty = within("penalty", real("penalty", penalty, ""), 0.0)
    require_network(network)
    require_apart(eqx.nn.inference_mode(network), train[0])
    for data in (train, test):
        require_labels(network, loss.function, data)
    params, fixed = split(network, trainable)
    runs = removed.shape[0] + 1
    at_once = runs if batch_size is None else min(whole("batch_size", batch_size), runs)
    given = params, fixed, loss, train, test, removed, step, momentum, penalty
    losses = _continued(*given, whole("steps", steps), at_once)
    return Removal(losses[1:] - losses[0], losses[0])


@eqx.filter_jit
def _continued(params, fixed, loss, train, test, removed, step, momentum, penalty, steps, at_once):
    def each_loss(params, data):
        network = eqx.combine(params, fixed)
        return jax.vmap(lambda x, y: loss.function(network(x), y))(*data)

    def run(left_out):
        kept = jnp.arange(count(train)) != left_out
        slope = jax.grad(lambda p: jnp.mean(jnp.where(kept, each_loss(p, train), 0)))

        def advance(state, _):
            place, speed = state
            down = jax.tree.map(lambda g, p: g + penalty * p, slope(place), place)
            speed = jax.tree.map(lambda v, g, p: (momentum * v - step * g).astype(p.dtype), speed, down, place)
            return (jax.tree.map(jnp.add, place, speed), speed), None

        start = params, jax.tree.map(jnp.zeros_like, params)
        (end, _), _ = jax.lax.scan(advance, start, None, length=steps)
        return each_loss(end, test)

    return jax.lax.map(run, jnp.append(-1, removed), batch_size=at_once)
