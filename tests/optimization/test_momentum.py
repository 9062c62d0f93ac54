"""Heavy ball, Nesterov, MaSS, SVRG and SAG against plain NumPy loops, closed forms and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.integrate import solve_ivp

from corollary.optimization import (
    bent_line,
    best_contraction,
    contraction,
    convex_momentum,
    coordinate_least_squares,
    damped_oscillator,
    finite_sum,
    gradient_alignment,
    heavy_ball,
    heavy_ball_matrix,
    heavy_ball_of_flow,
    mass,
    mass_parameters,
    minimize,
    nesterov,
    nesterov_chain,
    nesterov_matrix,
    polyak_parameters,
    quadratic,
    rates,
    sag,
    second_moment_matrix,
    spectral_radius_by_squaring,
    strongly_convex_momentum,
    svrg,
    svrg_variance,
)

RNG = np.random.default_rng(2)
A = RNG.normal(size=(4, 4))
H = A @ A.T + 0.1 * np.eye(4)
VALUES, AXES = np.linalg.eigh(H)
START = RNG.normal(size=4)
STEPS = 15
X, Y = RNG.normal(size=(6, 2)), RNG.normal(size=6)


def path_of(method, steps=STEPS):
    return np.asarray(minimize(quadratic(VALUES, START, rotation=AXES), method, steps=steps).theta)


def two_terms(rule):
    """theta_{k+1} = rule(k, theta_k, theta_{k-1}) from theta_{-1} = theta_0."""
    path = [START, START]
    for k in range(STEPS):
        path.append(rule(k, path[-1], path[-2]))
    return np.array(path[1:])


@pytest.mark.parametrize("form", ["difference", "velocity", "scaled velocity", "intermediate"])
def test_heavy_ball_forms(form):
    expected = two_terms(lambda k, t, last: t - 0.1 * H @ t + 0.7 * (t - last))
    np.testing.assert_allclose(path_of(heavy_ball(0.1, 0.7, form=form)), expected, rtol=1e-11)
    np.testing.assert_allclose(path_of(optax.sgd(0.1, 0.7)), expected, rtol=1e-11)


def test_heavy_ball_average_form():
    expected = two_terms(lambda k, t, last: t - 0.1 * H @ t + 0.75 * (t - last))
    np.testing.assert_allclose(path_of(heavy_ball(0.4, 0.75, form="average")), expected, rtol=1e-11)


def test_heavy_ball_schedule():
    expected = two_terms(lambda k, t, last: t - 0.1 / (k + 1) * H @ t + 0.5 * (t - last))
    np.testing.assert_allclose(path_of(heavy_ball(lambda k: 0.1 / (k + 1), 0.5, form="difference")), expected)


@pytest.mark.parametrize("form", ["lookahead", "velocity", "scaled velocity"])
def test_nesterov_forms(form):
    def rule(k, t, last):
        chi = t + 0.6 * (t - last)
        return chi - 0.1 * H @ chi

    np.testing.assert_allclose(path_of(nesterov(0.1, 0.6, form=form)), two_terms(rule), rtol=1e-11)


def test_nesterov_shifted_is_optax():
    points = path_of(nesterov(0.1, 0.6))
    ahead = points[1:] + 0.6 * (points[1:] - points[:-1])
    np.testing.assert_allclose(path_of(nesterov(0.1, 0.6, form="shifted"))[1:], ahead, rtol=1e-11)
    np.testing.assert_allclose(path_of(optax.sgd(0.1, 0.6, nesterov=True))[1:], ahead, rtol=1e-11)


@pytest.mark.parametrize("form", ["lookahead", "velocity", "scaled velocity"])
def test_nesterov_schedules(form):
    t = [1.0]
    while len(t) <= STEPS:
        t.append((1 + np.sqrt(1 + 4 * t[-1] ** 2)) / 2)

    def rule(momentum):
        def advance(k, theta, last):
            chi = theta + momentum(k) * (theta - last)
            return chi - 0.1 * H @ chi

        return advance

    classic = two_terms(rule(lambda k: 0.0 if k == 0 else (t[k - 1] - 1) / t[k]))
    simple = two_terms(rule(lambda k: (k - 1) / (k + 2)))
    np.testing.assert_allclose(path_of(nesterov(0.1, form=form)), classic, rtol=1e-11)
    np.testing.assert_allclose(path_of(nesterov(0.1, convex_momentum, form=form)), simple, rtol=1e-11)


def test_without_momentum_all_are_gradient_descent():
    expected = path_of(optax.sgd(0.1))
    for method in (heavy_ball(0.1, 0.0), nesterov(0.1, 0.0), mass(0.1, 0.0, 0.0)):
        np.testing.assert_allclose(path_of(method), expected, rtol=1e-12)


def test_mass_recursion():
    theta, u, path = START, START, [START]
    for _ in range(STEPS):
        g = H @ u
        new = u - 0.1 * g
        theta, u = new, 1.5 * new - 0.5 * theta + 0.03 * g
        path.append(theta)
    np.testing.assert_allclose(path_of(mass(0.1, 0.03, 0.5)), path, rtol=1e-11)


@pytest.mark.parametrize(
    ("matrix", "method"), [(heavy_ball_matrix, heavy_ball), (nesterov_matrix, nesterov)], ids=["heavy ball", "nesterov"]
)
def test_iteration_matrices(matrix, method):
    path = np.asarray(minimize(quadratic(jnp.array([0.7])), method(0.9, 0.4), steps=9).theta)[:, 0]
    state = np.array([1.0, 1.0])
    for k in range(9):
        state = np.asarray(matrix(0.9, 0.4, 0.7)) @ state
        np.testing.assert_allclose(state[0], path[k + 1], rtol=1e-12)
    assert matrix(0.9, jnp.array([0.4, 0.5]), 0.7).shape == (2, 2, 2)


def test_choices_of_parameters():
    step, momentum = polyak_parameters(25.0, 1.0)
    np.testing.assert_allclose([step, momentum], [1 / 9, 4 / 9], rtol=1e-14)
    np.testing.assert_allclose(strongly_convex_momentum(jnp.array([1.0, 9.0, 1e10]), 1.0), [0, 0.5, 1], atol=1e-4)
    np.testing.assert_allclose(rates.momentum.heavy_ball_quadratic(25.0, 1.0, 3.0, 1), 16 / 3)


@pytest.mark.parametrize("friction", [0.5, 4.0, 2 * np.sqrt(3.0)], ids=["swings", "creeps", "critical"])
def test_damped_oscillator(friction):
    times = np.linspace(0, 6, 7)
    exact = solve_ivp(
        lambda t, y: [y[1], -friction * y[1] - 1.5 * 2.0 * y[0]],
        (0, 6),
        [1.3, 0.0],
        t_eval=times,
        rtol=1e-11,
        atol=1e-12,
    )
    np.testing.assert_allclose(damped_oscillator(1.3, 2.0, friction, 1.5, times), exact.y[0], atol=1e-9)


def test_heavy_ball_of_flow():
    np.testing.assert_allclose(heavy_ball_of_flow(2.0, 3.0, 0.1), (0.03, 0.8), rtol=1e-12)


def test_bent_line():
    problem = bent_line()
    x = jnp.array([-1.0, 0.5, 1.5, 3.0])
    np.testing.assert_allclose(jax.vmap(problem.gradient)(x), [-25.0, 12.5, 25.5, 51.0])
    edges = jnp.array([1.0, 2.0])
    np.testing.assert_allclose(jax.vmap(problem)(edges - 1e-9), jax.vmap(problem)(edges + 1e-9), rtol=1e-7)
    path = np.asarray(minimize(problem, heavy_ball(1 / 9, 4 / 9), steps=300).theta)
    np.testing.assert_allclose(np.sort(path[-3:]), [-1.80245, 0.64653, 2.11592], atol=1e-5)


def test_nesterov_chain():
    problem = nesterov_chain(5)
    chain = 0.25 * (2 * np.eye(5) - np.eye(5, k=1) - np.eye(5, k=-1))
    np.testing.assert_allclose(problem.hessian(problem.start), chain, atol=1e-14)
    np.testing.assert_allclose(problem.gradient(problem.start), [-0.25, 0, 0, 0, 0], atol=1e-14)


def test_spectral_radius():
    matrices = np.random.default_rng(0).normal(size=(20, 4, 4))
    expected = np.abs(np.linalg.eigvals(matrices)).max(-1)
    np.testing.assert_allclose(spectral_radius_by_squaring(matrices), expected, rtol=1e-9)
    large = np.random.default_rng(1).normal(size=(7, 7))
    np.testing.assert_allclose(spectral_radius_by_squaring(large), np.abs(np.linalg.eigvals(large)).max(), rtol=1e-9)
    np.testing.assert_allclose(spectral_radius_by_squaring(np.array([[0.5, 1.0], [0.0, 0.5]])), 0.5, rtol=1e-9)
    assert spectral_radius_by_squaring(np.array([[0.0, 1.0], [0.0, 0.0]])) == 0


@pytest.mark.parametrize("amplitude", ["normal", "sign"])
@pytest.mark.parametrize("name", ["heavy ball", "nesterov", "mass"])
def test_second_moments_by_enumeration(name, amplitude):
    """One step from a fixed state, its square averaged over the coordinates and by Gauss and Hermite over z."""
    z, w = np.polynomial.hermite_e.hermegauss(6) if amplitude == "normal" else (np.array([-1.0, 1.0]), np.ones(2))
    w = w / w.sum()
    eta, rho, back, h, state = 0.3, 0.6, 0.1, 0.8, np.array([1.2, -0.4])

    def step(c):
        point, other = state[0], state[0] - state[1]
        if name == "heavy ball":
            new = point - eta * c * point + rho * (point - other)
            return np.array([new, new - point])
        theta = point - eta * c * point
        u = (1 + rho) * theta - rho * other + (back if name == "mass" else 0) * c * point
        return np.array([u, u - theta])

    slopes = np.append(h * z**2, 0.0)
    chances = np.append(w / 2, 0.5)
    expected = sum(p * np.kron(step(c), step(c)) for p, c in zip(chances, slopes, strict=True))
    fourth = 3.0 if amplitude == "normal" else 1.0
    matrix = second_moment_matrix(name, eta, rho, h, share=0.5, fourth=fourth, compensation=back)
    np.testing.assert_allclose(matrix @ np.kron(state, state), expected, rtol=1e-12)


@pytest.mark.parametrize("amplitude", ["normal", "sign"])
def test_oracle_of_coordinate_least_squares(amplitude):
    problem = coordinate_least_squares(jnp.array([1.0, 0.2, 0.5]), amplitude=amplitude)
    theta = jnp.array([1.0, -2.0, 0.5])
    keys = jax.random.split(jax.random.key(0), 40_000)
    seen = np.asarray(jax.vmap(lambda k: problem.oracle(theta, k))(keys))
    assert (np.count_nonzero(seen, axis=1) <= 1).all()
    error = seen.std(0) / np.sqrt(len(seen))
    assert (np.abs(seen.mean(0) - problem.gradient(theta)) < 5 * error).all()


def test_best_contraction_against_scipy():
    h = jnp.array([1.0, 0.01])
    for amplitude, fourth in (("normal", 3.0), ("sign", 1.0)):
        # with momentum 0 the factor of coordinate h is 1 - eta h + fourth eta^2 h^2 / 2
        etas = np.linspace(1e-3, 2, 200_001)
        factor = np.max([1 - etas * c + fourth * (etas * c) ** 2 / 2 for c in (1.0, 0.01)], axis=0)
        found = best_contraction("sgd", h, amplitude=amplitude)
        np.testing.assert_allclose(1 - found.factor, 1 - factor.min(), rtol=1e-4)
    found = best_contraction("nesterov", h)
    np.testing.assert_allclose(contraction("nesterov", found.step, found.momentum, h), found.factor, rtol=1e-8)
    grid = jnp.meshgrid(jnp.geomspace(0.3, 3, 41) * found.step, 1 - (1 - found.momentum) * jnp.geomspace(0.3, 3, 41))
    assert contraction("nesterov", *grid, h).min() > found.factor - 1e-6


def test_mass_parameters():
    found = mass_parameters(3.0, 1 / 200, 6.0)
    alpha = 1 / np.sqrt(600 * 6)
    expected = (1 / 3, (1 / 3 - alpha * (1 / 3) / (alpha * 6)) / (1 + alpha), (1 - alpha) / (1 + alpha))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def term(theta, x, y):
    return 0.5 * (x @ theta - y) ** 2


def sums(key=0):
    return finite_sum(term, (X, Y), jnp.zeros(2), batch=2)


def test_sag_recursion():
    problem, key = sums(), jax.random.key(4)
    theta, table, path = np.zeros(2), np.zeros((6, 2)), [np.zeros(2)]
    for k in range(20):
        i = int(jax.random.randint(jax.random.fold_in(key, k), (), 0, 6))
        table[i] = (X[i] @ theta - Y[i]) * X[i]
        theta = theta - 0.05 * table.mean(0)
        path.append(theta)
    np.testing.assert_allclose(minimize(problem, sag(0.05), steps=20, key=key).theta, path, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("option", ["last", "random"])
def test_svrg_recursion(option):
    problem, key = sums(), jax.random.key(5)
    gradient = lambda t, i: (X[i] @ t - Y[i]) * X[i]  # noqa: E731
    theta = snapshot = np.zeros(2)
    path, epoch = [theta], []
    for k in range(20):
        which, when = jax.random.split(jax.random.fold_in(key, k))
        if k % 5 == 0:
            full, epoch = np.mean([gradient(snapshot, i) for i in range(6)], axis=0), []
            take = int(jax.random.randint(when, (), 0, 5))
        epoch.append(theta)
        i = int(jax.random.randint(which, (), 0, 6))
        theta = theta - 0.05 * (gradient(theta, i) - gradient(snapshot, i) + full)
        if k % 5 == 4:
            snapshot = theta = theta if option == "last" else epoch[take]
        path.append(theta if option == "last" else snapshot)
    found = minimize(problem, svrg(0.05, 5, option=option), steps=20, key=key).theta
    np.testing.assert_allclose(found, path, rtol=1e-10, atol=1e-14)


def test_variance_and_alignment():
    problem = sums()
    theta, snapshot = jnp.array([0.3, -1.0]), jnp.array([0.2, -0.9])
    g = (X @ theta - Y)[:, None] * X
    np.testing.assert_allclose(svrg_variance(problem, theta, None), ((g - g.mean(0)) ** 2).sum(1).mean())
    d = (X @ (theta - snapshot))[:, None] * X
    np.testing.assert_allclose(svrg_variance(problem, theta, snapshot), ((d - d.mean(0)) ** 2).sum(1).mean())
    key = jax.random.key(1)
    chosen = np.asarray(jax.random.randint(key, (2,), 0, 6))
    a, b = g[chosen].mean(0), g.mean(0)
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    np.testing.assert_allclose(gradient_alignment(problem, theta, key), expected, rtol=1e-12)
    assert gradient_alignment(finite_sum(term, (X, 0 * Y), jnp.zeros(2)), jnp.zeros(2), key) == 0


def test_rates_by_hand():
    m = rates.momentum
    np.testing.assert_allclose(m.nesterov_convex(3.0, 2.0, jnp.array([1, 3])), [6.0, 1.5])
    np.testing.assert_allclose(m.nesterov_convex_tight(3.0, 2.0, jnp.array([1, 3])), [2.0, 0.8])
    np.testing.assert_allclose(m.nesterov_strongly_convex(4.0, 1.0, 3.0, 2.0, 2), 1.25)
    np.testing.assert_allclose(m.nesterov_quadratic(4.0, 1.0, 3.0, 2), 1.5)
    np.testing.assert_allclose(m.heavy_ball_average(2.0, 3.0, 9, step=0.25, momentum=0.5), 2.0)
    np.testing.assert_allclose(m.heavy_ball_strongly_convex(2.0, 0.5, 3.0, 2, step=0.5), 1.6875)
    np.testing.assert_allclose(m.mass(8.0, 2.0, 3.0, 2), 1.6875)
    v = rates.variance_reduction
    np.testing.assert_allclose(v.svrg_factor(1.0, 0.1, step=0.1, inner=500), 0.5)
    np.testing.assert_allclose(v.sag(1.0, 0.5, 2, 1.0, 1.0, 16.0, 1), (1 - 1 / 32) * 4)


def test_traced():
    def final(step, momentum):
        problem = quadratic(VALUES, START, rotation=AXES)
        return minimize(problem, heavy_ball(step, momentum), steps=5).value[-1]

    found = jax.jit(jax.vmap(final))(jnp.array([0.1, 0.2]), jnp.array([0.3, 0.4]))
    np.testing.assert_allclose(found, [final(0.1, 0.3), final(0.2, 0.4)], rtol=1e-10)


P = quadratic([1.0, 2.0])
BAD = {
    "step must be positive": [
        lambda: heavy_ball(0.0, 0.5), lambda: nesterov(-1.0), lambda: mass(0.0, 0.1, 0.1), lambda: sag(0.0),
        lambda: svrg(0.0, 3), lambda: heavy_ball_matrix(0.0, 0.5, 1.0), lambda: nesterov_matrix(0.0, 0.5, 1.0),
        lambda: second_moment_matrix("mass", 0.0, 0.5, 1.0, share=0.5, fourth=3.0),
        lambda: contraction("mass", 0.0, 0.5, [1.0]),
    ],
    r"momentum must be in \[0, 1\]": [
        lambda: heavy_ball(0.1, 1.5), lambda: nesterov(0.1, -0.5), lambda: mass(0.1, 0.1, 2.0),
    ],
    "form must be one of": [lambda: heavy_ball(0.1, 0.5, form="x"), lambda: nesterov(0.1, 0.5, form="x")],
    "momentum must be a number in the shifted form": [lambda: nesterov(0.1, form="shifted")],
    "compensation must be zero or more": [lambda: mass(0.1, -0.1, 0.1)],
    "mu must be positive": [
        lambda: polyak_parameters(1.0, 0.0), lambda: strongly_convex_momentum(1.0, 0.0),
        lambda: rates.momentum.nesterov_quadratic(1.0, 0.0, 1.0, 1), lambda: mass_parameters(1.0, 0.0, 2.0),
    ],
    "mu over L must be": [lambda: rates.momentum.nesterov_strongly_convex(1.0, 2.0, 1.0, 1.0, 1)],
    "mu over L1 must be": [lambda: mass_parameters(1.0, 2.0, 2.0)],
    "statistical_condition must be at least 1": [lambda: mass_parameters(1.0, 0.5, 0.5)],
    "condition must be at least 1": [lambda: rates.momentum.mass(0.5, 2.0, 1.0, 1)],
    "k must be at least 1": [
        lambda: rates.momentum.nesterov_convex(1.0, 1.0, 0), lambda: rates.momentum.nesterov_convex_tight(1.0, 1.0, 0),
    ],
    "k must be zero or more": [lambda: convex_momentum(-1)],
    "step times L over 1 - momentum": [
        lambda: rates.momentum.heavy_ball_average(1.0, 1.0, 1, step=0.6, momentum=0.5)
    ],
    "step times L must be": [lambda: rates.momentum.heavy_ball_strongly_convex(1.0, 0.1, 1.0, 1, step=1.1)],
    "step times 2L must be": [lambda: rates.variance_reduction.svrg_factor(1.0, 0.1, step=0.5, inner=10)],
    "noise must be zero or more": [lambda: rates.variance_reduction.sag(1.0, 0.5, 2, 1.0, 1.0, -1.0, 1)],
    "friction must be positive": [
        lambda: heavy_ball_of_flow(0.0, 1.0, 0.1), lambda: damped_oscillator(1.0, 1.0, 0.0, 1.0, 1.0),
    ],
    "friction times spacing": [lambda: heavy_ball_of_flow(2.0, 1.0, 0.6)],
    "time must be zero or more": [lambda: damped_oscillator(1.0, 1.0, 1.0, 1.0, -1.0)],
    "start must have shape": [lambda: bent_line([1.0])],
    "dim must be at least 2": [lambda: nesterov_chain(1)],
    "curvatures must be positive": [
        lambda: coordinate_least_squares([1.0, 0.0]), lambda: best_contraction("sgd", [0.0]),
    ],
    "amplitude must be one of": [
        lambda: coordinate_least_squares([1.0], amplitude="x"),
        lambda: contraction("mass", 0.1, 0.1, [1.0], amplitude="x"),
    ],
    "method must be one of": [
        lambda: contraction("x", 0.1, 0.1, [1.0]), lambda: best_contraction("mass", [1.0]),
    ],
    "matrix must have shape": [lambda: spectral_radius_by_squaring(np.ones((2, 3)))],
    "inner must be at least 1": [lambda: svrg(0.1, 0)],
    "option must be one of": [lambda: svrg(0.1, 3, option="x")],
}  # fmt: skip


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input(sentence):
    for call in BAD[sentence]:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_finite_sums_only():
    for call in (
        lambda: minimize(P, sag(0.1), steps=2),
        lambda: minimize(P, svrg(0.1, 2), steps=2),
        lambda: svrg_variance(P, P.start, None),
        lambda: gradient_alignment(P, P.start, jax.random.key(0)),
    ):
        with pytest.raises(TypeError, match="problem must be a FiniteSum, got Problem"):
            call()
