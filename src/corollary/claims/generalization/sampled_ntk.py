"""The tangent kernel of finitely many units: one matrix per unit, their norms, and how near their mean is."""

from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.evidence import (
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    printed,
    rate,
)
from corollary.generalization import (
    ball_supremum,
    rademacher,
    rademacher_bound,
    sampled_ntk_deviation,
    unit_gram_bound,
    unit_grams,
)
from corollary.kernels import empirical_ntk, first_layer_ntk

# activations with the largest modulus of their slope
SLOPES = {jax.scipy.special.erf: 2 / np.sqrt(np.pi), jnp.tanh: 1.0, jax.nn.softplus: 1.0, jax.nn.sigmoid: 0.25}
ERF, ERF_SLOPE = jax.scipy.special.erf, 2 / np.sqrt(np.pi)
DELTA = 0.05


@claim(rows=("B08.30", "B08.31"))
def mean_over_units(key, *, n: Size = 5, d: Size = 3, m: Annotated[int, Range(500, 100_000)] = 20_000):
    r"""The tangent kernel of a two-layer network with signs on top is the mean of one matrix per unit.

    For $f(x)=\frac1{\sqrt m}\sum_ka_k\sigma(w_k\cdot x)$, $|a_k|=1$, the products of its gradients by the $w_k$ are
    $\hat G_{ij}=\frac1m\sum_kx_i\cdot x_j\,\sigma'(w_k\cdot x_i)\sigma'(w_k\cdot x_j)$, and over Gaussian $w_k$ their
    mean is $G$, in closed form. The text allows $|a_k|\le1$, where unit $k$ counts $a_k^2$ times.
    """
    x_key, w_key, a_key = jax.random.split(key, 3)
    x, w = jax.random.normal(x_key, (n, d)) / np.sqrt(d), jax.random.normal(w_key, (m, d))
    few, signs = w[:40], jax.random.rademacher(a_key, (40,), float)

    def network(a):
        return Network(lambda w, a, x: a @ ERF(w @ x) / np.sqrt(40), few, a)

    units = unit_grams(x, w, ERF)
    averaged = jnp.mean(unit_grams(x, few, ERF), 0)
    yield equal("products of gradients", empirical_ntk(network(signs), x), averaged, rtol=1e-10)
    limit = first_layer_ntk(x, activation="erf")
    yield estimate("matrices of the units", units.reshape(m, -1), limit.ravel(), wrong=(x @ x.T).ravel())
    half = signs.at[::2].multiply(0.5)
    yield control(
        "|a| = 1: here half of them are ½",
        equal("products of gradients", empirical_ntk(network(half), x), averaged, rtol=1e-10),
    )


@claim(rows=("B08.32",))
def norm_of_one_unit(key, *, n: Size = 6, d: Size = 4, units: Annotated[int, Range(10, 2000)] = 200):
    r"""The matrix of one unit is no longer than the squared slope times the squared length of the data.

    For $|\sigma'|\le B$: $\|H_k\|_F\le B^2\|XX^\top\|_F\le B^2\|X\|_F^2$. The first is an equality where the slope is
    $B$ at all examples, as with the identity, and the second where the examples are multiples of one. An activation
    with an unbounded slope has no such bound.
    """
    x_key, w_key = jax.random.split(key)
    x, w = jax.random.normal(x_key, (n, d)), jax.random.normal(w_key, (units, d))

    def norms(x, activation):
        return jnp.linalg.norm(unit_grams(x, w, activation), axis=(1, 2))

    line = jnp.outer(jax.random.normal(x_key, (n,)), x[0])
    for name, activation in zip(("erf", "tanh", "softplus", "logistic"), SLOPES, strict=True):
        slope, lengths = SLOPES[activation], norms(x, activation)
        yield at_most(f"{name}, by the products of the examples", lengths, slope**2 * jnp.linalg.norm(x @ x.T))
        yield at_most(f"{name}, by their lengths", lengths, unit_gram_bound(x, slope))
    both = jnp.stack([norms(x, lambda z: 2 * z), norms(line, lambda z: 2 * z)])
    bounds = jnp.stack([4 * jnp.linalg.norm(x @ x.T), unit_gram_bound(line, 2.0)])
    yield equal("twice the identity: any examples, and multiples of one", both, bounds[:, None] * jnp.ones(units))
    yield control(
        "the slope is at most B: here that of z², with B = 1",
        at_most("by their lengths", norms(4 * x, lambda z: z**2), unit_gram_bound(4 * x, 1.0)),
    )


