"""Families of small networks, each trained many at a time in one program: functions of parameters and a batch."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_diabetes

from corollary.data import digits, mnist, shakespeare

STEPS, BATCH = 600, 32
#: what the language models read: other signs end a sentence, part two words, or are left out
LETTERS, OTHERS = "abcdefghijklmnopqrstuvwxyz ,.\n", str.maketrans(":;?!-", ".... ")


class Table(NamedTuple):
    """Examples with their targets, and how many of them are for training."""

    x: np.ndarray
    y: np.ndarray
    train: int


class Family(NamedTuple):
    """An architecture on data: `init(key)` draws its parameters, `apply(params, x)` takes a batch.

    `step` is one that suits it at the usual start. `statistics(params, x)` are stored batch statistics, for those that
    have them, and `apply(params, statistics, x)` uses them. `fixed` is what is never trained but that a defect may
    change: `apply(params, fixed, x)` takes it as an argument, so that one compiled program serves both.
    """

    name: str
    data: Callable[[], Table]
    init: Callable
    apply: Callable
    step: float
    loss: str = "cross_entropy"
    statistics: Callable | None = None
    recomputed: Callable | None = None
    fixed: Any = ()


def _layers(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    gains = [2.0] * (len(sizes) - 2) + [1.0]
    return [
        [jnp.sqrt(g / m) * jax.random.normal(k, (m, n)), jnp.zeros(n)]
        for k, g, m, n in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
    ]


def dense(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def regression(params, x):
    return dense(params, x)[:, 0]


def _filters(key, shapes):
    keys = jax.random.split(key, len(shapes))
    return [
        [jnp.sqrt(2 / np.prod(s[:3])) * jax.random.normal(k, s), jnp.zeros(s[3])]
        for k, s in zip(keys, shapes, strict=True)
    ]


def _convolved(x, w, stride=1):
    """A convolution of three by three as one product: XLA maps it over networks with their own weights much faster."""
    size = x.shape[1]
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifted = [x[:, i : i + size : stride, j : j + size : stride] for i in range(3) for j in range(3)]
    return jnp.concatenate(shifted, -1) @ w.reshape(-1, w.shape[-1])


def convolutional_init(key):
    first, last = jax.random.split(key)
    return _filters(first, [(3, 3, 1, 8), (3, 3, 8, 16)]) + _layers(last, (64, 10))


def convolutional(params, x):
    x = x.reshape(len(x), 8, 8, 1)
    for w, b in params[:-1]:
        x = jax.nn.relu(_convolved(x, w, 2) + b)
    w, b = params[-1]
    return x.reshape(len(x), -1) @ w + b


def residual_init(key):
    first, last = jax.random.split(key)
    return _filters(first, [(3, 3, 1, 8), (3, 3, 8, 8), (3, 3, 8, 8)]) + _layers(last, (8, 10))


def _residual(params, x, normal):
    """Two residual blocks; `normal(i, x)` normalises the outputs of the i-th convolution."""
    x = x.reshape(len(x), 8, 8, 1)
    (w, b), *blocks, (v, c) = params
    x = jax.nn.relu(normal(0, _convolved(x, w, 2)) + b)
    for i, (w, b) in enumerate(blocks, 1):
        x = x + jax.nn.relu(normal(i, _convolved(x, w, 1)) + b)
    return x.mean((1, 2)) @ v + c


def _by_batch(_, x):
    return (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5)


def residual_training(params, x):
    return _residual(params, x, _by_batch)


def residual_statistics(params, x):
    """Mean and variance of every convolution's outputs on these data."""
    found = []

    def normal(_, x):
        found.append((x.mean((0, 1, 2)), x.var((0, 1, 2))))
        return (x - found[-1][0]) / jnp.sqrt(found[-1][1] + 1e-5)

    _residual(params, x, normal)
    return found


def residual(params, stored, x):
    return _residual(params, x, lambda i, x: (x - stored[i][0]) / jnp.sqrt(stored[i][1] + 1e-5))


def residual_recomputed(params, _, x):
    return residual_training(params, x)


