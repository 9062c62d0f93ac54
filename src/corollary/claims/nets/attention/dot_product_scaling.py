"""Why the logits of attention are divided by the square root of the dimension, and why attention multiplies."""

import itertools
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, special, stats

from corollary.claims.nets._pictures import curves
from corollary.evidence import Range, Size, at_most, claim, control, equal, estimate, monotone, rate, same_law
from corollary.nets import Convolution
from corollary.nets.attention import attention_entropy, attention_weights, dot_product_attention, linear_attention

DIMS = tuple(2**k for k in range(11))


@claim(rows=("B10.36", "E06.03", "M13.34"))
def variance_of_logits(key, *, pairs: Size = 3000):
    r"""The inner product of independent queries and keys has the variance of their dimension.

    Let $q,k\in\mathbb R^d$ have independent coordinates of mean 0 and variance 1. Then $\mathbb E\,q^\top k=0$ and
    $\mathrm{Var}(q^\top k)=d$, so that $q^\top k/\sqrt d$ has variance 1. For signs this is an exact average over
    $4^d$ pairs, with the fourth moment $3d^2-2d$; for normal coordinates the fourth moment is $3d^2+6d$. If the key is
    the query, the logit is of the size $d$ instead.
    """
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=6)))  # the first d coordinates: all signs, evenly
    d = np.arange(1, 7)
    logits = np.cumsum(signs[:, None] * signs[None], axis=-1).reshape(-1, 6)
    yield equal("signs: variance, all pairs", np.mean(logits**2, axis=0), d, x=d, along="dimension")
    yield equal("signs: fourth moment, all pairs", np.mean(logits**4, axis=0), 3 * d**2 - 2 * d, x=d, along="dimension")

    @jax.jit
    def measure(key):
        q, k = jax.random.normal(key, (2, pairs, DIMS[-1]))
        ends = jnp.array(DIMS) - 1
        return jnp.cumsum(q * k, axis=1)[:, ends], jnp.cumsum(q * q, axis=1)[:, ends]

    dims = np.array(DIMS)
    drawn, same = (np.asarray(a) for a in measure(key))
    yield estimate("normal: squared logit over d", drawn**2 / dims, 1.0, wrong=2.0)
    # every point is a mean of squares of relative variance 2 + 6/d, from 2 ** 2 to 2 ** 10: the slope has a standard
    # deviation of 0.29 / sqrt(pairs), which is 0.005, and an interval of about seven of them
    yield rate("normal: variance", dims[2:], np.mean(drawn[:, 2:] ** 2, axis=0), 1.0, tolerance=0.06, along="dimension")
    yield control(
        "when the key is the query", estimate("squared logit over d", same[:, 2:] ** 2 / dims[2:], 1.0, wrong=0.5)
    )


@claim(rows=("B10.36", "E06.03", "M13.34"))
def saturation(key, *, keys: Annotated[int, Range(2, 100)] = 16, queries: Size = 1000):
    r"""Without the scaling the softmax of attention saturates and its derivative dies; with it nothing depends on d.

    Let $q$ and $n$ keys in $\mathbb R^d$ have independent standard normal coordinates, $p=\mathrm{softmax}(q^\top k_j)$
    and $J=\mathrm{diag}(p)-pp^\top$ the derivative of the softmax. Given $q$ the logits are $|q|z_j$ with $z$ standard
    normal, and Stein's identity gives $|q|\,\mathbb E\,\mathrm{tr}J=\mathbb E\sum_jp_jz_j\le m_n:=\mathbb E\max_jz_j$:
    $$\mathbb E\|J\|_F\le\mathbb E\,\mathrm{tr}J\le m_n\,\mathbb E|q|^{-1}\sim m_n/\sqrt d,$$
    with equality in the limit $d\to\infty$, where one key takes all and only ties of two are left: the largest weight
    tends to 1 and the entropy of the weights to 0. With $p=\mathrm{softmax}(q^\top k_j/\sqrt d)$ the weights have a
    limit law for $d\to\infty$, that of the softmax of $n$ standard normal numbers, and derivative and entropy stay.
    """
    dims = DIMS[2::2]

    @jax.jit
    def measure(key):
        draw_key, law_key = jax.random.split(key)

        def one(key):
            q = jax.random.normal(key, (keys + 1, dims[-1]))
            products = jnp.cumsum(q[0] * q[1:], axis=1)[:, jnp.array(dims) - 1].T  # (dimension, key)
            # a query of the product's logit alone: attention of a number
            return jnp.stack([products, products / jnp.array(dims)[:, None] ** 0.5])

        logits = jax.lax.map(one, jax.random.split(draw_key, queries), batch_size=100)

        def look(logits):
            p = attention_weights(jnp.ones((1, 1)), logits[:, None])[0]
            J = jnp.diag(p) - jnp.outer(p, p)
            return jnp.stack([jnp.trace(J), jnp.linalg.norm(J), attention_entropy(p[None])[0], jnp.max(p)])

        flat = jnp.concatenate([logits.reshape(-1, keys), jax.random.normal(law_key, (4 * queries, keys))])
        seen = jax.vmap(look)(flat)
        count = queries * 2 * len(dims)
        return seen[:count].reshape(queries, 2, len(dims), 4), seen[count:]

    seen, limit = (np.asarray(a) for a in measure(key))
    mean, error = seen.mean(0), seen.std(0) / queries**0.5
    d = np.array(dims, float)
    n = keys
    largest = integrate.quad(lambda x: n * x * stats.norm.pdf(x) * stats.norm.cdf(x) ** (n - 1), -10, 10)[0]
    inverse = np.exp(special.gammaln((d - 1) / 2) - special.gammaln(d / 2)) / 2**0.5
    # the means of a sample: five standard errors on the side that would break the bound
    yield at_most(
        "unscaled: mean trace of the derivative",
        mean[0, :, 0] - 5 * error[0, :, 0],
        largest * inverse,
        x=d,
        along="dimension",
    )
    yield estimate(
        "unscaled, d = 1024: trace over its limit", seen[:, 0, -1, 0] * d[-1] ** 0.5 / largest, 1.0, wrong=2.0
    )
    # 1 - p is known up to one rounding
    yield at_most("unscaled: norm of the derivative, at most its trace", seen[:, 0, :, 1], seen[:, 0, :, 0], atol=1e-15)
    yield monotone("unscaled: mean norm of the derivative", mean[0, :, 1], "decreasing", strict=True, x=d)
    yield monotone("unscaled: mean entropy", mean[0, :, 2], "decreasing", strict=True, x=d)
    yield monotone("unscaled: mean of the largest weight", mean[0, :, 3], "increasing", strict=True, x=d)
    for i, name in enumerate(["trace of the derivative", "norm of the derivative", "entropy", "largest weight"]):
        yield same_law(f"scaled, d = 1024: {name}", seen[:, 1, -1, i], limit[:, i], wrong=seen[:, 0, 0, i])
    yield control(
        "without the scaling", same_law("d = 1024: entropy", seen[:, 0, -1, 2], limit[:, 2], wrong=limit[:, 2] + 1)
    )
    lines = {"norm, unscaled": mean[0, :, 1], "norm, scaled": mean[1, :, 1], "bound, unscaled": largest * inverse}
    yield curves("norm of the derivative against log2 of the dimension", np.log2(d), lines, across="log2 d")


