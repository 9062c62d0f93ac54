"""Principal components, sparse codes and parts: what each leaves of the data."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, claim, control, equal, monotone
from corollary.generative import nmf, pca, sparse_code


@claim(rows=("T14.01",))
def structure_as_a_product(key, *, n: Size = 60, dim: Size = 8, steps: Count = 200):
    r"""Three ways to write data as a product: components leave the other eigenvalues, and no product of that rank less.

    What $k$ principal components leave of the data in the mean square is the sum of the other eigenvalues of the
    covariance, and falls with $k$. Multiplicative steps for $x\approx WH$, $W,H\ge0$, never raise the error, keep all
    entries zero or more, and stay above the error of the best matrix of that rank. Alternating steps for $x\approx ZD$
    with a penalty on $Z$ never raise the objective, and most entries of $Z$ are exactly 0.
    """

    @jax.jit
    def measure(key):
        x_key, h_key, n_key, s_key = jax.random.split(key, 4)
        x = jnp.exp(0.5 * jax.random.normal(x_key, (n, 3))) @ jax.random.uniform(h_key, (3, dim))
        x = x + 0.05 * jax.random.uniform(s_key, (n, dim))
        left = [jnp.sum((x - pca(x, k).decode()) ** 2) / n for k in range(1, dim + 1)]
        parts = nmf(x, 3, steps, key=n_key)
        sparse = sparse_code(x - x.mean(0), 2 * dim, steps, penalty=0.3, key=s_key)
        spectrum = jnp.linalg.svd(x, compute_uv=False)
        values = jnp.linalg.eigvalsh(jnp.cov(x.T, bias=True))[::-1]
        smallest = jnp.minimum(parts.codes.min(), parts.factors.min())
        dense = sparse_code(x - x.mean(0), 2 * dim, steps, penalty=1e-12, key=s_key)
        zeros = jnp.stack([jnp.mean(code.codes == 0, dtype=float) for code in (sparse, dense)])
        return jnp.stack(left), values, parts.losses, jnp.sum(spectrum[3:] ** 2) / 2, smallest, sparse.losses, zeros

    left, values, losses, best, smallest, objective, zeros = measure(key)
    rest = np.append(np.cumsum(np.asarray(values)[::-1])[::-1][1:], 0.0)
    yield equal("what the components leave", left, rest, rtol=1e-9, atol=1e-12, x=np.arange(dim) + 1, along="k")
    yield monotone("parts: error by step", losses, "decreasing", atol=1e-12)
    yield at_least("parts: smallest entry", smallest, 0.0)
    yield at_least("parts: error against the best of rank 3", losses, best)
    yield monotone("sparse codes: objective by step", objective, "decreasing", atol=1e-10)
    yield at_least("sparse codes: share of zeros", zeros[0], 0.5)
    yield control("a penalty on the codes: here next to none", at_least("share of zeros", zeros[1], 0.5))
