"""The shallow network and its training against autodiff, plain loops, SciPy's assignment and its integrator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import linear_sum_assignment
from scipy.special import erf

from corollary import Network
from corollary.dynamics import (
    ScaledNetwork,
    draw_shallow,
    shallow_flow,
    shallow_sgd,
    shallow_step,
    shallow_velocity,
    tangent_kernel,
    tangent_parts,
)
from corollary.dynamics.shallow import OUTER, UnitMeasure
from corollary.kernels import empirical_ntk

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 3)), RNG.normal(size=5)
C, W = RNG.normal(size=7), RNG.normal(size=(7, 3))


ORDER = RNG.integers(0, 5, 20)


def plain():
    return ScaledNetwork(C, W)


def forward(c, w, x, gamma=0.5):
    return len(c) ** -gamma * erf(x @ w.T) @ c


def slope(z):
    return 2 / np.sqrt(np.pi) * np.exp(-(z**2))


@pytest.mark.parametrize("gamma", [0.5, 0.75, 1.0])
def test_outputs_against_numpy_and_the_pairing(gamma):
    net = ScaledNetwork(C, W, gamma=gamma)
    np.testing.assert_allclose(net(X), forward(C, W, X, gamma), rtol=1e-12)
    np.testing.assert_allclose(net(X[2]), forward(C, W, X[2], gamma), rtol=1e-12)
    paired = net.measure.pair(lambda c, w: c * jax.lax.erf(jnp.asarray(X) @ w))
    np.testing.assert_allclose(net(X), 7 ** (1 - gamma) * paired, rtol=1e-12)


def test_bias_is_a_first_coordinate_of_one():
    net, unbiased = ScaledNetwork(C, W, bias=True), plain()
    ones = np.concatenate([np.ones((5, 1)), X[:, :2]], 1)
    np.testing.assert_allclose(net(X[:, :2]), unbiased(ones), rtol=1e-14)
    np.testing.assert_allclose(tangent_kernel(net, X[:, :2]), tangent_kernel(unbiased, ones), rtol=1e-14)
    a, b = (shallow_velocity(n, x, Y, 1.0) for n, x in ((net, X[:, :2]), (unbiased, ones)))
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-13), a, b)


def test_units_beyond_the_width_are_absent():
    wide, narrow = ScaledNetwork(C, W, width=4), ScaledNetwork(C[:4], W[:4])
    np.testing.assert_allclose(wide(X), narrow(X), rtol=1e-13)
    np.testing.assert_allclose(tangent_kernel(wide, X), tangent_kernel(narrow, X), rtol=1e-13)
    np.testing.assert_allclose(wide.measure.pair(lambda c, w: c**2 + w[0]), np.mean(C[:4] ** 2 + W[:4, 0]), rtol=1e-13)
    for train in (
        lambda n: shallow_sgd(n, X, Y, 1.0, ORDER)[0],
        lambda n: shallow_flow(n, X, Y, 1.0, [1.0])[0],
    ):
        np.testing.assert_allclose(train(wide), train(narrow), rtol=1e-12)
    other = ScaledNetwork(C[::-1], W[::-1], width=4)
    np.testing.assert_allclose(
        wide.measure.wasserstein(other.measure),
        narrow.measure.wasserstein(ScaledNetwork(C[::-1][:4], W[::-1][:4]).measure),
        rtol=1e-12,
    )


@pytest.mark.parametrize("gamma", [0.5, 0.8])
def test_kernel_is_the_product_of_jacobians(gamma):
    net = ScaledNetwork(C, W, gamma=gamma)

    def apply(theta, x):
        return ScaledNetwork(*theta, gamma=gamma)(x)

    jacobian = jax.jit(jax.jacobian(lambda theta: apply(theta, X)))((net.outer, net.inner))
    parts = [j.reshape(5, -1) @ j.reshape(5, -1).T * 7 ** (2 * gamma - 1) for j in jacobian]
    for part, expected in zip(tangent_parts(net, X), parts, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12)
    np.testing.assert_allclose(tangent_kernel(net, X, X[:2]), sum(parts)[:, :2], rtol=1e-12)
    through = empirical_ntk(Network(apply, (net.outer, net.inner), batched=True), jnp.asarray(X)) * 7 ** (2 * gamma - 1)
    np.testing.assert_allclose(tangent_kernel(net, X), through, rtol=1e-12)
    assert np.linalg.eigvalsh(tangent_kernel(net, X))[0] > 0


def test_wasserstein_against_scipy():
    a, b = (
        plain().measure,
        ScaledNetwork(RNG.normal(size=7), RNG.normal(size=(7, 3))).measure,
    )
    mine, theirs = (np.c_[m.outer, m.inner] for m in (a, b))
    cost = ((mine[:, None] - theirs) ** 2).sum(-1)
    rows, columns = linear_sum_assignment(cost)
    np.testing.assert_allclose(a.wasserstein(b), np.sqrt(cost[rows, columns].mean()), rtol=1e-12)
    assert a.wasserstein(UnitMeasure(a.outer[::-1], a.inner[::-1], a.width)) == 0


@pytest.mark.parametrize("gamma", [0.5, 0.8])
def test_a_step_is_the_gradient_of_the_squared_error(gamma):
    net = ScaledNetwork(C, W, gamma=gamma)

    def loss(theta):
        return (Y[1] - ScaledNetwork(*theta, gamma=gamma)(X[1])) ** 2 / 2

    gradient = jax.grad(loss)((net.outer, net.inner))
    after = shallow_step(net, X[1], Y[1], 0.3)
    rate = 0.3 / 7 ** (2 * (1 - gamma))
    np.testing.assert_allclose(after.outer, net.outer - rate * gradient[0], rtol=1e-12)
    np.testing.assert_allclose(after.inner, net.inner - rate * gradient[1], rtol=1e-12)


def test_sgd_against_a_plain_loop():
    outputs, end = shallow_sgd(plain(), X, Y, 0.7, ORDER)
    c, w, rate = C.copy(), W.copy(), 0.7 / 7
    for k, i in enumerate(ORDER):
        np.testing.assert_allclose(outputs[k], forward(c, w, X), rtol=1e-10)
        push, z = rate / np.sqrt(7) * (Y[i] - forward(c, w, X[i])), w @ X[i]
        c, w = c + push * erf(z), w + push * (c * slope(z))[:, None] * X[i]
    np.testing.assert_allclose(outputs[-1], forward(c, w, X), rtol=1e-10)
    np.testing.assert_allclose(end.inner, w, rtol=1e-10)
    some, _ = shallow_sgd(plain(), X, Y, 0.7, ORDER, [0, 3, 3, 11], observe=lambda n: n(X[:1]))
    np.testing.assert_allclose(some[:, 0], outputs[np.array([0, 3, 3, 11]), 0], rtol=1e-12)


def test_velocity_and_flow_against_autodiff_and_scipy():
    def loss(theta):
        return jnp.mean((Y - ScaledNetwork(*theta)(X)) ** 2) / 2

    gradient = jax.grad(loss)((plain().outer, plain().inner))
    for v, g in zip(shallow_velocity(plain(), X, Y, 2.0), gradient, strict=True):
        np.testing.assert_allclose(v, -2.0 * g, rtol=1e-11)

    def velocity(_, theta):
        c, w = theta[:7], theta[7:].reshape(7, 3)
        miss, z = (Y - forward(c, w, X)) / 5, X @ w.T
        return np.r_[miss @ erf(z), (c[:, None] * ((slope(z) * miss[:, None]).T @ X)).ravel()] * 2 / np.sqrt(7)

    times = np.array([0.0, 0.5, 2.0])
    ode = solve_ivp(velocity, (0, 2), np.r_[C, W.ravel()], t_eval=times, rtol=1e-11, atol=1e-12)
    outputs, end = shallow_flow(plain(), X, Y, 2.0, times, substeps=40)
    np.testing.assert_allclose(end.outer, ode.y[:7, -1], rtol=1e-6)
    expected = np.stack([forward(s[:7], s[7:].reshape(7, 3), X) for s in ode.y.T])
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


@pytest.mark.parametrize("outer", OUTER)
def test_laws_of_the_outer_weights(outer):
    net = draw_shallow(40_000, 2, key=jax.random.key(1), outer=outer)
    # five standard errors; fourth moments are at most 3
    assert abs(np.mean(net.outer)) < 5 / 200
    assert abs(np.mean(net.outer**2) - 1) < 5 * np.sqrt(2) / 200
    assert np.abs(net.outer).max() <= OUTER[outer][1] * (1 + 1e-12)
    assert abs(np.mean(net.outer**3)) > 0.5 if outer == "skewed" else abs(np.mean(net.outer**3)) < 5 * 4 / 200
    assert net.inner.shape == (40_000, 2)
    assert draw_shallow(3, 2, key=jax.random.key(1), outer=outer, bias=True).inner.shape == (3, 3)


def test_follows_the_precision_of_the_weights():
    net = ScaledNetwork(C.astype("float32"), W.astype("float32"))
    outputs, end = shallow_sgd(net, X, Y, 1.0, ORDER)
    flow, _ = shallow_flow(net, X, Y, 1.0, [0.5])
    assert outputs.dtype == flow.dtype == end.inner.dtype == tangent_kernel(net, X).dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ScaledNetwork(C, W[:3]), r"inner must have shape \(n, d\) with n = 7, got \(3, 3\)"),
        (lambda: ScaledNetwork(C, W, gamma=0.3), r"gamma must be in \[0.5, 1\], got 0.3"),
        (lambda: ScaledNetwork(C, W, width=8), r"width must be in \[1, 7\], got 8.0"),
        (lambda: ScaledNetwork(C, W[:, :1], bias=True), "inner must have a column for the bias"),
        (lambda: ScaledNetwork(C, W, activation="nothing"), "activation must be one of"),
        (lambda: plain()(X[:, :2]), r"x must have shape \(..., d\) with d = 3, got \(5, 2\)"),
        (lambda: plain().measure.pair(3), "f must be a function of the weights"),
        (lambda: plain().measure.wasserstein(3), "other must be a UnitMeasure with the same numbers of units"),
        (lambda: draw_shallow(3, 2, key=jax.random.key(0), outer="cauchy"), "outer must be one of"),
        (lambda: tangent_kernel(3, X), "network must be a ShallowNetwork, got int"),
        (lambda: tangent_kernel(plain(), X, X[:, :2]), r"x2 must have shape \(n, d\) with d = 3, got \(5, 2\)"),
        (lambda: shallow_step(plain(), X, 0.0, 1.0), r"x must have shape \(d,\), got \(5, 3\)"),
        (lambda: shallow_sgd(plain(), X, Y[:4], 1.0, ORDER), r"y must have shape \(n,\) with n = 5, got \(4,\)"),
        (lambda: shallow_sgd(plain(), X, Y, -1.0, ORDER), "eta must be positive, got -1.0"),
        (lambda: shallow_sgd(plain(), X, Y, 1.0, ORDER + 5), "order must hold labels from 0 to 4"),
        (lambda: shallow_sgd(plain(), X, Y, 1.0, ORDER, [3, 2]), "checkpoints must increase"),
        (lambda: shallow_sgd(plain(), X, Y, 1.0, ORDER, [21]), "checkpoints must hold labels from 0 to 20, got 21"),
        (
            lambda: shallow_sgd(plain(), X, Y, 1.0, ORDER, observe=3),
            "observe must be a function of the network, got int",
        ),
        (lambda: shallow_flow(plain(), X, Y, 1.0, [1.0, 0.5]), "times must increase"),
        (lambda: shallow_flow(plain(), X, Y, 1.0, [1.0], substeps=0), "substeps must be at least 1, got 0"),
    ],
)
def test_bad_arguments(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
