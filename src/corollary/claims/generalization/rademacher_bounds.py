"""Uniform convergence by Rademacher complexities: symmetrisation summed up, and bounds by redrawing."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Range, Size, at_most, claim, control, equal, estimate, frequency_at_most
from corollary.generalization import rademacher, rademacher_bound, symmetrisation, threshold_supremum, vc

DELTA = 0.05


def _setting(key, functions):
    """A law on three points and functions with values in [0, 1]."""
    mass_key, value_key = jax.random.split(key)
    mass = jax.random.uniform(mass_key, (3,), minval=0.3, maxval=1.0)
    return jax.random.uniform(value_key, (functions, 3)), mass / mass.sum()


@claim(rows=("B08.19", "T05.13", "T05.14", "T05.15"))
def symmetrisation_chain(key, *, m: Annotated[int, Range(2, 4)] = 3, functions: Size = 6):
    r"""A second sample, then signs: the mean of the largest gap is at most twice the complexity.

    $E\sup_f(Ef-\hat E_Sf)\le E\sup_f(\hat E_{S'}f-\hat E_Sf)=E\sup_f\frac1m\sum\sigma_i(f(z_i')-f(z_i))\le2R_m$, all
    summed over samples of a law on three points, second samples and signs. The largest gap changes by $\frac1m$ at most
    when one example is replaced, and therefore (McDiarmid) exceeds its mean by $\epsilon$ with probability
    $e^{-2m\epsilon^2}$ at most. Half of the second number is the complexity with two samples; the usual one on $2m$
    points differs from it by $E|\sum_{i\le2m}\sigma_i|/(2m)\le1/\sqrt{2m}$ at most.
    """
    values, mass = _setting(key, functions)
    chain = symmetrisation(values, mass, m)
    yield at_most("largest gap, against two samples", chain.gap, chain.ghost)
    yield equal("two samples, with and without signs", chain.signed, chain.ghost)
    yield at_most("two samples, against twice the complexity", chain.signed, chain.bound)
    rows = np.arange(3**m)[:, None] // 3 ** np.arange(m) % 3
    v, p = np.asarray(values), np.asarray(mass)
    gaps = ((v @ p)[:, None] - v[:, rows].mean(-1)).max(0)
    chance = p[rows].prod(1)
    number = 3 ** np.arange(m)
    changed = [gaps[(rows + (np.arange(m) == i) * (new - rows)) @ number] for i in range(m) for new in range(3)]
    yield at_most("change of the largest gap by one example", np.abs(np.array(changed) - gaps), 1 / m)
    levels = np.linspace(0.02, 0.6, 30)
    tail = [chance[gaps - chance @ gaps >= e].sum() for e in levels]
    yield at_most("largest gap beyond its mean", tail, np.exp(-2 * m * levels**2), x=levels, along="ε")
    usual = _usual(v, p, 2 * m)
    signs = abs(2 * np.arange(2 * m + 1) - 2 * m) @ scipy.stats.binom.pmf(np.arange(2 * m + 1), 2 * m, 0.5) / (2 * m)
    yield at_most("two samples, against the usual complexity", abs(chain.ghost / 2 - usual), signs)
    yield at_most("and against 1/√(2m)", signs, 1 / np.sqrt(2 * m))
    # the second sample from another law: signs may no longer be exchanged
    other = np.roll(p, 1)[rows].prod(1)
    means = v[:, rows].mean(-1)
    unlike = chance @ (means[:, None, :] - means[:, :, None]).max(0) @ other
    mixed = 1.0 - 2 * (np.arange(2**m)[:, None] >> np.arange(m) & 1)
    sums = np.einsum("fsi,xi->fsx", v[:, rows], mixed) / m
    exchanged = np.einsum("s,t,stx->x", chance, other, (sums[:, None] - sums[:, :, None]).max(0)).mean()
    yield control("both samples have one law", equal("two samples, with signs", exchanged, unlike))


def _usual(values, mass, m):
    """The expected complexity on m points, by the numbers of points in each of three places."""
    counts = np.array([(a, b, m - a - b) for a in range(m + 1) for b in range(m + 1 - a)])
    chance = scipy.stats.multinomial.pmf(counts, m, mass)
    # signs enter only by their sum in each place
    total = 0.0
    for c, weight in zip(counts, chance, strict=True):
        sums = [(2 * np.arange(k + 1) - k, scipy.stats.binom.pmf(np.arange(k + 1), k, 0.5)) for k in c]
        grid = np.stack(np.meshgrid(*(s for s, _ in sums), indexing="ij"), -1)
        law = np.einsum("i,j,k->ijk", *(w for _, w in sums))
        total += weight * np.sum(law * (grid @ values.T).max(-1))
    return total / m


@claim(rows=("T05.18",))
def flipped_labels(key, *, m: Annotated[int, Range(4, 200)] = 20, draws: Size = 500):
    r"""The complexity of a class of classifiers is how far below ½ its error on half flipped labels gets.

    With the labels of $S_1$ flipped, $\frac1{2m}(\sum_{S_1}\ell-\sum_{S_2}\ell)=\frac12-\hat L$ on both samples
    together, for the 0-1 loss and each classifier: so the largest of the left sides is $\frac12$ less the smallest
    error on them. Here for all thresholds, on every draw; for three labels there is no flip, and the identity fails.
    """
    x_key, y_key, other_key = jax.random.split(key, 3)

    @jax.jit
    def measure(x_key, y_key, other_key):
        x = jax.random.uniform(x_key, (draws, 2 * m))
        y = (x > 0.5) ^ jax.random.bernoulli(y_key, 0.2, x.shape)
        cuts = jnp.concatenate([x, jnp.full((draws, 1), 2.0)], 1)
        guess = x[:, None] >= cuts[..., None]

        def both(y, flipped, guess):
            wrong = (guess != y[:, None]).astype(float)
            left = (wrong[..., :m].sum(-1) - wrong[..., m:].sum(-1)) / (2 * m)
            return left, jnp.mean((guess != flipped[:, None]).astype(float), -1)

        three = jax.random.randint(other_key, x.shape, 0, 3)
        turned = jnp.where(jnp.arange(2 * m) < m, (three + 1) % 3, three)
        flip = jnp.where(jnp.arange(2 * m) < m, ~y, y)
        return both(y, flip, guess), both(three, turned, guess.astype(int))

    (left, error), (other, wrong) = measure(x_key, y_key, other_key)
    yield equal("difference of the losses, and ½ less the error", left, 0.5 - error)
    yield equal("the largest, and ½ less the smallest error", jnp.max(left, 1), 0.5 - jnp.min(error, 1))
    yield control("there are two labels: here three", equal("difference of the losses", other, 0.5 - wrong))


@claim(rows=("B08.18", "B08.26", "T05.15"), full={"draws": 20_000})
def uniform_convergence(
    key,
    *,
    n: Annotated[int, Range(20, 1000)] = 100,
    draws: Annotated[int, Range(2000, 100_000)] = 2000,
):
    r"""With probability 1 - δ no function of the class is further below its mean than twice the complexity and a root.

    For values in $[0,1]$: $Ef\le\hat E_Sf+2R_n+\sqrt{\ln(1/\delta)/(2n)}$ for all $f$; printed with
    $\sqrt{\ln(1/\delta)/n}$, and for both sides with the complexity of the sample and $3\sqrt{\ln(2/\delta)/n}$. For
    thresholds on $[0,1]$ the largest gaps are those of Kolmogorov, and the complexity is the same for every sample. The
    95% quantile of the gap lies below the bound, and that below the VC bound. A function with values up to 10
    breaks it.
    """
    gap_key, sign_key, coin_key = jax.random.split(key, 3)

    @jax.jit
    def gaps(key):
        x = jnp.sort(jax.random.uniform(key, (draws, n)), -1)
        above, below = jnp.max(x - jnp.arange(n) / n, -1), jnp.max(jnp.arange(1, n + 1) / n - x, -1)
        return above, jnp.maximum(above, below)

    one, both = (np.asarray(a) for a in gaps(gap_key))
    # which signs come first depends on no sample: any points in order will do; the upper end keeps the bound valid
    complexity = float(rademacher(threshold_supremum, jnp.arange(1.0 * n), key=sign_key, draws=20_000).interval[1])
    sharp, loose = (float(rademacher_bound(n, complexity, DELTA, form=form).value) for form in ("sharp", "printed"))
    wide = float(rademacher_bound(n, complexity, DELTA, empirical=True, form="printed").value)
    yield frequency_at_most("largest gap beyond the bound", one > sharp, DELTA)
    yield frequency_at_most("largest gap beyond the printed bound", one > loose, DELTA)
    yield frequency_at_most("both sides beyond the bound with the sample's complexity", both > wide, DELTA)
    order = [float(np.quantile(one, 1 - DELTA)), sharp, loose]
    yield at_most("quantile, sharp bound, printed bound", order, [*order[1:], float(vc(n, DELTA, dimension=1).value)])
    coin = 10 * (0.5 - np.asarray(jax.random.bernoulli(coin_key, 0.5, (draws, n))).mean(1))
    alone = float(rademacher_bound(n, 0.0, DELTA).value)
    yield control(
        "values lie in [0, 1]: here up to 10",
        frequency_at_most("gap of one function beyond the bound", coin > alone, DELTA),
    )


@claim(rows=("B08.29",), full={"draws": 20_000})
def clipped_loss(key, *, n: Annotated[int, Range(20, 500)] = 100, draws: Annotated[int, Range(2000, 100_000)] = 2000):
    r"""For a clipped loss the complexity of the predictors bounds the gap of all of them.

    $\ell(t)=\min(1,\max(0,t))$ of $1-yf(x)$ is 1-Lipschitz, so that with probability $1-\delta$
    $E\ell\le\hat E_S\ell+2\hat R(\mathcal F)+3\sqrt{2\ln(1/\delta)/n}$ for all $f$; the sharp root is
    $3\sqrt{\ln(2/\delta)/(2n)}$, the smaller one for $\delta<2^{-1/3}$. For linear functions of the plane with
    $\|w\|\le2$ on a fine grid, a law on 60 points, and in the place of $\hat R$ the number
    $\frac2n\sqrt{\frac12\sum\|x_i\|^2}$, which is never above it.
    """
    law_key, draw_key = jax.random.split(key)
    line = np.linspace(-2, 2, 41)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    weights = grid[np.linalg.norm(grid, axis=1) <= 2]

    @jax.jit
    def measure(law_key, draw_key):
        x_key, y_key = jax.random.split(law_key)
        x = jax.random.normal(x_key, (60, 2))
        y = jnp.where(jax.random.bernoulli(y_key, 0.5, (60,)), 1.0, -1.0)
        losses = jnp.clip(1 - y * (weights @ x.T), 0, 1)
        rows = jax.random.randint(draw_key, (draws, n), 0, 60)
        shares = jax.vmap(lambda r: jnp.bincount(r, length=60))(rows) / n
        lengths = jnp.sqrt(n * shares @ jnp.sum(x**2, 1))
        # one point far out and its loss not clipped: a sample that misses it knows nothing of it
        far = x.at[0].mul(1000)
        hinge = jnp.maximum(0, 1 - y * (weights @ far.T))
        far_lengths = jnp.sqrt(n * shares @ jnp.sum(far**2, 1))
        gaps = (jnp.max((1 / 60 - shares) @ each.T, 1) for each in (losses, hinge))
        return *gaps, *(2 * each / (n * np.sqrt(2)) for each in (lengths, far_lengths))

    gap, far_gap, complexity, far_complexity = (np.asarray(a) for a in measure(law_key, draw_key))
    sharp = np.asarray(rademacher_bound(n, complexity, DELTA, empirical=True).value)
    loose = 2 * complexity + 3 * np.sqrt(2 * np.log(1 / DELTA) / n)
    yield frequency_at_most("largest gap beyond the bound", gap > sharp, DELTA)
    yield at_most("sharp bound, against the printed one", sharp, loose)
    some = np.array([0.5, 0.79, 0.8, 0.99])
    root = np.asarray(rademacher_bound(n, 0.0, some, empirical=True).value)
    smaller = root < 3 * np.sqrt(2 * np.log(1 / some) / n)
    yield equal("which root is the smaller one", smaller.astype(float), some < 0.5 ** (1 / 3))
    far = np.asarray(rademacher_bound(n, far_complexity, DELTA, empirical=True).value)
    yield control(
        "a loss in [0, 1]: here the hinge, and a point far out",
        frequency_at_most("largest gap beyond the bound", far_gap > far, DELTA),
    )


@claim(rows=("T05.15",), no_control="a limit of a ratio; the bound itself is checked by redrawing")
def half_of_the_variance(
    key,
    *,
    m: Annotated[int, Range(100, 2000)] = 640,
    functions: Size = 64,
    places: Size = 40,
    draws: Annotated[int, Range(1000, 10_000)] = 2000,
):
    r"""The mean of the largest gap is 1/√2 of the mean of the largest difference of two samples, for many examples.

    Both are suprema of processes that become normal, and the difference of two samples has twice the variance: so
    $E\sup_h\Delta_S(h)\to\sqrt2R$ with the two-sample complexity $R$, where the bound is $2R$.
    """
    table_key, draw_key = jax.random.split(key)
    table = jax.random.bernoulli(table_key, 0.5, (functions, places)).astype(float)

    @jax.jit
    def measure(key, table):
        rows = jax.random.randint(key, (2, draws, m), 0, places)
        counts = jax.vmap(jax.vmap(lambda r: jnp.bincount(r, length=places)))(rows) / m
        first, second = counts @ table.T
        return jnp.max(table.mean(1) - first, 1), jnp.max(second - first, 1)

    gap, difference = (np.asarray(a) for a in measure(draw_key, table))
    # if the gap were half of the difference, as a factor 2 instead of √2 would have it
    wrong = (np.sqrt(2) / 2 - 1) * difference.mean()
    yield estimate(
        "√2 times the largest gap, less the largest difference", np.sqrt(2) * gap - difference, 0.0, wrong=wrong
    )
