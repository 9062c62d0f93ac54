"""Three routes to the gradient of a loss along the solution of a differential equation, and the signs in print."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.differential import NeuralODE, adjoint, discrete_adjoint, forward_sensitivity, solve, tracking_loss
from corollary.evidence import Count, Positive, Range, at_most, claim, control, equal, monotone, printed, rate

START = (1.0, -0.5)


def _target(t):
    return jnp.stack([jnp.cos(2 * t), jnp.sin(3 * t)])


def _network(key, activation=jnp.tanh):
    return eqx.nn.MLP(2, 2, 8, 1, activation, key=key)


class _Linear(eqx.Module):
    """θu, one parameter."""

    theta: jax.Array

    def __call__(self, u):
        return self.theta * u


def _vector(gradient):
    return ravel_pytree(eqx.filter(gradient, eqx.is_inexact_array))[0]


def _by_differentiation(ode):
    """The gradient of the loss that the scheme computes, by differentiating its unrolled loop."""
    return _vector(eqx.filter_grad(lambda ode: tracking_loss(ode, _target, jnp.array(START)))(ode).network)


@claim(rows=("M22.03", "M22.04", "M22.08"))
def three_routes(key, *, theta: Positive = 0.7):
    r"""The discrete adjoint is the gradient of Euler's scheme; the two continuous routes that of the equation.

    For $\Lambda=\frac12\int_0^T|h-u|^2dt+\frac12|h(T)-u(T)|^2$ along $\dot u=m(u;\theta)$: the recursion
    $\hat u_N=(u_N-h_N)(1+\Delta)$, $\hat u_i=\hat u_{i+1}+\frac{\partial m}{\partial u}^\top\hat u_{i+1}\Delta+
    (u_i-h_i)\Delta$ gives the gradient of the discretised loss exactly, however long the steps. Forward
    sensitivities and the continuous adjoint give that of $\Lambda$ itself: for $\dot u=\theta u$, $h=0$, $u(0)=1$,
    $T=1$ it is the derivative of $\frac{e^{2\theta}-1}{4\theta}+\frac12e^{2\theta}$. The continuous adjoint solved by
    Euler's method is not the gradient of Euler's scheme.
    """
    coarse = (2, 5, 20)

    @jax.jit
    def measure(key, theta):
        network = _network(key)
        odes = [NeuralODE(network, horizon=2.0, steps=n, method="euler") for n in coarse]
        start = jnp.array(START)
        exact = jnp.stack([_by_differentiation(ode) for ode in odes])
        discrete = jnp.stack([_vector(discrete_adjoint(ode, _target, start).gradient) for ode in odes])
        continuous = jnp.stack([_vector(adjoint(ode, _target, start).gradient) for ode in odes])
        linear = NeuralODE(_Linear(theta), steps=400)
        routes = [f(linear, lambda t: jnp.zeros(1), jnp.ones(1)) for f in (forward_sensitivity, adjoint)]
        closed = jax.value_and_grad(lambda a: (jnp.exp(2 * a) - 1) / (4 * a) + jnp.exp(2 * a) / 2)(theta)
        values = jnp.stack([jnp.stack([r.loss, r.gradient.theta]) for r in routes])
        return exact, discrete, continuous, values, jnp.stack(closed)

    exact, discrete, continuous, values, closed = measure(key, jnp.asarray(theta))
    yield equal("discrete adjoint", discrete, exact, rtol=1e-10, atol=1e-12)
    # the method's error at a step of 1/400 is (1/400)^4 = 4e-11 times constants of the size of e^(2θ)
    yield equal("loss and derivative in the linear case, both routes", values, jnp.stack([closed, closed]), rtol=1e-8)
    yield control(
        "the adjoint is that of the scheme: here that of the equation",
        equal("adjoint of the equation", continuous, exact, rtol=1e-10, atol=1e-12),
    )


@claim(rows=("M22.04", "M22.09"))
def discrete_and_continuous(key, *, starts: Count = 16):
    r"""The discrete adjoint tends to the continuous one with the step, which Runge and Kutta solve to fourth order.

    $\max_i|\hat u_i-\hat u(i\Delta)|$ and the difference of the two gradients go like $\Delta$; the error of the
    gradient by the continuous adjoint goes like $\Delta$ with Euler's method and like $\Delta^4$ with that of Runge
    and Kutta, for smooth $m$. With ReLU units the fourth order is lost.
    """
    steps = (16, 32, 64, 128, 256)
    finest = 2048

    @jax.jit
    def measure(key):
        network_key, start_key = jax.random.split(key)
        network = _network(network_key)
        points = jax.random.normal(start_key, (starts, 2))

        def ode(n, method, network=network):
            return NeuralODE(network, horizon=2.0, steps=n, method=method)

        def size(errors):
            return jnp.sqrt((errors**2).sum() / starts)

        def gradients(route, ode):
            return jax.vmap(lambda start: _vector(route(ode, _target, start).gradient))(points)

        exact = gradients(adjoint, ode(finest, "rk4"))
        bent = _network(network_key, jax.nn.relu)
        bent_exact = gradients(adjoint, ode(finest, "rk4", bent))

        def errors(n):
            return jnp.stack(
                [
                    jnp.sqrt((jax.vmap(lambda s: _adjoint_gap(network, s, n))(points) ** 2).mean()),
                    size(gradients(discrete_adjoint, ode(n, "euler")) - exact),
                    size(gradients(adjoint, ode(n, "euler")) - exact),
                    size(gradients(adjoint, ode(n, "rk4")) - exact),
                    size(gradients(adjoint, ode(n, "rk4", bent)) - bent_exact),
                ]
            )

        return jnp.stack([errors(n) for n in steps]).T

    gap, discrete, euler, rk4, bent = (np.asarray(a) for a in measure(key))
    # the next term is by one power of the step smaller, a few percent of an order over these sizes
    yield rate("distance of the two adjoints", steps, gap, -1.0, tolerance=0.15, along="number of steps")
    yield rate("gradient by the discrete adjoint", steps, discrete, -1.0, tolerance=0.15, along="number of steps")
    yield rate("gradient by the adjoint, Euler", steps, euler, -1.0, tolerance=0.15, along="number of steps")
    yield rate("gradient by the adjoint, Runge and Kutta", steps, rk4, -4.0, tolerance=0.4, along="number of steps")
    yield control(
        "smooth: here ReLU units",
        rate("gradient by the adjoint, Runge and Kutta", steps, bent, -4.0, tolerance=0.4, along="number of steps"),
    )


def _adjoint_gap(network, start, n):
    """The largest distance of ∂Λ/∂u_i of Euler's scheme, by differentiation, from the adjoint that is solved finely."""
    step, times = 2.0 / n, jnp.linspace(0.0, 2.0, n + 1)

    def scheme(pushes):
        """The loss when every state is pushed a little before it is looked at."""

        def onward(u, push):
            u = u + push
            return u + step * network(u), u

        last, path = jax.lax.scan(onward, start, pushes[:-1])
        path = jnp.concatenate([path, (last + pushes[-1])[None]])
        misses = path - jax.vmap(_target)(times)
        return step * (misses**2).sum() / 2 + (misses[-1] ** 2).sum() / 2

    discrete = jax.grad(scheme)(jnp.zeros((n + 1, 2)))
    forward = solve(network, start, times, substeps=-(-512 // n))

    def backward(state):
        """Time runs from T to 0: time left, u and the adjoint in one array."""
        t, u, hat = state[0], state[1:3], state[3:]
        pull = jax.vjp(network, u)[1](hat)[0]
        return jnp.concatenate([-jnp.ones(1), -network(u), pull + u - _target(t)])

    end = jnp.concatenate([jnp.full(1, 2.0), forward[-1], forward[-1] - _target(2.0)])
    continuous = solve(backward, end, times, substeps=-(-512 // n))[::-1, 3:]
    return jnp.abs(discrete - continuous).max()


@claim(rows=("M22.05",))
def equations_to_solve(key, *, width: Annotated[int, Range(8, 64)] = 16):
    r"""Forward sensitivities need states times parameters many equations, the adjoint as many as there are states.

    With $d$ states and $P$ parameters $(u,\tilde u)$ has $d+dP$ entries and $(u,\hat u)$ $2d$, whatever $P$ is. With
    one parameter nothing is gained.
    """
    start = jnp.array(START)

    def sizes(network):
        ode = NeuralODE(network, steps=2)
        count = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))
        return count, *(f(ode, _target, start).equations for f in (forward_sensitivity, adjoint))

    networks = [eqx.nn.MLP(2, 2, w, 1, jnp.tanh, key=key) for w in (width // 4, width // 2, width)]
    params, forward, backward = np.array([sizes(network) for network in networks]).T
    # a hidden unit has two weights in, a bias, two weights out; two biases at the end
    hidden = np.array([width // 4, width // 2, width])
    yield equal("equations forward", forward, 2 + 2 * (5 * hidden + 2), x=params, along="parameters")
    yield equal("equations of the adjoint", backward, np.full(3, 4), x=params, along="parameters")
    yield at_most("adjoint against forward", backward, forward - 1, x=params, along="parameters")
    single = sizes(_Linear(jnp.asarray(0.5)))
    yield control("many parameters: here one", at_most("adjoint against forward", single[2], single[1] - 1))


@claim(rows=("M22.06",))
def descent(key, *, steps: Count = 30):
    r"""Gradient descent with the adjoint lowers the loss at every step, if the steps are short.

    $\theta_{k+1}=\theta_k-\eta\nabla\Lambda(\theta_k)$, the gradient from a forward and an adjoint solution. With a
    step far beyond the curvature the loss does not fall.
    """

    @jax.jit
    def measure(key):
        def path(step):
            def one(network, _):
                ode = NeuralODE(network, horizon=2.0, steps=40)
                found = adjoint(ode, _target, jnp.array(START))
                return eqx.apply_updates(network, jax.tree.map(lambda g: -step * g, found.gradient)), found.loss

            params, static = eqx.partition(_network(key), eqx.is_inexact_array)

            def moved(params, _):
                network, loss = one(eqx.combine(params, static), None)
                return eqx.filter(network, eqx.is_inexact_array), loss

            return jax.lax.scan(moved, params, length=steps)[1]

        return path(0.01), path(3.0)

    short, long = measure(key)
    yield monotone("loss", short, "decreasing", along="step")
    yield control("a short step: here 3", monotone("loss", long, "decreasing", along="step"))


@claim(
    rows=("M22.03", "M22.04", "M22.06", "M22.08"),
    erratum="(22.3), (22.4), (22.5) and (22.7) have h - u for u - h: the printed gradient is minus the gradient.",
)
def signs_as_printed(key):
    r"""Forward sensitivities, adjoint and discrete adjoint as printed give minus the gradient: descent climbs.

    Printed: $\nabla\Lambda=\int\tilde u^\top(h-u)dt+\tilde u(T)^\top(h(T)-u(T))$; $-\dot{\hat u}=\frac{\partial m}
    {\partial u}^\top\hat u+(h-u)$, $\hat u(T)=h(T)-u(T)$; $\hat u_i=\frac{\partial u_{i+1}}{\partial u_i}^\top\hat
    u_{i+1} +(h_i-u_i)\Delta$. With $u-h$ all three are gradients.
    """
    n, horizon = 200, 2.0

    @jax.jit
    def measure(key):
        network_key, way_key = jax.random.split(key)
        network, start = _network(network_key), jnp.array(START)
        fine = NeuralODE(network, horizon=horizon, steps=n)
        euler = NeuralODE(network, horizon=horizon, steps=n, method="euler")
        theta, unravel = ravel_pytree(eqx.filter(network, eqx.is_inexact_array))
        static = eqx.filter(network, eqx.is_inexact_array, inverse=True)
        way = jax.random.normal(way_key, theta.shape)

        def along(ode, s):
            """The loss a little way along one direction, by running the scheme."""
            moved = eqx.tree_at(lambda o: o.network, ode, eqx.combine(unravel(theta + s * way), static))
            return tracking_loss(moved, _target, start)

        def slope(ode):
            return (along(ode, 1e-5) - along(ode, -1e-5)) / 2e-5

        corrected = jnp.stack(
            [
                _vector(forward_sensitivity(fine, _target, start).gradient),
                _vector(adjoint(fine, _target, start).gradient),
                _vector(discrete_adjoint(euler, _target, start).gradient),
            ]
        )
        as_printed = jnp.stack(
            [f(network, start, n, horizon) for f in (_printed_forward, _printed_adjoint, _printed_discrete)]
        )
        before = tracking_loss(fine, _target, start)

        def after(gradient):
            moved = eqx.combine(unravel(theta - 1e-3 * gradient), static)
            return tracking_loss(NeuralODE(moved, horizon=horizon, steps=n), _target, start)

        slopes = jnp.stack([slope(fine), slope(fine), slope(euler)])
        return corrected @ way, as_printed @ way, slopes, before, after(corrected[1]), after(as_printed[1])

    corrected, as_printed, slopes, before, after, after_printed = (np.asarray(a) for a in measure(key))
    # central differences with 1e-5: rounding 1e-16 / 1e-5, curvature 1e-10
    yield equal("derivative along a direction, three routes", corrected, slopes, rtol=1e-6, atol=1e-7)
    yield at_most("loss after a step of descent", after, before)
    # the printed equations are solved by Euler's method with 200 steps, to a few percent
    yield printed(equal("derivative along a direction, as printed", as_printed, slopes, rtol=0.1, atol=1e-3))
    yield printed(at_most("loss after a step of descent, as printed", after_printed, before))


def _printed_forward(network, start, n, horizon):
    step = horizon / n
    by_theta, theta = _parametrised(network)

    def onward(carry, i):
        u, tangent, gradient = carry
        miss = _target(i * step) - u
        jac = jax.jacfwd(network)(u)
        moved = u + step * network(u), tangent + step * (jac @ tangent + by_theta(u))
        return (*moved, gradient + step * miss @ tangent), None

    first = start, jnp.zeros((2, theta.size)), jnp.zeros(theta.size)
    (u, tangent, gradient), _ = jax.lax.scan(onward, first, jnp.arange(n))
    return gradient + (_target(horizon) - u) @ tangent


def _printed_adjoint(network, start, n, horizon):
    step = horizon / n
    by_theta, theta = _parametrised(network)
    path = solve(network, start, jnp.linspace(0.0, horizon, n + 1), method="euler")

    def back(carry, i):
        hat, gradient = carry
        u = path[i]
        pull = jax.vjp(network, u)[1](hat)[0]
        return (hat + step * (pull + _target(i * step) - u), gradient + step * hat @ by_theta(u)), None

    first = _target(horizon) - path[-1], jnp.zeros(theta.size)
    return jax.lax.scan(back, first, jnp.arange(n, 0, -1))[0][1]


def _printed_discrete(network, start, n, horizon):
    step = horizon / n
    by_theta, theta = _parametrised(network)
    path = solve(network, start, jnp.linspace(0.0, horizon, n + 1), method="euler")

    def back(carry, i):
        hat, gradient = carry
        u = path[i]
        gradient = gradient + step * hat @ by_theta(u)
        return (hat + step * jax.vjp(network, u)[1](hat)[0] + step * (_target(i * step) - u), gradient), None

    first = (_target(horizon) - path[-1]) * (1 + step), jnp.zeros(theta.size)
    return jax.lax.scan(back, first, jnp.arange(n - 1, -1, -1))[0][1]


def _parametrised(network):
    """u ↦ ∂m/∂θ at u, and the parameters as a vector."""
    params, static = eqx.partition(network, eqx.is_inexact_array)
    theta, unravel = ravel_pytree(params)
    return lambda u: jax.jacrev(lambda t: eqx.combine(unravel(t), static)(u))(theta), theta
