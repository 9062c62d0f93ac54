"""Networks with planted defects: one architecture with other weights, data or steps, trained by one program."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from made import made

from corollary.audit.sections import minimum, regime, trainability

SIZES = (8, 24, 24, 24, 24, 3)
CLASSES = 3


def apply(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def blobs():
    rng = np.random.default_rng(0)
    y = np.arange(240) % CLASSES
    x = 1.5 * rng.normal(size=(CLASSES, SIZES[0]))[y] + rng.normal(size=(240, SIZES[0]))
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32), y


def he(key):
    keys = jax.random.split(key, len(SIZES) - 1)
    pairs = list(pairwise(SIZES))
    gain = [2.0] * (len(pairs) - 1) + [1.0]
    return [
        [jnp.sqrt(g / m) * jax.random.normal(k, (m, n)), jnp.zeros(n)]
        for k, g, (m, n) in zip(keys, gain, pairs, strict=True)
    ]


def scaled(params, factor, layers):
    return [[factor * w if i in layers else w, b] for i, (w, b) in enumerate(params)]


@jax.jit
def trained(params, x, y, eta):
    """Three hundred steps of full-batch gradient descent on the cross-entropy."""

    def loss(p):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(apply(p, x)), y[:, None], 1))

    def step(p, _):
        return jax.tree.map(lambda a, g: a - eta * g, p, jax.grad(loss)(p)), None

    return jax.lax.scan(step, params, None, length=300)[0]


X, Y = blobs()
ETA = 0.05


def network(change=lambda start: start, x=X, eta=ETA, said=None, end=lambda params: params):
    start = change(he(jax.random.key(1)))
    params = end(trained(start, x, Y, eta))
    rate = eta if said is None else said
    return made(apply, params, "cross_entropy", (x, Y), initial=start, learning_rate=rate, batch_size=240, steps=300)


def dead(start):
    return [[w, b - 30.0 if i == 1 else b] for i, (w, b) in enumerate(start)]


def collapsed(params):
    u, s, v = jnp.linalg.svd(params[2][0], full_matrices=False)
    return [[s[0] * jnp.outer(u[:, 0], v[0]), b] if i == 2 else [w, b] for i, (w, b) in enumerate(params)]


def constant(params):
    return [*params[:-1], [jnp.zeros_like(params[-1][0]), params[-1][1]]]


HIDDEN = range(len(SIZES) - 2)
ZOO = {
    "vanishing": (lambda: network(lambda p: scaled(p, 0.05, HIDDEN)), trainability, "signal by layer"),
    "exploding": (lambda: network(lambda p: scaled(p, 20.0, HIDDEN), eta=1e-12), trainability, "signal by layer"),
    "dead ReLU": (lambda: network(dead), trainability, "dead units"),
    "step above 2/sharpness": (lambda: network(said=1e3), minimum, "sharpness against 2/η"),
    "saturated softmax": (
        lambda: network(lambda p: scaled(p, 200.0, [4]), eta=1e-6),
        trainability,
        "confidence of the softmax",
    ),
    "wrong input scaling": (lambda: network(x=100 * X, eta=1e-6), trainability, "scale of the inputs"),
    "constant predictor": (lambda: network(end=constant), regime, "most frequent answer"),
    "rank-collapsed layer": (lambda: network(collapsed), trainability, "rank of the layers"),
}
