"""When a step of gradient descent lowers the loss: small steps, and one step size for all (M section 7.3)."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, rate
from corollary.optimization import Problem, geman_mcclure, minimize, quadratic, ridge_logistic


def _network_loss(theta, x, y):
    w, b, c = theta[:8].reshape(4, 2), theta[8:12], theta[12:]
    return jnp.mean((jnp.tanh(x @ w.T + b) @ c - y) ** 2)


@claim(rows=("M07.04",))
def small_steps_descend(key, *, n: Size = 30, instances: Size = 16):
    r"""A small enough step of gradient descent lowers a smooth loss, a large one may not.

    For a twice continuously differentiable $\Lambda$ and $g=\nabla\Lambda(\theta)$,
    $\Lambda(\theta-\eta g)-\Lambda(\theta)=-\eta\|g\|^2+\frac{\eta^2}2g^\top\nabla^2\Lambda(\bar\theta)g$ with some
    $\bar\theta$ on the segment. So the difference quotient tends to $-\|g\|^2$ with an error of first order in $\eta$;
    where $g\ne0$ there are steps that lower the loss; and for a network with tanh units and squared loss, steps that
    raise it. A derivative is needed: along the subgradient 1 of $|\theta|$ at its kink every step raises it.
    """
    etas = 2.0 ** -jnp.arange(10, 18)
    along = jnp.linspace(0.0, 1.0, 201)

    @jax.jit
    def measure(keys):
        def one(key):
            x_key, y_key, theta_key = jax.random.split(key, 3)
            x, y = jax.random.normal(x_key, (n, 2)), jax.random.normal(y_key, (n,))
            theta = jax.random.normal(theta_key, (16,))
            loss = lambda t: _network_loss(t, x, y)  # noqa: E731
            g = jax.grad(loss)(theta)
            square = g @ g
            change = jax.vmap(lambda e: loss(theta - e * g) - loss(theta))(etas)
            quotient = jnp.abs(change / etas + square)
            # the remainder at one step, against its second order form along the segment
            eta = 0.01
            curvature = jax.vmap(
                lambda t: jnp.vdot(g, jax.jvp(jax.grad(loss), (theta - t * eta * g,), (g,))[1]) * eta**2 / 2
            )(along)
            remainder = loss(theta - eta * g) - loss(theta) + eta * square
            large = jax.vmap(lambda e: loss(theta - e * g) - loss(theta))(2.0 ** jnp.arange(0, 12)).max()
            return quotient, change, curvature.min() - remainder, curvature.max() - remainder, large

        return jax.vmap(one)(keys)

    def absolute(theta):
        return jnp.abs(theta)

    # the subgradient 1 at 0, where the derivative does not exist
    kink = jax.vmap(lambda eta: absolute(0.0 - eta * 1.0) - absolute(0.0))(etas)
    quotient, change, low, high, large = measure(jax.random.split(key, instances))
    mean = jnp.exp(jnp.log(quotient).mean(0))
    yield rate("difference quotient less its limit", etas, mean, 1.0, tolerance=0.1, along="step")
    yield at_most("change of the loss, smallest step", change[:, -1], 0.0)
    # a point with the value between exists by continuity where the ends have different signs
    yield at_most("second order term at its least, less the remainder", low, 0.0, atol=1e-13)
    yield at_least("second order term at its largest, less the remainder", high, 0.0, atol=1e-13)
    yield at_least("largest change over large steps", large, 0.0)
    yield control("a subgradient at the kink of an absolute value", at_most("change of the loss", kink, 0.0, x=etas))


@claim(rows=("M07.36", "M07.04"))
def constant_step_descends(key, *, n: Size = 100, dim: Size = 5, steps: Count = 60):
    r"""Every step shorter than two over the smoothness lowers the loss, by an amount that is known.

    If $\|\nabla^2\Lambda\|\le L$ everywhere and $0<\eta<2/L$, then
    $\Lambda(\theta_{k+1})\le\Lambda(\theta_k)-\eta(1-\frac{\eta L}2)\|\nabla\Lambda(\theta_k)\|^2$; with equality for
    $\Lambda=\frac L2\theta^2$. Measured for logistic regression and for a loss that is bounded and not convex. At
    $2.1/L$ the quadratic rises.
    """
    factors = jnp.array([0.1, 1.0, 1.9])

    @jax.jit
    def measure(key):
        x_key, y_key, start_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, dim))
        labels = jax.random.bernoulli(y_key, shape=(n,)).astype(float)
        robust = geman_mcclure(x, x @ jnp.ones(dim) + jax.random.normal(y_key, (n,)))
        problems = {
            "logistic regression": ridge_logistic(x, labels, 1e-9, start=3 * jnp.ones(dim)),
            "bounded loss": Problem(robust.function, robust.data, jax.random.normal(start_key, (dim,)), L=robust.L),
            "quadratic": quadratic(jnp.full(1, 2.0), jnp.full(1, 3.0)),
        }

        def runs(problem, factors):
            path = jax.vmap(lambda f: minimize(problem, optax.sgd(f / problem.L), steps=steps))(factors)
            eta = factors[:, None] / problem.L
            promised = eta * (1 - eta * problem.L / 2) * path.gradient_norm[:, :-1] ** 2
            return path.value[:, :-1] - path.value[:, 1:], promised

        return {name: runs(p, factors) for name, p in problems.items()}, runs(problems["quadratic"], jnp.array([2.1]))

    found, (rise, _) = measure(key)
    for name, (decrease, promised) in found.items():
        # values of order one are rounded at 1e-16
        yield at_least(f"{name}: decrease in a step", decrease, promised, atol=1e-14, along="iteration")
    decrease, promised = found["quadratic"]
    yield equal("quadratic: attained", decrease, promised, rtol=1e-9, atol=1e-12, along="iteration")
    yield control("a step of 2.1/L", at_least("quadratic: decrease in a step", rise, 0.0, along="iteration"))