@claim(rows=("B10.38",))
def multiplicative(key, *, tokens: Size = 6, dim: Size = 5):
    r"""Attention multiplies activations with one another; a convolution multiplies them with fixed weights.

    Without the softmax $Y(X)=(XW^q)(XW^k)^\top(XW^v)$ is a homogeneous polynomial of degree 3: $Y(cX)=c^3Y(X)$, and its
    fourth differences along any direction vanish, while the third is $6Y(H)$. A convolution $C$ without bias is linear,
    $C(cX)=cC(X)$, $C(X+H)=C(X)+C(H)$. The products may be taken in either order, $(QK^\top)V=Q(K^\top V)$, with
    $T^2d$ or $Td^2$ multiplications. Superposition fails for $Y$, and homogeneity when there is a softmax.
    """
    scales = jnp.array([-2.0, 0.5, 3.0])

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        wq, wk, wv = jax.random.normal(keys[0], (3, dim, dim)) / dim**0.5
        x, h = jax.random.normal(keys[1], (2, tokens, dim))
        kernel = Convolution(dim, dim, 3, key=keys[2])

        def cubic(x):
            return linear_attention(x @ wq, x @ wk, x @ wv)

        def soft(x):
            return dot_product_attention(x @ wq, x @ wk, x @ wv)

        def convolution(x):
            return (kernel(x.T) - kernel.bias[:, None]).T

        line = x + jnp.arange(5.0)[:, None, None] * h
        out = jax.vmap(cubic)(jnp.concatenate([line, scales[:, None, None] * x, h[None]]))
        on_line, scaled, at_h = out[:5], out[5:8], out[8]
        return {
            "fourth": jnp.diff(on_line, 4, axis=0)[0],
            "third": jnp.diff(on_line, 3, axis=0)[0],
            "h": at_h,
            "scaled": scaled,
            "x": on_line[0],
            "sum": on_line[1],
            "other order": ((x @ wq) @ (x @ wk).T) @ (x @ wv),
            "conv": jnp.stack([convolution(x), convolution(h), convolution(x + h)]),
            "conv scaled": jax.vmap(lambda c: convolution(c * x))(scales),
            "soft": jax.vmap(soft)(jnp.stack([x, 3.0 * x])),
        }

    found = measure(key)
    # differences of up to 16 terms of size 1e4: absolute errors of 1e5 eps
    yield equal("attention: fourth difference along a line", found["fourth"], 0.0, atol=1e-9)
    yield equal("attention: third difference", found["third"], 6 * found["h"], atol=1e-9)
    cubes = scales[:, None, None] ** 3 * found["x"]
    yield equal("attention at c X, c = -2, 0.5, 3", found["scaled"], cubes, atol=1e-11)
    yield equal("the products in either order", found["other order"], found["x"], atol=1e-11)
    yield equal("convolution at c X", found["conv scaled"], scales[:, None, None] * found["conv"][0])
    yield equal("convolution at X + H", found["conv"][2], found["conv"][0] + found["conv"][1])
    yield control("superposition for attention", equal("attention at X + H", found["sum"], found["x"] + found["h"]))
    yield control("with a softmax", equal("attention at 3 X", found["soft"][1], 27 * found["soft"][0]))
