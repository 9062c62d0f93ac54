"""What random layers do to second and fourth moments, exactly (B section 6.2.3)."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.landscape._enumeration import all_signs
from corollary.evidence import Range, Size, at_most, claim, control, equal, estimate, printed
from corollary.landscape import (
    forward_fourth_moments,
    forward_second_moments,
    fourth_moment_through,
    second_moment_through,
)


@claim(rows=("B06.14",))
def parallelogram(key, *, dim: Size = 6, pairs: Size = 200):
    r"""The squared norm of a sum is at most twice the sum of the squared norms.

    $\|x+y\|^2\le2\|x\|^2+2\|y\|^2$ for vectors, and for matrices in the Frobenius norm. What is missing to equality is
    $\|x-y\|^2$, so that it holds exactly for $x=y$. In a norm without an inner product that identity fails.
    """
    x, y = jax.random.normal(key, (2, pairs, dim, dim))

    def sides(norm):
        return norm(x + y) ** 2, 2 * norm(x) ** 2 + 2 * norm(y) ** 2, norm(x - y) ** 2

    frobenius = sides(lambda a: jnp.sqrt(jnp.sum(a**2, axis=(1, 2))))
    taxi = sides(lambda a: jnp.sum(jnp.abs(a), axis=(1, 2)))
    yield at_most("squared norm of the sum", frobenius[0], frobenius[1])
    yield equal("what is missing", frobenius[1] - frobenius[0], frobenius[2])
    yield equal("equal vectors: attained", jnp.sum((2 * x) ** 2), 4 * jnp.sum(x**2))
    yield control(
        "a norm from an inner product: here the sum of absolute values",
        equal("what is missing", taxi[1] - taxi[0], taxi[2]),
    )


@claim(rows=("B06.16",))
def second_moment(key, *, draws: Size = 4000):
    r"""A random matrix between two others multiplies their squared norms.

    $\mathbb E\|AWB\|_F^2=\sigma^2\|A\|_F^2\|B\|_F^2$ for $W$ with independent entries of mean 0 and variance
    $\sigma^2$, whatever their law; for random $A$ and $B$, independent of $W$ and with uncorrelated squared norms (as
    when independent), $\sigma^2\,\mathbb E\|A\|_F^2\,\mathbb E\|B\|_F^2$.
    """
    signs = all_signs(3, 3)

    @jax.jit
    def measure(key):
        a_key, b_key, u_key, r_key = jax.random.split(key, 4)
        a, b = jax.random.normal(a_key, (2, 3)), jax.random.normal(b_key, (3, 4))
        uniform = jax.random.uniform(u_key, (draws, 3, 3), minval=-1.0, maxval=1.0)
        ra, rb = jax.random.normal(r_key, (2, draws, 3, 3))
        return a, b, jnp.sum((ra @ uniform @ rb) ** 2, axis=(1, 2))

    a, b, random = measure(key)
    exact, shifted = (
        np.mean(np.sum((np.asarray(a) @ (0.7 * signs + mean) @ np.asarray(b)) ** 2, axis=(1, 2))) for mean in (0.0, 0.5)
    )
    predicted = second_moment_through(a, b, 0.49)
    yield equal("signs, all 512 matrices", exact, predicted)
    # the expected squared norm of a 3 by 3 normal matrix is 9, the variance of the uniform law 1/3
    yield estimate("uniform entries, normal factors", random, 27.0, wrong=81.0)
    yield control("entries of mean 0: here 1/2", equal("all 512 matrices", shifted, predicted))


@claim(rows=("B06.16",), erratum="For random A and B it is not enough that they are uncorrelated.")
def uncorrelated_factors(key):
    r"""Uncorrelated random factors: the expectations multiply.

    As printed: "if $A,B$ are stochastic but $\{A,B,W\}$ uncorrelated", $\mathbb E\|AWB\|_F^2=\sigma^2\,\mathbb
    E\|A\|_F^2\,\mathbb E\|B\|_F^2$. The numbers $A=sr$, $B=s'r$ with independent signs $s,s'$, a sign $W$ and a common
    $r\in\{1,2\}$ are uncorrelated; over all sixteen cases $\mathbb E(AWB)^2=\mathbb Er^4=\frac{17}2$, the product is
    $\frac{25}4$. With an $r'$ of its own in $B$ the three are independent, and it is right.
    """
    w, s, t = all_signs(3).T
    r = np.array([1.0, 2.0])[:, None]
    a, b = s * r, t * r
    pairs = ((a, b), (a, w + 0 * r), (b, w + 0 * r))
    yield equal("covariances of the factors", [np.mean(u * v) - u.mean() * v.mean() for u, v in pairs], 0.0)
    yield printed(equal("mean square of the product", np.mean((a * w * b) ** 2), np.mean(a**2) * np.mean(b**2)))
    own = t * r[:, None]  # over all 32 cases
    yield equal("independent: mean square", np.mean((a * w * own) ** 2), np.mean(a**2) * np.mean(own**2))


@claim(rows=("B06.17",))
def forward_norm(key, *, networks: Size = 4000, dim: Annotated[int, Range(2, 50)] = 10, depth: Size = 8):
    r"""Every layer multiplies the expected squared norm by the width times the variance.

    $\mathbb E\|W^{t:1}x\|^2=(d\sigma^2)^t\|x\|^2$ for independent weights of mean 0 and variance $\sigma^2$: it
    vanishes or explodes unless $\sigma^2=1/d$. Measured with normal weights for $d\sigma^2=\frac12,1,2$, which differ
    only by a factor, and exactly over all sign matrices for two layers of two units.
    """

    @jax.jit
    def measure(key):
        def one(key):
            weights = jax.random.normal(key, (depth, dim, dim)) / jnp.sqrt(dim)
            _, states = jax.lax.scan(lambda h, w: ((out := w @ h), jnp.sum(out**2)), jnp.ones(dim), weights)
            return states

        return jax.vmap(one)(jax.random.split(key, networks))

    norms = measure(key)
    signs, x = all_signs(2, 2, 2), np.array([1.0, -0.5])
    exact, lifted = (
        np.mean(np.sum(((signs[:, 0] + mean) @ (signs[:, 1] + mean) @ x) ** 2, axis=1)) for mean in (0.0, 1.0)
    )
    t = jnp.arange(1, depth + 1)
    for gain in (0.5, 1.0, 2.0):
        predicted = forward_second_moments(jnp.ones(dim), [dim] * depth, gain / dim)[1:]
        yield estimate(f"squared norm, dσ² = {gain:g}", norms * gain**t, predicted, wrong=2 * predicted)
    small = forward_second_moments(x, (2, 2), 1.0)[-1]
    yield equal("two layers of signs, all 256 networks", exact, small)
    yield control("weights of mean 0: here 1", equal("two layers, all 256 networks", lifted, small))


@claim(rows=("B06.18",))
def fourth_moment(key, *, draws: Size = 20_000):
    r"""The fourth moment after a random layer depends on the kurtosis of the weights.

    For independent entries of mean 0, variance $\sigma^2$ and kurtosis $\kappa$, and $\xi$ independent of $W$, $\mathbb
    E\|W\xi\|_2^4=d(d+2)\sigma^4\mathbb E\|\xi\|_2^4+(\kappa-3)d\sigma^4\mathbb E\|\xi\|_4^4$. Likewise $\mathbb
    E\|W\xi\|_4^4=3d\sigma^4\mathbb E\|\xi\|_2^4+(\kappa-3)d\sigma^4\mathbb E\|\xi\|_4^4$, so that the pair is known
    through any number of layers. Exactly for signs ($\kappa=1$), by sampling for normal, uniform (1.8) and Laplace
    weights (6).
    """
    signs = {d: all_signs(d, d) for d in (2, 3)}
    laws = {"normal": 3.0, "uniform": 1.8, "Laplace": 6.0}
    xi = np.array([1.0, -2.0, 0.5])

    @jax.jit
    def measure(key):
        def law(name, key):
            shape = (2, draws, 3, 3)
            if name == "normal":
                return jax.random.normal(key, shape)
            if name == "uniform":
                return jax.random.uniform(key, shape, minval=-(3.0**0.5), maxval=3.0**0.5)
            return jax.random.laplace(key, shape) / 2**0.5

        def deep(weights):
            state, norms = jnp.broadcast_to(xi, (draws, 3)), []
            for w in weights:
                state = jnp.einsum("nij,nj->ni", w, state)
                norms.append(jnp.sum(state**2, 1) ** 2)
            return norms

        return {n: deep(law(n, k)) for n, k in zip(laws, jax.random.split(key, 3), strict=True)}

    sampled = measure(key)
    exact = {d: np.mean(np.sum((w @ xi[:d]) ** 2, axis=1) ** 2) for d, w in signs.items()}
    for d, value in exact.items():
        yield equal(f"signs, all {2 ** (d * d)} matrices", value, fourth_moment_through(xi[:d], d, 1.0, 1.0))
    for name, kurtosis in laws.items():
        one, two = sampled[name]
        predicted = forward_fourth_moments(jnp.asarray(xi), (3, 3), 1.0, kurtosis)
        yield estimate(f"{name} weights, one layer", one, predicted[1], wrong=1.5 * predicted[1])
        if name != "Laplace":  # whose tails are too heavy for an honest interval after two layers
            yield estimate(f"{name} weights, two layers", two, predicted[2], wrong=1.5 * predicted[2])
    rows = np.repeat(all_signs(3)[:, None], 3, axis=1)
    tied = np.mean(np.sum((rows @ xi) ** 2, axis=1) ** 2)
    formula = fourth_moment_through(xi, 3, 1.0, 1.0)
    yield control("independent entries: here three equal rows", equal("signs, all of them", tied, formula))
