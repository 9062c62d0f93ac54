"""The scaled logistic step: how near it is to a jump, how steep, and what nesting it does."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Positive, Size, at_least, at_most, claim, control, equal, rate
from corollary.nets import nested_step, smooth_clip, smooth_step

# the poles of S(t) are π away from the real line: over [0, 40] a rule with 100 nodes is off by about 1.17^-200
NODES = np.polynomial.legendre.leggauss(100)


def _distance(step, reach: float):
    r"""$\int_{-r}^r|\mathbf 1[x>0]-s(x)|\,dx$ by Gauss-Legendre on each half, where the integrand is smooth."""
    t, w = NODES
    x, w = jnp.asarray(reach * (t + 1) / 2), jnp.asarray(reach * w / 2)
    return w @ (1 - step(x)) + w @ step(-x)


@claim(rows=("M05.04",))
def logistic_step(key, *, points: Size = 200):
    r"""The scaled logistic function tends to the step function at every point but 0, and not uniformly.

    $S_\varepsilon(x)=S(x/\varepsilon)$ is off from $\mathbf 1_{\mathbb R_+}(x)$ by exactly
    $1/(1+e^{|x|/\varepsilon})\le e^{-|x|/\varepsilon}$ for $x\ne0$; $S_\varepsilon(-x)=1-S_\varepsilon(x)$ exactly;
    and $\|\mathbf 1_{\mathbb R_+}-S_\varepsilon\|_{L^1}=2\varepsilon\ln2$. The supremum of the error is $\frac12$ for
    every $\varepsilon$.
    """
    x = jax.random.normal(key, (points,))
    eps = jnp.array([1.0, 0.3, 0.1, 0.03])

    @jax.jit
    def measure(x):
        step = jax.vmap(lambda e: smooth_step(x, e))(eps)
        mirrored = jax.vmap(lambda e: smooth_step(-x, e))(eps)
        # beyond 40 eps the integrand is below the rounding of the integral
        lengths = jax.vmap(lambda e: _distance(lambda t: smooth_step(t, e), 40 * e))(eps)
        near = jax.vmap(lambda e: smooth_step(-1e-6 * e, e))(eps)
        away = jax.vmap(lambda e: smooth_step(-0.1 - jnp.abs(x), e).max())(eps)
        return jnp.abs(step - (x > 0)), step + mirrored, lengths, near, away

    error, total, lengths, near, away = measure(x)
    exact = 1 / (1 + jnp.exp(jnp.abs(x) / eps[:, None]))
    # near 1 the step itself is rounded at 1.1e-16
    yield equal("error", error, exact, rtol=1e-12, atol=3e-16)
    yield at_most("error against the exponential", error, jnp.exp(-jnp.abs(x) / eps[:, None]), atol=3e-16)
    yield equal("step and mirrored step add up to 1", total, 1.0, rtol=1e-15)
    yield equal("distance in L1 over ε", lengths / eps, 2 * jnp.log(2.0), rtol=1e-8)
    order = jnp.argsort(x)
    yield at_most("largest error of points 0.1 and more from 0", away, jnp.exp(-0.1 / eps), x=1 / eps, along="1/ε")
    yield control(
        "the points keep their distance from 0: here they come closer as ε falls",
        at_most("largest error", near, jnp.exp(-0.1 / eps), x=1 / eps, along="1/ε"),
    )
    yield equal(
        "the step for ε = 0.1 from its points",
        smooth_step(x[order], 0.1),
        jnp.exp(x[order] / 0.1 - jnp.logaddexp(0.0, x[order] / 0.1)),
        x=x[order],
        along="x",
    )


@claim(rows=("M05.04", "M05.11"))
def depth_sharpens(key):
    r"""Every further layer of steps makes a half-plane sharper, by the factor 4ε.

    $S_\varepsilon$ nested $d$ times with the clip $z\mapsto S_\varepsilon(z-\frac12)$ between is near
    $S(x/(4^{d-1}\varepsilon^d))$ for small $\varepsilon$: at distance
    $2\ln2\cdot4^{d-1}\varepsilon^d\,(1+O(\varepsilon^2))$ from the step function in $L^1([-1,1])$. The premise is
    $\varepsilon<\frac14$.
    """
    eps = jnp.geomspace(0.004, 0.02, 9)

    @jax.jit
    def measure(eps):
        def one(e, depth):
            width = 4.0 ** (depth - 1) * e**depth

            def step(x):
                return nested_step(x, e, depth)

            # the transition, then the rest of the interval, where only the floor S(-1/(2ε)) is left
            return _distance(step, 40 * width), step(jnp.array(1.0))

        return [jax.vmap(lambda e, d=d: one(e, d))(eps) for d in (1, 2, 3)]

    results = measure(eps)
    for depth, (length, _) in zip((1, 2, 3), results, strict=True):
        # a slope fitted over a factor 5 sees the relative correction of order ε², here below 0.02
        yield rate(f"distance from the step, depth {depth}", eps, length, depth, tolerance=0.05, along="ε")
        leading = 2 * jnp.log(2.0) * 4.0 ** (depth - 1) * eps[:1] ** depth
        # S(t) - 1/2 = t/4 - t³/48 + ..., and at s times the width of the next layer t = 4εs: relative to t/4 it is
        # 4ε²s²/3, where s up to 8 counts
        yield equal(
            f"smallest ε, depth {depth}: distance over the leading term",
            length[:1] / leading,
            1.0,
            rtol=100 * float(eps[0]) ** 2,
        )
    # with the floor the value at x = 1 is 1 up to S(-1/(2ε)) < 1e-10
    yield at_least("value at 1, depth 3", results[2][1], 1 - 2 * jnp.exp(-1 / (2 * eps)))
    yield at_most("distance of three layers, at most that of one", results[2][0], results[0][0], x=eps, along="ε")
    flat = jax.jit(lambda e: jnp.stack([_distance(lambda x, d=d: nested_step(x, e, d), 1.0) for d in (1, 3)]))
    one, three = flat(0.4)
    yield control("ε is below 1/4: here 0.4", at_most("distance of three layers, at most that of one", three, one))


@claim(rows=("M05.09",))
def clipping(key, *, starts: Size = 64, iterations: Size = 600):
    r"""The clip keeps 0 and 1 nearly in place, and repeated it sorts all numbers into two, if ε < 1/4.

    $z\mapsto S_\varepsilon(z-\frac12)$ takes values in $(0,1)$ and is off by exactly $S(-\frac1{2\varepsilon})$ at 0
    and at 1. For $\varepsilon<\frac14$ it has three fixed points $p<\frac12<1-p$ with
    $\varepsilon=(\frac12-p)/\ln\frac{1-p}p$; iterates from $z<\frac12$ tend to $p$, from $z>\frac12$ to $1-p$. For
    $\varepsilon\ge\frac14$ all tend to $\frac12$.
    """
    # at least 0.01 away from the unstable fixed point, which repels by 1/(4ε) a step
    far = 0.01 + jnp.abs(jax.random.normal(key, (starts,)))
    z = 0.5 + jnp.where(jnp.arange(starts) % 2 == 0, far, -far)
    fixed = jnp.array([1e-4, 0.01, 0.1, 0.3])
    eps = (0.5 - fixed) / jnp.log((1 - fixed) / fixed)

    @jax.jit
    def iterate(e, z):
        return jax.lax.fori_loop(0, iterations, lambda _, z: smooth_clip(z, e), z)

    ends = jnp.stack([smooth_clip(0.0, eps), 1 - smooth_clip(1.0, eps)])
    yield equal("distance at 0 and at 1", ends, 1 / (1 + jnp.exp(1 / (2 * eps))), atol=3e-16)
    yield at_most("ε of the four fixed points", eps, 0.25)
    # the slowest, p = 0.3, contracts by p(1-p)/ε = 0.89 a step: nothing is left after 600
    limits = jax.vmap(lambda e: iterate(e, z))(eps)
    predicted = jnp.where(z < 0.5, fixed[:, None], 1 - fixed[:, None])
    yield equal("limit of repeated clipping", limits, predicted, rtol=1e-10)
    blurred = iterate(0.3, z)
    yield equal("limit for ε = 0.3", blurred, 0.5, rtol=1e-10)
    yield control(
        "ε is below 1/4: here 0.3",
        at_least("distance of the limit from 1/2", jnp.abs(blurred - 0.5), 0.5 - fixed[-1]),
    )


@claim(rows=("M05.25",))
def logistic_slope(key, *, curves: Size = 16, points: Size = 201, reach: Positive = 6.0):
    r"""The logistic function with factor c has a slope between 0 and c/4.

    For $c>0$ and $S(x;c)=1/(1+e^{-cx})$, $0\le S'(x;c)=cS(1-S)\le\frac c4$ with equality at 0: $\frac c4$ is the
    Lipschitz constant.
    """
    c = jnp.exp(jax.random.normal(key, (curves,)))
    t = jnp.linspace(-reach, reach, points)  # an odd number: 0 is among them

    @jax.jit
    def measure(c):
        def f(x):
            return jax.nn.sigmoid(c * x)

        x = t / jnp.abs(c)
        secants = jnp.abs(jnp.diff(jax.vmap(f)(x)) / jnp.diff(x))
        return jax.vmap(jax.grad(f))(x), c * f(x) * (1 - f(x)), secants

    slopes, formula, secants = jax.vmap(measure)(c)
    yield equal("slope by automatic differentiation", slopes, formula, rtol=1e-12)
    yield at_least("slope", slopes, 0.0, x=t, along="cx")
    yield at_most("slope over c", slopes / c[:, None], 0.25, x=t, along="cx")
    yield equal("largest slope over c, at 0", slopes[:, points // 2] / c, 0.25, rtol=1e-14)
    # a secant divides the rounding of S by the spacing of x
    yield at_most("steepness of secants over c", secants / c[:, None], 0.25, atol=4e-16 * points / reach)
    yield control("c is positive: here negative", at_least("slope", jax.vmap(measure)(-c)[0], 0.0))
