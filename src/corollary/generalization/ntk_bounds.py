r"""What wide networks learn, from the matrix $H^*$ of their tangent kernel and the labels: bounds with their constants.

The network is $\frac1{\sqrt m}\sum_ra_r\sigma(w_r\cdot x)$ with signs $a_r$ and trained $w_r$; its kernel
$H^*=$ `first_layer_ntk`. For ReLU and unit vectors $H^*_{ij}=\sum_kc_k\langle x_i,x_j\rangle^k$ with the $c_k$ of
`relu_ntk_coefficients`, whose values are those of the norms of polynomials in the space of the kernel.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import concrete, one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.foundations import average_deviation
from corollary.kernels.dynamics import flow_filter, spectrum


@implements("T09.14", "T09.26")
def label_energy(h: Float[ArrayLike, "n n"], y: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$y^\top H^{-1}y$, the squared norm of the interpolant of the labels; infinite if no function interpolates them.

    That is if $H$ is singular and $y$ not in its range. `y` is (n,), or (n, k) for k sets of labels.
    """
    h, y = _labelled(h, y)
    values, vectors = spectrum(h)
    parts = (vectors.T @ y) ** 2
    size = jnp.sum(y**2, 0)
    seen = (values > 0).reshape(-1, *(1,) * (y.ndim - 1))
    energy = jnp.sum(jnp.where(seen, parts / jnp.where(seen, values.reshape(seen.shape), 1), 0), 0)
    outside = jnp.sum(jnp.where(seen, 0, parts), 0)
    # labels in the range have a part outside it that is rounding, of the square of half of the digits at most
    return jnp.where(outside > jnp.finfo(h.dtype).eps * size, jnp.inf, energy)


