"""What makes minimisation hard in general: satisfiability and haystacks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, claim, control, equal, estimate, frequency_at_most, rate
from corollary.optimization import (
    haystack,
    minimize,
    quadratic,
    random_clauses,
    satisfiability,
    satisfies,
)


@claim(rows=("T02.04",))
def satisfiability_as_a_polynomial(key, *, variables: Size = 8, formulas: Size = 16, starts: Size = 8):
    r"""A polynomial of degree 6 has a zero iff a formula of three literals a clause can be satisfied.

    $p(w)=\sum_iw_i^2(1-w_i)^2+\sum_C\prod_{\ell\in C}(1-\ell(w))^2\ge0$, with $\ell(w)=w_i$ or $1-w_i$: on
    $\{0,1\}^n$ it counts the violated clauses, and a real zero must have every $w_i\in\{0,1\}$. So deciding whether a
    polynomial of total degree 6 has a zero (T says degree 4, and 6) is NP-hard. Gradient descent finds zeros of easy
    formulas and never gets to zero on those that cannot be satisfied. A convex surrogate of the clauses instead of the
    product always has a zero.
    """
    ratios = (2.0, 4.3, 8.0)
    counts = [int(r * variables) for r in ratios]

    @jax.jit
    def measure(key):
        cube = ((jnp.arange(2**variables)[:, None] >> jnp.arange(variables)) & 1).astype(float)

        def one(key, count):
            c_key, s_key = jax.random.split(key)
            clauses = random_clauses(variables, count, key=c_key)
            p = satisfiability(clauses, jnp.full(variables, 0.5))
            best = jax.vmap(lambda w: satisfies(clauses, w))(cube).max()
            least = jax.vmap(p)(cube).min()
            begin = jax.random.uniform(s_key, (starts, variables))
            paths = jax.vmap(lambda s: minimize(p, optax.sgd(0.03), steps=800, start=s))(begin)
            ends, where = paths.value[:, -1], paths.theta[:, -1]
            rounded = jax.vmap(lambda w: satisfies(clauses, jnp.round(jnp.clip(w, 0, 1))))(where)
            right = jnp.all((ends > 1e-8) | (rounded == count))
            direction = jax.random.normal(s_key, (variables,))
            growth = jax.vmap(lambda t: p(t * direction))(jnp.array([1e2, 2e2, 4e2, 8e2]))
            relaxed = jnp.sum(jnp.maximum(1 - jnp.where(clauses > 0, 0.5, 0.5).sum(1), 0) ** 2)
            return best == count, count - best, least, ends.min(), right, growth, relaxed

        return [
            jax.vmap(lambda k, c=c: one(k, c))(jax.random.split(jax.random.fold_in(key, c), formulas)) for c in counts
        ]

    rows = [jnp.concatenate(part) for part in zip(*measure(key), strict=True)]
    solvable, violated, least, reached, right, growth, relaxed = rows
    yield equal("least value on the cube: fewest violated clauses", least, violated)
    yield equal("zero iff satisfiable", least == 0, solvable)
    yield equal("zeros that descent finds are satisfying assignments", right, 1)
    # of the formulas with eight clauses for each variable hardly one can be satisfied
    yield at_least("descent on the others: lowest value", np.asarray(reached)[~np.asarray(solvable)], 1e-3)
    easy = reached[:formulas] < 1e-8
    yield at_least("easy formulas that descent solves", easy.mean(), 0.9)
    yield rate("total degree", jnp.array([1e2, 2e2, 4e2, 8e2]), growth[0], 6.0, tolerance=0.1, along="distance")
    yield control("a convex surrogate of the clauses", equal("zero iff satisfiable", relaxed == 0, solvable))


@claim(rows=("T02.23",))
def needle_in_a_haystack(key, *, trials: Count = 256):
    r"""Where all gradients are the same outside one cell out of 2^n, one has to look everywhere.

    A slope on the cube $[0,1]^n$ with a valley in one of $2^n$ cells, which holds all stationary points: uniform
    queries of value and gradient find it after $2^n$ on average, a geometric law, and gradient descent from a random
    start only if all coordinates but the first happen to be right, with probability at most $2^{1-n}$. A fixed
    smoothness $L$ rules that out: a gradient $g$ cannot vanish within less than $g/L$ of where it is intact.
    """
    sizes = (2, 4, 6, 8)

    @jax.jit
    def measure(key):
        counts, found = [], []
        for n in sizes:
            c_key, q_key, s_key = jax.random.split(jax.random.fold_in(key, n), 3)
            cell = jax.random.bernoulli(c_key, shape=(n,)).astype(float)
            p = haystack(cell, slope=1.0, depth=2.0)
            plain = jnp.zeros(n).at[0].set(1.0)
            # 24 times the mean: a run without success has probability exp(-24)
            queries = jax.random.uniform(q_key, (trials, 24 * 2**n, n))
            answers = jax.vmap(jax.vmap(p.gradient))(queries)
            different = jnp.any(answers != plain, axis=-1)
            counts.append(1 + jnp.argmax(different, axis=1))
            begin = jax.random.uniform(s_key, (4096, n))
            paths = jax.vmap(lambda s, p=p: minimize(p, optax.sgd(0.01), steps=100, start=s).gradient_norm)(begin)
            found.append(jnp.any(jnp.abs(paths - 1) > 1e-12, axis=1))
            if n == sizes[2]:
                # the same queries by somebody who knows the last coordinate of the cell
                knowing = queries.at[..., -1].set((queries[..., -1] + cell[-1]) / 2)
                other = jnp.any(jax.vmap(jax.vmap(p.gradient))(knowing) != plain, axis=-1)
                hinted = 1 + jnp.argmax(other, axis=1)
                # every gradient of this bowl points to the centre of the cell
                bowl = quadratic(jnp.ones(n), minimiser=p.data[0])
                ends = jax.vmap(lambda s, bowl=bowl: minimize(bowl, optax.sgd(0.1), steps=100, start=s).theta[-1])(
                    begin
                )
                led = jnp.all(jnp.abs(ends - p.data[0]) < 0.25, axis=1)
        line = haystack(jnp.zeros(1), slope=1.0, depth=2.0)
        grid = jnp.linspace(0.0, 0.5, 5001)
        slopes = jax.vmap(lambda t: line.gradient(t[None])[0])(grid)
        bends = jax.vmap(lambda t: line.hessian(t[None])[0, 0])(grid)
        return counts, found, hinted, led, jnp.abs(bends).max(), grid[jnp.argmax(slopes <= 0)]

    counts, found, hinted, led, bend, where = measure(key)
    for n, count in zip(sizes, counts, strict=True):
        yield estimate(f"queries until the valley shows, n = {n}", count, 2.0**n, wrong=2.0 ** (n - 1))
    for n, hits in zip(sizes[1:3], found[1:3], strict=True):
        yield frequency_at_most(f"descent meets the valley, n = {n}", hits, 2.0 ** (1 - n))
    yield at_least("distance to the stationary point times curvature, over the slope", where * bend, 1.0)
    n = sizes[2]
    yield control(
        "one coordinate of the cell is known",
        estimate(f"queries until the valley shows, n = {n}", hinted, 2.0**n, wrong=2.0 ** (n + 1)),
    )
    yield control(
        "a bowl, whose gradients show where it is",
        frequency_at_most(f"descent ends in the cell, n = {n}", led, 2.0 ** (1 - n)),
    )
