"""What sharing weights buys: fewer examples, and answers that hold wherever the object is."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, estimate
from corollary.nets import MLP, parameter_count, relu, train, zeros
from corollary.nets.convolutional import ConvolutionalNetwork, Stage
from corollary.network import BatchLoss


@claim(rows=("E04.14",), full={"runs": 400})
def statistical_efficiency(key, *, runs: Count = 32):
    r"""A convolution learns a shift-equivariant map from far fewer examples than a full matrix.

    Teacher: a circular filter of $m=5$ entries on signals of $n=32$ entries, $Y=h*X+\sigma\xi$ with $X$, $\xi$ standard
    normal, $\sigma=0.1$, and $s$ examples. By least squares, the excess risk an output is $\sigma^2\frac m{ns}$ for the
    filter (up to $O(\frac1{ns})$ of it), and for the full matrix
    $$\sigma^2\frac n{s-n-1}\ (s>n+1),\qquad\|h\|^2\Big(1-\frac sn\Big)+\sigma^2\frac s{n-s-1}\ (s<n-1),$$
    the latter with the solution of least norm. If the teacher is any matrix, the filter keeps the distance to the
    nearest convolution as its error, however many the examples.
    """
    n, m, sigma, counts = 32, 5, 0.1, (16, 64, 200)
    t = jnp.arange(m)
    columns = (jnp.arange(n)[:, None] - t) % n  # which entries of the signal an output sees

    def circulant(h):
        return jnp.zeros((n, n)).at[jnp.arange(n)[:, None], columns].set(h)

    @jax.jit
    def measure(key):
        def one(key):
            draws = jax.random.normal(key, (m + n * n + 2 * counts[-1] * n,))
            h, free, x, noise = jnp.split(draws, [m, m + n * n, m + n * n + counts[-1] * n])
            h, free = h / jnp.linalg.norm(h), free.reshape(n, n) / jnp.sqrt(n)
            x, noise = x.reshape(-1, n), sigma * noise.reshape(-1, n)
            found = []
            for s in counts:
                a, e = x[:s], noise[:s]
                design = a[:, columns].reshape(-1, m)
                inverse = jnp.linalg.inv(a.T @ a if s > n else a @ a.T)
                gram = jnp.linalg.inv(design.T @ design)
                ways = []
                for teacher in (circulant(h), free):
                    y = a @ teacher.T + e
                    filter = gram @ (design.T @ y.ravel())
                    matrix = (inverse @ a.T @ y if s > n else a.T @ inverse @ y).T
                    ways.append([jnp.sum((w - teacher) ** 2) / n for w in (circulant(filter), matrix)])
                found.append(jnp.array(ways))
            # the nearest convolution of this length averages the entries along the diagonals that it has
            nearest = circulant(free[jnp.arange(n)[:, None], columns].mean(axis=0))
            return jnp.stack(found), jnp.sum((free - nearest) ** 2) / n

        return jax.lax.map(one, jax.random.split(key, runs))

    risks, floor = map(np.asarray, measure(key))
    for i, s in enumerate(counts):
        full = sigma**2 * n / (s - n - 1) if s > n else (1 - s / n) + sigma**2 * s / (n - s - 1)
        shared = sigma**2 * m / (n * s)
        yield estimate(f"risk of the filter from {s} examples", risks[:, i, 0, 0], shared, wrong=10 * shared)
        yield estimate(f"risk of the matrix from {s} examples", risks[:, i, 0, 1], full, wrong=shared)
    yield at_least("any matrix as teacher: risk of the filter, 200 examples", risks[:, -1, 1, 0], floor, along="run")
    yield control(
        "any matrix as teacher",
        at_most("risk of the filter against that of the matrix", risks[:, -1, 1, 0], risks[:, -1, 1, 1]),
    )


@claim(rows=("B10.01", "E04.16", "M14.18"), full={"n": 2000})
def unseen_positions(key, *, n: Size = 96, steps: Count = 100):
    r"""A convolutional network knows an object where it has never seen it; a dense one does not.

    Images of 8 by 24 with a plus or a cross of 3 by 3 in noise. All training images have it in the left half. A network
    of convolution, ReLU, pooling, convolution, ReLU, the maximum over all positions and a logistic output tells them
    apart in the right half as well as in the left. A dense network with more parameters fits the training images, but
    knows nothing of the right half, whose weights have seen nothing but noise.
    """
    glyphs = np.array([[[0.0, 1, 0], [1, 1, 1], [0, 1, 0]], [[1, 0, 1], [0, 1, 0], [1, 0, 1]]])
    optimiser = optax.adam(0.02)

    @BatchLoss
    def loss(model, data):
        x, y = data
        return jnp.mean(optax.sigmoid_binary_cross_entropy(_logits(model, x), y))

    @jax.jit
    def images(key):
        place_key, noise_key = jax.random.split(key)
        y = jnp.arange(3 * n) % 2
        place = jax.random.randint(place_key, (2, 3 * n), 0, 4)
        left, top = place[0] + jnp.where(jnp.arange(3 * n) < 2 * n, 4, 16), place[1] + 1
        rows, across = jnp.arange(8) - top[:, None], jnp.arange(24) - left[:, None]
        inside = ((rows >= 0) & (rows < 3))[:, :, None] & ((across >= 0) & (across < 3))[:, None, :]
        drawn = jnp.asarray(glyphs)[
            y[:, None, None], jnp.clip(rows, 0, 2)[:, :, None], jnp.clip(across, 0, 2)[:, None, :]
        ]
        noise = jax.random.normal(noise_key, (3 * n * 192,)).reshape(3 * n, 8, 24)
        # 32 bits: with 64 a CPU has no fast convolution
        return (2 * jnp.where(inside, drawn, 0.0) + 0.2 * noise)[:, None].astype(jnp.float32), y

    @jax.jit
    def measure(key, x, y):
        cnn_key, mlp_key = jax.random.split(key)
        stages = (Stage(6, 3, padding=1, pool=2), Stage(8, 3, padding=1))
        models = (
            ConvolutionalNetwork((1, 8, 24), stages, 1, key=cnn_key, readout="max"),
            MLP((192, 16, 1), relu, key=mlp_key, bias_initialisation=zeros),
        )
        models = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, models)
        fitted = [train(m, loss, (x[:n], y[:n].astype(x.dtype)), optimiser, steps=steps).network for m in models]
        right = jnp.stack([(_logits(m, x) > 0) == (y == 1) for m in fitted]).reshape(2, 3, n).mean(2)
        return right, [parameter_count(m) for m in models]

    data_key, model_key = jax.random.split(key)
    right, counts = measure(model_key, *images(data_key))
    (_, seen, unseen), (trained, _, dense) = right
    yield at_most("parameters of the convolutional over those of the dense network", counts[0] / counts[1], 1.0)
    yield at_least("convolutional: share right in the left half", seen, 0.95)
    yield at_least("convolutional: share right in the right half", unseen, 0.95)
    yield at_least("dense: share right of the training images", trained, 0.95)
    yield control("a dense network", at_least("share right in the right half", dense, 0.95))


def _logits(model, x):
    return jax.vmap(lambda image: model(image if isinstance(model, ConvolutionalNetwork) else image.ravel())[0])(x)
