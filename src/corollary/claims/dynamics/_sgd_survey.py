"""Many runs of SGD at several widths, each with all that the proof of M's Theorem 19.3 speaks of."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import (
    PathParts,
    cadlag_modulus,
    draw_shallow,
    outer_weight_bound,
    path_parts,
    predictable_variation,
    shallow_sgd,
    tangent_parts,
)

WIDTHS = np.array([8, 16, 24, 32, 40, 48, 64])  # multiples of 8: the times j/8 are whole steps
ETA, POINTS, TIMES = 2.0, 3, np.arange(9) / 8
BOXES, GAPS = np.array([2.0, 3.0, 5.0]), (1, 2, 4, 8)  # gaps in 32nds of the time


def probe(c, w):
    """Smooth, and bounded on the units; its first-order change does not vanish by symmetry."""
    return jnp.sin(c) * jnp.tanh(w[0])


def push(x, outer, inner):
    r"""$\partial_cf\,\sigma(w\cdot x)$ and $c\,\sigma'(w\cdot x)\nabla_wf\cdot x$ of every unit at each point: how its
    `probe` moves, for a residual of 1; (2, points, units).
    """
    by_c, by_w = jax.vmap(jax.grad(probe, (0, 1)))(outer, inner)
    z = x @ inner.T
    return jnp.stack([by_c * jax.lax.erf(z), outer * 2 / jnp.sqrt(jnp.pi) * jnp.exp(-(z**2)) * (x @ by_w.T)])


class Run(NamedTuple):
    """Of one run; arrays "at times" have the nine times j/8 first."""

    outputs: jax.Array  # at times, points
    parts: PathParts  # at times, points
    variations: jax.Array  # (2, points): the predictable variations of both martingales, to time 1
    pairing: jax.Array  # <f, mu> at times
    first_order: jax.Array  # (2,): what the first-order terms of both layers make of it, summed to time 1
    outer: jax.Array  # at times, the outer weights of four units
    size: jax.Array  # <|c| + |w|, mu> at times
    beyond: jax.Array  # at times, boxes: the share of units outside
    against_bound: jax.Array  # the largest |C| over its bound, over units and steps to time 1
    miss: jax.Array  # the largest |y - h| over points and steps to time 1
    speed: jax.Array  # the largest |y - h| |K|, likewise
    steady: jax.Array  # <1 / (1 + c² + |w|²), mu> at times
    modulus: jax.Array  # of the output at the first point, for each gap


@partial(jax.jit, static_argnums=1)
def survey(key, repetitions: int, gamma):
    """x, y, and runs (widths, repetitions, ...)."""
    x_key, y_key, run_key = jax.random.split(key, 3)
    # points at right angles, labels of one size: all seeds are about equally hard
    x = 1.5 * jax.random.orthogonal(x_key, POINTS)
    x = x.at[2].set(1.5 * (x[1] + x[2]) / jnp.linalg.norm(x[1] + x[2]))
    y = jnp.sqrt(1.5) * jax.random.rademacher(y_key, (POINTS,), x.dtype)
    top = int(WIDTHS[-1])

    def run(key, width):
        net_key, order_key = jax.random.split(key)
        net = draw_shallow(top, POINTS, key=net_key, gamma=gamma, width=width)
        order = jax.random.randint(order_key, (top,), 0, POINTS)
        present = jnp.arange(top) < width
        bound = outer_weight_bound(net.outer * present, width, ETA, 1.0, label_bound=jnp.sqrt(1.5))

        def observe(net):
            size = jnp.abs(net.outer) + jnp.linalg.norm(net.inner, axis=1)
            furthest = jnp.maximum(jnp.abs(net.outer), jnp.max(jnp.abs(net.inner), 1))
            mean = present / width
            return (
                net(x),
                tangent_parts(net, x),
                net.measure.pair(probe),
                push(x, net.outer, net.inner) @ mean,
                net.outer[:4],
                size @ mean,
                (furthest[:, None] > BOXES).T @ mean,
                jnp.max(jnp.where(present, jnp.abs(net.outer) / bound, 0)),
                net.measure.pair(lambda c, w: 1 / (1 + c**2 + w @ w)),
            )

        found, _ = shallow_sgd(net, x, y, ETA, order, observe=observe)
        outputs, kernels, pairing, pushes, outer, size, beyond, ratio, steady = found
        parts = path_parts(outputs, *kernels, y, order, ETA / width)
        miss = y - outputs
        seen = jnp.take_along_axis(pushes[:-1], order[:, None, None], 2)[..., 0]
        terms = ETA * width ** (gamma - 2) * jnp.take_along_axis(miss[:-1], order[:, None], 1) * seen
        steps = jnp.round(width * TIMES).astype(int)
        within = jnp.arange(top + 1) <= width
        speed = jnp.max(jnp.abs(miss), 1) * jnp.max(jnp.abs(sum(kernels)), (1, 2))
        # the path at the 32nds of the time, so that one gap means one time at all widths
        sampled = outputs[jnp.round(width * jnp.arange(32) / 32).astype(int), 0]
        return Run(
            outputs[steps],
            PathParts(*(p[steps] for p in parts)),
            jnp.stack([predictable_variation(outputs, k, y, ETA / width)[steps[-1]] for k in kernels]),
            pairing[steps],
            jnp.sum(jnp.where(within[1:, None], terms, 0), 0),
            outer[steps],
            size[steps],
            beyond[steps],
            jnp.max(jnp.where(within, ratio, 0)),
            jnp.max(jnp.where(within, jnp.max(jnp.abs(miss), 1), 0)),
            jnp.max(jnp.where(within, speed, 0)),
            steady[steps],
            jnp.stack([cadlag_modulus(sampled, g) for g in GAPS]),
        )

    keys = jax.random.split(run_key, (len(WIDTHS), repetitions))
    return x, y, jax.lax.map(lambda a: jax.vmap(lambda k: run(k, a[1]))(a[0]), (keys, jnp.asarray(WIDTHS, float)))
