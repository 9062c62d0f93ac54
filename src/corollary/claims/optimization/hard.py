"""What makes minimisation hard in general, and what helps: satisfiability, haystacks, smooth units, wide networks."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, frequency_at_most, rate
from corollary.optimization import (
    Problem,
    haystack,
    minimize,
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
            clauses = random_clauses(c_key, variables, count)
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
    hopeless = jnp.where(solvable, jnp.inf, reached).min()
    yield at_least("descent on the others: lowest value", hopeless if jnp.isfinite(hopeless) else 1.0, 1e-3)
    easy = reached[:formulas] < 1e-8
    yield at_least("easy formulas that descent solves", easy.mean(), 0.9)
    yield rate("total degree", jnp.array([1e2, 2e2, 4e2, 8e2]), growth[0], 6.0, tolerance=0.1, along="distance")
    yield control("a convex surrogate of the clauses", equal("zero iff satisfiable", relaxed == 0, solvable))


@claim(rows=("T02.23",), no_control="an experiment; the known cell and the smooth valley are the contrast")
def needle_in_a_haystack(key, *, trials: Count = 512):
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
        line = haystack(jnp.zeros(1), slope=1.0, depth=2.0)
        grid = jnp.linspace(0.0, 0.5, 5001)
        slopes = jax.vmap(lambda t: line.gradient(t[None])[0])(grid)
        bends = jax.vmap(lambda t: line.hessian(t[None])[0, 0])(grid)
        return counts, found, jnp.abs(bends).max(), grid[jnp.argmax(slopes <= 0)]

    counts, found, bend, where = measure(key)
    for n, count in zip(sizes, counts, strict=True):
        yield estimate(f"queries until the valley shows, n = {n}", count, 2.0**n, wrong=2.0 ** (n - 1))
    for n, hits in zip(sizes[1:3], found[1:3], strict=True):
        yield frequency_at_most(f"descent meets the valley, n = {n}", hits, 2.0 ** (1 - n))
    yield at_least("distance to the stationary point times curvature, over the slope", where * bend, 1.0)


@claim(rows=("T02.05",), no_control="a quantity; ReLU itself is the contrast")
def smooth_units(key, *, points: Count = 40001):
    r"""SWISH and GeLU are smooth and stay within 0.28 and 0.17 of ReLU.

    ReLU $\max(z,0)$, SWISH $z\,\sigma(z)$, GeLU $z\,\Phi(z)$. The largest distances are 0.2785 at $|z|=1.2785$ and
    0.1700 at $|z|=0.7518$; $z\,\sigma(\beta z)$ is within $0.2785/\beta$ of ReLU. Their curvature is bounded by
    $\frac12$ and $\sqrt{2/\pi}$, attained at 0; that of ReLU is not, as the difference of its slopes across 0 shows.
    """
    z = jnp.linspace(-8.0, 8.0, points)
    betas = jnp.array([1.0, 4.0, 16.0, 64.0])

    def gelu(z):
        return jax.nn.gelu(z, approximate=False)

    @jax.jit
    def measure(shift):
        rows = []
        for f in (jax.nn.silu, gelu):
            far = jnp.abs(f(z) - jax.nn.relu(z))
            bend = jax.vmap(jax.grad(jax.grad(f)))(z)
            slope, h = jax.vmap(jax.grad(f))(z), 1e-5
            central = (f(z + h) - f(z - h)) / (2 * h)
            rows.append(
                (far.max(), jnp.abs(z[jnp.argmax(far)]), jnp.abs(bend).max(), bend[points // 2], slope - central)
            )
        limit = jax.vmap(lambda b: jnp.abs(z * jax.nn.sigmoid(b * z) - jax.nn.relu(z)).max())(betas)
        step = 10.0 ** -jnp.arange(1, 6) * (1 + shift)
        kink = jax.vmap(lambda h: (jax.grad(jax.nn.relu)(h) - jax.grad(jax.nn.relu)(-h)) / (2 * h))(step)
        return [jnp.stack(part) for part in zip(*rows, strict=True)], limit, step, kink

    (far, at, bend, middle, error), limit, step, kink = measure(jax.random.uniform(key, ()))
    yield equal("largest distance: SWISH, GeLU", far, jnp.array([0.27846, 0.16997]), atol=1e-5)
    # the grid is 4e-4 wide
    yield equal("attained at", at, jnp.array([1.2785, 0.7518]), atol=1e-3)
    yield equal("curvature at 0", middle, jnp.array([0.5, (2 / jnp.pi) ** 0.5]), rtol=1e-9)
    yield equal("largest curvature", bend, middle, rtol=1e-9)
    yield equal("slopes against central differences", error, 0.0, atol=1e-9)
    yield equal("SWISH with a factor: distance to ReLU", limit * betas, far[0], rtol=1e-3, x=betas, along="beta")
    yield rate("ReLU: slope of the slope across 0", step, kink, -1.0, tolerance=0.01, along="distance")


@claim(rows=("B05.23",), no_control="an experiment; the narrow network is the contrast")
def width_and_local_minima(key, *, starts: Size = 32, steps: Count = 1500, n: Size = 30):
    r"""The wider the network, the less it matters where descent starts.

    Networks $\sum_ja_j\tanh(w_jx+b_j)$ are trained on the outputs of one with two units, from random starts. The
    spread of the final losses, and the worst of them, shrink with the width.
    """
    widths = (2, 8, 40)
    rest = optax.cosine_decay_schedule(0.03, steps)  # to nothing, so that the end is where it settles

    @jax.jit
    def measure(key):
        x = jnp.linspace(-2.0, 2.0, n)
        # a plateau between two steps: a student with one bad unit cannot follow
        y = jnp.tanh(3 * (x + 1)) - jnp.tanh(3 * (x - 1))
        out = []
        for m in widths:

            def value(theta, x, y):
                w, b, a = theta
                return 0.5 * jnp.mean((jnp.tanh(x[:, None] * w + b) @ a - y) ** 2)

            p = Problem(value, (x, y), jnp.zeros((3, m)))
            scale = jnp.array([1.0, 1.0, m**-0.5])[:, None]
            begin = scale * jax.random.normal(jax.random.fold_in(key, m), (starts, 3, m))
            final = jax.vmap(lambda s, p=p: minimize(p, optax.adam(rest), steps=steps, start=s).value[-1])(begin)
            out.append(final / jnp.mean(0.5 * y**2))
        return jnp.stack(out)

    final = measure(key)
    spread, worst = final.std(axis=1), final.max(axis=1)
    yield at_most("spread of the final losses: width 40 against a fifth of that of width 2", spread[2], spread[0] / 5)
    yield at_most("worst final loss: width 40 against a fifth of that of width 2", worst[2], worst[0] / 5)
    yield at_most("widest: worst final loss, of the loss at zero", worst[-1], 0.01)
