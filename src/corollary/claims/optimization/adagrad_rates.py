"""AdaGrad without knowledge of the smoothness: the inequalities that its proofs give, and what is printed."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed
from corollary.optimization import (
    adagrad_norm,
    adagrad_shifted,
    cosines,
    minimize,
    quadratic,
    random_cosines,
    rates,
)


@claim(rows=("T02.32",))
def harmonic_series(key, *, instances: Size = 2000, length: Size = 400):
    r"""Terms divided by the sum so far add up to a logarithm.

    For $a_t\ge0$, $a_1>0$: $\sum_{t\le T}\frac{a_t}{\sum_{i\le t}a_i}\le1+\ln\frac{\sum_{i\le T}a_i}{a_1}$, attained at
    $T=1$ and, up to a factor that tends to 1, by $a_t=r^t$ with $r\downarrow1$. If $0\le a_t\le\sigma^2$:
    $\sum_{t\le T}\frac{a_t}{\sigma^2+\sum_{i<t}a_i}\le\log_2\big(1+\frac{\sum_{i\le T}a_i}{\sigma^2}\big)$, at most
    $\log_2(1+T)$, attained at $T=1$ by $a_1=\sigma^2$. Both sides are the same for $ca_t$, $c\sigma^2$. Without the cap
    $a_t\le\sigma^2$ the second fails.
    """

    def sides(a, sigma):
        total = jnp.cumsum(a, -1)
        first = jnp.cumsum(a / total, -1), rates.adagrad.harmonic(total, a[..., :1])
        before = total - a
        second = jnp.cumsum(a / (sigma**2 + before), -1), rates.adagrad.harmonic_offset(total, sigma)
        return first, second

    @jax.jit
    def measure(key):
        kinds, scale_key, ratio_key = jax.random.split(key, 3)
        light, heavy = jax.random.split(kinds)
        quarter = instances // 4
        scale = 10 ** jax.random.uniform(scale_key, (instances, 1), minval=-6, maxval=6)
        ratio = jnp.exp(jax.random.uniform(ratio_key, (quarter, 1), minval=-0.05, maxval=0.05))
        sequences = jnp.concatenate(
            [
                jnp.ones((instances - 3 * quarter, length)),
                jax.random.exponential(light, (quarter, length)),
                jax.random.pareto(heavy, 0.5, (quarter, length)),
                ratio ** jnp.arange(length),
            ]
        )
        sequences = scale * sequences
        # the least cap that the second inequality allows
        found = sides(sequences, jnp.sqrt(sequences.max(1, keepdims=True)))
        slow = sides(1.002 ** jnp.arange(50_000.0)[None], 1e9)[0]
        return found, (slow[0][0, -1], slow[1][0, -1]), sides(jnp.array([[4.0, 4.0]]), 1.0)[1]

    ((first, first_bound), (second, second_bound)), (slow, slow_bound), (uncapped, uncapped_bound) = measure(key)
    T = jnp.arange(1, length + 1)
    # T = 1 is an equality in the first; it is stated separately
    yield at_most("sum over terms", first[:, 1:], first_bound[:, 1:], x=T[1:], along="T")
    yield equal("a single term: attained", first[:, 0], first_bound[:, 0])
    yield at_least("slow geometric growth: share of the bound", slow / slow_bound, 0.99)
    yield at_most("sum with an offset", second, second_bound, x=T, along="T")
    yield at_most("bound with an offset", second_bound, jnp.log2(1.0 + T), x=T, along="T")
    yield equal("a single term at the cap: attained", second[0, 0], second_bound[0, 0])
    yield control("terms above the cap", at_most("sum with an offset", uncapped, uncapped_bound))


@claim(
    rows=("T02.32",),
    erratum="The bound log(GT) is not scale-free, and already for G = 1 it misses Euler's constant.",
)
def harmonic_series_as_printed(key, *, length: Size = 200):
    r"""Squared gradients divided by their sum so far add up to at most log GT.

    As printed in the proof of Theorem 2.5.4: $\sum_{t\le T}\frac{\|\nabla_t\|^2}{\sum_{i\le t}\|\nabla_i\|^2}\le\log
    GT$ where $\|\nabla_t\|\le G$. For gradients of constant norm $G$ the left-hand side is $1+\frac12+\dots+\frac1T$.
    Corrected: at most $1+\ln(A_T/A_1)$ with the sums $A_t$ themselves, here $1+\ln T$.
    """
    G = 10 ** jax.random.uniform(key, (3,), minval=-2.0, maxval=0.0)
    a = jnp.broadcast_to(G[:, None] ** 2, (3, length))
    T = jnp.arange(1, length + 1)
    total = jnp.cumsum(a, 1)
    sums = jnp.cumsum(a / total, 1)
    yield at_most("sum over terms, corrected bound", sums, rates.adagrad.harmonic(total, a[:, :1]), x=T, along="T")
    yield printed(at_most("sum over terms, printed bound", sums, jnp.log(G[:, None] * T), x=T, along="T"))


def _accumulated(problem, steps, start=None):
    """Along AdaGrad-norm: sums of squared gradients (steps,), values (steps + 1,)."""
    path = minimize(problem, adagrad_norm(), steps=steps, start=start)
    return jnp.cumsum(path.gradient_norm[:-1] ** 2), path.value


@claim(rows=("T02.31", "T02.30"))
def norm_rate(key, *, instances: Size = 400, dim: Size = 3, log2_steps: Size = 10):
    r"""AdaGrad-norm finds small gradients without knowing the smoothness.

    Let $f$ be $\beta$-smooth, $w_{t+1}=w_t-A_t^{-1/2}\nabla f(w_t)$, $A_t=\sum_{i\le t}\|\nabla f(w_i)\|^2>0$. Then
    $$\frac1T\sum_{t\le T}\|\nabla f(w_t)\|^2\le\frac{\sqrt{A_T}}T\Big(f(w_1)-f(w_{T+1})+\frac\beta2\Big(1+
    \ln\frac{A_T}{A_1}\Big)\Big),$$
    attained for every $T$ by $\frac\beta2w^2$ from $w_1=1$. Where $f(w_1)-\inf f\le M$ this says $s\le
    M+\frac\beta2(1+2\ln\frac s{s_1})$ for $s=\sqrt{A_T}$, which bounds $s$ for all $T$: the rate is $O(1/T)$, attained
    by the same. (T prints $\beta+M\log GT$ in place of the bracket.) $\beta$ over six decades needs no tuning; gradient
    descent with a fixed step diverges as soon as $\beta>2/\eta$.
    """
    steps = 2**log2_steps
    T = 2 ** jnp.arange(1, log2_steps + 1)  # T = 1 is the descent lemma alone
    betas = 10.0 ** jnp.arange(-3, 4)

    @jax.jit
    def measure(key):
        def instance(key, wave):
            make_key, scale_key = jax.random.split(key)
            scale, frequency = 10 ** jax.random.uniform(scale_key, (2,), minval=-3, maxval=3)
            if wave:  # A sin(k w + b): one frequency on the line
                problem = cosines(scale[None], frequency[None, None], jax.random.uniform(make_key, (1,), maxval=6.28))
            else:
                problem = random_cosines(dim, key=make_key, terms=4, scale=scale, frequency=frequency)
            total, value = _accumulated(problem, steps)
            mean = total[T - 1] / T
            bound = rates.adagrad.norm(problem.L, value[0] - value[T], total[0], total[T - 1], T)
            worst = value[0] + jnp.abs(problem.data[0]).sum()
            return mean, bound, rates.adagrad.norm_in_advance(problem.L, worst, total[0], T)

        waves = jax.vmap(lambda k: instance(k, True))(jax.random.split(key, instances))
        sums = jax.vmap(lambda k: instance(k, False))(jax.random.split(key, instances))

        def bowl(beta, start):
            return _accumulated(quadratic(beta[None], start[None]), steps)

        tight = jax.vmap(lambda b: bowl(b, jnp.ones(())))(betas)
        sharper = jax.vmap(lambda b: bowl(2 * b, jnp.ones(())))(betas)
        far = jax.vmap(lambda b: bowl(b, 3 + jnp.ones(())))(betas)
        descent = jax.vmap(
            lambda b: minimize(quadratic(b[None], jnp.ones(1)), optax.sgd(1.0), steps=20).gradient_norm[-1] / b
        )(betas)
        return waves, sums, tight, sharper, far, descent

    waves, sums, (total, value), (sharp_total, sharp_value), (far, _), descent = measure(key)
    for name, (mean, bound, ahead) in (("waves on the line", waves), (f"sums of waves, d = {dim}", sums)):
        yield at_most(f"{name}: mean squared gradient", mean, bound, x=T, along="T")
        yield at_most(f"{name}: bound in advance", mean, ahead, x=T, along="T")
    mean = total[:, T - 1] / T
    exact = rates.adagrad.norm(betas[:, None], value[:, :1] - value[:, T], total[:, :1], total[:, T - 1], T)
    yield equal("parabola from 1: attained", mean, exact, x=T, along="T")
    known = zip(betas, value[:, 0], total[:, 0], strict=True)
    ahead = jnp.stack([rates.adagrad.norm_in_advance(beta, gap, first, T) for beta, gap, first in known])
    # there the equation for s has a double root, of which the iteration keeps a distance of 1e-6
    yield equal("parabola from 1: bound in advance attained", mean, ahead, rtol=1e-5, x=T, along="T")
    # from a distance of 4, the last squared gradient relative to the first
    yield at_most("last squared gradient, seven smoothnesses", far[:, -1] - far[:, -2], 1e-20 * far[:, 0], x=betas)
    fall = sharp_value[:, :1] - sharp_value[:, T]
    allowed = rates.adagrad.norm(betas[:, None], fall, sharp_total[:, :1], sharp_total[:, T - 1], T)
    yield control(
        "a parabola with twice the curvature",
        at_most("mean squared gradient", sharp_total[:, T - 1] / T, allowed, x=T, along="T"),
    )
    yield control(
        "a fixed step of 1 in place of AdaGrad's", at_most("last gradient over the first", descent, 1.0, x=betas)
    )


@claim(
    rows=("T02.31",),
    erratum="The roles of M and the smoothness are exchanged and log GT is not scale-free: small functions violate it.",
)
def norm_rate_as_printed(key, *, steps: Count = 50):
    r"""AdaGrad-norm: the mean squared gradient is bounded by the smoothness plus M log GT.

    As printed in Theorem 2.5.4: for a $\beta$-smooth $f$ with $f(w_1)-f(w)\le M$ and $\|\nabla_t\|\le G$,
    $\frac1T\sum_t\|\nabla_t\|^2\le\frac1T(\beta+M\log GT)\big(\sum_{t\le T}\|\nabla_t\|^2\big)^{1/2}$. On
    $\frac\beta2w^2$ with a small $\beta$, true gradients, $G$ the first of them and $M=f(w_1)$, the right-hand side is
    negative as long as $GT$ is small. Corrected: the bracket is $M+\frac\beta2(1+\ln\frac{A_T}{A_1})$.
    """
    beta = 10 ** jax.random.uniform(key, (1,), minval=-4.0, maxval=-3.0)
    total, value = _accumulated(quadratic(beta, jnp.array([4.0])), steps)
    T = jnp.arange(1, steps + 1)
    mean = total / T
    corrected = rates.adagrad.norm(beta, value[0], total[0], total, T)
    yield at_most("mean squared gradient, corrected bound", mean, corrected, x=T, along="T")
    bound = (beta + value[0] * jnp.log(jnp.sqrt(total[0]) * T)) * jnp.sqrt(total) / T
    yield printed(at_most("mean squared gradient, printed bound", mean, bound, x=T, along="T"))


@claim(rows=("T02.35",))
def diagonal_rate(key, *, runs: Size = 512, steps: Count = 200, dim: Size = 10):
    r"""Diagonal AdaGrad finds small gradients without knowing the smoothness.

    Let $f$ be $\beta$-smooth, $\hat\nabla_t$ unbiased with $\hat\nabla_t(i)^2\le\sigma^2$, and $w_{t+1}=w_t-
    P_t\hat\nabla_t$ with $P_t=\mathrm{diag}(\sigma^2+\sum_{i<t}\hat\nabla_i\odot\hat\nabla_i)^{-1/2}$. Then
    $$\mathbb E\sum_{t,i}\nabla_t(i)^2P_t(i)\le\mathbb E[f(w_1)-f(w_{T+1})]+\frac\beta2\,\mathbb
    E\sum_i\log_2\Big(1+\frac{\hat A_T(i)}{\sigma^2}\Big)\le M+\frac{d\beta}2\log_2(1+T),$$
    attained at $T=1$ by $\frac\beta2\|w\|^2$ where all partial derivatives are $\pm\sigma$; and for true gradients
    $\frac1T\sum_t\|\nabla_t\|^2\le\frac1T\big(f(w_1)-f(w_{T+1})+\frac{d\beta}2\log_2(1+T)\big)\sum_j\sqrt{\sigma^2+
    A_{T-1}(j)}$, attained by the same for $d=1$. (T has no factor $d$ before the logarithm, and $\log GT$.)
    """

    def follow(problem, sigma, noise, key):
        """AdaGrad's path with noise of random sign: squared gradients, preconditioners, sums, values."""
        method = adagrad_shifted(sigma)

        def advance(carry, k):
            w, state = carry
            true = problem.gradient(w)
            seen = true + noise * jax.random.rademacher(jax.random.fold_in(key, k), w.shape, w.dtype)
            before = state[0].total
            step, state = method.update(seen, state)
            # the preconditioner as the method itself applied it, and the sums it keeps
            return (w + step, state), (true**2, -step / seen, before, state[0].total, problem(w + step))

        carry = problem.start, method.init(problem.start)
        return jax.lax.scan(advance, carry, jnp.arange(steps))[1]

    T = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        problem_key, run_key, other_key = jax.random.split(key, 3)

        def one(problem_key, noisy, key):
            problem = random_cosines(dim, key=problem_key, terms=8, scale=3.0, frequency=3.0)
            # no partial derivative is larger than this, and the noise is as large
            reach = (jnp.abs(problem.data[0]) @ jnp.abs(problem.data[1])).max()
            sigma = reach * (1 + noisy)
            square, P, before, totals, value = follow(problem, sigma, noisy * reach, key)
            gap = problem(problem.start) - value
            weighted = jnp.cumsum((square * P).sum(1)), rates.adagrad.diagonal_weighted(problem.L, gap, sigma, totals)
            mean = jnp.cumsum(square.sum(1)) / T, rates.adagrad.diagonal(problem.L, gap, sigma, before, T)
            return weighted, mean, gap + dim * problem.L / 2 * jnp.log2(1.0 + T)

        # one function with noise, many times, and many functions without
        keys = jnp.concatenate([jnp.broadcast_to(problem_key, (runs,)), jax.random.split(other_key, 64)])
        noisy = (jnp.arange(runs + 64) < runs).astype(float)
        return jax.vmap(one)(keys, noisy, jax.random.split(run_key, runs + 64))

    (weighted, bound), still, crude = measure(key)
    weighted, bound, crude = weighted[:runs], bound[:runs], crude[:runs]
    # five standard errors of the difference, whose mean is what the theorem is about
    margin = 5 * (weighted - bound).std(0) / jnp.sqrt(runs)
    yield at_most(
        f"random signs, mean of {runs} runs: weighted squared gradients", weighted.mean(0) + margin, bound.mean(0), x=T
    )
    yield at_most("bound from the sums", bound.mean(0), crude.mean(0), x=T, along="T")
    yield at_most("true gradients: mean squared gradient", *(a[runs:] for a in still), x=T, along="T")
    attained, _ = _first_step(dim, 0.7)
    yield equal("parabola, all derivatives at the cap: first step attains", *attained)
    yield equal("parabola on the line: first step attains the second", *_first_step(1, 0.7)[1])
    broken, _ = _first_step(dim, 0.07)
    yield control("the cap a tenth of the derivatives", at_most("first step on the parabola", *broken))