def recurrent_init(key, width=24):
    first, second, last = jax.random.split(key, 3)
    inside = jax.random.normal(first, (8, 3 * width)) / np.sqrt(8)
    across = jax.random.normal(second, (width, 3 * width)) / np.sqrt(width)
    return [[inside, jnp.zeros(3 * width)], [across, jnp.zeros(3 * width)], *_layers(last, (width, 10))]


def recurrent(params, x):
    """A gated recurrent unit that reads an image of 8 by 8 row by row."""
    (u, b), (w, c), (v, d) = params
    width = v.shape[0]

    def step(h, row):
        a, r = row @ u + b, h @ w + c
        update, reset = jnp.split(jax.nn.sigmoid(a[:, : 2 * width] + r[:, : 2 * width]), 2, 1)
        new = jnp.tanh(a[:, 2 * width :] + reset * r[:, 2 * width :])
        return update * h + (1 - update) * new, None

    h = jax.lax.scan(step, jnp.zeros((len(x), width)), jnp.moveaxis(x.reshape(len(x), 8, 8), 1, 0))[0]
    return h @ v + d


def attention_init(key, width=24, kinds=10):
    keys = jax.random.split(key, 6)
    shapes = [(8, width), (width, 3 * width), (width, width), (width, 2 * width), (2 * width, width), (width, kinds)]
    gains = [1.0, 1.0, 1.0, 2.0, 1.0, 1.0]
    return [
        [jnp.sqrt(g / s[0]) * jax.random.normal(k, s), jnp.zeros(s[1])]
        for k, s, g in zip(keys, shapes, gains, strict=True)
    ]


def _normed(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(params, x):
    """One block of a transformer over the eight rows of an image, and the mean over its places."""
    embed, (qkv, b), (mix, c), (up, d), (down, e), (v, f) = params
    x = x.reshape(len(x), 8, 8)
    angle = np.arange(8)[:, None] / 16 ** (np.arange(embed[0].shape[1]) / embed[0].shape[1])
    x = x @ embed[0] + embed[1] + np.sin(angle).astype(np.float32)
    q, k, value = jnp.split(_normed(x) @ qkv + b, 3, -1)
    weights = jax.nn.softmax(jnp.einsum("nid,njd->nij", q, k) / np.sqrt(q.shape[-1]))
    x = x + jnp.einsum("nij,njd->nid", weights, value) @ mix + c
    x = x + jax.nn.relu(_normed(x) @ up + d) @ down + e
    return _normed(x).mean(1) @ v + f


class Reading(NamedTuple):
    """How a language model reads: the weight of a later token in the attention beside an earlier one, and of places."""

    ahead: np.ndarray = np.float32(0)
    places: np.ndarray = np.float32(1)


def language_init(key, width=24):
    keys, kinds = jax.random.split(key, 6), len(LETTERS)
    shapes = [(kinds, width), (width, 3 * width), (width, width), (width, 2 * width), (2 * width, width)]
    # one row of the table is looked up, not a sum over all of them
    gains = [kinds, 1.0, 1.0, 2.0, 1.0, 1.0]
    return [
        [jnp.sqrt(g / s[0]) * jax.random.normal(k, s), jnp.zeros(s[1])]
        for k, s, g in zip(keys, [*shapes, (width, kinds)], gains, strict=True)
    ]


def language(params, reading, x):
    """One block of a transformer over a text: for each token the logits of the next one, from those up to it."""
    embed, (qkv, b), (mix, c), (up, d), (down, e), (v, f) = params
    count, width = x.shape[1], embed[0].shape[1]
    angle = np.arange(count)[:, None] / (2 * count) ** (np.arange(width) / width)
    x = embed[0][x] + embed[1] + reading.places * np.sin(angle).astype(np.float32)
    q, k, value = jnp.split(_normed(x) @ qkv + b, 3, -1)
    # its logarithm is added to the scores: nothing, or minus infinity under a causal mask
    allowed = jnp.where(np.tri(count, dtype=bool), 1.0, reading.ahead)
    weights = jax.nn.softmax(jnp.einsum("nid,njd->nij", q, k) / np.sqrt(width) + jnp.log(allowed))
    x = x + jnp.einsum("nij,njd->nid", weights, value) @ mix + c
    x = x + jax.nn.relu(_normed(x) @ up + d) @ down + e
    return _normed(x) @ v + f


@cache
def _digits() -> Table:
    data = digits()
    return Table(np.asarray(data.x, np.float32).reshape(-1, 64), np.asarray(data.y), 800)


@cache
def _handwritten() -> Table:
    """MNIST in blocks of two by two, 1,000 images for training and 2,000 for the test."""
    data = mnist("train")
    x = np.asarray(data.x[:3000], np.float32).reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) / 255
    return Table(x, np.asarray(data.y[:3000]), 1000)


