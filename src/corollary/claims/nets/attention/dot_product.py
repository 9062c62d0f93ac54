"""What dot-product attention returns: means of values, lookups, and what symmetric logits cannot do."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.nets import train
from corollary.nets.attention import attention_weights, dot_product_attention, shared_attention, soft_lookup
from corollary.network import BatchLoss

AtLeastThree = Annotated[int, Range(3, 1000)]


@claim(rows=("B10.33", "E06.02", "T15.07"))
def convex_combinations(key, *, tokens: Size = 12, dim: Size = 3, directions: Count = 2000):
    r"""Every output of attention lies in the convex hull of the values, and sees one query alone.

    $\xi_i=\sum_ta_{it}v_t$ with $a_{it}\ge0$ and $\sum_ta_{it}=1$, so that
    $\langle u,\xi_i\rangle\le\max_t\langle u,v_t\rangle$ for every direction $u$, the coordinates among them: that
    means the convex hull. For keys of growing size the bound is reached. $\xi_i$ depends on the tokens through $q_i$
    and all pairs $(k_t,v_t)$, and not on any other query. Without the softmax the weights are not convex and the
    outputs leave the hull.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 5)
        q, k = jax.random.normal(keys[0], (2, tokens, 8))
        v = jax.random.normal(keys[1], (tokens, dim))
        u = jnp.concatenate([jnp.eye(dim), -jnp.eye(dim), jax.random.normal(keys[2], (directions, dim))])
        sharp = jax.vmap(lambda size: dot_product_attention(q, size * k, v))(jnp.array([0.1, 1.0, 10.0, 100.0]))
        raw = (q @ k.T / 8**0.5) @ v
        others = dot_product_attention(q.at[1:].set(jax.random.normal(keys[3], (tokens - 1, 8))), k, v)
        support = jnp.max(u @ v.T, axis=1)
        # each direction with the output that goes farthest in it
        reach = jax.vmap(lambda out: jnp.max(u @ out.T, axis=1))
        return {
            "sums": attention_weights(q, k).sum(1),
            "least": attention_weights(q, k).min(1),
            "reach": reach(sharp),
            "raw": reach(raw[None])[0],
            "support": support,
            "moved": jnp.abs(others[0] - sharp[1, 0]),
        }

    found = measure(key)
    order = np.argsort(found["support"])
    support = np.asarray(found["support"])[order]
    yield equal("sum of the weights of a query", found["sums"], 1.0, rtol=0, atol=1e-14)
    yield at_least("least weight of a query", found["least"], 0.0)
    yield at_most(
        "farthest output in every direction, keys times 0.1, 1, 10, 100",
        np.asarray(found["reach"])[:, order],
        np.broadcast_to(support, (4, support.size)),
        atol=1e-13,  # where the maximum of the values is near 0 its rounding is absolute
        along="direction",
    )
    # two programs, each with its own order of summation
    yield equal("first output when all other queries change", found["moved"], 0.0, rtol=0, atol=1e-14)
    yield control(
        "the weights are convex: here without the softmax",
        at_most("farthest output in every direction", np.asarray(found["raw"])[order], support),
    )


@claim(
    rows=("E06.02",),
    erratum="The printed sum has the value of the query's own token in every term, so that it is that value itself.",
)
def printed_combination(key, *, tokens: Size = 6, dim: Size = 4):
    r"""The output of attention as printed: with the value of the query's own token.

    E prints $\xi_i=\sum_t\mathrm{softmax}_t(\omega_i)\,v_i$ for row $i$ of $\Xi=AV$. Since the weights sum to 1 this is
    $v_i$, whatever the keys are; the index of the value must be $t$, as for the "convex combinations of values" that
    the text announces.
    """
    q, k, v = jax.random.normal(key, (3, tokens, dim))
    weights = attention_weights(q, k)
    outputs = dot_product_attention(q, k, v)
    literal = jnp.sum(weights[:, :, None] * v[:, None, :], axis=1)
    meant = jnp.sum(weights[:, :, None] * v[None, :, :], axis=1)
    yield equal("row i of A V, against the sum with the values of all tokens", outputs, meant)
    yield equal("the printed sum is the token's own value", literal, v)
    yield printed(equal("row i of A V, against the printed sum", outputs, literal))


