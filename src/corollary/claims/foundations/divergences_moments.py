"""Distances by means of functions: moments, integral metrics and their triangle inequality."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, at_most, claim, control, equal, rate
from corollary.foundations import integral_metric, kl, mixed_moments, total_variation, wasserstein


@claim(rows=("T16.03",), full={"runs": 2000})
def moments_as_distances(key, *, runs: Size = 400):
    r"""Moments of low order do not tell all laws apart, and samples know each of them to one over the root of n.

    There are $\binom{d+k-1}k$ moments $\mathbb E[x_{i_1}\cdots x_{i_k}]$ of order $k$ in $d$ dimensions. Fair signs and
    $N(0,1)$ have the same of the orders 1 to 3, and 1 against 3 of order 4. The difference of the moments of two
    samples of one law falls as $n^{-1/2}$, from larger values at larger order: the root of its mean square is
    $\sqrt{2\mathrm{Var}(x^k)/n}$. Of these two laws that of order 4 stays at 2.
    """
    sizes = 2 ** np.arange(5, 12)

    @jax.jit
    def measure(key):
        x_key, y_key, s_key = jax.random.split(key, 3)
        x, y = jax.random.normal(x_key, (runs, sizes[-1], 1)), jax.random.normal(y_key, (runs, sizes[-1], 1))
        signs = jax.random.rademacher(s_key, x.shape, float)

        def apart(y, order):
            """The root of the mean squared difference of moments over the runs, for the first n of each sample."""
            gaps = [jax.vmap(lambda a: mixed_moments(a, order)[0])(a[:, :n]) for n in sizes.tolist() for a in (x, y)]
            return jnp.stack([jnp.sqrt(jnp.mean((a - b) ** 2)) for a, b in zip(gaps[::2], gaps[1::2], strict=True)])

        counts = [mixed_moments(jnp.ones((1, d)), k).size for d in (1, 3, 5) for k in (1, 2, 4)]
        same, other = (jnp.stack([apart(b, k) for k in (1, 2, 3, 4)]) for b in (y, signs))
        return same, other, jnp.array(counts)

    same, other, counts = measure(key)
    exact = [math.comb(d + k - 1, k) for d in (1, 3, 5) for k in (1, 2, 4)]
    yield equal("number of moments", counts, exact)
    yield rate("samples of one law, order 2", sizes, same[1], -0.5, tolerance=0.1, along="n")
    # a root of a mean over 400 runs: at order 4, of kurtosis up to 20 at 32 samples, six standard errors are 0.7
    spread = np.sqrt(2 * np.array([1.0, 2.0, 15.0, 96.0])[:, None] / sizes)
    yield equal("error of the orders 1 to 4 over its formula", same / spread, 1.0, rtol=0, atol=0.7)
    # the same with Var x^k of the signs, which is 1, 0 and 1
    signs = np.sqrt(np.array([2.0, 2.0, 16.0])[:, None] / sizes)
    yield equal("signs against the normal law, orders 1 to 3", other[:3] / signs, 1.0, rtol=0, atol=0.7)
    yield equal("signs against the normal law, order 4", other[3, -1], 2.0, rtol=0, atol=0.1)
    yield control("one law for both samples", rate("order 4", sizes, other[3], -0.5, tolerance=0.1, along="n"))


@claim(rows=("T16.04", "T16.05"), full={"triples": 20_000})
def integral_metrics(key, *, triples: Size = 2000, n: Size = 8):
    r"""Distances that are a largest difference of means satisfy the triangle inequality; relative entropy does not.

    $d_{\mathcal F}(P,Q)=\sup_{f\in\mathcal F}|\mathbb E_Pf-\mathbb E_Qf|$ is symmetric, 0 for equal laws, and
    $d(P,R)\le d(P,Q)+d(Q,R)$, for every family: linear functions of norm 1 (the distance of the means), polynomials of
    degree 3 with coefficients of norm 1, functions of slope 1 (Wasserstein), functions between 0 and 1 (total
    variation). No unit direction does better than the closed form of the linear family, and the best one attains it. It
    is 0 for laws that differ if $\mathcal F$ does not tell them apart.
    """
    powers = lambda x: jnp.stack([x[0], x[0] ** 2, x[0] ** 3])  # noqa: E731

    @jax.jit
    def measure(key):
        x_key, p_key, c_key = jax.random.split(key, 3)
        samples = jax.random.normal(x_key, (3, triples, n, 1)) * jnp.array([1.0, 2.0, 0.5])[:, None, None, None]
        laws = jax.random.dirichlet(p_key, jnp.full(4, 0.5), (3, triples))
        families = {
            "linear": jax.vmap(lambda a, b: integral_metric(a, b, lambda x: x)),
            "cubic": jax.vmap(lambda a, b: integral_metric(a, b, powers)),
            "slope": jax.vmap(lambda a, b: wasserstein(a, b)),
        }
        pairs = ((0, 1), (1, 2), (0, 2), (1, 0))
        metrics = [[d(samples[i], samples[j]) for i, j in pairs] for d in families.values()]
        metrics += [[total_variation(laws[i], laws[j]) for i, j in pairs]]
        entropy = jnp.stack([kl(laws[i], laws[j]) for i, j in pairs])
        x, y = samples[0], samples[1]
        feature = lambda a: jnp.mean(jax.vmap(jax.vmap(powers))(a), 1)  # noqa: E731
        directions = jax.random.normal(c_key, (triples, 200, 3))
        directions /= jnp.linalg.norm(directions, axis=-1, keepdims=True)
        apart = feature(x) - feature(y)
        tried = jnp.max(jnp.abs(jnp.einsum("tcd,td->tc", directions, apart)), 1)
        best = jnp.sum(apart * apart, -1) / jnp.linalg.norm(apart, axis=-1)
        mirror = jnp.concatenate([x, -x], 1)
        same = families["linear"](mirror, 2 * mirror)
        return jnp.array(metrics), entropy, tried, best, same, families["slope"](mirror, 2 * mirror)

    metrics, entropy, tried, best, blind, seen = measure(key)
    pq, qr, pr, qp = jnp.moveaxis(metrics, 1, 0)
    yield at_most("triangle, four families", pr, pq + qr, rtol=1e-12)
    yield equal("symmetry, four families", qp, pq, rtol=1e-12)
    yield at_most("random polynomials against the closed form", tried, metrics[1, 0], rtol=1e-12)
    yield equal("the best polynomial", best, metrics[1, 0], rtol=1e-12)
    yield equal("linear functions do not see a change of scale", blind, 0.0, atol=1e-14)
    yield at_least("functions of slope 1 do", seen, 1e-3)
    e_pq, e_qr, e_pr, e_qp = entropy
    yield control("a largest difference of means: here relative entropy", at_most("triangle", e_pr, e_pq + e_qr))
    yield control("a largest difference of means: here relative entropy", equal("symmetry", e_qp, e_pq))