@implements("T09.14", "B07.23")
def ntk_complexity(h: Float[ArrayLike, "n n"], y: Float[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""$\frac1n\sqrt{2\,y^\top H^{-1}y\,\operatorname{tr}H}$; unchanged if $H$ is scaled.

    For ReLU and unit vectors $\operatorname{tr}H=n/2$, and this is $\sqrt{y^\top H^{-1}y/n}$.
    """
    h, y = _labelled(h, y)
    return jnp.sqrt(2 * label_energy(h, y) * jnp.trace(h)) / h.shape[0]


@implements("T09.14")
def ball_complexity(h: Float[ArrayLike, "n n"], radius: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\frac Bn\sqrt{\operatorname{tr}H}$, which bounds the empirical Rademacher complexity
    $\frac Bn\mathbb E\sqrt{\sigma^\top H\sigma}$ of the functions of norm at most $B$ = `radius`.
    """
    h = real("h", h, "n n")
    return within("radius", real("radius", radius), 0.0) * jnp.sqrt(jnp.trace(h)) / h.shape[0]


@implements("T09.14")
def ntk_generalisation_bound(h: Float[ArrayLike, "n n"], y: Float[ArrayLike, "..."], delta: Scalar) -> Float[Array, ""]:
    r"""A bound on the expected loss of the interpolant, true with probability $1-\delta$, all terms included.

    For a loss in [0, 1] that is 1-Lipschitz in the prediction and zero at the label, such as $\min(|f-y|,1)$. With
    $B=2^k$ the least such number, $k\ge0$, that is at least $\sqrt{y^\top H^{-1}y}$:
    $\frac{2B}n\sqrt{\operatorname{tr}H}+3\sqrt{\frac1{2n}\log\frac{2(k+1)(k+2)}\delta}$. The powers of two are there
    because the radius depends on the labels: the bound for a ball holds for all of them together.
    """
    h, y = _labelled(h, y)
    delta = within("delta", real("delta", delta, ""), 0.0, 1.0, open="both")
    n = h.shape[0]
    # a radius at a power of two but for rounding is that power
    k = jnp.maximum(jnp.ceil(jnp.log2(label_energy(h, y)) / 2 - 1e-9), 0)
    return 2 * ball_complexity(h, 2.0**k) + 3 * jnp.sqrt(jnp.log(2 * (k + 1) * (k + 2) / delta) / (2 * n))


@implements("T09.26")
def flow_movement(
    h: Float[ArrayLike, "n n"],
    y: Float[ArrayLike, "n"],
    times: Float[ArrayLike, "t"],
    *,
    start: Float[ArrayLike, "n"] | None = None,
) -> Float[Array, "_"]:
    r"""$\|\theta(t)-\theta(0)\|^2$ of a linear model with the kernel `h` under gradient flow, at each of `times`.

    $r^\top(I-e^{-tH})H^{-1}(I-e^{-tH})r$ with $r=y-u(0)$; it rises to $r^\top H^{-1}r$.
    """
    dims = {}
    h, y = real("h", h, "n n", dims), real("y", y, "n", dims)
    start = jnp.zeros_like(y) if start is None else real("start", start, "n", dims)
    times = within("times", real("times", times, "t"), 0.0).astype(h.dtype)
    values, vectors = spectrum(h)
    return (flow_filter(times, values) ** 2 * values) @ (vectors.T @ (y - start)) ** 2


@implements("T09.10")
def kernel_deviation(n: int, width: int, delta: Scalar, *, spread: float = 2.0) -> Float[Array, ""]:
    r"""With probability $1-\delta$ no entry of $H(0)$ is further than this from $H^*$, for $n$ unit vectors.

    $\sqrt{\frac{s^2}{2m}\log\frac{2n^2}\delta}$ by Hoeffding's inequality for each of $n^2$ averages of $m$ numbers in
    an interval of length $s$ = `spread`: 2 if $|\sigma'|\le1$, and 1 if $0\le\sigma'\le1$. The spectral norm is at most
    $n$ times that.
    """
    n, width = whole("n", n), whole("width", width)
    delta = within("delta", real("delta", delta, ""), 0.0, 1.0, open="both")
    spread = float(positive("spread", real("spread", spread, "")))
    return average_deviation(delta / n**2, width, spread)


@implements("T09.10")
def sufficient_width(n: int, epsilon: Scalar, delta: Scalar) -> int:
    r"""$\lceil16n^2\log(n/\delta)/\epsilon^2\rceil$: with probability $1-\delta$, $\|H(0)-H^*\|_2\le\epsilon$.

    For $n\ge2$ unit vectors and $|\sigma'|\le1$.
    """
    n = whole("n", n, 2)
    epsilon = float(positive("epsilon", real("epsilon", epsilon, "")))
    delta = float(within("delta", real("delta", delta, ""), 0.0, 1.0, open="both"))
    return math.ceil(16 * n**2 * math.log(n / delta) / epsilon**2)


@implements("T09.11")
def weight_movement_bound(residuals: Float[ArrayLike, "t n"], step: Scalar, width: int) -> Float[Array, "_"]:
    r"""$\|w_r(k)-w_r(0)\|\le\frac\eta{\sqrt m}\sum_{j<k}\|u(j)-y\|_1$ for every unit: (steps + 1,), from the residuals
    (steps + 1, n) before each step of gradient descent. For $|\sigma'|\le1$, $|a_r|=1$ and unit vectors.

    The sum is the integral of the flow for small steps.
    """
    residuals = real("residuals", residuals, "t n")
    step, width = (positive(n, real(n, v, "")) for n, v in (("step", step), ("width", width)))
    paid = jnp.cumsum(jnp.sum(jnp.abs(residuals), 1))
    return step / jnp.sqrt(width) * (paid - jnp.sum(jnp.abs(residuals), 1))


@implements("T09.11")
def kernel_change_bound(movement: Float[ArrayLike, "... m"], width: Scalar | None = None) -> Float[Array, "..."]:
    r"""$\max_{ij}|H(t)-H(0)|_{ij}\le\frac2m\sum_r\|w_r(t)-w_r(0)\|$, from the `movement` (..., m) of the units.

    For $|\sigma'|,|\sigma''|\le1$ and unit vectors. `width` is $m$, where some of the units are absent.
    """
    movement = within("movement", real("movement", movement, "... m"), 0.0)
    width = movement.shape[-1] if width is None else positive("width", real("width", width, ""))
    return 2 * jnp.sum(movement, -1) / width


@implements("T09.27", "B07.23")
def relu_ntk_coefficients(terms: int) -> np.ndarray:
    r"""$c_0,\dots,c_{2L}$ of $z\frac{\pi-\arccos z}{2\pi}=\sum_kc_kz^k$, for $L$ = `terms`.

    $c_1=\frac14$, $c_{2\ell}=\frac1{2\pi}\frac{(2\ell-3)!!}{(2\ell-2)!!(2\ell-1)}$, all other odd ones 0.
    """
    terms = whole("terms", terms)
    ell = np.arange(1, terms)
    ratio = np.concatenate([[1.0], np.cumprod((2 * ell - 1) / (2 * ell))])  # (2ℓ-3)!!/(2ℓ-2)!!, (-1)!! = 0!! = 1
    c = np.zeros(2 * terms + 1)
    c[1], c[2::2] = 0.25, ratio / (2 * np.pi * (2 * np.arange(1, terms + 1) - 1))
    return c


@implements("T09.27", "B07.23")
def relu_ntk_series(z: Float[ArrayLike, "..."], terms: int) -> Float[Array, "..."]:
    r"""The partial sum up to $z^{2L}$, $L$ = `terms`, of $z\frac{\pi-\arccos z}{2\pi}$ for $|z|\le1$, entrywise.

    Its error is geometric in $L$ inside the interval and of the order $L^{-1/2}$ at its ends.
    """
    z = within("z", real("z", z), -1.0, 1.0)
    even = jnp.asarray(relu_ntk_coefficients(terms)[:1:-2], z.dtype)
    square = z**2
    total, _ = jax.lax.scan(lambda s, c: ((s + c) * square, None), jnp.zeros_like(z), even)
    return z / 4 + total


@implements("T09.16")
def polynomial_teacher_norm(coefficients: Float[ArrayLike, "k"], size: Scalar) -> Float[Array, ""]:
    r"""$\sqrt{\sum_ka_k^2\|\beta\|^{2k}/c_k}$: at least $\sqrt{y^\top(H^*)^{-1}y}$ for $y_i=g(\beta\cdot x_i)$,
    $g(z)=\sum_ka_kz^k$, and any number of unit vectors $x_i$.

    `coefficients` are $a_0,a_1,\dots$; `size` is $\|\beta\|$. Infinite if $g$ has a constant or an odd power above 1,
    which the kernel does not have.
    """
    a = real("coefficients", coefficients, "k")
    size = within("size", real("size", size, ""), 0.0)
    c = relu_ntk_coefficients(max(a.shape[0] // 2, 1))[: a.shape[0]]
    power = jnp.where(a == 0, 0, a**2 * size ** (2 * np.arange(a.shape[0])))
    safe = np.where(c > 0, c, 1)
    return jnp.sqrt(jnp.sum(jnp.where(c > 0, power / safe, jnp.where(power > 0, jnp.inf, 0))))


@implements("T09.16", "T09.28", "B07.23")
def teacher_bound(
    kind: str, alpha: Float[ArrayLike, "k"], beta: Float[ArrayLike, "k d"], n: int, *, power: int = 2
) -> Float[Array, ""]:
    r"""A bound on `ntk_complexity` with ReLU at n unit vectors, for labels $\sum_j\alpha_jg(\beta_j\cdot x)$.

    `alpha` is (k,) and `beta` (k, d). `kind` is `"linear"`, $g(z)=z$: $2\sum_j|\alpha_j|\|\beta_j\|/\sqrt n$ (the texts
    allow $2\sqrt2$, from $\operatorname{tr}H\le n$ in the place of $n/2$); `"power"`, $g(z)=z^p$ with $p$ = `power`
    even: $3p\sum_j|\alpha_j|\|\beta_j\|^p/\sqrt n$; or `"cosine"`, $g(z)=\cos z-1$:
    $3\sum_j|\alpha_j|\|\beta_j\|\sinh\|\beta_j\|/\sqrt n$.
    """
    dims = {}
    alpha, beta = real("alpha", alpha, "k", dims), real("beta", beta, "k d", dims)
    n, power = whole("n", n), whole("power", power)
    one_of("kind", kind, ("linear", "power", "cosine"))
    if kind == "power" and power % 2:
        raise ValueError(f"power must be even, because the kernel has no odd power except 1, got {power}.")
    size = jnp.linalg.norm(beta, axis=1)
    each = {
        "linear": lambda: 2 * size,
        "power": lambda: 3 * power * size**power,
        "cosine": lambda: 3 * size * jnp.sinh(size),
    }[kind]()
    return jnp.sum(jnp.abs(alpha) * each) / n**0.5


def _labelled(h, y):
    dims = {}
    h, y = real("h", h, "n n", dims), real("y", y)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, k), got {y.shape}.")
    return h, real("y", y, "n" if y.ndim == 1 else "n k", dims, finite=concrete(y)).astype(h.dtype)
