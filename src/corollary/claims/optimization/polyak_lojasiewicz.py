"""The Polyak-Łojasiewicz condition, and linear convergence from it without convexity."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.optimization import (
    Problem,
    curvature_range,
    double_well,
    least_squares,
    minimize,
    pl_constant,
    pl_ratio,
    quadratic,
    random_quadratic,
    rates,
    ridge_logistic,
    valley,
    wavy,
)

gd = rates.gradient_descent


@claim(rows=("B05.21", "E03.08"))
def constants(key, *, points: Count = 5000):
    r"""Which functions are Polyak-Łojasiewicz, and with which constant.

    $\frac12\|\nabla f\|^2\ge\mu(f-f^*)$ everywhere: a $\mu$-strongly convex function with the same $\mu$; least squares
    of any rank with the least positive eigenvalue of $X^\top X/n$, attained; $\frac12(y-\sin x)^2$ with 1;
    $x^2+3\sin^2x$ with 0.1755, though its curvature goes down to $-4$ (the literature's $\frac1{32}$ is a bound).
    $x^4$ has no constant, though it is convex, nor has a double well, where a stationary point is no minimum.
    """

    @jax.jit
    def measure(key):
        x_key, t_key, q_key, d_key = jax.random.split(key, 4)
        flat = least_squares(jax.random.normal(x_key, (3, 6)), jnp.ones(3))
        cloud = 3 * jax.random.normal(t_key, (points, 6))
        spectrum, axes = jnp.linalg.eigh(flat.data[0].T @ flat.data[0] / 3)
        along = flat.minimiser + axes[:, 3]  # of six eigenvalues the first three are zero
        strong = random_quadratic(6, 10.0, key=q_key)
        logistic = ridge_logistic(jax.random.normal(d_key, (30, 6)), jnp.arange(30) % 2.0, 0.1)
        line = jnp.linspace(-15.0, 15.0, 30001) + 1e-7
        wave = wavy()
        small = 10.0 ** -jnp.arange(1, 6)
        well = double_well()
        return {
            "flat": (pl_constant(flat, flat.minimum, cloud), pl_ratio(flat, flat.minimum, along), spectrum[3], flat.pl),
            "strong": jnp.stack([pl_constant(p, p.minimum, cloud) / p.mu for p in (strong, logistic)]),
            "valley": pl_constant(valley(), 0.0, jnp.stack([line, jnp.cos(3 * line)], 1)),
            "wave": (pl_constant(wave, 0.0, line), curvature_range(wave, line[::10])),
            "quartic": jax.vmap(lambda t: pl_ratio(lambda u: u**4, 0.0, t))(small),
            "well": pl_ratio(well, -1.0, jnp.zeros(())),
        }

    found = measure(key)
    sampled, attained, least, known = found["flat"]
    yield at_least("rank-deficient least squares: ratio over the least positive eigenvalue", sampled / least, 1.0)
    yield equal("rank-deficient least squares: attained along its axis", attained, least, rtol=1e-8)
    yield equal("rank-deficient least squares: the constant the problem declares", known, least)
    yield at_least("strongly convex: ratio over mu", found["strong"], 1.0)
    # the grid is 1e-3 wide and meets a multiple of pi/2 plus pi to that; the ratio is flat there to second order
    yield equal("curved valley", found["valley"], 1.0, rtol=1e-5)
    ratio, (low, high) = found["wave"]
    yield equal("waves: 0.1755", ratio, 0.1755, rtol=5e-4)
    yield at_least("waves: more than 1/32", ratio, 1 / 32)
    yield equal("waves: curvature from -4 to 8", jnp.stack([low, high]), jnp.array([-4.0, 8.0]), rtol=1e-4)
    yield rate("fourth power: the ratio vanishes", 10.0 ** -jnp.arange(1, 6), found["quartic"], 2.0, tolerance=0.01)
    yield equal("double well: zero at the maximum between", found["well"], 0.0)
    yield control("a fourth power, convex, not strongly", at_least("ratio", found["quartic"], 1e-6))
    yield control("a double well", at_least("ratio at the maximum between", found["well"], 1e-6))


@claim(rows=("B05.22", "E03.09"))
def linear_rate(key, *, dim: Size = 30, n: Size = 12, steps: Count = 300):
    r"""Under the Polyak-Łojasiewicz condition the excess value falls by a constant factor per step.

    Let $f$ be $L$-smooth and $\mu$-PL. With $\eta=1/L$, $f(\theta_{k+1})-f^*\le(1-\frac\mu L)(f(\theta_k)-f^*)$ (E,
    Lemma 3.4; B, Theorem 40, prints the step $\frac1{2L}$), and for any $\eta<2/L$ the factor is
    $1-2\mu\eta(1-\frac{\eta L}2)$. No convexity is needed. On the flattest axis of a quadratic the factor is the
    square $(1-\eta\mu)^2$; the bound is attained where $\mu=L$, for every step.
    """
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        x_key, y_key, q_key, d_key = jax.random.split(key, 4)
        flat = least_squares(jax.random.normal(x_key, (n, dim)), jax.random.normal(y_key, (n,)))
        strong = random_quadratic(6, 20.0, key=q_key)
        logistic = ridge_logistic(jax.random.normal(d_key, (40, 6)), jnp.arange(40) % 2.0, 0.1, 3 * jnp.ones(6))

        def excess(p, start, product):
            path = minimize(p, optax.sgd(product / p.L), steps=steps, start=start)
            factor = 1 - 2 * p.pl * product / p.L * (1 - product / 2)
            return path.value - p.minimum, factor

        both = jnp.array([1.0, 0.5])
        paths = [jax.vmap(lambda c, p=p: excess(p, p.start, c))(both) for p in (flat, strong, logistic)]
        wave = jax.vmap(lambda s: excess(wavy(), s, 1.0))(jnp.array([2.2, 3.0, 10.0, 12.3]))
        slow = quadratic(jnp.array([1.0, 0.1]), jnp.array([0.0, 1.0]))
        round_ = quadratic(jnp.ones(1))
        ends = jax.vmap(lambda c: excess(round_, jnp.ones(1), c))(jnp.array([0.25, 0.5, 0.75]))
        quartic = minimize(Problem(lambda t: t**4, (), jnp.ones(())), optax.sgd(1 / 12.0), steps=steps)
        well = double_well(0.3)
        stuck = minimize(well, optax.sgd(1 / 44.0), steps=steps, start=1.5)
        lowest = jax.vmap(well)(jnp.linspace(-1.5, -0.5, 1001)).min()
        return paths, wave, excess(slow, slow.start, 1.0), ends, quartic.value, stuck.value - lowest

    paths, (wave, wave_factor), (slow, _), (ends, _), quartic, stuck = measure(key)
    for name, (gap, factor) in zip(("rank-deficient least squares", "quadratic", "ridge logistic"), paths, strict=True):
        # a minimum of the order of 1 is known to a few units in the last place, and so is the excess
        yield at_most(
            f"{name}: excess, steps 1/L and 0.5/L",
            gap[:, 1:],
            factor[:, None] ** k * gap[:, :1],
            atol=1e-14,
            x=k,
            along="iteration",
        )
    yield at_most(
        "waves from four starts", wave[:, 1:], wave_factor[:, None] ** k * wave[:, :1], x=k, along="iteration"
    )
    each = wave[:, 1:] / jnp.where(wave[:, :-1] > 1e-200, wave[:, :-1], 1)
    yield at_most("waves: factor of every step", each.max(1), wave_factor)
    yield equal("flattest axis of a quadratic: the square", slow[1:100] / slow[:99], 0.9**2, rtol=1e-9)
    promised = gd.polyak_lojasiewicz(1.0, 1.0, ends[:, :1], k[:20], step=jnp.array([[0.25], [0.5], [0.75]]))
    yield equal("mu = L: attained for every step", ends[:, 1:21], promised, rtol=1e-9)
    yield control("a fourth power, convex, not PL", at_most("excess", quartic[1:], (1 - 1 / 12) ** k * quartic[0], x=k))
    yield control("a double well, from the wrong side", at_most("excess", stuck[1:], (1 - 0.1) ** k * stuck[0], x=k))


@claim(
    rows=("B05.22",),
    erratum="Theorem 40 prints the step 1/(2L) for the rate 1 - mu/L; that rate belongs to the step 1/L.",
)
def rate_with_half_the_step(key, *, steps: Count = 20):
    r"""As printed: with the step 1/(2L) the excess value falls by the factor 1 - mu/L.

    Theorem 40: $f(x_k)-f^*\le(1-\frac\mu L)^k(f(x_0)-f^*)$ for $\eta=\frac1{2L}$. For $\frac L2x^2$, where $\mu=L$, it
    says that one step ends at the minimum; a quarter of the excess remains. Corrected: the step $\frac1L$ has that
    rate, and the step $\frac1{2L}$ has $1-\frac{3\mu}{4L}$, attained here.
    """
    start = 1 + jax.random.uniform(key, (1,))
    half, full = (
        minimize(quadratic(jnp.ones(1)), optax.sgd(eta), steps=steps, start=start).value for eta in (0.5, 1.0)
    )
    k = jnp.arange(1, steps + 1)
    claimed = gd.polyak_lojasiewicz(1.0, 1.0, half[0], k)
    yield at_most("step 1/L: excess value", full[1:], claimed, x=k, along="iteration")
    yield equal("step 1/(2L): excess value, factor 1 - 3/4", half[1:], half[0] / 4.0**k, x=k, along="iteration")
    yield printed(at_most("step 1/(2L): excess value, factor 1 - mu/L", half[1:], claimed, x=k, along="iteration"))


@claim(
    rows=("B05.21",),
    erratum="The condition is called weaker than convexity; it is weaker than strong convexity, and neither of the two "
    "implies the other.",
)
def weaker_than_convexity(key):
    r"""As printed: a convex function satisfies the Polyak-Łojasiewicz condition with some constant.

    "The PL condition is a weaker assumption than convexity". Then $\frac12|f'|^2/(f-f^*)$ would be bounded below for
    $cx^4$ where $x\to0$; it is $8cx^2$, over six decades. Corrected: it is weaker than *strong* convexity: with
    $\frac\mu2x^2$ added the ratio is at least $\mu$ at the same points; and not comparable with convexity:
    $x^2+3\sin^2x$ satisfies it with the constant $\frac1{32}$ and is not convex.
    """
    c = jax.random.uniform(key, (), minval=0.5, maxval=2.0)
    x, mu = 10.0 ** -jnp.arange(6.0), 0.3

    def ratios(f, at):
        return jax.vmap(lambda t: pl_ratio(f, 0.0, t))(at)

    wave, line = wavy(), jnp.linspace(-10.0, 10.0, 4001) + 1e-7
    fourth = ratios(lambda t: c * t**4, x)
    yield at_least("strongly convex: ratio", ratios(lambda t: c * t**4 + mu / 2 * t**2, x), mu, x=x, along="x")
    yield at_least("waves: ratio", ratios(wave, line), 1 / 32, x=line, along="x")
    yield at_most("waves: least curvature, not convex", jax.vmap(jax.grad(jax.grad(wave)))(line).min(), -3.0)
    yield rate("fourth power, convex: ratio", x, fourth, 2.0, tolerance=0.01, along="x")
    yield printed(rate("fourth power: ratio, bounded below", x, fourth, 0.0, tolerance=0.1, side="at most", along="x"))


@claim(
    rows=("E03.09",),
    erratum="The proof of Lemma 3.4 ends with the excess after the step on both sides; on the right it must be the "
    "excess before the step.",
)
def excess_below_itself(key, *, dim: Size = 6, steps: Count = 20):
    r"""The last line of the proof of Lemma 3.4 as printed: the excess is below a fraction of itself.

    $h(\theta^T)-h^*\le(1-\frac\mu L)(h(\theta^T)-h^*)$ along gradient descent with $\eta=1/L$ on an $L$-smooth and
    $\mu$-PL function; here a quadratic. Corrected: $h(\theta^{T-1})$ on the right.
    """
    problem = random_quadratic(dim, 20.0, key=key)
    path = minimize(problem, optax.sgd(1 / problem.L), steps=steps)
    excess, factor = path.value - problem.minimum, 1 - problem.mu / problem.L
    before, after = excess[:-1], excess[1:]
    yield at_most("excess after the step, from that before it", after, factor * before, along="iteration")
    yield printed(at_most("excess after the step, from itself", after, factor * after, along="iteration"))