@cache
def _blobs() -> Table:
    """Three Gaussian classes that overlap by little."""
    rng = np.random.default_rng(0)
    y = np.arange(1600) % 3
    x = 1.5 * rng.normal(size=(3, 8))[y] + rng.normal(size=(1600, 8))
    return Table(((x - x.mean(0)) / x.std(0)).astype(np.float32), y, 600)


@cache
def _diabetes() -> Table:
    x, y = load_diabetes(return_X_y=True)
    x, y = ((a - a.mean(0)) / a.std(0) for a in (x, y))
    return Table(x.astype(np.float32), y.astype(np.float32), 242)


@cache
def _shakespeare(length=12, count=3000) -> Table:
    """Pieces of the plays that do not overlap, 1,000 for training; the target of each letter is the next one."""
    code = {letter: i for i, letter in enumerate(LETTERS)}
    text = np.array([code[c] for c in shakespeare().lower().translate(OTHERS) if c in code], np.int32)
    pieces = text[: len(text) // (length + 1) * (length + 1)].reshape(-1, length + 1)
    pieces = pieces[np.random.default_rng(0).permutation(len(pieces))[:count]]
    return Table(pieces[:, :-1], pieces[:, 1:], 1000)


#: those with one target for each example
FAMILIES = {
    f.name: f
    for f in (
        Family("dense 1 hidden", _digits, partial(_layers, sizes=(64, 32, 10)), dense, 0.2),
        Family("dense 2 hidden", _handwritten, partial(_layers, sizes=(196, 32, 32, 10)), dense, 0.1),
        Family("dense 4 hidden", _blobs, partial(_layers, sizes=(8, 24, 24, 24, 24, 3)), dense, 0.05),
        Family("regression", _diabetes, partial(_layers, sizes=(10, 16, 1)), regression, 0.01, "squared"),
        Family("convolutional", _digits, convolutional_init, convolutional, 0.1),
        Family(
            "residual", _digits, residual_init, residual, 0.1,
            statistics=residual_statistics, recomputed=residual_recomputed,
        ),
        Family("recurrent", _digits, recurrent_init, recurrent, 0.2),
        Family("attention", _digits, attention_init, attention, 0.1),
    )
}  # fmt: skip


#: those of the populations: beside them language models, which have a target for each token
EVERY = FAMILIES | {
    "language": Family("language", _shakespeare, language_init, language, 0.5, fixed=Reading()),
}


def forward(family: Family, fixed: Any = ()) -> Callable:
    """The outputs for a batch while it is trained: by the statistics of the batch, where it has any."""
    if family.fixed:
        return lambda params, x: family.apply(params, fixed, x)
    return family.apply if family.statistics is None else residual_training


@partial(jax.jit, static_argnames=("family", "steps"))
def _trained(family: str, starts, fixed, x, y, step, decay, keys, steps):
    squared = EVERY[family].loss == "squared"

    def one(start, fixed, x, y, step, decay, key):
        apply = forward(EVERY[family], fixed)

        def loss(params, x, y):
            out = apply(params, x)
            if squared:
                return jnp.mean((out - y) ** 2) / 2
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(out), y[..., None], -1))

        def down(params, key):
            rows = jax.random.randint(key, (BATCH,), 0, len(y))
            slope = jax.grad(loss)(params, x[rows], y[rows])
            return jax.tree.map(lambda p, g: p - step * (g + decay * p), params, slope), None

        return jax.lax.scan(down, start, jax.random.split(key, steps))[0]

    return jax.vmap(one)(starts, fixed, x, y, step, decay, keys)


def trained(family: Family, starts: Any, fixed: Any, x, y, step, decay, keys, steps: int = STEPS) -> Any:
    """Networks side by side, each with its own start, data, step and decay, by gradient descent on batches."""
    return _trained(family.name, starts, fixed, x, y, step, decay, keys, steps)
