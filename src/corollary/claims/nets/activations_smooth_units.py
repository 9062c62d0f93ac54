"""Smooth units in place of ReLU: how near they are, and that a network does not care."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_most, claim, control, equal


def _gelu(z):
    return jax.nn.gelu(z, approximate=False)


@claim(rows=("T02.05",))
def smooth_units(key, *, points: Count = 40001):
    r"""SWISH and GeLU are smooth and stay within 0.28 and 0.17 of ReLU.

    ReLU $\max(z,0)$, SWISH $z\,\sigma(z)$, GeLU $z\,\Phi(z)$. The largest distances are 0.2785 at $|z|=1.2785$ and
    0.1700 at $|z|=0.7518$; $z\,\sigma(\beta z)$ is within $0.2785/\beta$ of ReLU. Their curvature is bounded by
    $\frac12$ and $\sqrt{2/\pi}$, attained at 0; that of ReLU is not, as the difference of its slopes across 0 shows.
    First derivatives by automatic differentiation agree with complex steps, second ones with the closed forms.
    """
    z = jnp.linspace(-8.0, 8.0, points)
    betas = jnp.array([1.0, 4.0, 16.0, 64.0])

    @jax.jit
    def measure(z, shift):
        # the grid is an argument: as a constant the compiler would do all the work itself, slowly
        rows = []
        for f in (jax.nn.silu, _gelu):
            far = jnp.abs(f(z) - jax.nn.relu(z))
            slope, bend = jax.vmap(jax.grad(f))(z), jax.vmap(jax.grad(jax.grad(f)))(z)
            rows.append((far.max(), jnp.abs(z[jnp.argmax(far)]), jnp.abs(bend).max(), bend[points // 2], slope, bend))
        limit = jax.vmap(lambda b: jnp.abs(z * jax.nn.sigmoid(b * z) - jax.nn.relu(z)).max())(betas)
        step = 10.0 ** -jnp.arange(1, 6) * (1 + shift)
        quotients = [
            jax.vmap(lambda h, f=f: (jax.grad(f)(h) - jax.grad(f)(-h)) / (2 * h))(step)
            for f in (jax.nn.silu, _gelu, jax.nn.relu)
        ]
        return [jnp.stack(part) for part in zip(*rows, strict=True)], limit, step, jnp.stack(quotients)

    (far, at, bend, middle, slopes, bends), limit, step, quotients = measure(z, jax.random.uniform(key, ()))
    yield equal("largest distance: SWISH, GeLU", far, jnp.array([0.27846, 0.16997]), atol=1e-5)
    # the grid is 4e-4 wide
    yield equal("attained at", at, jnp.array([1.2785, 0.7518]), atol=1e-3)
    yield equal("curvature at 0", middle, jnp.array([0.5, (2 / jnp.pi) ** 0.5]), rtol=1e-9)
    yield equal("largest curvature", bend, middle, rtol=1e-9)
    from scipy.special import erf

    grid = np.asarray(z)
    w = grid + 1e-30j
    steps = np.imag(np.stack([w / (1 + np.exp(-w)), w * (1 + erf(w / 2**0.5)) / 2])) / 1e-30
    yield equal("slopes against complex steps", slopes, steps, rtol=1e-12, atol=1e-14)
    logistic, density = 1 / (1 + np.exp(-grid)), np.exp(-(grid**2) / 2) / (2 * np.pi) ** 0.5
    tilt = logistic * (1 - logistic)
    closed = np.stack([2 * tilt + grid * tilt * (1 - 2 * logistic), (2 - grid**2) * density])
    yield equal("curvature against closed forms", bends, closed, rtol=1e-9, atol=1e-12)
    yield equal("SWISH with a factor: distance to ReLU", limit * betas, far[0], rtol=1e-3, x=betas, along="beta")
    yield at_most("slope of the slope across 0", quotients[:2], middle[:, None], x=step, along="distance")
    yield control(
        "a unit with a kink, ReLU",
        at_most("slope of the slope across 0", quotients[2], middle.max(), x=step, along="distance"),
    )


@claim(rows=("T02.05",))
def networks_with_smooth_units(key, *, runs: Size = 16, width: Size = 32, n: Size = 200, steps: Count = 300):
    r"""A network with SWISH or GeLU units does as well as one with ReLU units.

    Networks of 32 units learn $\sin2x_1+|x_2|$, seen with noise of standard deviation 0.5, from 200 points by Adam. The
    mean expected losses with the three kinds of units are within 5 % of one another: it does no harm that ReLU is not
    differentiable at one point. A unit that is 0 or 1 is differentiable wherever ReLU is, but with the derivative 0:
    its weights never move, and the loss stays much higher.
    """
    units = (jax.nn.relu, jax.nn.silu, _gelu, lambda z: jnp.where(z > 0, 1.0, 0.0) + 0 * z)

    def target(x):
        return jnp.sin(2 * x[:, 0]) + jnp.abs(x[:, 1])

    @jax.jit
    def measure(key):
        def one(key, kind):
            x_key, n_key, w_key, t_key = jax.random.split(key, 4)
            x = jax.random.normal(x_key, (n, 2))
            y = target(x) + 0.5 * jax.random.normal(n_key, (n,))
            # rows: two weights and the bias of each unit, and its outer weight; one number more for the outer bias
            start = jax.random.normal(w_key, (4, width)) * jnp.array([[1.0], [1.0], [1.0], [width**-0.5]]), 0.0

            def network(theta, x):
                (*w, b, a), c = theta
                return jax.lax.switch(kind, units, x @ jnp.stack(w) + b) @ a + c

            def loss(theta):
                return jnp.mean((network(theta, x) - y) ** 2)

            adam = optax.adam(0.01)

            def advance(state, _):
                theta, memory = state
                move, memory = adam.update(jax.grad(loss)(theta), memory)
                return (optax.apply_updates(theta, move), memory), None

            (end, _), _ = jax.lax.scan(advance, (start, adam.init(start)), length=steps)
            fresh = jax.random.normal(t_key, (2000, 2))
            return 0.25 + jnp.mean((network(end, fresh) - target(fresh)) ** 2)

        keys = jax.random.split(key, runs)
        return jax.lax.map(lambda kind: jax.vmap(lambda k: one(k, kind))(keys), jnp.arange(4))

    found = np.asarray(measure(key)).mean(1)
    yield equal("expected loss with SWISH and GeLU, over that with ReLU", found[1:3] / found[0], 1.0, rtol=0.05)
    jumps = found[3] / found[0]
    yield control("a unit with derivative 0", equal("expected loss, over that with ReLU", jumps, 1.0, rtol=0.05))