def _first_step(dim, sigma):
    """Both sides of the two inequalities after one step on a parabola whose derivatives are 0.7."""
    bowl = quadratic(jnp.full(dim, 2.0), jnp.full(dim, 0.35))
    path = minimize(bowl, adagrad_shifted(sigma), steps=1)
    g, gap = bowl.gradient(path.theta[0]), path.value[0] - path.value[1]
    weighted = (g * (path.theta[0] - path.theta[1])).sum()
    first = weighted, rates.adagrad.diagonal_weighted(2.0, gap, sigma, g**2)
    return first, (g @ g, rates.adagrad.diagonal(2.0, gap, sigma, jnp.zeros(dim), 1.0))


@claim(
    rows=("T02.35",),
    erratum="The factor d before the logarithm is missing and log GT is not scale-free: small functions violate it.",
)
def diagonal_rate_as_printed(key, *, dim: Size = 5, steps: Count = 20):
    r"""Diagonal AdaGrad: the mean squared gradient is bounded by M plus the smoothness times log GT.

    As printed in Theorem 2.5.5: $\frac1T\sum_t\|\nabla_t\|^2\le\frac1T(M+\beta\log
    GT)\sum_j\big(\sum_{t\le T}\nabla_t(j)^2\big)^{1/2}$ for a $\beta$-smooth $f$ with $f(w_1)-f(w)\le M$ and
    $\|\nabla_t\|\le G$. On $\frac\beta2\|w\|^2$ with a small $\beta$, true gradients and $\sigma$ the largest partial
    derivative, the right-hand side is negative as long as $GT$ is small. Corrected: the bracket is
    $M+\frac{d\beta}2\log_2(1+T)$, and $\sigma^2$ is added to the sums up to $T-1$ inside the roots.
    """
    beta_key, start_key = jax.random.split(key)
    beta = 10 ** jax.random.uniform(beta_key, (), minval=-4.0, maxval=-3.0)
    start = jax.random.uniform(start_key, (dim,), minval=0.5, maxval=1.0)
    problem = quadratic(jnp.full(dim, beta), start)
    path = minimize(problem, adagrad_shifted(beta * start.max()), steps=steps)
    gradients = jax.vmap(problem.gradient)(path.theta[:-1])
    sums = jnp.cumsum(gradients**2, 0)
    T = jnp.arange(1, steps + 1)
    mean = sums.sum(1) / T
    corrected = rates.adagrad.diagonal(beta, path.value[0], beta * start.max(), sums - gradients**2, T)
    yield at_most("mean squared gradient, corrected bound", mean, corrected, x=T, along="T")
    bound = (path.value[0] + beta * jnp.log(path.gradient_norm[0] * T)) * jnp.sqrt(sums).sum(1) / T
    yield printed(at_most("mean squared gradient, printed bound", mean, bound, x=T, along="T"))
