r"""Normal laws of weights, trained down the gradient of a bound: one compiled loop.

A step draws two networks, $M+SZ$ and $M-SZ$, one for each half of the batch. That takes the products of one ordinary
step, where noise behind the products takes those of two, and what is linear in the noise cancels between the halves, so
that the slopes by the scales are hardly rougher for it. Of $Z$ only its first two moments count in layers that add up
many weights, so coins will do, 1 and -1. A bound is made with normal noise in any case, after the training.
"""

import math
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from corollary._engine.cpu_ready import cpu_ready
from corollary.foundations import kl_inverse
from corollary.generalization._layerwise import inputs_first, layerwise
from corollary.generalization.certificate import nearest
from corollary.generalization.stochastic import StochasticNetwork, wrong
from corollary.network.batches import count
from corollary.network.parts import split

# Adam's steps: the logarithm of a standard deviation has to go further than a weight
STEP, SCALE_STEP = 3e-3, 3e-2
# errors and losses of the stochastic network are averaged over about so many batches
MEMORY = 50
# a prior from data is to err as rarely as the network itself, and pays for its own KL only so much of it
COLD = 0.01
# standard deviations begin as a share of what the weights have moved (root mean square), or of no less than this
SHARE, LEAST = 0.5, 0.01
BITS = 32  # of a random word


class Goal(NamedTuple):
    """What is minimised: the bound `objective` with `nats` to be paid beside the KL, for a sample of size `n`."""

    objective: str
    nats: jax.Array
    n: int


@eqx.filter_jit
def trained(start: StochasticNetwork, prior, loss, data, goal: Goal, steps: int, batch_size: int, key):
    """The posterior after `steps` steps down the gradient of its bound, from `start`.

    `prior` is a stochastic network, or a network: then each array of parameters has the variance around its centre
    that makes the KL least, which moves with the posterior.
    """
    parts = split(start.mean)
    means, tree = jax.tree.flatten(parts.params)
    scales = [jnp.broadcast_to(s, m.shape) for s, m in zip(jax.tree.leaves(start.scale), means, strict=True)]
    fixed = isinstance(prior, StochasticNetwork)
    centres = jax.tree.leaves(split(prior.mean if fixed else prior).params)
    widths = [s**2 for s in jax.tree.leaves(prior.scale)] if fixed else None

    def law(means, scales):
        return StochasticNetwork(parts.join(tree.unflatten(means)), tree.unflatten(scales))

    def output(leaves, x):
        return parts.join(tree.unflatten(leaves))(x)

    def value(drawn, batch):
        """The mean loss of a batch, its first half by one network and its second by the other."""
        x, y = batch
        halves = jax.tree.map(lambda a: a[:half], x), jax.tree.map(lambda a: a[half:], x)
        outputs = [jax.vmap(partial(output, leaves))(few) for leaves, few in zip(drawn, halves, strict=True)]
        outputs = jnp.concatenate(outputs)
        surrogate = jnp.mean(jax.vmap(loss)(outputs, y))
        share = jnp.mean(jax.vmap(wrong)(outputs, y), dtype=surrogate.dtype)
        return surrogate, jnp.stack([share, surrogate])

    descent = cpu_ready(jax.grad(value, has_aux=True))
    adam, shrink = optax.scale_by_adam(), optax.cosine_decay_schedule(1.0, steps)
    size = min(batch_size, count(data))
    half = size - size // 2
    turned = inputs_first(layerwise(parts, jax.tree.map(lambda a: a[0], data[0])))
    shapes = [m.shape[::-1] if turn else m.shape for m, turn in zip(means, turned, strict=True)]

    def advance(carry, turn):
        # the ways of the means from the centres are carried: they are all that the KL sees
        (ways, logs), memory, seen = carry
        step, step_key = turn
        rows, heads = _drawn(step_key, size, count(data), shapes)
        heads = [z.T if turn else z for z, turn in zip(heads, turned, strict=True)]
        # kept, so that no one computes them again: there are as many as weights
        scales = lax.optimization_barrier([jnp.exp(log) for log in logs])
        around = widths or variances(scales, ways)
        kl = sum(map(_kl, scales, logs, ways, around))
        by_loss, by_kl = lax.optimization_barrier(tuple(jnp.asarray(b, kl.dtype) for b in slopes(goal, seen, kl)))
        batch = jax.tree.map(lambda a: a[rows], data)
        noise = [jnp.where(z, s, -s) for z, s in zip(heads, scales, strict=True)]
        flat = [*zip(centres, ways, noise, strict=True)]
        drawn = [c + (w + z) for c, w, z in flat], [c + (w - z) for c, w, z in flat]
        (there, here), now = lax.optimization_barrier(descent(lax.optimization_barrier(drawn), batch))
        by_mean = [a + b for a, b in zip(there, here, strict=True)]
        by_scale = [jnp.where(z, a - b, b - a) for a, b, z in zip(there, here, heads, strict=True)]
        # the KL is differentiated by hand: at its best a change of the prior's variance changes nothing
        down = (
            [by_loss * g + by_kl / v * w for g, w, v in zip(by_mean, ways, around, strict=True)],
            [s * (by_loss * g + by_kl / v * s) - by_kl for g, s, v in zip(by_scale, scales, around, strict=True)],
        )
        down = jax.tree.map(lambda g, p: g.astype(p.dtype), down, (ways, logs))  # arrays may differ in precision
        (by_way, by_log), memory = adam.update(down, memory)
        moved = _moved(ways, by_way, STEP * shrink(step)), _moved(logs, by_log, SCALE_STEP * shrink(step))
        return (moved, memory, seen + (now - seen) / MEMORY), None

    params = [m - c for m, c in zip(means, centres, strict=True)], [jnp.log(s) for s in scales]
    begin = params, adam.init(params), jnp.full(2, 0.25, means[0].dtype)
    # all keys at once: a step would spend more time on its own than on its coins
    turns = jnp.arange(steps), jax.random.split(key, steps)
    ((ways, logs), *_), _ = lax.scan(advance, begin, turns)
    means = [c + w for c, w in zip(centres, ways, strict=True)]
    return law(means, [jnp.exp(log) for log in logs])


