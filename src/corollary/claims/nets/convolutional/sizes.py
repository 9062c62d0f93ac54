"""Counting: how large outputs are, which inputs they see, and how often each input is used."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets.convolutional._images import image
from corollary.evidence import Size, claim, control, equal
from corollary.nets.convolutional import coverage, max_pool, output_size, receptive_field

EXACT = {"rtol": 0.0, "atol": 0.0}


@claim(rows=("B10.10", "M14.19"))
def output_sizes(key, *, layers: Size = 40):
    r"""A window of k entries fits floor((d - k + 2P) / s) + 1 times into d entries.

    With $P$ entries added at each end and the window moved by $s$ each time. Without either: $d-k+1$; with padding
    alone: $d-k+2P+1$. Counted for all $d\le20$, $k\le d$, $P\le3$, $s\le4$, and on layers with random settings,
    dilation included. B's figures: $4\times4$ through $3\times3$ is $2\times2$; $9\times9$ through $3\times3$ is
    $7\times7$, at stride 3 $3\times3$, with one pixel of padding $9\times9$. Rounding up instead of down is wrong: it
    counts a window that does not fit.
    """
    grid = [(d, k, p, s) for d in range(1, 21) for k in range(1, d + 1) for p in range(4) for s in range(1, 5)]
    counted = [np.lib.stride_tricks.sliding_window_view(np.empty(d + 2 * p), k)[::s].shape[0] for d, k, p, s in grid]
    formula = [output_size(d, k, stride=s, padding=p) for d, k, p, s in grid]
    yield equal("windows counted, all settings", counted, formula, **EXACT)
    one_end = [np.lib.stride_tricks.sliding_window_view(np.empty(d + p), k)[::s].shape[0] for d, k, p, s in grid]
    yield control("P entries at each end: here at one", equal("windows counted", one_end, formula, **EXACT))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    made, wanted = [], []
    for _ in range(layers):
        d, k, s, p, dilation = (int(rng.integers(low, high)) for low, high in ((9, 13), (1, 6), (1, 5), (0, 4), (1, 3)))
        shape = eqx.filter_eval_shape(
            lambda x, k=k, s=s, p=p, dilation=dilation: eqx.nn.Conv1d(1, 1, k, s, p, dilation, key=key)(x),
            jax.ShapeDtypeStruct((1, d), float),
        ).shape
        made.append(shape[1])
        wanted.append(output_size(d, k, stride=s, padding=p, dilation=dilation))
    yield equal("outputs of layers with random settings", made, wanted, **EXACT)
    figures = [(4, 3, 1, 0), (9, 3, 1, 0), (9, 3, 3, 0), (9, 3, 1, 1)]
    sides = [
        eqx.filter_eval_shape(
            lambda x, k=k, s=s, p=p: eqx.nn.Conv2d(1, 1, k, s, p, key=key)(x), jax.ShapeDtypeStruct((1, d, d), float)
        ).shape[1]
        for d, k, s, p in figures
    ]
    yield equal("the figures of the book", sides, [2, 7, 3, 9], **EXACT)


@claim(rows=("B10.13",))
def windows_overlap_or_divide(key, *, side: Size = 9):
    r"""At stride 1 windows overlap; at a stride of their own size they divide the image.

    On $9\times9$ pixels, windows of $3\times3$ at stride 1 use a pixel in the middle nine times and a corner once; at
    stride 3 every pixel exactly once; with one pixel of zeros around, corners are used four times. Measured as the
    derivative of the sum of all outputs of a layer with all weights 1 by each pixel.
    """

    @jax.jit
    def uses(key):
        x, found = jax.random.normal(key, (1, side, side)), []
        for stride, padding in ((1, 0), (3, 0), (1, 1)):
            layer = eqx.nn.Conv2d(1, 1, 3, stride, padding, use_bias=False, key=key)
            layer = eqx.tree_at(lambda c: c.weight, layer, jnp.ones((1, 1, 3, 3)))
            found.append(jax.grad(lambda x, layer=layer: layer(x).sum())(x)[0])
        return found

    overlapping, divided, padded = map(np.asarray, uses(key))
    for name, measured, settings in (
        ("stride 1", overlapping, {}),
        ("stride 3", divided, {"stride": 3}),
        ("one pixel of padding", padded, {"padding": 1}),
    ):
        along = coverage(side, 3, **settings)
        yield image(f"uses of every pixel, {name}", measured)
        yield equal(f"{name}: uses of every pixel", measured, np.outer(along, along), **EXACT)
    yield equal("stride 3: a partition", divided, np.ones_like(divided), **EXACT)
    extremes = overlapping[side // 2, side // 2], overlapping[0, 0], padded[0, 0]
    yield equal("middle, corner, padded corner", extremes, [9, 1, 4], **EXACT)
    yield control("stride 1 is no partition", equal("uses of every pixel", overlapping, 1.0, **EXACT))


@claim(rows=("B10.15",))
def receptive_fields(key, *, length: Size = 64):
    r"""Deeper layers see further: the receptive field grows by the window less one, times the strides before it.

    $r_\ell=r_{\ell-1}+(F_\ell-1)\prod_{j<\ell}s_j$ with $r_0=1$, for convolutions and poolings alike. Measured as the
    number of inputs on which one output depends, in a network with positive weights, where nothing cancels. The number
    of weights does not depend on the length of the input.
    """
    stacks = {
        "three by three, five times": [(3, 1)] * 5,
        "stride in between": [(3, 1), (2, 2), (3, 1), (2, 2), (3, 1)],
        "large windows first": [(7, 2), (3, 2), (3, 1)],
    }

    @jax.jit
    def measure(key):
        x = jax.random.uniform(key, (1, length))
        supports = []
        for stack in stacks.values():
            layers = [eqx.nn.Conv1d(1, 1, f, s, use_bias=False, key=key) for f, s in stack]

            def one(x, end, layers=layers):
                seen = []
                for layer in layers:
                    weight = (jnp.abs(layer.weight) + 0.1).at[..., -1].multiply(end)
                    x = eqx.tree_at(lambda c: c.weight, layer, weight)(x)
                    seen.append(x[0, x.shape[1] // 2])
                return jnp.stack(seen)

            # with positive weights, and with a zero at the end of every filter
            supports.append([jnp.sum(jax.jacrev(one)(x, end) != 0, (1, 2)) for end in (1.0, 0.0)])
        # pooling looks at as many inputs as a convolution, whichever of them it keeps
        many = jax.random.normal(key, (200, 1, length))
        slopes = jax.vmap(jax.grad(lambda x: max_pool(max_pool(x, 3, stride=2), 2)[0, 5]))(many)
        return supports, jnp.sum(jnp.any(slopes != 0, (0, 1)))

    supports, pooled = measure(key)
    for (name, stack), support in zip(stacks.items(), supports, strict=True):
        fields = [receptive_field(stack[: depth + 1]) for depth in range(len(stack))]
        yield equal(f"{name}: inputs seen", support[0], fields, x=range(1, len(stack) + 1), along="layer", **EXACT)
    yield equal("two poolings: inputs seen over 200 signals", pooled, receptive_field([(3, 2), (2, 2)]), **EXACT)
    yield control(
        "all weights are positive: here the last of every filter is zero",
        equal("inputs seen", supports[-1][1], fields, **EXACT),
    )
