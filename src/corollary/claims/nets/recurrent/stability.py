"""Stability of recurrences: what becomes of the past, and of derivatives by it."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.autodiff._pictures import curves
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, monotone, printed, rate
from corollary.nets import identity, tanh
from corollary.nets.recurrent import (
    Elman,
    linear_sensitivity,
    linear_solution,
    memory_horizon,
    rescale_to_radius,
    spectral_radius,
    state_jacobians,
    time_horizon,
    unroll,
)


def _unit(w, v=1.0, bias=0.0, activation=tanh):
    r"""The cell $Z_t=\phi(wZ_{t-1}+vX_t+b)$ of one unit."""
    return Elman.of(w, v, bias, 1.0, None, activation).cell


@claim(rows=("M13.13",))
def dichotomy(key, *, steps: Count = 40):
    r"""A linear recurrence forgets its past where |w| < 1 and magnifies it where |w| > 1.

    $Z_t=wZ_{t-1}+vX_t+b$ has the solution $Z_t=w^tZ_0+\sum_{s\le t}w^{t-s}(vX_s+b)$, so that two runs with the same
    inputs differ by $|w|^t|Z_0-Z_0'|$ exactly. With tanh and everything of size $\epsilon$ the state differs from the
    linear one by $O(\epsilon^3)$; two runs come closer than the linear ones do; and the share of saturated states,
    $|Z_t|>0.99$, grows with $w$.
    """
    weights = np.array([0.5, 0.95, 1.05, 1.5])
    sizes = 2.0 ** -np.arange(3, 10)
    steep = np.array([0.5, 1.0, 2.0, 5.0])

    @jax.jit
    def measure(key):
        draws = jax.random.normal(key, (steps + 5000, 1))
        xs, long = draws[:steps], draws[steps:]

        def both(w, activation):
            cell = _unit(w, 0.7, 0.3, activation)
            return jax.vmap(lambda z: unroll(cell, xs, z)[:, 0])(jnp.array([[0.4], [-1.1]]))

        linear = jax.vmap(lambda w: both(w, identity))(weights)
        exact = jax.vmap(lambda w: linear_solution(w, 0.7 * xs[:, 0] + 0.3, 0.4))(weights)
        bent = jax.vmap(lambda w: both(w, tanh))(weights)
        apart = jax.vmap(
            lambda size: jnp.abs(
                unroll(_unit(0.5), size * xs, jnp.array([size])) - linear_solution(0.5, size * xs[:, 0], size)[:, None]
            ).max()
        )(sizes)
        full = jax.vmap(lambda w: jnp.mean(jnp.abs(unroll(_unit(w), long)) > 0.99))(steep)
        return linear, exact, bent, apart, full

    linear, exact, bent, apart, full = jax.device_get(measure(key))
    yield equal("states", linear[:, 0], exact, rtol=1e-11, atol=1e-12, along="time")
    gap = 1.5 * weights[:, None] ** np.arange(1, steps + 1)
    between = np.abs(linear[:, 0] - linear[:, 1])
    # the rounding of two states of this size that cancel
    yield equal("distance of two runs", between, gap, rtol=1e-10, atol=1e-12, along="time")
    squashed = np.abs(bent[:, 0] - bent[:, 1])
    yield at_most("distance of two runs, tanh", squashed, gap, atol=1e-15, along="time")
    yield control(
        "the unit is linear: here tanh", equal("distance of two runs", squashed, gap, rtol=1e-3, along="time")
    )
    yield rate("tanh: distance from the linear state", sizes, apart, 3.0, tolerance=0.1, along="size of everything")
    yield monotone("share of saturated states for w = 0.5, 1, 2, 5", full, strict=True)
    yield curves(
        "distance of two runs",
        np.arange(1, steps + 1),
        {f"w = {float(w):g}": d for w, d in zip(weights, between, strict=True)},
        titles=("time", "distance"),
        log="y",
    )


@claim(rows=("M13.14",))
def sensitivity(key, *, steps: Count = 40):
    r"""Derivatives by the far past vanish or explode like powers of w; that by w itself need not vanish.

    For $Z_t=wZ_{t-1}+d_t$: $\partial_wZ_t=tw^{t-1}Z_0+\sum_{s\le t}(t-s)w^{t-s-1}d_s$ and
    $\partial Z_t/\partial Z_s=w^{t-s}$; with tanh $\partial Z_t/\partial Z_s=\prod_{r=s+1}^tw\tanh'(a_r)$, at most
    $|w|^{t-s}$. With inputs that go on, $d_t=v$, the derivative by $w$ tends to $\frac v{(1-w)^2}$ for $|w|<1$: only
    what the far past contributes to it vanishes. (The text says that the derivative itself "is likely to vanish".) One
    step of gradient descent can carry $w$ out of $(-1,1)$: with $w=0.95$, $d_t=1$, target 0 and rate 0.01 it does.
    """
    weights = np.array([0.5, 0.95, -0.8, 1.05, 1.3])
    time = np.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        drive = jax.random.normal(key, (steps,))

        def one(w):
            states = lambda w: unroll(_unit(w, activation=identity), drive[:, None], jnp.array([0.4]))[:, 0]  # noqa: E731
            by_w = jax.jacfwd(states)(w)
            bent, straight = (Elman.of(w, 1.0, None, 1.0, None, phi) for phi in (tanh, identity))
            found = [state_jacobians(m, drive[:, None])[..., 0, 0] for m in (straight, bent)]
            z = bent.run(drive[:, None]).states[:, 0]
            product = jnp.cumprod(w * (1 - z**2))  # by the first state
            return by_w, linear_sensitivity(w, drive, 0.4), *found, product

        steady = jax.jacfwd(lambda w: unroll(_unit(w, activation=identity), jnp.full((200, 1), 3.0))[-1, 0])(0.5)

        def loss(w):
            return jnp.mean(unroll(_unit(w, activation=identity), jnp.ones((50, 1))) ** 2)

        return jax.vmap(one)(weights), steady, 0.95 - 0.01 * jax.grad(loss)(0.95)

    (by_w, formula, straight, bent, product), steady, moved = jax.device_get(measure(key))
    lag = np.arange(steps + 1)[:, None] - np.arange(steps + 1)
    powers = np.where(lag >= 0, weights[:, None, None] ** np.maximum(lag, 0), 0.0)
    yield equal("derivative by w", by_w, formula, rtol=1e-9, atol=1e-12, along="time")
    yield equal("linear: derivative by earlier states", straight, powers, rtol=1e-11, atol=1e-13)
    yield equal("tanh: derivative by the first state", bent[:, 1:, 0], product, rtol=1e-9, atol=1e-13, along="time")
    yield at_most("tanh: derivative by earlier states", np.abs(bent), np.abs(powers), atol=1e-14)
    yield equal("steady input: derivative by w", steady, 3.0 / (1 - 0.5) ** 2, rtol=1e-12)
    yield at_least("one step of gradient descent from 0.95: size of w", np.abs(moved), 1.0)
    far = np.abs(straight[:, -1, 0])
    yield at_most("stable: derivative by the first state", far[0], 0.6**steps)
    yield control("|w| < 1: here 1.3", at_most("derivative by the first state", far[4], 0.6**steps))
    yield curves(
        "derivative by the first state",
        time,
        {
            f"{kind}, w = {float(weights[i]):g}": np.abs(d[i, 1:, 0])
            for i in (0, 3)
            for kind, d in (("linear", straight), ("tanh", bent))
        },
        titles=("time", "derivative"),
        log="y",
    )


@claim(
    rows=("M13.14",), erratum="The first term of the derivative of the linear state by w has the exponent t, not t - 1."
)
def sensitivity_as_printed(key, *, steps: Count = 20):
    r"""As printed: the derivative of the linear state by w begins with t w^t times the first state.

    $\partial_wZ_t=tw^tZ_0+\sum_{s\le t}(t-s)w^{t-s-1}d_s$, section 13.6; the derivative of $w^tZ_0$ is $tw^{t-1}Z_0$.
    The sum is measured with $Z_0=0$.
    """
    w, time = 0.7, np.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        drive = jax.random.normal(key, (steps,))
        states = lambda w: unroll(_unit(w, activation=identity), drive[:, None], jnp.array([0.4]))[:, 0]  # noqa: E731
        return jax.jacfwd(states)(w), linear_sensitivity(w, drive, 0.0)

    found, rest = jax.device_get(measure(key))
    meant, literal = (time * w**power * 0.4 + rest for power in (time - 1, time))
    yield equal("derivative by w, corrected", found, meant, rtol=1e-9, atol=1e-12, x=time, along="time")
    yield printed(equal("derivative by w, as printed", found, literal, rtol=1e-6, x=time, along="time"))


@claim(rows=("M13.15",))
def horizon(key, *, sequences: Size = 4000, steps: Count = 30):
    r"""The state remembers an input for about 1/ln(1/|w|) steps.

    With $T_w=1/\ln(1/|w|)$: $|w|^t=e^{-t/T_w}$. An impulse has fallen to $\frac1e$ after $T_w$ steps, $T_w(1-|w|)\to1$
    as $|w|\to1$, and with independent inputs of variance 1 the covariance of $Z_t$ with the input $\Delta$ steps
    before is $e^{-\Delta/T_w}$: what any readout of the state can know of that input.
    """
    weights = np.array([0.5, 0.9, -0.9])
    lags = np.array([0, 1, 2, 4, 8])

    @jax.jit
    def measure(key):
        xs = jax.random.normal(key, (sequences, steps, 1))

        def one(w):
            cell = _unit(w, activation=identity)
            impulse = unroll(cell, jnp.zeros((steps, 1)).at[0].set(1.0))[:, 0]
            last = jax.vmap(lambda x: unroll(cell, x)[-1, 0])(xs)
            return impulse, last[:, None] * xs[:, steps - 1 - lags, 0]

        return jax.vmap(one)(weights)

    impulse, products = jax.device_get(measure(key))
    horizons = time_horizon(weights)
    fall = np.exp(-np.arange(steps) / horizons[:, None])
    yield equal("impulse response", np.abs(impulse), fall, rtol=1e-12, along="time")
    at_horizon = np.stack(
        [np.interp(t, np.arange(steps), np.log(np.abs(i))) for t, i in zip(horizons, impulse, strict=True)]
    )
    yield equal("logarithm of the impulse after one horizon", at_horizon, -1.0, rtol=1e-10)
    near = 1 - 10.0 ** -np.arange(1, 7)
    # 1/ln(1/(1-u)) = 1/u - 1/2 + O(u)
    yield equal("horizon times (1 - w)", time_horizon(near) * (1 - near), 1 - (1 - near) / 2, rtol=0, atol=1e-3)
    for name, w, seen in zip(("0.5", "0.9", "-0.9"), weights, products, strict=True):
        memory = np.sign(w) ** lags * np.exp(-lags / time_horizon(w))
        yield estimate(
            f"w = {name}: covariance with inputs 0, 1, 2, 4, 8 steps before", seen, memory, wrong=memory + 0.5
        )
    wrong = np.exp(-lags / time_horizon(0.9))
    yield control(
        "the horizon is that of the weight: here of 0.9 for 0.5",
        estimate("covariance", products[0], wrong, wrong=wrong + 0.5),
    )


@claim(rows=("M13.16",))
def spectral_criterion(key, *, dim: Size = 20, matrices: Count = 6):
    r"""Powers of a matrix vanish exactly if its spectral radius is below 1, after a detour that may be long.

    For a matrix recurrence $\rho(W)$ takes the place of $|w|$: $\|W^t\|\ge\rho^t$, $\|W^t\|^{1/t}\to\rho$ (Gelfand),
    and in the long run the state is forgotten over $1/\ln(1/\rho)$ steps. For a normal matrix $\|W^t\|=\rho^t$; for
    $\begin{pmatrix}0.9&50\\0&0.9\end{pmatrix}$, with $W^t=0.9^t\begin{pmatrix}1&50t/0.9\\0&1\end{pmatrix}$, memory
    grows beyond 100 before it goes.
    """
    radii, squarings = np.array([0.8, 1.2]), 12
    growing = np.array([[0.9, 50.0], [0.0, 0.9]])

    @jax.jit
    def measure(key):
        raw = jax.random.normal(key, (matrices, dim, dim))

        def powers(w):
            """Logarithms of the norms of the powers 1, 2, 4, ..., in the Frobenius norm."""

            def square(carry, _):
                power, log = carry
                size = jnp.linalg.norm(power)
                power = power / size
                return (power @ power, 2 * (log + jnp.log(size))), log + jnp.log(size)

            return jax.lax.scan(square, (w, 0.0), length=squarings + 1)[1]

        # one matrix after the other: batches of eigenvalue problems do not mix well in one program
        scaled = jax.lax.map(lambda w: rescale_to_radius(w, 1.0), raw)
        found = jax.vmap(lambda w: jax.vmap(lambda r: powers(r * w))(radii))(scaled)
        walk = jax.lax.scan(lambda p, _: (growing @ p, jnp.abs(p).max()), growing, length=400)[1]
        symmetric = rescale_to_radius(raw[0] + raw[0].T, 0.9)
        normal = jax.lax.scan(lambda p, _: (symmetric @ p, jnp.linalg.norm(p, 2)), symmetric, length=20)[1]
        return found, walk, normal, spectral_radius(symmetric), memory_horizon(symmetric)

    found, walk, normal, radius, span = jax.device_get(measure(key))
    t = 2.0 ** np.arange(squarings + 1)
    per_step = np.exp(found / t)
    limits = np.broadcast_to(radii[:, None], per_step.shape)
    yield at_least("size of the power, per step", per_step, limits, x=t, along="exponent")
    # the norm is at most a condition number times rho^t, here well below e^40
    yield equal("size of a high power, per step", per_step[..., -1], limits[..., -1], rtol=0.01)
    yield at_most("radius 0.8: logarithm of a high power", found[:, 0, -1], -500.0)
    yield at_least("radius 1.2: logarithm of a high power", found[:, 1, -1], 500.0)
    yield control("the radius is below 1: here 1.2", at_most("logarithm of a high power", found[:, 1, -1], -500.0))
    time = np.arange(1, 21)
    yield equal("symmetric matrix: norms of powers", normal, 0.9**time, rtol=1e-9, along="exponent")
    yield equal("its radius and its horizon", np.stack([radius, span]), [0.9, 1 / np.log(1 / 0.9)], rtol=1e-9)
    long = np.arange(1, 401)
    yield equal("not normal: largest entry", walk, 50 * long * 0.9 ** (long - 1), rtol=1e-10, along="exponent")
    yield control("the matrix is normal: here not", at_most("largest entry", walk, 1.0, along="exponent"))
    yield at_most("not normal, in the end", walk[-1], 1e-12)
