"""Players on games against steps written out in NumPy, against SciPy's integrator, and the sentences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from corollary.generative import alternating, extragradient, gda, gda_flow, optimistic, unrolled

A = np.array([[1.0, -2.0], [0.5, 0.3]])
START = np.array([0.4, -0.7]), np.array([1.1, 0.2])


def payoff(x, y):
    return jnp.sum(x**4) / 4 + x @ A @ y - jnp.sum(y**2)


def slopes(x, y):
    """Of the payoff in x, and of minus the payoff in y."""
    return x**3 + A @ y, -(A.T @ x) + 2 * y


def by_hand(name, steps, h):
    x, y = START
    old = slopes(x, y)
    path = [(x, y)]
    for _ in range(steps):
        u, v = slopes(x, y)
        if name == "gda":
            x, y = x - h * u, y - h * v
        elif name == "alternating":
            x = x - h * u
            y = y - h * slopes(x, y)[1]
        elif name == "extragradient":
            u, v = slopes(x - h * u, y - h * v)
            x, y = x - h * u, y - h * v
        elif name == "optimistic":
            x, y, old = x - h * (2 * u - old[0]), y - h * (2 * v - old[1]), (u, v)
        else:
            # y moves to y - h (2 y - A'x), whose derivative in x is h A'
            ahead = y - h * v
            inner = x**3 + A @ ahead + h * A @ (A.T @ x - 2 * ahead)
            x, y = x - h * inner, y - h * v
        path.append((x, y))
    return [np.array(side) for side in zip(*path, strict=True)]


@pytest.mark.parametrize("method", [gda, alternating, extragradient, optimistic, unrolled])
def test_paths_are_those_of_steps_written_out(method):
    play = method(payoff, START, step=0.1, steps=12)
    x, y = by_hand(method.__name__, 12, 0.1)
    np.testing.assert_allclose(play.x, x, rtol=1e-12)
    np.testing.assert_allclose(play.y, y, rtol=1e-12)
    values = [payoff(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(play.values, values, rtol=1e-12)
    np.testing.assert_array_equal(play.end[0], play.x[-1])


def test_two_losses_are_a_game_too():
    pair = (payoff, lambda x, y: -payoff(x, y))
    for method in (gda, alternating, unrolled):
        np.testing.assert_allclose(
            method(pair, START, step=0.1, steps=5).y, method(payoff, START, step=0.1, steps=5).y, rtol=1e-12
        )
    both = (lambda x, y: (x - y) ** 2, lambda x, y: (y - 3) ** 2)
    np.testing.assert_allclose(jnp.stack(gda(both, (0.0, 0.0), step=0.2, steps=200).end), [3, 3])


def test_a_longer_look_and_any_pytree():
    far = unrolled(lambda x, y: x["a"] * y[0], ({"a": 1.0}, [0.5]), step=0.1, steps=1, look=3)
    # d/dx of x (y + 3 h x) at x = 1, y = 0.5
    assert far.end[0]["a"].item() == pytest.approx(1 - 0.1 * (0.5 + 6 * 0.1))


def test_the_flow_is_scipys():
    times = np.array([0.3, 1.0, 1.5])
    play = gda_flow(payoff, START, times)
    exact = solve_ivp(
        lambda _, z: -np.concatenate(slopes(z[:2], z[2:])), (0, 1.5), np.concatenate(START), t_eval=times, rtol=1e-10
    )
    np.testing.assert_allclose(np.concatenate([play.x, play.y], 1), exact.y.T, atol=1e-6)


def test_derivatives_and_many_runs_at_once():
    def end(step):
        return gda(payoff, START, step=step, steps=3).end[0][0]

    slope = jax.grad(end)(0.1)
    assert float(slope) == pytest.approx(float(end(0.1 + 1e-5) - end(0.1 - 1e-5)) / 2e-5, rel=1e-6)
    many = jax.vmap(end)(jnp.array([0.1, 0.2]))
    assert float(many[1]) == pytest.approx(float(end(0.2)))


def test_sentences():
    for wrong, message in (
        ((3.0, (0.0, 0.0)), "payoff must be a function of x and y, or a pair of them"),
        (((payoff,), (0.0, 0.0)), "payoff must be a function of x and y, or a pair of them"),
        ((payoff, 0.0), "start must be the pair"),
    ):
        with pytest.raises(TypeError, match=message):
            gda(*wrong, step=0.1, steps=1)
    with pytest.raises(ValueError, match="start must have at least one array for each player"):
        gda(payoff, ({}, 0.0), step=0.1, steps=1)
    with pytest.raises(ValueError, match=r"payoff must return a number, got \(2,\)"):
        gda(lambda x, y: x, START, step=0.1, steps=1)
    with pytest.raises(ValueError, match="step must be positive"):
        gda(payoff, START, step=0.0, steps=1)
    with pytest.raises(ValueError, match=r"start\[1\]\[0\] must be finite"):
        gda(payoff, (0.0, [np.inf]), step=0.1, steps=1)
    with pytest.raises(ValueError, match="look must be at least 1"):
        unrolled(payoff, START, step=0.1, steps=1, look=0)