@claim(rows=("B08.33",))
def complexity_of_the_units(
    key,
    *,
    n: Size = 5,
    d: Size = 3,
    m: Annotated[int, Range(4, 14)] = 12,
    draws: Annotated[int, Range(200, 5000)] = 400,
):
    r"""Matrices of length 1 fit signs of the m units to B²‖X‖²/√m at most.

    $\mathcal R=\frac1mE_\varepsilon\sup_{\|V\|_F\le1}\sum_k\varepsilon_k\langle H_k,V\rangle=\frac1mE_\varepsilon
    \|\sum_k\varepsilon_kH_k\|_F\le\frac1m\sqrt{\sum_k\|H_k\|_F^2}\le B^2\|X\|_F^2/\sqrt m$, over all signs, and no less
    than $1/\sqrt2$ of the third. It falls as $m^{-1/2}$.
    """
    x_key, w_key, sign_key = jax.random.split(key, 3)
    x, w = jax.random.normal(x_key, (n, d)), jax.random.normal(w_key, (16, d))
    units = unit_grams(x, w, ERF).reshape(16, -1)
    some = units[:m]
    exact, middle = rademacher(ball_supremum, some).value, jnp.linalg.norm(some) / m
    yield at_most("complexity, all signs, against the sum of squares", exact, middle)
    yield at_least("complexity, from below", exact, middle / np.sqrt(2))
    yield at_most("complexity, against the bound", exact, unit_gram_bound(x, ERF_SLOPE) / np.sqrt(m))
    # V at a grid of directions beside the supremum in closed form
    v = jax.random.normal(sign_key, (200, units.shape[1]))
    signs = jax.random.rademacher(sign_key, (20, m), float)
    tried = signs @ some @ (v / jnp.linalg.norm(v, axis=1, keepdims=True)).T
    yield at_most("random V, against the closed form", tried, ball_supremum(signs, some)[:, None] * jnp.ones(200))
    sizes = np.array([16, 64, 256, 1024])
    # the same sixteen units over and over: their mean square does not change, and each value is known to 3 percent
    found = [
        rademacher(ball_supremum, jnp.tile(units[:16], (size // 16, 1)), key=sign_key, draws=draws) for size in sizes
    ]
    yield rate("complexity", sizes, [float(f.value) for f in found], -0.5, tolerance=0.15, along="m")
    steep = unit_grams(4 * x, w[:m], lambda z: z**2).reshape(m, -1)
    yield control(
        "the slope is at most B: here that of z², with B = 1",
        at_most("complexity", rademacher(ball_supremum, steep).value, unit_gram_bound(4 * x, 1.0) / np.sqrt(m)),
    )


@partial(jax.jit, static_argnums=(2, 3, 4))
def _sampled_kernels(x, key, m, draws, sizes):
    """Norms of the differences from the limit: of m units, of one, and for each of the sizes; all spectra."""
    limit = first_layer_ntk(x, activation="erf")

    def sampled(key, width):
        slopes = ERF_SLOPE * jnp.exp(-((jax.random.normal(key, (width, x.shape[1])) @ x.T) ** 2))
        return (x @ x.T) * (slopes.T @ slopes) / width

    def norm(a):
        return jnp.max(jnp.abs(jnp.linalg.eigvalsh(a)))

    keys = jax.random.split(key, draws)
    grams = jax.vmap(lambda k: sampled(k, m))(keys)
    spectra = jax.lax.map(jnp.linalg.eigvalsh, jnp.concatenate([grams, limit[None]]))
    off = jax.lax.map(norm, grams - limit)
    alone = jax.lax.map(norm, jax.vmap(lambda k: sampled(k, 1))(keys) - limit)
    means = [jnp.mean(jax.lax.map(lambda k, s=s: norm(sampled(k, s) - limit), keys[:200])) for s in sizes]
    return off, alone, spectra, jnp.stack(means)


@claim(rows=("B08.34", "B08.35"), full={"draws": 20_000})
def sampled_kernel_is_near_its_limit(
    key, *, n: Size = 20, d: Size = 5, draws: Annotated[int, Range(2000, 100_000)] = 2000
):
    r"""The kernel of m units is within ★ of its limit in all directions, and so are its extreme eigenvalues.

    $\star=B^2\|X\|_F^2\big(\frac2{\sqrt m}+6\sqrt{\frac{\ln(2/\delta)}{2m}}\big)$ (8.28): with probability $1-\delta$,
    $|u^\top Gu-u^\top\hat Gu|\le\star$ for all $\|u\|\le1$, which is $\|G-\hat G\|_2\le\star$, and then
    $\lambda_{\min}(\hat G)\ge\lambda_{\min}(G)-\star$ and $\lambda_{\max}(\hat G)\le\lambda_{\max}(G)+\star$. The norm
    falls as $m^{-1/2}$. Units that are all the same have no such bound.
    """
    x_key, w_key = jax.random.split(key)
    x = jax.random.normal(x_key, (n, d)) / np.sqrt(d)
    m, sizes = 100, np.array([50, 100, 200, 400, 800])

    off, alone, spectra, means = _sampled_kernels(x, w_key, m, draws, tuple(sizes.tolist()))
    star = float(sampled_ntk_deviation(x, m, DELTA, slope=ERF_SLOPE))
    yield frequency_at_most("norm of the difference beyond ★", np.asarray(off) > star, DELTA)
    sampled, limit = np.asarray(spectra[:-1]), np.asarray(spectra[-1])
    yield at_most("least eigenvalue, how far off", np.abs(sampled[:, 0] - limit[0]), off)
    yield at_most("largest eigenvalue, how far off", np.abs(sampled[:, -1] - limit[-1]), off)
    low, high = sampled[:, 0] < limit[0] - star, sampled[:, -1] > limit[-1] + star
    yield frequency_at_most("an extreme eigenvalue beyond ★", low | high, DELTA)
    # the mean of 200 norms is known to 3 percent, over a range of 2.8 in ln m
    yield rate("norm of the difference", sizes, np.asarray(means), -0.5, tolerance=0.1, along="m")
    many = float(sampled_ntk_deviation(x, 200_000, DELTA, slope=ERF_SLOPE))
    yield control(
        "the units are independent: here 200,000 times the same",
        frequency_at_most("norm of the difference beyond ★", np.asarray(alone) > many, DELTA),
    )


@claim(
    rows=("B08.34",),
    erratum="The last term is printed with the number n of examples in the place of the number m of units.",
)
def theorem_66_as_printed(
    key, *, n: Annotated[int, Range(10_000, 10**6)] = 10_000, draws: Annotated[int, Range(2000, 100_000)] = 2000
):
    r"""For every function of a class the mean over m matrices is near: 3(b - a)√(ln(2/δ)/2n) beside the complexity.

    As printed (Theorem 66), with $f(H)$ for its expectation: $\sup_{f}Ef(H)-\frac1m\sum_kf(H_k)\le2\mathcal R+3(b-a)
    \sqrt{\ln(2/\delta)/(2n)}$ for matrices $H$ of $n$ by $n$. Here the class is one function, the first entry of $H$,
    whose complexity is 0; with ReLU units it is a fair coin, of which $m=100$ are drawn: their share is off by about
    1/20, however many examples there are, and the printed term is below that for 10,000 of them. With $m$ for $n$ the
    bound, 0.41, holds.
    """
    m = 100

    @jax.jit
    def gaps(key):
        x_key, w_key = jax.random.split(key)
        x = jax.random.normal(x_key, (3,))
        x = x / jnp.linalg.norm(x)
        w = jax.random.normal(w_key, (draws, m, 3))
        # the first entry of a matrix of any size is that of the first example alone
        first = jax.vmap(lambda w: unit_grams(x[None], w, jax.nn.relu)[:, 0, 0])(w)
        return 0.5 - jnp.mean(first, 1)

    gap = np.asarray(gaps(key))
    right = rademacher_bound(m, 0.0, DELTA, empirical=True).value
    yield frequency_at_most("gap beyond the bound, m for n", gap > float(right), DELTA)
    wrong = rademacher_bound(n, 0.0, DELTA, empirical=True).value
    yield printed(frequency_at_most("gap beyond the bound", gap > float(wrong), DELTA))


@claim(rows=("B08.36",))
def weyl(key, *, n: Annotated[int, Range(2, 50)] = 8, pairs: Annotated[int, Range(50, 5000)] = 500):
    r"""The extreme eigenvalues of a sum of Hermitian matrices lie within the sums of theirs.

    $\lambda_1(A+B)\le\lambda_1(A)+\lambda_1(B)$ and $\lambda_n(A+B)\ge\lambda_n(A)+\lambda_n(B)$ (Theorem 67, Weyl),
    with equality where $A$ and $B$ have the same eigenvectors in the same order. $A=e_1e_2^\top$ and $A^\top$ have no
    other eigenvalue than 0, and their sum has 1 and -1.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        real, imaginary = (jax.random.normal(k, (2, pairs, n, n)) for k in keys[:2])
        any_two = real + 1j * imaginary
        any_two = any_two + any_two.conj().swapaxes(-1, -2)
        basis = jnp.linalg.qr(any_two[0, 0])[0]
        diagonals = jnp.sort(jax.random.normal(keys[2], (2, pairs, n)))
        aligned = jnp.einsum("ij,apj,kj->apik", basis, diagonals, basis.conj())
        both = jnp.concatenate([any_two, aligned], 1)
        return jnp.linalg.eigvalsh(jnp.concatenate([both, both.sum(0, keepdims=True)])), diagonals.sum(0)

    spectra, sums = (np.asarray(a) for a in measure(key))
    a, b, total = spectra
    yield at_most("largest eigenvalue of a sum", total[:pairs, -1], a[:pairs, -1] + b[:pairs, -1])
    yield at_least("least eigenvalue of a sum", total[:pairs, 0], a[:pairs, 0] + b[:pairs, 0])
    yield equal("common eigenvectors: extreme eigenvalues", total[pairs:, [0, -1]], sums[:, [0, -1]])
    step = np.zeros((2, 2))
    step[0, 1] = 1.0
    own = [np.linalg.eigvals(matrix).real.max() for matrix in (step, step.T, step + step.T)]
    yield control("Hermitian: here a step and its transpose", at_most("largest eigenvalue", own[2], own[0] + own[1]))
