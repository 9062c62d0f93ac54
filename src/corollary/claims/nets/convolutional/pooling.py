"""Pooling: what is kept of a window."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets.convolutional._images import image
from corollary.evidence import Size, at_most, claim, control, equal, printed
from corollary.nets.convolutional import convolve_channels, max_pool, mean_pool, output_size

EXACT = {"rtol": 0.0, "atol": 0.0}


def _windows(x, r, stride):
    axes = tuple(range(1, x.ndim))
    return np.lib.stride_tricks.sliding_window_view(x, (r,) * len(axes), axes)[
        (slice(None), *[slice(None, None, stride)] * len(axes))
    ]


@claim(rows=("E04.15", "B10.18"))
def pooling_layers(key, *, side: Size = 9, window: Size = 3, pairs: Size = 200):
    r"""Pooling keeps the greatest entry or the mean of every window; neither moves further than its input.

    $I'[i,j]=\max\{I[ri+k,rj+\ell]:0\le k,\ell<r\}$, in one, two and three dimensions; so do Equinox's layers. The mean
    is the convolution with the constant kernel $r^{-d}$ at stride $r$. Both are 1-Lipschitz in the greatest norm, and
    attain it; over windows that overlap the Euclidean norm can grow, since one entry counts for several of them.
    The gradient of the maximum goes to the greatest entry alone. Moving entries within their window changes nothing;
    moving them into the next does.
    """

    @jax.jit
    def measure(key):
        x_key, y_key = jax.random.split(key)
        x = jax.random.normal(x_key, (2, side, side))
        other = x + jax.random.normal(y_key, (pairs, 2, side, side))
        pools = jax.vmap(lambda v: (max_pool(v, window), mean_pool(v, window)))(other)
        kernel = jnp.eye(2)[:, :, None, None] * jnp.ones((window, window)) / window**2
        cube = jax.random.normal(x_key, (2, 6, 5, 4))
        line = x[:, 0]
        found = {
            "maxima": (max_pool(line, window), max_pool(x, window), max_pool(cube, 2), max_pool(x, window, stride=1)),
            "means": (mean_pool(x, window), mean_pool(cube, 2), convolve_channels(x, kernel, stride=window)),
            "layers": (
                eqx.nn.MaxPool2d(window, window)(x),
                eqx.nn.AvgPool2d(window, window)(x),
                eqx.nn.MaxPool3d(2, 2)(cube),
            ),
        }
        slope = jax.grad(lambda v: max_pool(v, window).sum())(x)
        # all entries of a window exchanged: turned by half
        count = side // window
        blocks = x[:, : count * window, : count * window].reshape(2, count, window, count, window)
        turned = blocks[:, :, ::-1, :, ::-1].reshape(2, count * window, -1)
        moved = max_pool(turned, window), max_pool(jnp.roll(x, 1, 2), window)
        # a single bright pixel in the middle of overlapping windows
        dot = jnp.zeros((1, side, side)).at[0, side // 2, side // 2].set(1.0)
        lengths = jnp.linalg.norm(max_pool(dot, window, stride=1)), jnp.linalg.norm(dot)
        raised = max_pool(x + 0.5, window), mean_pool(x + 0.5, window)
        return x, cube, other, pools, found, slope, moved, lengths, raised

    x, cube, other, pools, found, slope, moved, lengths, raised = jax.tree.map(np.asarray, measure(key))
    r = window
    line, plane, volume, overlapping = found["maxima"]
    yield image("an image", x[0])
    yield image("its greatest entries", plane[0])
    yield equal("greatest entries, one dimension", line, _windows(x[:, 0], r, r).max(-1), **EXACT)
    yield equal("greatest entries, two dimensions", plane, _windows(x, r, r).max((-1, -2)), **EXACT)
    yield equal("greatest entries, three dimensions", volume, _windows(cube, 2, 2).max((-1, -2, -3)), **EXACT)
    yield equal("greatest entries at stride 1", overlapping, _windows(x, r, 1).max((-1, -2)), **EXACT)
    close = {"rtol": 1e-12, "atol": 1e-14}
    means, volumes, convolved = found["means"]
    yield equal("means, two dimensions", means, _windows(x, r, r).mean((-1, -2)), **close)
    yield equal("means, three dimensions", volumes, _windows(cube, 2, 2).mean((-1, -2, -3)), **close)
    yield equal("mean as a convolution", convolved, means, **close)
    layers = found["layers"]
    yield equal("Equinox's maximum, two dimensions", layers[0], plane, **EXACT)
    yield equal("Equinox's mean", layers[1], means, **close)
    yield equal("Equinox's maximum, three dimensions", layers[2], volume, **EXACT)
    apart = np.abs(other[1:] - other[:-1]).max((1, 2, 3))
    for name, values in zip(("maximum", "mean"), pools, strict=True):
        moves = np.abs(values[1:] - values[:-1]).max((1, 2, 3))
        yield at_most(f"{name}: distance of outputs, against that of inputs", moves, apart, along="pair")
    steps = [np.abs(a - b).max() for a, b in zip(raised, (plane, means), strict=True)]
    yield equal("attained by raising all entries", steps, 0.5)
    blocks = _windows(x, r, r)
    chosen = (blocks == blocks.max((-1, -2), keepdims=True)).astype(float)
    yield equal("gradient of the maximum: at the greatest entry", _windows(slope, r, r), chosen, **EXACT)
    yield equal("entries moved within their window", moved[0], plane, **EXACT)
    yield control(
        "entries stay in their window: here they move to the next", equal("pooled image", moved[1], plane, **EXACT)
    )
    yield control(
        "the norm is the greatest entry: here Euclidean, windows overlap", at_most("length of the output", *lengths)
    )


@claim(
    rows=("E04.15",),
    erratum="Without the stride in the index, I[ri+k, rj+l], a window starts at every pixel: nothing is down-sampled.",
)
def printed_pooling_samples_down(key, *, side: Size = 12, window: Size = 3):
    r"""The maxima of I[i+k, j+l] over 0 <= k, l < r make an image r times smaller.

    The layer as printed in section 4.2, among those that "downsample the input". Its output has $n-r+1$ entries along
    an axis of $n$, and as many as its input on $\mathbb Z^2$; with $I[ri+k,rj+l]$ it has $\lfloor n/r\rfloor$.
    """
    x = jax.random.normal(key, (1, side, side))
    sides = [max_pool(x, window, stride=s).shape[1:] for s in (1, window)]
    yield equal("side of the pooled image with the stride, corrected", sides[1], side // window, **EXACT)
    yield equal("side of the pooled image as printed, counted", sides[0], output_size(side, window), **EXACT)
    yield printed(equal("side of the pooled image, r times smaller", sides[0], side // window, **EXACT))
