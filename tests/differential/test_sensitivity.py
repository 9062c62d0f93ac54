import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

from corollary.differential import NeuralODE, adjoint, discrete_adjoint, forward_sensitivity, tracking_loss

START = np.array([0.7, -0.4])


def target(t):
    return jnp.stack([jnp.sin(2 * t), t**2])


def made(steps, method):
    return NeuralODE(eqx.nn.MLP(2, 2, 3, 1, jnp.tanh, key=jax.random.key(0)), horizon=1.2, steps=steps, method=method)


def vector(tree):
    return ravel_pytree(eqx.filter(tree, eqx.is_inexact_array))[0]


@pytest.fixture(scope="module")
def differences():
    """Central differences of the loss that SciPy integrates."""
    with jax.enable_x64(True):
        ode = made(1, "rk4")
        theta, unravel = ravel_pytree(eqx.filter(ode.network, eqx.is_inexact_array))
        static = eqx.filter(ode.network, eqx.is_inexact_array, inverse=True)
        slope = jax.jit(lambda theta, u: eqx.combine(unravel(theta), static)(u))

        def h(t):
            return np.array([np.sin(2 * t), t**2])

        def loss(theta):
            def velocity(t, state):
                return np.append(slope(theta, state[:2]), ((h(t) - state[:2]) ** 2).sum() / 2)

            end = solve_ivp(velocity, (0, 1.2), [*START, 0.0], rtol=1e-11, atol=1e-12, method="DOP853").y[:, -1]
            return end[2] + ((h(1.2) - end[:2]) ** 2).sum() / 2

        ways = 1e-4 * np.eye(theta.size)
        return loss(theta), np.array([(loss(theta + w) - loss(theta - w)) / 2e-4 for w in ways])


@pytest.mark.parametrize("route", [forward_sensitivity, adjoint])
def test_continuous_routes_against_differences(route, differences):
    found = jax.jit(lambda: route(made(60, "rk4"), target, START)[:2])()
    np.testing.assert_allclose(found[0], differences[0], rtol=1e-7)
    np.testing.assert_allclose(vector(found[1]), differences[1], rtol=1e-5, atol=1e-7)


def test_discrete_adjoint_is_the_gradient_of_the_loop():
    ode = made(3, "euler")
    found = discrete_adjoint(ode, target, START)
    loss, gradient = eqx.filter_value_and_grad(lambda ode: tracking_loss(ode, target, START))(ode)
    np.testing.assert_allclose(found.loss, loss, rtol=1e-14)
    np.testing.assert_allclose(vector(found.gradient), vector(gradient.network), rtol=1e-12)
    assert found.equations == 4


def test_loss_by_hand():
    ode = NeuralODE(lambda u: jnp.ones_like(u), horizon=1.0, steps=2, method="euler")
    # states 0, ½, 1 against the target 0: ½ (¼ + 1) ½ + ½
    assert float(tracking_loss(ode, lambda t: jnp.zeros(1), jnp.zeros(1))) == pytest.approx(0.3125 + 0.5)
    ode = NeuralODE(lambda u: jnp.ones_like(u), horizon=1.0, steps=2)
    assert float(tracking_loss(ode, lambda t: jnp.zeros(1), jnp.zeros(1))) == pytest.approx(1 / 6 + 0.5)


def test_counts():
    ode = made(2, "rk4")
    params = vector(ode.network).size
    assert forward_sensitivity(ode, target, START).equations == 2 + 2 * params
    assert adjoint(ode, target, START).equations == 4


def test_against_diffrax():
    diffrax = pytest.importorskip("diffrax")
    ode = made(400, "rk4")

    def velocity(t, state, network):
        u, _ = state
        return network(u), ((target(t) - u) ** 2).sum() / 2

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def reference(network):
        u, running = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            diffrax.Dopri8(),
            0.0,
            1.2,
            0.01,
            (jnp.asarray(START), jnp.zeros(())),
            network,
            stepsize_controller=diffrax.PIDController(rtol=1e-12, atol=1e-12),
        ).ys
        return running[-1] + ((target(1.2) - u[-1]) ** 2).sum() / 2

    loss, gradient = reference(ode.network)
    for route in (forward_sensitivity, adjoint):
        found = route(ode, target, START)
        np.testing.assert_allclose(found.loss, loss, atol=1e-8)
        np.testing.assert_allclose(vector(found.gradient), vector(gradient), atol=1e-8)


class Cubic(eqx.Module):
    rate: jax.Array

    def __call__(self, u):
        return self.rate * u**3


@pytest.mark.parametrize("method", ["euler", "rk4"])
@pytest.mark.parametrize("route", [tracking_loss, forward_sensitivity, adjoint])
def test_a_solution_that_explodes_is_no_gradient(route, method):
    ode = NeuralODE(Cubic(jnp.asarray(5.0)), horizon=2.0, steps=40, method=method)
    with pytest.raises(ValueError, match=r"explodes: at time [01]\.[0-9]+ it is not finite"):
        route(ode, target, jnp.full(2, 2.0))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: adjoint(lambda u: u, target, START), "ode must be a NeuralODE"),
        (lambda: adjoint(made(2, "rk4"), START, START), "target must be a function of time"),
        (lambda: adjoint(made(2, "rk4"), lambda t: t, START), r"target must return what has the shape \(2,\)"),
        (lambda: discrete_adjoint(made(2, "rk4"), target, START), "that of Euler's scheme"),
        (
            lambda: adjoint(NeuralODE(lambda u: jnp.ones(3)), target, START),
            r"field must return what has the shape \(2,\)",
        ),
        (
            lambda: forward_sensitivity(NeuralODE(lambda u: -u), lambda t: jnp.zeros(2), START),
            "ode must have parameters to differentiate by",
        ),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
