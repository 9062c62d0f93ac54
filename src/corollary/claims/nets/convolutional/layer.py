"""The convolutional layer with channels: one formula, several ways to compute it, few weights."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.nets.convolutional._images import image
from corollary.evidence import Count, Size, at_least, claim, control, equal
from corollary.nets import train
from corollary.nets.convolutional import (
    convolution_weights,
    convolve_channels,
    dense_matrix,
    dense_weights,
    fft_layer,
    flipped,
    output_size,
    patches,
)
from corollary.network import Network

EXACT = {"rtol": 0.0, "atol": 0.0}
# for one, two and three axes of space
SIZES, WINDOWS, STRIDES, PADDINGS = (7, 6, 5), (2, 3, 2), (2, 1, 3), (1, 2, 0)
INPUTS = 2


def _formula(x, kernel, bias, stride, padding):
    """The layer as the texts write it, summed over the entries of the window in NumPy, kernel not reversed."""
    axes = kernel.ndim - 2
    padded = np.pad(x, [(0, 0)] + [(p, p) for p in padding])
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[2:], tuple(range(1, axes + 1)))
    windows = windows[(slice(None), *[slice(None, None, s) for s in stride])]
    return np.tensordot(kernel, windows, [[1, *range(2, axes + 2)], [0, *range(axes + 1, 2 * axes + 1)]]) + bias


@claim(rows=("E04.13", "B10.11", "M14.20", "M14.24", "M14.19"))
def one_layer_many_ways(key, *, channels: Size = 3):
    r"""Equinox's convolution is the layer of the texts, in one, two and three dimensions, and a sparse dense layer.

    $H_{k}[i]=b_k+\sum_{k'}\sum_mr_{kk'}[m]\,\hat X_{k'}[is+m]$ with $\hat X$ padded by $P$ zeros on all sides. With the
    kernel reversed it is B's $\sum_uX[is+u-p]\,K[F-1-u]$. The same numbers come from one product of the kernels with
    the windows as columns, from Fourier transforms, and from a dense matrix in which every row has as many entries
    that are not zero as the window has within the image (at most $\prod F\,C_{\rm in}$, all of them without padding)
    and which holds $C_{\rm out}C_{\rm in}\prod F$ different weights, at whatever size of the image. The size along an
    axis is $\lfloor(d-k+2P)/s\rfloor+1$. In three dimensions with an axis of one entry it is the layer in two.
    """

    @jax.jit
    def measure(key):
        # one draw for all weights and images: to compile a draw takes longer than a layer
        numbers = jax.random.normal(key, (INPUTS * math.prod(SIZES) + channels * (INPUTS * math.prod(WINDOWS) + 1),))
        fields = numbers[: INPUTS * math.prod(SIZES)].reshape(INPUTS, -1)

        def filled(layer):
            weights = numbers[-layer.weight.size - channels :]
            parts = weights[channels:].reshape(layer.weight.shape), weights[:channels].reshape(layer.bias.shape)
            return eqx.tree_at(lambda c: (c.weight, c.bias), layer, parts)

        runs = []
        for axes in (1, 2, 3):
            window, stride, padding = WINDOWS[:axes], STRIDES[:axes], PADDINGS[:axes]
            x = fields[:, : math.prod(SIZES[:axes])].reshape(INPUTS, *SIZES[:axes])
            layer = filled(eqx.nn.Conv(axes, INPUTS, channels, window, stride, padding, key=key))
            bias, options = layer.bias.ravel(), {"stride": stride, "padding": padding}
            out = layer(x)
            columns = layer.weight.reshape(channels, -1) @ patches(x, window, **options) + bias[:, None]
            matrix = dense_matrix(layer, SIZES[:axes])
            dense = matrix @ x.ravel() + jnp.repeat(bias, out[0].size)
            ways = {
                "kernel reversed twice": convolve_channels(x, flipped(layer).weight, bias, **options),
                "windows as columns": columns.reshape(out.shape),
                "dense matrix": dense.reshape(out.shape),
            }
            if axes < 3:
                ways["Fourier transforms"] = fft_layer(layer, x)
            runs.append((x, layer.weight, layer.bias, out, ways, matrix))
        deep = eqx.nn.Conv3d(INPUTS, channels, (*WINDOWS[:2], 1), (*STRIDES[:2], 1), (*PADDINGS[:2], 0), key=key)
        picture, kernel, *_ = runs[1]
        unflipped = convolve_channels(picture, kernel, runs[1][2].ravel(), stride=STRIDES[:2], padding=PADDINGS[:2])
        return runs, (filled(deep)(picture[..., None])[..., 0], runs[1][3]), unflipped

    runs, reduced, unflipped = jax.tree.map(np.asarray, measure(key))
    close = {"rtol": 1e-10, "atol": 1e-12}
    for axes, (x, weight, bias, out, ways, matrix) in enumerate(runs, start=1):
        window, stride, padding, size = WINDOWS[:axes], STRIDES[:axes], PADDINGS[:axes], SIZES[:axes]
        yield equal(f"{axes}-D: the formula", out, _formula(x, weight, bias, stride, padding), **close)
        for name, value in ways.items():
            yield equal(f"{axes}-D: {name}", value, out, **close)
        formula = [
            output_size(n, m, stride=s, padding=p) for n, m, s, p in zip(size, window, stride, padding, strict=True)
        ]
        yield equal(f"{axes}-D: size of the output", out.shape[1:], formula, **EXACT)
        counts = weight.size + bias.size, matrix.size, np.unique(matrix[matrix != 0]).size
        wanted = (
            convolution_weights(INPUTS, channels, window),
            dense_weights(INPUTS, channels, window, size, stride=stride, padding=padding),
            convolution_weights(INPUTS, channels, window, bias=False),
        )
        yield equal(f"{axes}-D: parameters, dense weights, different weights", counts, wanted, **EXACT)
        if axes == 2:
            yield image("a layer in two dimensions as a dense matrix", matrix)
            yield control("the kernel not reversed", equal("result", unflipped, out, **close))
        seen = np.ones(1)  # entries of the window that lie within the image, along one axis after the other
        for n, p, s, c, m in zip(size, padding, stride, out.shape[1:], window, strict=True):
            tap = np.arange(n) + p - s * np.arange(c)[:, None]
            seen = np.outer(seen, ((tap >= 0) & (tap < m)).sum(1)).ravel()
        inputs_seen = np.count_nonzero(matrix, axis=1)
        yield equal(f"{axes}-D: inputs that an output sees", inputs_seen, np.tile(INPUTS * seen, channels), **EXACT)
    yield equal("three dimensions, one of them flat", *reduced, **close)


@claim(rows=("B10.11",))
def reversing_changes_nothing(key, *, steps: Count = 30, images: Size = 8):
    r"""Whether the kernel is reversed makes no difference to what a layer learns.

    Gradient descent on a layer that correlates, started at $W$, and on one that convolves, started at the reversed $W$,
    have the same losses at every step, and the kernels stay each other's reverse: reversing is a permutation of the
    entries, and gradient descent does not see how parameters are numbered. Started at $W$ itself, the layer that
    convolves takes another path.
    """

    @jax.jit
    def measure(key):
        x_key, teacher_key, start_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (images, 2, 6, 6))
        correlating = eqx.nn.Conv2d(2, 2, 3, key=start_key)
        y = jnp.tanh(jax.vmap(eqx.nn.Conv2d(2, 2, 3, key=teacher_key))(x))
        bias = correlating.bias

        def descend(apply, start):
            def loss(w):
                return jnp.mean((jnp.tanh(jax.vmap(lambda v: apply(w, v))(x)) - y) ** 2)

            def step(w, _):
                value, slope = jax.value_and_grad(loss)(w)
                return w - 0.5 * slope, value

            return jax.lax.scan(step, start, length=steps)

        def correlate(w, v):
            return eqx.tree_at(lambda c: c.weight, correlating, w)(v)

        def convolve(w, v):
            return convolve_channels(v, w, bias.ravel())

        start = correlating.weight
        reverse = jnp.flip(start, (2, 3))
        one, others = descend(correlate, start), jax.vmap(lambda w: descend(convolve, w))(jnp.stack([reverse, start]))
        return one, others

    (kernel, losses), (kernels, both) = measure(key)
    # rounding differs between the two programs, and a contracting descent does not enlarge it
    yield equal("loss at every step", both[0], losses, rtol=1e-8, along="step")
    yield equal("kernel learned, reversed", jnp.flip(kernels[0], (2, 3)), kernel, rtol=1e-8, atol=1e-10)
    yield control("not reversed at the start", equal("loss at every step", both[1], losses, rtol=1e-8))


GLYPHS = np.array([[[0, 1, 0], [1, 1, 1], [0, 1, 0]], [[1, 0, 1], [0, 1, 0], [1, 0, 1]]], float)


def _glyph_images(key, count):
    """Noise of 8 by 8 with a plus or a cross somewhere; which of both and in which half, as signs."""
    place_key, noise_key = jax.random.split(key)
    place = jax.random.randint(place_key, (count,), 0, 72)
    kind, row, column = place % 2, place // 2 % 6, place // 12

    def one(k, i, j):
        return jax.lax.dynamic_update_slice(jnp.zeros((8, 8)), jnp.asarray(GLYPHS)[k], (i, j))

    images = jax.vmap(one)(kind, row, column) + 0.3 * jax.random.normal(noise_key, (count, 8, 8))
    return images, 2.0 * jnp.stack([kind, column < 3]) - 1


@claim(rows=("M14.20",))
def sharing_needs_fewer_examples(key, *, images: Size = 50, runs: Size = 8, steps: Count = 60):
    r"""With few images, shared weights and pooling generalise where a dense layer of the same width does not.

    Fifty images of $8\times8$ show a plus or a cross somewhere, in noise. Four filters of $3\times3$, ReLU, the best
    response of each and a linear read-out are compared with a dense layer of the same $4\cdot36$ units and a linear
    read-out, both trained on the same images, on 300 new ones; the difference of their accuracies is positive by five
    standard errors over all runs. It is not the smaller number of weights alone: where the label is the half of the
    image in which the glyph lies, which the pooled filters cannot tell, the dense layer is the better one.
    """
    optimiser = optax.adam(5e-2)

    def network(params, x):
        # a layer as a product of its weights with the windows; for a dense layer the image is the only window
        w, b, v = params
        return jnp.max(jax.nn.relu(w @ x + b[:, None]), axis=1) @ v

    @jax.jit
    def measure(key):
        def run(key, label):
            data_key, start_key = jax.random.split(key)
            x, labels = _glyph_images(data_key, images + 300)
            y, normals = labels[label], jax.random.normal(start_key, (4 * 36 * 65,))
            scores = []
            for units, view in (
                (4, jax.vmap(lambda v: patches(v[None], 3))(x)),
                (4 * 36, x.reshape(-1, 64, 1)),
            ):
                inputs = view.shape[1]
                w, v = normals[: units * inputs].reshape(units, inputs), normals[-units:]
                start = w * (2 / inputs) ** 0.5, jnp.zeros(units), v / units**0.5
                known = view[:images], y[:images]
                found = train(Network(network, start), "logistic", known, optimiser, steps=steps).network
                guesses = jax.vmap(found)(view[images:])
                scores.append(jnp.mean(guesses * y[images:] > 0))
            return jnp.stack(scores)

        return jax.vmap(lambda k: jax.vmap(lambda label: run(k, label))(jnp.arange(2)))(jax.random.split(key, runs))

    scores = np.asarray(measure(key))  # (runs, label, network)
    lead = scores[..., 0] - scores[..., 1]
    lower = lead.mean(0) - 5 * lead.std(0, ddof=1) / np.sqrt(runs)
    yield at_least("which glyph: lead of the shared weights, lower limit", lower[0], 0.0)
    upper = lead.mean(0) + 5 * lead.std(0, ddof=1) / np.sqrt(runs)
    yield control("which half", at_least("lead of the shared weights, upper limit", upper[1], 0.0))
