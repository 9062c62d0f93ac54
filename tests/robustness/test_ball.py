"""Projections against bisection, farthest points against linear and quadratic programs of SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from corollary.robustness import Ball


def points(seed, n=6, d=5):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(n, d)), 3 * rng.normal(size=(n, d))


def bisected(p, radius, v, low, high):
    """The nearest point of ball and box to `v`, seen from a centre at 0, by halving the multiplier of the norm."""
    size = {1: lambda a: np.abs(a).sum(), 2: np.linalg.norm}[p]
    shrink = {1: lambda t: np.sign(v) * np.maximum(np.abs(v) - t, 0), 2: lambda t: v / (1 + t)}[p]
    at = lambda t: np.clip(shrink(t), low, high)  # noqa: E731
    if size(at(0.0)) <= radius:
        return at(0.0)
    ends = [0.0, 1e6]
    for _ in range(200):
        middle = sum(ends) / 2
        ends[int(size(at(middle)) <= radius)] = middle
    return at(ends[1])


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_projection_is_the_nearest_point(p, boxed):
    centres, moves = points(0)
    low, high = (0.0, 1.0) if boxed else (None, None)
    ball = Ball(p, 0.7, low, high)
    found = jax.vmap(ball.project)(centres + moves, centres)
    for centre, move, point in zip(centres, moves, np.asarray(found), strict=True):
        ends = (-centre, 1 - centre) if boxed else (np.full(5, -np.inf), np.full(5, np.inf))
        clipped = np.clip(np.clip(move, *ends), -0.7, 0.7)
        nearest = clipped if p == np.inf else bisected(p, 0.7, move, *ends)
        np.testing.assert_allclose(point - centre, nearest, atol=1e-12)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_a_point_inside_stays_bit_for_bit_and_projecting_twice_changes_nothing(p):
    centres, moves = points(1)
    ball = Ball(p, 0.7, -9.0, 9.0)
    inside = jnp.asarray(centres + 0.01 * moves)
    assert (jax.vmap(ball.project)(inside, centres) == inside).all()
    once = jax.vmap(ball.project)(centres + moves, centres)
    np.testing.assert_allclose(jax.vmap(ball.project)(once, centres), once, atol=1e-15)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_radius_zero_returns_the_bits_of_the_centre(p):
    centre = jnp.array([-0.0, 0.0, 0.25, 1.0])
    for low, high in ((None, None), (0.0, 1.0)):
        ball = Ball(p, 0.0, low, high)
        moved = (
            ball.project(centre + 1, centre),
            ball.steepest(jnp.array([1.0, -1.0, 2.0, 3.0]), centre),
            ball.sample(centre, key=jax.random.key(0)),
        )
        for point in moved:
            assert np.asarray(point).tobytes() == np.asarray(centre).tobytes()


def linear_program(p, radius, slope, centre):
    """The largest product over ball and unit box: variables of both signs for p = 1."""
    if p == np.inf:
        bounds = [(max(-radius, -c), min(radius, 1 - c)) for c in centre]
        return -linprog(-slope, bounds=bounds).fun
    if p == 1:
        bounds = [(0, 1 - c) for c in centre] + [(0, c) for c in centre]
        return -linprog(-np.r_[slope, -slope], A_ub=np.ones((1, 2 * slope.size)), b_ub=[radius], bounds=bounds).fun
    inside = {"type": "ineq", "fun": lambda v: radius**2 - v @ v}
    bounds = [(-c, 1 - c) for c in centre]
    start = np.clip(0.01 * slope, -centre, 1 - centre)
    found = minimize(
        lambda v: -slope @ v, start, bounds=bounds, constraints=inside, tol=1e-14, options={"maxiter": 500}
    )
    return -found.fun


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_farthest_point_along_a_slope(p):
    centres, slopes = points(2)
    ball = Ball(p, 0.9, 0.0, 1.0)
    found = np.asarray(jax.vmap(ball.support)(slopes, centres))
    expected = [linear_program(p, 0.9, s, c) for s, c in zip(slopes, centres, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    free = np.asarray(jax.vmap(Ball(p, 0.9).support)(slopes, centres))
    dual = {1: np.inf, 2: 2, np.inf: 1}[p]
    np.testing.assert_allclose(free, 0.9 * np.linalg.norm(slopes, dual, axis=1), rtol=1e-12)


def test_tiny_slopes_are_not_lost():
    slope = jnp.array([3e-30, -4e-30], jnp.float32)
    moved = Ball(2, 1.0).steepest(slope, jnp.zeros(2, jnp.float32))
    np.testing.assert_allclose(moved, [0.6, -0.8], rtol=1e-6)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_samples_lie_in_ball_and_box_and_fill_the_ball(p):
    centre = jnp.array([0.1, 0.5, 0.9])
    keys = jax.random.split(jax.random.key(3), 2000)
    boxed = jax.vmap(lambda k: Ball(p, 0.3, 0.0, 1.0).sample(centre, key=k))(keys)
    assert ((boxed >= 0) & (boxed <= 1)).all()
    free = jax.vmap(lambda k: Ball(p, 0.3).sample(centre, key=k))(keys) - centre
    size = np.linalg.norm(free, p, axis=1)
    assert size.max() <= 0.3 * (1 + 1e-12)
    # the share within half of the radius is the volume 1/8: five standard deviations of 2,000 draws
    assert abs((size < 0.15).mean() - 1 / 8) < 5 * np.sqrt(7 / 64 / 2000)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((3, 0.1), "p must be one of"),
        (("two", 0.1), "p must be one of"),
        ((2, -0.1), "radius must be zero or more"),
        ((2, np.nan), "radius must be finite"),
        ((2, 0.1, 1.0, 0.0), "low must be at most high"),
    ],
)
def test_sentences(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Ball(*arguments)


@pytest.mark.parametrize("radius", [1e-3, 1.5, 10.0, 30.0])
def test_euclidean_steps_of_images_end_at_the_radius_or_in_a_corner(radius):
    rng = np.random.default_rng(4)
    centres = rng.choice([0.0, 0.0, 1.0, 0.3, 0.99], size=(20, 784))
    slopes = rng.normal(size=(20, 784)) * np.exp(3 * rng.normal(size=(20, 784)))
    moved = np.asarray(jax.vmap(Ball(2, radius, 0.0, 1.0).steepest)(slopes, centres))
    farthest = np.linalg.norm(np.where(slopes > 0, 1, 0) - centres, axis=1)
    np.testing.assert_allclose(np.linalg.norm(moved - centres, axis=1), np.minimum(radius, farthest), rtol=1e-11)
    for one, slope, centre in zip(moved, slopes, centres, strict=True):
        free = np.where((one > 0) & (one < 1), np.abs(slope), 0).argmax()
        factor = (one - centre)[free] / slope[free] if 0 < one[free] < 1 else np.inf
        np.testing.assert_allclose(one, np.clip(centre + factor * slope, 0, 1), atol=1e-12)


def test_the_length_of_a_step_has_a_derivative():
    centre = jnp.array([0.1, 0.5, 0.9, 0.4])
    slope = jnp.array([1.0, -0.5, 2.0, 0.25])  # the third meets the box
    ball = Ball(2, 0.4, 0.0, 1.0)
    along = lambda s: ball.support(s, centre)  # noqa: E731
    # the derivative of a support function is the point that attains it
    np.testing.assert_allclose(jax.grad(along)(slope), ball.steepest(slope, centre) - centre, atol=1e-12)
