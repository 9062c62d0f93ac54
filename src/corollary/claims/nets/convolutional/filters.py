"""Filters by hand: smoothing, a detector's arithmetic, and what a stride can miss."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._pictures import curves
from corollary.evidence import Count, Range, Size, at_most, claim, control, equal, estimate, printed
from corollary.nets import logistic
from corollary.nets.convolutional import (
    binomial_kernel,
    convolve,
    cross_correlate,
    frequency_response,
    moving_average,
    signal_lipschitz,
    stride_gap,
)

EXACT = {"rtol": 0.0, "atol": 0.0}


@claim(rows=("B10.07",))
def binomial_smoothing(key, *, length: Size = 64, signals: Count = 20_000):
    r"""The kernel (1, 4, 6, 4, 1) / 16 is a fourfold average of neighbours, close to a Gaussian of variance 1.

    $h=(\frac12,\frac12)^{*4}$ on $[-2,2]$: sum 1, mean 0, variance 1, frequency response $\cos^4(\pi u)$, so that
    the fastest wave disappears and constants stay. White noise of variance 1 has the variance
    $\sum h^2=\frac{70}{256}$ afterwards. No entry is further than 0.03 from the density of $\mathcal N(0,1)$.
    """
    u = np.linspace(0, 0.5, 41)

    @jax.jit
    def measure(key):
        h, half = binomial_kernel(), jnp.array([0.5, 0.5])
        folded = convolve(convolve(half, half), convolve(half, half))
        noise_key, wave_key = jax.random.split(key)
        draws = jax.random.normal(noise_key, (signals, 6))
        # white, and of the same variance with neighbours that are correlated
        noise = jnp.stack([draws[:, 1:], (draws[:, 1:] + draws[:, :-1]) / jnp.sqrt(2.0)], 1)
        smoothed = jax.vmap(jax.vmap(lambda f: convolve(f, h, "valid")[0]))(noise)
        wave = jnp.cos(jnp.pi * jnp.arange(length))
        line = jnp.sin(2 * jnp.pi * jnp.arange(length) / length)
        noisy = line + 0.4 * jax.random.normal(wave_key, (length,))
        ends = convolve(wave, h, "valid"), convolve(jnp.ones(length), h, "valid")
        return h, folded, frequency_response(h, u, start=-2), smoothed, ends, noisy, convolve(noisy, h, "same"), line

    found = jax.tree.map(np.asarray, measure(key))
    h, folded, response, smoothed, (wave, constant), noisy, smooth, line = found
    t = np.arange(-2, 3)
    yield curves("a noisy wave", range(length), {"noisy": noisy, "smoothed": smooth, "wave": line}, "t")
    yield equal("four averages of neighbours", folded, h, **EXACT)
    yield equal("sum, mean, variance", [h.sum(), h @ t, h @ t**2], [1, 0, 1], **EXACT)
    yield equal("frequency response", response.real, np.cos(np.pi * u) ** 4, x=u, along="turns per entry")
    yield equal("frequency response, imaginary part", response.imag, 0.0, atol=1e-15)
    yield equal("the fastest wave, and a constant", [np.abs(wave).max(), np.abs(constant - 1).max()], 0.0, atol=1e-14)
    white, correlated = smoothed.T**2
    yield estimate("square of smoothed white noise", white, 70 / 256, wrong=0.25)
    density = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    yield at_most("distance to the Gaussian density", np.abs(h - density), 0.03, x=t, along="t")
    yield control(
        "the noise is white: here neighbours are correlated",
        estimate("square of smoothed noise", correlated, 70 / 256, wrong=0.25),
    )


@claim(rows=("M14.26", "M14.05"))
def averaging_filters(key, *, length: Size = 200, signals: Count = 4000):
    r"""Filters of two halves and of four quarters are moving averages: they let slow waves through.

    $R_0=R_1=\frac12$ gives $Z_n=\frac12(X_n+X_{n+1})$, four taps of $\frac14$ give $Z_n=\frac14\sum_{j<4}X_{n+j}$. The
    variance of white noise falls to $\frac12$ and $\frac14$; a wave of frequency $\omega$ is multiplied by
    $|\cos\frac\omega2|$ and $|\cos\frac\omega2\cos\omega|$: the second is the smoother one wherever it matters. Four
    taps are the two-tap average applied twice, the second time to every other entry.
    """
    omega = np.linspace(0, np.pi, 41)
    two, four = np.full(2, 0.5), np.full(4, 0.25)

    @jax.jit
    def measure(key):
        x_key, noise_key = jax.random.split(key)
        steps = jnp.cumsum(jax.random.normal(x_key, (length,)))
        noise = jax.random.normal(noise_key, (signals, 4))
        squares = jax.vmap(lambda x: jnp.stack([cross_correlate(h, x)[0] ** 2 for h in (two, four)]))(noise)
        responses = [jnp.abs(frequency_response(h, omega / (2 * jnp.pi))) for h in (two, four)]
        # the second average: of every other entry, and of neighbours once more
        seconds = jnp.array([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
        return {
            "filtered": [cross_correlate(h, steps) for h in (two, four)],
            "averages": [moving_average(steps, k) for k in (2, 4)],
            "twice": jax.vmap(lambda h: cross_correlate(h, cross_correlate(two, steps)))(seconds),
            "squares": squares,
            "responses": responses,
            "steps": steps,
        }

    found = jax.tree.map(np.asarray, measure(key))
    x = np.arange(length - 3)
    shown = {"walk": found["steps"][:-3], "two taps": found["filtered"][0][:-2], "four taps": found["filtered"][1]}
    yield curves("a random walk and its averages", x, shown, "n")
    for name, filtered, average in zip(("two taps", "four taps"), found["filtered"], found["averages"], strict=True):
        yield equal(f"{name}: the moving average", filtered, average, rtol=1e-9, atol=1e-11)
    apart, again = found["twice"]
    yield equal("four taps: neighbours averaged twice", apart, found["filtered"][1], rtol=1e-9, atol=1e-11)
    yield control(
        "the second average takes every other entry: here neighbours",
        equal("four taps", again, found["filtered"][1], rtol=1e-9, atol=1e-11),
    )
    yield estimate("square of filtered white noise", found["squares"], [0.5, 0.25], wrong=[0.25, 0.5])
    half = np.abs(np.cos(omega / 2))
    yield equal("response of two taps", found["responses"][0], half, x=omega, along="frequency", atol=1e-14)
    quarter = half * np.abs(np.cos(omega))
    yield equal("response of four taps", found["responses"][1], quarter, x=omega, along="frequency", atol=1e-14)


REFERENCE = 6 + np.minimum(np.arange(7) - 4.0, 0) / 2


@claim(rows=("M14.12", "M14.05"))
def stride_misses_little(key, *, length: Size = 25, signals: Size = 300, stride: Annotated[int, Range(2, 9)] = 5):
    r"""The correlation with a signal changes by at most its steepest step, its ends included, from place to place.

    Let $R$ be zero outside its support and $\mathrm{Lip}(R)=\max_{n\in\mathbb Z}|R_{n+1}-R_n|$. Then
    $|(R\star X)_{n_1}-(R\star X)_{n_2}|\le\mathrm{Lip}(R)\,|n_1-n_2|\sum_k|X_k|$, and the greatest correlation at the
    multiples of $s$ misses the greatest of all by at most $\lfloor s/2\rfloor\,\mathrm{Lip}(R)\sum_k|X_k|$. Attained by
    an impulse: at the end of the book's $R=(4,4.5,5,5.5,6,6,6)$, whose Lipschitz constant is 6, and for the second
    bound by a triangle whose tip falls halfway between two multiples.
    """
    taps = REFERENCE.size

    @jax.jit
    def measure(key):
        x = jax.random.normal(key, (signals, length))
        impulses = jnp.eye(length)
        x = jnp.concatenate([x, impulses])
        # zero where the signals do not meet: six such places on either side
        trace = jnp.pad(jax.vmap(lambda s: cross_correlate(REFERENCE, s, "full"))(x), [(0, 0), (6, 6)])
        gaps = jnp.arange(1, 7)
        moves = [jnp.abs(trace[:, g:] - trace[:, :-g]).max(1) for g in range(1, 7)]
        lost = jax.vmap(lambda s: stride_gap(REFERENCE, s, stride))(x)
        half = stride // 2
        triangle = half + 1.0 - jnp.abs(jnp.arange(-half, half + 1))
        # the tip of the triangle meets the impulse at n = place - half
        tips = jax.vmap(lambda place: stride_gap(triangle, jnp.eye(4 * stride)[place], stride))(jnp.arange(4 * stride))
        lip = signal_lipschitz(REFERENCE), signal_lipschitz(triangle)
        return x, trace, gaps, jnp.stack(moves, 1), lost, tips.max(), lip

    x, trace, gaps, moves, lost, tip, (lip, gentle) = jax.tree.map(np.asarray, measure(key))
    total = np.abs(x).sum(1)
    place = np.arange(1 - taps - 6, length + 6)
    yield curves("correlation with the book's signal", place, {"correlation": trace[0]}, "n")
    yield equal("Lipschitz constant of the book's signal", lip, 6.0, **EXACT)
    yield at_most("change over 1 to 6 places", moves, lip * gaps * total[:, None], along="distance", x=gaps)
    # the last entry of R leaves the support: from 6 to 0
    yield equal("attained by impulses", moves[signals:, 0], lip, **EXACT)
    yield at_most("greatest correlation missed by the stride", lost, (stride // 2) * lip * total, along="signal")
    yield equal("attained by a triangle", tip, (stride // 2) * gentle, **EXACT)
    # an impulse at the end, and a triangle: seen only from places in the second half
    half = stride // 2
    triangle = half + 1.0 - np.abs(np.arange(-half, half + 1))
    late = np.asarray(cross_correlate(triangle, np.eye(4 * stride)[-1], "full"))
    where = np.arange(1 - triangle.size, 4 * stride)
    seen = late[(where % stride == 0) & (where < 2 * stride)].max()
    yield control(
        "all multiples of the stride are looked at: here those of the first half",
        at_most("greatest correlation missed by the stride", late.max() - seen, half * gentle),
    )


@claim(
    rows=("M14.12",),
    erratum="The constant 1/2 holds between entries of R only; where R begins and ends it jumps by 4 and by 6.",
)
def stride_bound_as_printed(key, *, length: Size = 25):
    r"""The correlation with R = (4, 4.5, 5, 5.5, 6, 6, 6) changes by at most half the distance times the sum of |X|.

    As printed in section 14.4.2 for all $n_1,n_2\in\mathbb Z$. The correlation with the impulse at 10 changes by 4 from
    10 to 11 and by 6 from 3 to 4; with the constant 6, the largest step of $R$ with its ends, the bound holds.
    """
    x = np.zeros(length)
    x[10] = 1.0
    trace = cross_correlate(REFERENCE, x, "full")
    n = np.arange(1 - REFERENCE.size, length)
    change = np.abs(np.diff(trace))
    yield at_most("change from n to n + 1, constant 6", change, 6.0 * np.abs(x).sum(), x=n[:-1], along="n")
    yield printed(at_most("change from n to n + 1, as printed", change, 0.5 * np.abs(x).sum(), x=n[:-1], along="n"))


@claim(rows=("M14.22", "M14.05"))
def detector_by_hand(key):
    r"""A detector with known signal, worked out: correlations, probability and gradient (Exercise 14.1).

    $R=(1,2)$ and $X=(1.2,2.3,0,-1)$ have $(R\star X)=(5.8,2.3,-2)$; with $w=0.5$ and $b=0.1$,
    $m=S(w\max_n(R\star X)_n+b)=S(3)$; and $\lambda=-\ln m$ has $\partial_w\lambda=5.8\,(m-1)$, $\partial_b\lambda=m-1$:
    $0.952574$, $-0.275070$ and $-0.0474259$.
    """
    r, x = jnp.array([1.0, 2.0]), jnp.array([1.2, 2.3, 0.0, -1.0])

    @jax.jit
    def measure(r, x):
        trace = cross_correlate(r, x)

        def model(theta):
            return logistic(theta[0] * cross_correlate(r, x).max() + theta[1])

        theta = jnp.array([0.5, 0.1])
        return trace, model(theta), jax.grad(lambda t: -jnp.log(model(t)))(theta)

    trace, probability, slope = measure(r, x)
    yield equal("correlations", trace, [5.8, 2.3, -2.0])
    yield equal("probability of the signal", probability, 1 / (1 + np.exp(-3)))
    m = 1 / (1 + np.exp(-3))
    yield equal("derivatives by w and b", slope, [5.8 * (m - 1), m - 1])
    # six digits of each
    printed = [0.952574, -0.275070, -0.0474259]
    yield equal("to six digits", [probability, *slope], printed, rtol=0, atol=5e-7)
    yield control("R = (1, 2): here (2, 1)", equal("correlations", cross_correlate(r[::-1], x), [5.8, 2.3, -2.0]))