def _drawn(key, size: int, n: int, shapes) -> tuple:
    """The numbers of `size` of `n` examples, and for each array a coin per entry, whether it shows heads."""
    # a matrix takes all bits of its words, along its first axis, so that neighbours in a row come from neighbours
    few = [(-(-shape[0] // BITS), *shape[1:]) if len(shape) > 1 else shape for shape in shapes]
    ends = np.cumsum([size, *map(math.prod, few)])
    rows, *words = jnp.split(jax.random.bits(key, (ends[-1],), jnp.uint32), ends[:-1])
    heads = [_heads(w.reshape(f), shape) for w, f, shape in zip(words, few, shapes, strict=True)]
    return rows % n, heads  # n is so far below 2³² that all examples are as likely


def _heads(words, shape):
    if words.shape != shape:
        places = jnp.arange(BITS, dtype=words.dtype).reshape(BITS, *(1 for _ in shape))
        words = (words >> places).reshape(-1, *shape[1:])[: shape[0]]
    return (words & 1).astype(bool)


def _moved(params, directions, step) -> list:
    return [p - (step * d).astype(p.dtype) for p, d in zip(params, directions, strict=True)]


def variances(scales, ways) -> list:
    """For each array the variance of a normal prior, `ways` from the means, that makes the KL least."""
    return [(_squares(s) + _squares(w)) / s.size for s, w in zip(scales, ways, strict=True)]


def _squares(a):
    """The sum of squares, as a product: nothing of the size of the array is written for it."""
    return jnp.vdot(a, a, precision=lax.Precision.HIGHEST)


def start_scales(network, initial=None):
    """Standard deviations to begin with, one per array: a share of the way from `initial`, or of the weights."""
    params = split(network).params
    way = params if initial is None else jax.tree.map(jnp.subtract, params, split(initial).params)
    return jax.tree.map(lambda a: SHARE * jnp.maximum(jnp.sqrt(jnp.mean(a**2)), LEAST), way)


def on_grid(posterior: StochasticNetwork, centre) -> StochasticNetwork:
    """The prior around `centre` with those variances of the grid that are nearest to the best for this posterior."""
    params = split(posterior.mean).params
    ways = jax.tree.leaves(jax.tree.map(jnp.subtract, params, split(centre).params))
    scales, tree = jax.tree.flatten(posterior.scale)
    return StochasticNetwork(centre, tree.unflatten([nearest(v) for v in variances(scales, ways)]))


def _kl(scale, log, way, variance):
    """The KL of one array; `variance` is one number or one per parameter."""
    if variance.ndim:
        return 0.5 * jnp.sum((scale**2 + way**2) / variance - 1 - 2 * log + jnp.log(variance))
    near = (_squares(scale) + _squares(way)) / variance
    return 0.5 * (near + scale.size * (jnp.log(variance) - 1)) - jnp.sum(log)


def slopes(goal: Goal, seen, kl) -> tuple:
    """How the bound grows with the loss that is trained and with the KL; `seen` are the shares of errors and the loss.

    The bound knows the error and not the loss: a change of the loss by some percent counts as one of the error by as
    many. A loss that stands for the error without being scaled to it, as the logarithmic one, buys too much KL.
    """
    if goal.objective == "evidence":
        return 1.0, COLD / goal.n
    error, loss = jnp.clip(seen[0], 1e-3, 0.5), jnp.maximum(seen[1], 1e-3)  # at 0 the slope by the error is infinite
    # far above 1 the bound is flat, and shows no way down: it is left at the slopes that it has at 2
    level = jnp.minimum((kl + goal.nats) / goal.n, 2.0)
    if goal.objective == "square":
        by_error, by_level = 1.0, 0.25 / jnp.sqrt(level / 2)
    else:
        by_error, by_level = jax.grad(kl_inverse, (0, 1))(error, level)
    return by_error * error / loss, by_level / goal.n
