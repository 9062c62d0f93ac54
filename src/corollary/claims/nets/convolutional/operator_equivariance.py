"""Maps that commute with shifts: which they are, and which layers are among them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._pictures import curves
from corollary.claims.nets.convolutional._images import image
from corollary.evidence import Size, claim, control, equal, printed
from corollary.nets import MLP, relu
from corollary.nets.convolutional import convolve, global_pool, impulse_response, max_pool, shift_average

EXACT = {"rtol": 0.0, "atol": 0.0}


@claim(rows=("E04.08", "B10.05"))
def linear_equivariant_is_convolution(key, *, length: Size = 12, signals: Size = 20):
    r"""A linear map of periodic signals that commutes with shifts is a convolution, with its answer to an impulse.

    A linear $T:\mathbb R^n\to\mathbb R^n$ commutes with the cyclic shift $S$ exactly if $Tf=f\circledast h$ with
    $h=Te_0$; such maps form a space of dimension $n$, onto which $A\mapsto\frac1n\sum_kS^{-k}AS^k$ projects
    orthogonally. In two dimensions the same, and for signals of finite support on $\mathbb Z$. Neither premise can be
    left out: a random matrix, entrywise $\max(0,f)$ and the greater of two neighbours are no convolutions. On signals
    that do not die out continuity is needed as well: $f\mapsto\lim_{t\to\infty}f[t]$, as a constant signal, is linear
    and commutes with shifts, and its answer to every impulse is zero.
    """

    @jax.jit
    def measure(key):
        a_key, f_key, plane_key = jax.random.split(key, 3)
        a = jax.random.normal(a_key, (length, length))
        f = jax.random.normal(f_key, (signals, length))
        plane = jax.random.normal(plane_key, (6, 5))
        averaged = shift_average(a)

        def against(transform):
            """What the map makes of the signals, and the convolution with its impulse response."""
            h = impulse_response(transform, length)
            return jax.vmap(transform)(f), jax.vmap(lambda s: convolve(s, h, "circular"))(f)

        def blur(p):  # a few local linear steps in the plane, one after the other
            p = 3 * p - jnp.roll(p, (1, 2), (0, 1))
            p = p + jnp.roll(p, -1, 1)
            return p - p.mean()

        def differences(s):  # on the line, zeros outside: the result is longer by two
            step = jnp.diff(jnp.pad(s, 1))
            return 2 * jnp.pad(step, (0, 1)) + jnp.pad(step, (1, 0))

        line = differences(f[0]), convolve(f[0], impulse_response(differences, 1))
        runs = {
            "average of a random matrix": against(lambda s: averaged @ s),
            "random matrix": against(lambda s: a @ s),
            "ReLU": against(jax.nn.relu),
            "greater of two neighbours": against(lambda s: jnp.maximum(s, jnp.roll(s, -1))),
            # signals that stay what they are at the end: their limit is their last entry
            "limit at infinity": against(lambda s: jnp.full(length, s[-1])),
        }
        image_runs = blur(plane), convolve(plane, impulse_response(blur, (6, 5)), "circular")
        inner = jnp.vdot(a - averaged, shift_average(jax.random.normal(plane_key, a.shape)))
        return runs, image_runs, line, a, averaged, shift_average(averaged), inner

    runs, plane, line, a, averaged, twice, inner = measure(key)
    yield image("a matrix", a)
    yield image("averaged over shifts", averaged)
    yield equal("an averaged matrix", *runs["average of a random matrix"], rtol=1e-10, atol=1e-12)
    yield equal("a chain of local steps in the plane", *plane, rtol=1e-10, atol=1e-12)
    yield equal("differences of neighbours on the line", *line, rtol=1e-10, atol=1e-12)
    yield equal("averaging twice", twice, averaged, rtol=1e-10, atol=1e-13)
    yield equal("what averaging removes is orthogonal to what it keeps", inner, 0.0, atol=1e-12)
    sizes = range(2, 9)
    free = []
    for n in sizes:
        shift, one = np.roll(np.eye(n), 1, 0), np.eye(n)
        commutator = np.kron(one, shift.T) - np.kron(shift, one)  # of A S - S A, rows of A one after the other
        free.append(n * n - np.linalg.matrix_rank(commutator))
    yield equal("dimension of the maps that commute", free, list(sizes), x=list(sizes), along="length", **EXACT)
    reasons = {
        "random matrix": "linear, not equivariant: a random matrix",
        "ReLU": "equivariant, not linear: ReLU",
        "greater of two neighbours": "equivariant, not linear: the greater of two neighbours",
        "limit at infinity": "linear and equivariant on signals with a limit, not continuous: the limit",
    }
    for name, why in reasons.items():
        yield control(why, equal("convolution with the impulse response", *runs[name], rtol=1e-10, atol=1e-12))


@claim(rows=("B10.02", "M14.21", "E04.13", "E04.15"))
def layers_follow_shifts(key, *, side: Size = 8):
    r"""Convolutions follow every shift of a periodic image, and global pooling after them does not notice it.

    For $T(X)_{iq}=X_{i-a,q-b}$ on $\mathbb Z^2$, or on a torus: $r\star T(X)=T(r\star X)$. Hence every stack of
    convolutions at stride 1 and entrywise functions (and maxima over windows at stride 1) is equivariant, and with the
    greatest entry or the mean of every channel at the end it is invariant. At stride 2, or after pooling two by two,
    the output follows shifts by even numbers, at half their size. Not so: zeros around an image whose object touches
    the border; odd shifts at stride 2; a dense read-out of the positions; a network without convolutions; rotations.
    (B's "designed to achieve translation invariance" is an aim; pooling over all positions reaches it.)
    """

    @jax.jit
    def measure(key):
        x_key, *keys = jax.random.split(key, 6)
        x = jax.random.normal(x_key, (2, side, side))
        circular = {"padding": 1, "padding_mode": "CIRCULAR"}
        first = eqx.nn.Conv2d(2, 3, 3, **circular, key=keys[0])
        second = eqx.nn.Conv2d(3, 3, 3, **circular, key=keys[1])
        zeros = eqx.nn.Conv2d(2, 3, 3, padding=1, key=keys[0])
        strided = eqx.nn.Conv2d(2, 3, 3, 2, **circular, key=keys[0])
        dense = jax.random.normal(keys[2], (3 * side * side,)) / side
        readout = jax.random.normal(keys[3], (3,))
        mlp = MLP((2 * side * side, 16, 1), relu, key=keys[4])

        def everything(x):
            one, flat, half = first(x), zeros(x), strided(x)
            deep = jax.nn.relu(second(jax.nn.relu(one)))
            around = jnp.pad(x, [(0, 0), (0, 1), (0, 1)], mode="wrap")
            maps = {
                "two layers": deep,
                "maximum over windows at stride 1": max_pool(around, 2, stride=1),
                "zeros around": flat,
                "stride 2": half,
                "pooled two by two": max_pool(one, 2),
                "one layer": one,
            }
            logits = {
                "global maximum": global_pool(deep) @ readout,
                "global mean": global_pool(deep, "mean") @ readout,
                "zeros around": global_pool(flat) @ readout,
                "stride 2": global_pool(half) @ readout,
                "dense read-out": deep.ravel() @ dense,
                "no convolution": mlp(x.ravel())[0],
            }
            return maps, logits

        shifted = jax.vmap(jax.vmap(lambda a, b: jnp.roll(x, (a, b), (1, 2)), (None, 0)), (0, None))
        every = shifted(jnp.arange(side), jnp.arange(side)).reshape(-1, *x.shape)
        # an object with two free pixels around it may be moved by one without touching the border
        small = jnp.pad(x[:, 2:-2, 2:-2], [(0, 0), (2, 2), (2, 2)])
        others = jnp.stack([small, jnp.roll(small, (1, -1), (1, 2)), jnp.rot90(x, axes=(1, 2))])
        return jax.vmap(everything)(jnp.concatenate([every, others]))

    maps, logits = jax.tree.map(np.asarray, measure(key))
    shifts = np.argwhere(np.ones((side, side)))
    even = (shifts % 2 == 0).all(1)
    close = {"rtol": 1e-10, "atol": 1e-12}

    def both(name, step=1):
        """The outputs for all shifted images, and the output for the first one shifted by that much over the step."""
        return maps[name][: side**2], np.stack([np.roll(maps[name][0], tuple(s // step), (1, 2)) for s in shifts])

    change = {
        n: np.abs(logits[n][:side] - logits[n][0]) / np.abs(logits[n][: side**2]).mean()
        for n in ("global maximum", "zeros around", "stride 2", "dense read-out")
    }
    yield curves("change of the output, relative", range(side), change, "shift to the side")
    for name in ("two layers", "maximum over windows at stride 1"):
        yield equal(f"{name}: every shift", *both(name), **close)
    small, moved = maps["zeros around"][side**2 : side**2 + 2]
    yield equal("zeros around an object with room", moved, np.roll(small, (1, -1), (1, 2)), **close)
    for name in ("stride 2", "pooled two by two"):
        left, right = both(name, 2)
        yield equal(f"{name}: even shifts", left[even], right[even], **close)
        yield control(f"{name}, odd shifts", equal("output of the shifted image", left[~even], right[~even], **close))
    for name in ("global maximum", "global mean"):
        yield equal(f"{name} at the end: every shift", logits[name][: side**2], logits[name][0], **close)
    yield control("zeros around", equal("output of the shifted image", *both("zeros around"), **close))
    for name in ("zeros around", "stride 2", "dense read-out", "no convolution"):
        values = logits[name][: side**2]
        yield control(f"{name}, then one number", equal("every shift", values, values[0], **close))
    turned = maps["one layer"][-1], np.rot90(maps["one layer"][0], axes=(1, 2))
    yield control("a quarter turn", equal("output of the turned image", *turned, **close))


@claim(
    rows=("M14.21",),
    erratum="Convolution is equivariant, not invariant: its output is shifted as well.",
)
def output_unchanged_by_shifts(key, *, side: Size = 8):
    r"""Shifting the data does not change the output of the convolution operator.

    As section 14.6 reads the identity $r\star T(X)=T(r\star X)$, which "demonstrates that shifting the data does not
    change the output of the convolution operator". It says that the output is shifted with the data. Here on a torus,
    where nothing leaves the image.
    """
    x_key, r_key = jax.random.split(key)
    x, r = jax.random.normal(x_key, (side, side)), jax.random.normal(r_key, (3, 3))
    moved, still = convolve(jnp.roll(x, 1, 1), r, "circular"), convolve(x, r, "circular")
    yield equal("output for the image moved by one: moved by one", moved, jnp.roll(still, 1, 1))
    yield printed(equal("output for the image moved by one: unchanged", moved, still))
