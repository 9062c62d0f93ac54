"""Tokens as vectors: the embedding, and the normalisation of each of them."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_most, claim, control, equal
from corollary.nets.normalisation.layer import layer_normalise


@claim(rows=("B10.32",))
def embedding_is_a_product(key, *, vocabulary: Annotated[int, Range(2, 10_000)] = 12, dim: Size = 5, tokens: Size = 7):
    r"""Looking up the vectors of tokens is the product of their one-hot matrix with the embedding matrix.

    For a sentence $w\in\{1..n\}^N$ with one-hot matrix $H\in\{0,1\}^{N\times n}$ and an embedding matrix
    $E\in\mathbb R^{n\times d}$, the tokens are $X=HE\in\mathbb R^{N\times d}$. The gradient of a loss of $X$ in $E$ is
    $H^\top G$ with $G$ its gradient in $X$: words that do not occur get none, words that occur twice the sum.
    """

    @jax.jit
    def measure(key):
        table_key, word_key, loss_key = jax.random.split(key, 3)
        layer = eqx.nn.Embedding(weight=jax.random.normal(table_key, (vocabulary, dim)))
        words = jax.random.randint(word_key, (tokens,), 0, vocabulary // 2)
        slope = jax.random.normal(loss_key, (tokens, dim))

        def loss(layer):
            return jnp.sum(slope * jnp.sin(jax.vmap(layer)(words)))

        x = jax.vmap(layer)(words)
        return layer.weight, words, x, jax.grad(loss)(layer).weight, slope * jnp.cos(x)

    table, words, x, gradient, slope = (np.asarray(a) for a in measure(key))
    one_hot = np.eye(vocabulary)[words]
    yield equal("tokens", x, one_hot @ table, rtol=0, atol=0)
    yield equal("gradient in the embedding matrix", gradient, one_hot.T @ slope)
    absent = np.setdiff1d(np.arange(vocabulary), words)
    yield equal("gradient of words that do not occur", gradient[absent], 0.0, rtol=0, atol=0)


@claim(rows=("M13.39",))
def normalised_tokens_lie_on_an_ellipsoid(key, *, dim: Annotated[int, Range(2, 1000)] = 5, points: Size = 200):
    r"""Layer normalisation puts every vector on one and the same ellipsoid, of two dimensions less.

    For $y=\frac w{\sigma_x}\odot(x-\mu_x)+b$ with mean and standard deviation over the $d$ coordinates,
    $\sum_i((y_i-b_i)/w_i)^2=d$ and $\sum_i(y_i-b_i)/w_i=0$ for every $x$ that is not constant: the intersection of an
    ellipsoid with a plane through its centre. $x\mapsto ax+c$ with $a>0$ changes nothing; $a<0$ reflects $y$ at $b$.
    With $\epsilon>0$ added to the variance the points lie inside the ellipsoid, by a share
    $\epsilon/(\sigma^2+\epsilon)$.
    """

    @jax.jit
    def measure(key):
        x_key, w_key = jax.random.split(key)
        x = jax.random.normal(x_key, (points, dim))
        w, b = jax.random.normal(w_key, (2, dim))
        w = jnp.where(w < 0, w - 0.5, w + 0.5)  # an axis of length 0 is none

        def norm(x, delta=0.0):
            return layer_normalise(x, w, b, eps=delta)

        layer = eqx.tree_at(lambda l: (l.weight, l.bias), eqx.nn.LayerNorm(dim, eps=0.1), (w, b))
        y = jnp.stack([norm(x), norm(3 * x + 2), norm(-3 * x + 2), jax.vmap(layer)(x)])
        return x, (y - b) / w

    x, z = (np.asarray(a) for a in measure(key))
    # relative to a standard deviation that may be a hundredth of the mean: four digits lost of sixteen
    loose = 1e-10
    yield equal("sum of squares", (z[0] ** 2).sum(1), float(dim), rtol=loose)
    yield equal("sum", z[0].sum(1), 0.0, atol=loose)
    yield equal("after 3 x + 2", z[1], z[0], rtol=loose, atol=loose)
    yield equal("after -3 x + 2, reflected", z[2], -z[0], rtol=loose, atol=loose)
    variance = x.var(1)
    inside = dim * variance / (variance + 0.1)
    yield equal(
        "Equinox's layer with 0.1 added to the variance: sum of squares", (z[3] ** 2).sum(1), inside, rtol=loose
    )
    yield at_most("the same, below d", (z[3] ** 2).sum(1), float(dim))
    yield control("the factor is positive: here -3", equal("after -3 x + 2", z[2], z[0], rtol=loose, atol=loose))