@claim(rows=("E06.04",), full={"tokens": 64, "steps": 400})
def soft_dictionary_lookup(key, *, tokens: AtLeastThree = 16, dim: Size = 8, steps: Count = 200):
    r"""Attention is a soft lookup: hard for large logits, a plain mean for small ones.

    Let $t^\star$ be the only maximiser of $q^\top k_t$ and $\Delta$ the gap to the second. Then
    $$\Big\|\sum_t\mathrm{softmax}_t(\beta q^\top k_t)v_t-v_{t^\star}\Big\|\le2\max_t\|v_t\|\,(T-1)e^{-\beta\Delta}.$$
    When all other keys tie and all their values are $-v_{t^\star}$, the error is
    $2\|v_{t^\star}\|\frac{T-1}{T-1+e^{\beta\Delta}}$, which reaches the bound as $\beta$ grows. For $\beta\to\infty$
    the error falls like $e^{-\beta\Delta}$; for $\beta=0$ the output is the mean of the values. If several keys tie
    for the best, the limit is the mean of their values: for two keys and the gap $\Delta'$ to the third the error is
    at most $\max_t\|v_t\|(T-2)e^{-\beta\Delta'}$.
    """
    betas = jnp.linspace(0.0, 100.0, steps + 1)[1:]

    @jax.jit
    def measure(key):
        q_key, k_key, v_key = jax.random.split(key, 3)
        q = jax.random.normal(q_key, (dim,))
        q = q / jnp.linalg.norm(q)
        away = jax.random.normal(k_key, (tokens, dim))
        # any keys, moved along the query so that their scores are 0.2, 0.25, 0.3, ... below the best in every draw
        scores = 3.0 - jnp.concatenate([jnp.zeros(1), 0.2 + 0.05 * jnp.arange(tokens - 1)])
        keys = away + jnp.outer(scores - away @ q, q)
        values = jax.random.normal(v_key, (tokens, dim))
        best, mirrored = values[0], jnp.broadcast_to(-values[0], values.shape).at[0].set(values[0])
        level = away + jnp.outer(jnp.where(jnp.arange(tokens) == 0, 3.0, 2.8) - away @ q, q)
        tied = keys + jnp.outer(jnp.zeros(tokens).at[1].set(0.2), q)

        def errors(keys, values, target):
            return jax.vmap(lambda b: jnp.linalg.norm(soft_lookup(q, keys, values, b) - target))(betas)

        # four sets of keys and values, one program
        run = jax.vmap(errors)(
            jnp.stack([keys, level, tied, tied]),
            jnp.stack([values, mirrored, values, values]),
            jnp.stack([best, best, best, (values[0] + values[1]) / 2]),
        )
        largest = jnp.max(jnp.linalg.norm(values, axis=1))
        zero = soft_lookup(q, keys, values, 0.0) - jnp.mean(values, axis=0)
        return run, largest, jnp.linalg.norm(values[0]), zero

    run, largest, norm, zero = measure(key)
    bound = 2 * (tokens - 1) * jnp.exp(-0.2 * betas) * jnp.stack([largest, norm])[:, None]
    third = largest * (tokens - 2) * jnp.exp(-0.25 * betas)
    reached = 2 * norm * (tokens - 1) / (tokens - 1 + jnp.exp(0.2 * betas))
    yield at_most(
        "distance from the best value; and when all others tie", run[:2], bound, atol=1e-14, x=betas, along="β"
    )
    # scores of size 3 β carry errors of 3 β eps, and so do the weights relative to themselves
    yield equal(
        "distance from the best value when all others tie", run[1], reached, rtol=1e-12, atol=1e-14, x=betas, along="β"
    )
    # the second best alone is left where e^(-0.05 β) of the third is small
    late = slice(3 * steps // 5, None)
    yield rate(
        "distance from the best value, large β", betas[late], run[0][late], -0.2, tolerance=0.01, axes="semi-log"
    )
    yield equal("output for β = 0, minus the mean", zero, 0.0)
    yield at_most("two keys tie: distance from the mean of their values", run[3], third, atol=1e-14, x=betas, along="β")
    yield control("one key is the best: here two tie", at_most("distance", run[2], bound[0], x=betas, along="β"))


@claim(rows=("B10.34",))
def symmetric_logits(key, *, tokens: AtLeastThree = 8, runs: Count = 8, steps: Count = 400):
    r"""With one matrix for queries and keys a token cannot attend to its predecessor.

    Let the logits be $L=XUU^\top X^\top$: symmetric and positive semi-definite. For $T\ge3$ tokens in a ring, let token
    $n$ be asked to attend to token $n-1$. The mean cross-entropy is at least $\ln3$ whatever $X$ and $U$ are: in row
    $n$ stand $L_{n,n-1}$, $L_{n,n+1}=L_{n+1,n}$ and $L_{n,n}$; the first two have the same mean $\bar a$ over the ring,
    and that of the third is no smaller, since $L_{n,n-1}\le\frac12(L_{n,n}+L_{n-1,n-1})$; log-sum-exp is convex, so
    that the mean loss is at least $\ln(e^{\bar a}+e^{\bar a}+e^{\bar a})-\bar a$. With two matrices,
    $L=XW^qW^{k\top}X^\top$, the loss can be made as small as one likes.
    """

    @BatchLoss
    def loss(pair, given):
        (w_q, w_k), (x, shared) = pair, given
        w_k = jnp.where(shared, w_q, w_k)
        weights = attention_weights(x @ w_q, x @ w_k, scale=1.0)
        return -jnp.mean(jnp.log(weights[jnp.arange(tokens), jnp.arange(tokens) - 1]))

    @jax.jit
    def measure(key):
        x_key, *keys = jax.random.split(key, runs + 1)
        x = jax.random.orthogonal(x_key, tokens) * tokens**0.5

        def one(key, shared):
            start = tuple(0.3 * jax.random.normal(key, (2, tokens, tokens)))
            fitted = train(start, loss, (x, shared), optax.adam(0.02), steps=steps)
            return fitted.losses, fitted.network[0]

        run = jax.vmap(jax.vmap(one, (0, None)), (None, 0))(jnp.stack(keys), jnp.array([True, False]))
        u = run[1][0, 0]
        logits = (x @ u) @ (x @ u).T
        by_hand = jax.nn.softmax(logits, axis=1) @ x @ u
        return run[0], jnp.linalg.eigvalsh(logits)[0], shared_attention(x, u) - by_hand

    losses, least, off = measure(key)
    yield at_least("one matrix: loss at every step", losses[0], jnp.log(3.0), along="step")
    yield at_least("one matrix: least eigenvalue of the logits", least, 0.0, atol=1e-10)
    yield equal("the layer is the one whose logits were trained", off, 0.0)
    # cross-entropy falls like 1/step once the pattern is found; a hundredth of ln 3 is far below the bound
    yield at_most("two matrices: loss at the end", losses[1, :, -1], 0.01 * jnp.log(3.0))
    yield control(
        "one matrix for queries and keys: here two",
        at_least("loss at every step", losses[1], jnp.log(3.0), along="step"),
    )
