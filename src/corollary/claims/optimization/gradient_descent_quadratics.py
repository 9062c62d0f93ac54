"""Gradient descent on quadratics of one and two variables: the exercises of chapter 2."""

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, rate
from corollary.optimization import gradient_descent, quadratic_flow


@claim(rows=("M02.14", "M02.15"))
def two_curvatures(key, *, steps: Count = 400):
    r"""On 9 x² + y² gradient descent converges exactly for steps below 1/9, and a shift changes nothing.

    $x_1(k)=(1-18\eta)^kx_1(0)$ and $x_2(k)=(1-2\eta)^kx_2(0)$. For $9x_1^2+(x_2-3)^2$ the distance to $(0,3)$ follows
    the same recursion.
    """
    start = jax.random.uniform(key, (2,), minval=1.0, maxval=2.0)
    shift = jnp.array([0.0, 3.0])

    @jax.jit
    def run(eta, shift):
        slope = jax.grad(lambda x: 9 * (x[0] - shift[0]) ** 2 + (x[1] - shift[1]) ** 2)
        return gradient_descent(slope, start + shift, eta, steps) - shift

    k = jnp.arange(steps + 1)[:, None]
    inside, outside = run(0.11, 0 * shift), run(0.1112, 0 * shift)
    # k multiplications round k times
    yield equal("iterates at η = 0.11", inside, (1 - jnp.array([1.98, 0.22])) ** k * start, rtol=1e-12)
    yield equal("iterates of the shifted quadratic", run(0.11, shift), inside, atol=1e-14 * steps * 6)
    yield at_most(
        "distance after all steps at η = 0.11", jnp.linalg.norm(inside[-1]), jnp.linalg.norm(start) * 0.98**steps
    )
    yield control(
        "η = 0.1112 is above 1/9", at_most("distance after all steps", jnp.abs(outside[-1, 0]), jnp.abs(start[0]))
    )


@claim(rows=("M02.16",))
def flow_limit(key, *, horizon_steps: Count = 128):
    r"""As the step goes to zero, gradient descent becomes the gradient flow, with an error of the order of the step.

    For $f=9x_1^2+x_2^2$ and $x(0)=(1,2)$ the flow $\dot X=-\nabla f(X)$ is $X(t)=(e^{-18t},2e^{-2t})$, and
    $\sup_{t\le2}\|x(\lfloor t/\eta\rfloor)-X(t)\|=O(\eta)$.
    """
    start = jnp.array([1.0, 2.0])
    curvature = jnp.diag(jnp.array([18.0, 2.0]))
    coarse = 2.0 / horizon_steps
    times = coarse * jnp.arange(horizon_steps + 1)
    halvings = 2 ** jnp.arange(9)
    most = horizon_steps * 256

    @jax.jit
    def error(refinement):
        eta = coarse / refinement
        path = gradient_descent(lambda x: curvature @ x, start, eta, most)
        sampled = path[jnp.arange(horizon_steps + 1) * refinement]
        exact = quadratic_flow(curvature, start, times)
        elsewhere = quadratic_flow(curvature, start + 0.1, times)
        return jnp.linalg.norm(sampled - exact, axis=1).max(), jnp.linalg.norm(sampled - elsewhere, axis=1).max()

    errors, apart = jax.vmap(error)(halvings)
    etas = coarse / halvings
    yield rate("largest distance to the flow", etas, errors, 1.0, tolerance=0.1, along="step")
    yield control(
        "the flow starts elsewhere",
        rate("largest distance to the flow", etas, apart, 1.0, tolerance=0.1, along="step"),
    )
    yield equal(
        "the flow",
        quadratic_flow(curvature, start, times),
        jnp.stack([jnp.exp(-18 * times), 2 * jnp.exp(-2 * times)], 1),
    )


@claim(rows=("M02.17",))
def scalar_quadratic(key, *, grid: Size = 60, steps: Count = 300):
    r"""On λx² gradient descent converges to 0 exactly for λ > 0 and steps below 1/λ.

    $x(k)=(1-2\eta\lambda)^kx(0)$: for $\lambda<0$ it diverges at every $\eta>0$, for $\lambda=0$ it stands still.
    """
    lambdas = jnp.linspace(-2.0, 3.0, grid + 1)
    etas = jnp.linspace(0.02, 1.0, grid)
    start = jnp.abs(jax.random.normal(key)) + 0.5

    @jax.jit
    def final(curvature, eta):
        return jnp.abs(gradient_descent(jax.grad(lambda x: curvature * x**2), start, eta, steps)[-1]) / start

    ratio = jax.vmap(lambda c: jax.vmap(lambda e: final(c, e))(etas))(lambdas)
    factor = jnp.abs(1 - 2 * etas * lambdas[:, None])
    predicted = (lambdas[:, None] > 0) & (etas < 1 / jnp.maximum(lambdas[:, None], 1e-9))
    clear = jnp.abs(factor - 1) > 0.01  # nearer to the boundary the run is too short to tell
    shrinks = jnp.where(clear, ratio < 1, predicted)
    yield equal("converging cells of the (λ, η) plane", shrinks, predicted, rtol=0, atol=0)
    seen = clear & (factor > 0.1)  # below that the last iterate is zero in floating point
    yield equal("logarithm of the final ratio", jnp.log(ratio[seen]), steps * jnp.log(factor[seen]), atol=1e-9)
    yield equal("λ = 0 stands still", jax.vmap(lambda e: final(0.0, e))(etas), 1.0, rtol=1e-15)
    yield at_least("λ < 0 grows", ratio[lambdas < 0], 1.0)
    short = clear & (etas < 1 / jnp.maximum(jnp.abs(lambdas[:, None]), 1e-9))
    yield at_most("final ratio, λ > 0 and η < 1/λ", ratio[short & (lambdas[:, None] > 0)], 1.0)
    yield control("λ is negative", at_most("final ratio, η < 1/|λ|", ratio[short & (lambdas[:, None] < 0)], 1.0))
