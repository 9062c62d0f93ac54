"""Several heads: what they sum up to, and a task for which one is not enough."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims._drawn import randomise
from corollary.claims.nets.attention._pictures import matrices
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, estimate
from corollary.nets import parameter_count, train, zeros
from corollary.nets.attention import MultiHeadAttention, attention_weights, dot_product_attention
from corollary.network import BatchLoss


@claim(rows=("B10.39", "E06.05", "M13.33", "M13.35"))
def sum_over_heads(key, *, tokens: Size = 7, dim: Size = 6, heads: Size = 3, size: Size = 4, value_size: Size = 5):
    r"""Multi-head attention is the sum of its heads, whether they are computed together or one by one.

    With $a_{h,ij}=\mathrm{softmax}_j(\langle Q_{h,i},K_{h,j}\rangle/\sqrt{d_k})$ and the blocks $W^O_h$ of the output
    matrix, $z_i=\sum_h(W^O_h)^\top\sum_ja_{h,ij}V_h(x_j)$ is row $i$ of
    $\mathrm{concat}(A_1V_1,\dots,A_HV_H)W^O$. Three projections of width $Hd_k,Hd_k,Hd_v$ compute all heads at once;
    there are $d(2Hd_k+Hd_v)+Hd_vd$ parameters ($W^O_h$ has $d_v$ rows: $d_k$, as M prints, only if the two are equal).
    The order of the heads does not matter. If the heads shared one softmax, of the mean of their logits, the sum
    would be another.
    """
    blank = MultiHeadAttention(dim, heads, size=size, value_size=value_size, key=key, initialisation=zeros)
    model, x = jax.jit(lambda key: randomise((blank, jnp.zeros((tokens, dim))), key, 0.5))(key)
    x = np.asarray(x)
    wq, wk, wv, wo = (np.asarray(layer.weight) for layer in (model.query, model.key, model.value, model.output))

    def by_hand(order, shared=False):
        out, rows = np.zeros((tokens, dim)), lambda w, h, n: w[h * n : (h + 1) * n]
        logits = np.stack([x @ rows(wq, h, size).T @ (x @ rows(wk, h, size).T).T for h in range(heads)]) / size**0.5
        logits = np.broadcast_to(logits.mean(0), logits.shape) if shared else logits
        for h in order:
            output = wo[:, h * value_size : (h + 1) * value_size]
            for i in range(tokens):
                weights = np.exp(logits[h, i]) / np.exp(logits[h, i]).sum()
                out[i] += output @ sum(weights[j] * (rows(wv, h, value_size) @ x[j]) for j in range(tokens))
        return out

    found = jax.jit(lambda m, x: m(x))(model, x)
    yield equal("token by token and head by head", found, by_hand(range(heads)), atol=1e-13)
    yield equal("the heads in another order", found, by_hand(range(heads)[::-1]), atol=1e-13)
    count = dim * (2 * heads * size + heads * value_size) + heads * value_size * dim
    yield equal("parameters", parameter_count(model), count)
    if heads > 1:
        yield control("one softmax for all heads", equal("the sum", found, by_hand(range(heads), True), atol=1e-13))


@claim(rows=("B10.39",))
def two_patterns(key, *, tokens: Annotated[int, Range(3, 50)] = 8, dim: Size = 4, runs: Count = 6, steps: Count = 400):
    r"""One head cannot bring two tokens at once; two heads can.

    Let $x_1,\dots,x_T\in\mathbb R^d$ be independent with mean 0 and covariance $I$, in a ring, and let token $t$ be
    asked for $(x_{t-1},x_{t-2})\in\mathbb R^{2d}$. Heads whose weights depend on the positions alone give
    $\sum_h(\sum_sa_{h,ts}x_s)W_h$ with $W_h\in\mathbb R^{d\times2d}$. One head sees the target through $d$ numbers: its
    mean squared error per coordinate is at least $\frac12$, and $\frac12$ is reached by attending to one of the two
    tokens. With two heads the error can be 0.
    """
    ring = jnp.eye(tokens)
    eye, nothing = jnp.eye(dim), jnp.zeros((dim, dim))
    want = jnp.einsum("ts,ij->tsij", jnp.roll(ring, -1, 1), jnp.hstack([eye, nothing]))
    want = want + jnp.einsum("ts,ij->tsij", jnp.roll(ring, -2, 1), jnp.hstack([nothing, eye]))

    def weights(params):
        return attention_weights(params["query"], params["key"], scale=1.0)

    def error(params, alive):
        # the expectation over the tokens, exactly: the squared norm of the difference of two linear maps
        have = jnp.einsum("h,hts,hij->tsij", alive, weights(params), params["map"])
        return jnp.sum((have - want) ** 2) / (tokens * 2 * dim)

    @jax.jit
    def measure(key):
        sample_key, key = jax.random.split(key)

        def one(key, alive):
            shapes = {"query": (tokens, 2, tokens), "key": (tokens, 2, tokens), "map": (2, dim, 2 * dim)}
            start = randomise({name: jnp.zeros(shape) for name, shape in shapes.items()}, key, 0.5)
            return train(start, BatchLoss(error), alive, optax.adam(0.05), steps=steps)

        kinds = jnp.array([[1.0, 0.0], [1.0, 1.0]])
        fitted = jax.vmap(jax.vmap(one, (0, None)), (None, 0))(jax.random.split(key, runs), kinds)
        single = jax.tree.map(lambda a: a[0, 0], fitted.network)
        double = jax.tree.map(lambda a: a[1, 0], fitted.network)

        def squared(x):
            heads = dot_product_attention(single["query"][:, 0], single["key"][:, 0], x, scale=1.0) @ single["map"][0]
            target = jnp.hstack([jnp.roll(x, 1, 0), jnp.roll(x, 2, 0)])
            return jnp.mean((heads - target) ** 2)

        sampled = jax.vmap(squared)(jax.random.normal(sample_key, (2000, tokens, dim)))
        best = dict(single, query=60 * ring[:, None].repeat(2, 1), key=jnp.roll(ring, -1, 0)[:, None].repeat(2, 1))
        best["map"] = jnp.stack([jnp.hstack([eye, nothing])] * 2)
        return fitted.losses, error(single, kinds[0]), sampled, error(best, kinds[0]), weights(double)

    losses, exact, sampled, best, maps = measure(key)
    yield at_least("one head: error at every step", losses[0], 0.5, along="step")
    yield estimate("one head: error on drawn tokens", sampled, exact, wrong=0.0)
    # logits of 60 leave weights of e^-60 to the others
    yield equal("one head that attends to one of the two", best, 0.5, atol=1e-12)
    # a tenth of what one head must leave
    yield at_most("two heads: least error at the end of the runs", losses[1, :, -1].min(), 0.05)
    yield control("two heads", at_least("error at every step", losses[1], 0.5, along="step"))
    yield matrices(
        "weights of two trained heads", {"head 1": maps[0], "head 2": maps[1]}, across="attended", down="token"
    )
