"""What more hidden units can represent (M section 7.4)."""

import jax
import numpy as np

from corollary.claims.nets._pictures import curves
from corollary.evidence import Size, at_most, claim, control, equal, monotone


def _errors(features, target, widths):
    """Mean squared errors of least squares on the first columns, for each width."""
    out = []
    for width in widths:
        columns = features[:, : width + 1]
        outer = np.linalg.lstsq(columns, target, rcond=None)[0]
        out.append(np.mean((columns @ outer - target) ** 2))
    return np.array(out)


@claim(rows=("M07.18", "M07.17"))
def approximation(key, *, points: Size = 400):
    r"""A network of one hidden layer comes as close as one likes to a continuous function, with enough units.

    For $Y=\bar m(X)$ and $\epsilon>0$ there are $d_H$ and $\theta^*$ with $\mathbb E\|Y-m(X;\theta^*)\|^2<\epsilon$
    (7.15), for an activation that is not a polynomial. Measured with random inner parameters, uniform on $[-4,4]$, and
    the best outer ones, which can only be worse than the best network: the error never rises as units are added, and
    falls below $10^{-9}$ for $\sin3x$ and $10^{-4}$ for $|x|$ on $[-1,1]$. With $\sigma(z)=z^2$ it
    stays at the error of the best parabola, 0.1648 for $\sin3x$, at any width; and (7.15) needs $Y$ to be a function
    of $X$: noise of variance 0.01 in it cannot be fitted.
    """
    widths = np.array([2, 4, 8, 16, 32, 64, 128, 256])
    w, b = np.asarray(jax.random.uniform(key, (2, widths[-1]), minval=-4.0, maxval=4.0))
    # midpoints: an average over them is the integral up to the square of their distance
    x = (2 * np.arange(points) + 1) / points - 1
    pre = x[:, None] * w + b
    ones = np.ones((points, 1))
    hidden, squares = np.hstack([ones, np.tanh(pre)]), np.hstack([ones, pre**2])
    noise = 0.1 * np.asarray(jax.random.normal(jax.random.fold_in(key, 1), (points,)))
    smooth, kinked, parabola = (
        _errors(f, t, widths) for f, t in ((hidden, np.sin(3 * x)), (hidden, np.abs(x)), (squares, np.sin(3 * x)))
    )
    # singular values below the rounding are cut off: errors near 1e-20 may come back
    yield monotone("error for sin 3x", smooth, "decreasing", atol=1e-12, x=widths, along="units")
    yield monotone("error for the absolute value", kinked, "decreasing", atol=1e-10, x=widths, along="units")
    yield at_most("error for sin 3x at the end", smooth[-1], 1e-9)
    yield at_most("error for the absolute value at the end", kinked[-1], 1e-4)
    # the parabola's linear term is 3 E x sin 3x, the others are zero; the sum over midpoints is off by a third of 1/n²
    best = 0.5 - np.sin(6) / 12 - 3 * (np.sin(3) / 9 - np.cos(3) / 3) ** 2
    yield equal("square activation: the best parabola's error", parabola, best, rtol=0, atol=10 / points**2)
    yield control("square activation", at_most("error for sin 3x at the end", parabola[-1], 1e-9))
    outer = np.linalg.lstsq(hidden, np.sin(3 * x), rcond=None)[0]
    noisy = np.mean((hidden @ outer - np.sin(3 * x) - noise) ** 2)
    yield control("labels with noise", at_most("error for sin 3x at the end", noisy, 1e-9))
    lines = {"sin 3x": np.log10(smooth), "|x|": np.log10(kinked), "sin 3x, squares": np.log10(parabola)}
    yield curves("error against width", np.log2(widths), lines, "log2 of the units", "log10 of the error")
