"""Critical points of deep linear networks, against dense Hessians by automatic differentiation and NumPy."""

from functools import cache
from itertools import pairwise
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from corollary.landscape import (
    critical_point,
    critical_value,
    deep_linear_loss,
    escape_direction,
    hessian_inertia,
    hessian_spectrum,
    index_sets,
    principal_directions,
    squared_loss_gradient,
)

SIZES = [(4, 2, 4), (3, 2, 5), (5, 3, 3), (3, 5, 3), (4, 3, 2, 3), (3, 2, 3, 2, 4)]
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 4)), RNG.normal(size=(12, 3))


def data(sizes, *, white):
    rng = np.random.default_rng(1)
    x, y = np.linalg.qr(rng.normal(size=(14, sizes[0])))[0], rng.normal(size=(14, sizes[-1]))
    return (x, y) if white else (x @ rng.normal(size=(sizes[0], sizes[0])), y)


@cache
def program(sizes):
    """Everything of all critical points in one compiled program, the same for all data of these sizes."""
    sets = jnp.asarray(index_sets(min(sizes[0], sizes[-1]), min(sizes[1:-1])))

    @jax.jit
    def measure(x, y):
        principal = principal_directions(x, y)

        def one(chosen):
            weights = critical_point(principal, chosen, sizes[1:-1])
            flat, unravel = ravel_pytree(weights)
            return {
                "value": (deep_linear_loss(weights, x, y), critical_value(principal, chosen)),
                "slope": ravel_pytree(squared_loss_gradient(weights, x, y))[0],
                "hessian": jax.hessian(lambda f: deep_linear_loss(unravel(f), x, y))(flat),
                "inertia": jnp.stack(hessian_inertia(principal.strengths, chosen, sizes)),
                "spectrum": hessian_spectrum(principal.strengths, chosen, sizes),
            }

        return jax.vmap(one)(sets)

    return measure


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("white", [True, False])
def test_critical_points_and_their_hessians(sizes, white):
    found = program(sizes)(*data(sizes, white=white))
    np.testing.assert_allclose(found["slope"], 0, atol=1e-10)
    np.testing.assert_allclose(*found["value"], rtol=1e-10)
    spectra = np.linalg.eigvalsh(np.asarray(found["hessian"]))
    tolerance = 1e-10 * np.abs(spectra).max()
    counts = (spectra < -tolerance).sum(1), (np.abs(spectra) <= tolerance).sum(1), (spectra > tolerance).sum(1)
    np.testing.assert_array_equal(found["inertia"], np.stack(counts, 1))
    if white:
        np.testing.assert_allclose(found["spectrum"], spectra, atol=1e-11)


def test_numbers_worked_out_by_hand():
    sets, s = index_sets(4, 2), np.array([4.0, 3.0, 2.0, 1.0])
    found = [hessian_inertia(s, chosen, (4, 2, 4)) for chosen in sets]
    assert [int(i.negative) for i in found] == [8, 3, 4, 5, 6, 0, 1, 2, 2, 3, 4]
    assert [int(i.zero) for i in found] == [0, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4]


def test_ties_and_missing_directions_give_zeros():
    tied = hessian_inertia(np.array([2.0, 2.0]), np.array([True, False]), (2, 1, 2))
    assert tuple(map(int, tied)) == (0, 2, 2)
    np.testing.assert_allclose(
        hessian_spectrum([2.0, 2.0], np.array([True, False]), (2, 1, 2)), [0, 0, 4, 4], atol=1e-15
    )
    assert tuple(map(int, hessian_inertia([2.0, 0.0], np.array([False, False]), (2, 1, 2)))) == (1, 2, 1)


@pytest.mark.parametrize(("q", "width"), [(3, 1), (4, 2), (4, 9)])
def test_index_sets(q, width):
    sets = index_sets(q, width)
    assert len(sets) == sum(comb(q, r) for r in range(min(q, width) + 1))
    assert len({tuple(s) for s in sets}) == len(sets)
    assert sets.sum(1).max() == min(q, width)
    assert (np.diff(sets.sum(1)) >= 0).all()


def test_principal_directions_rebuild_the_regression():
    p = principal_directions(X, Y)
    regression = np.linalg.lstsq(X, Y, rcond=None)[0].T
    np.testing.assert_allclose(p.outputs * p.strengths @ p.inputs, regression, atol=1e-11)
    assert p.rest == pytest.approx(np.sum((Y - X @ regression.T) ** 2) / 2, rel=1e-11)
    # the squares are the eigenvalues of the moment of the fitted targets
    np.testing.assert_allclose(p.strengths[::-1] ** 2, np.linalg.eigvalsh((X @ regression.T).T @ X @ regression.T))


@pytest.mark.parametrize("hidden", [(2,), (3, 2), (2, 4, 3)])
def test_escape_direction(hidden):
    p, n = principal_directions(X, Y), len(hidden) + 1
    for chosen in ([False] * 3, [True, False, False], [False, True, False]):
        start = critical_point(p, np.array(chosen), hidden)
        way = escape_direction(p, np.array(chosen), hidden)
        s = p.strengths[chosen.index(False)]
        for eps in (0.1, 0.6):
            value = deep_linear_loss([w + eps * e for w, e in zip(start, way, strict=True)], X, Y)
            change = -s * eps**n + eps ** (2 * n) / 2
            assert value - critical_value(p, np.array(chosen)) == pytest.approx(float(change), abs=1e-11)


def test_shapes_and_precision():
    p = principal_directions(jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32))
    weights = critical_point(p, np.array([True, False, True]), (5, 2))
    assert [w.shape for w in weights] == [(m, n) for n, m in pairwise((4, 5, 2, 3))]
    assert {w.dtype for w in weights} == {jnp.dtype(jnp.float32)}
    assert hessian_spectrum(p.strengths, np.array([True, False, True]), (4, 5, 2, 3)).dtype == jnp.float32
    assert escape_direction(p, np.array([True, False, False]), (5, 2))[1].dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda p: principal_directions(X[:3], Y[:3]), ValueError, "x must span the space of inputs"),
        (lambda p: index_sets(17, 2), ValueError, "directions must be from 1 to 16"),
        (lambda p: index_sets(4, 0), ValueError, "width must be at least 1"),
        (lambda p: critical_point(3, np.zeros(3, bool), (2,)), TypeError, "principal must be Principal"),
        (lambda p: critical_point(p, np.zeros(2, bool), (2,)), ValueError, "chosen must be 3 booleans"),
        (lambda p: critical_point(p, np.zeros(3), (2,)), ValueError, "chosen must be 3 booleans"),
        (lambda p: critical_point(p, np.ones(3, bool), (2,)), ValueError, "chosen must mark at most 2 directions"),
        (lambda p: critical_point(p, np.zeros(3, bool), ()), TypeError, "hidden must be a sequence of at least 1"),
        (lambda p: critical_point(p, np.zeros(3, bool), (2, 0)), ValueError, "hidden.1. must be at least 1"),
        (lambda p: hessian_inertia([1.0, 2.0], np.zeros(2, bool), (4, 3)), TypeError, "sizes must be a sequence"),
        (lambda p: hessian_inertia([1.0, 2.0], np.zeros(2, bool), (4, 2, 3)), ValueError, "strengths must have 3"),
        (lambda p: hessian_spectrum([1.0, -2.0], np.zeros(2, bool), (2, 2, 3)), ValueError, "strengths must be zero"),
        (
            lambda p: escape_direction(p, np.ones(3, bool), (4,)),
            ValueError,
            "chosen must leave out at least one direction",
        ),
        (lambda p: escape_direction(p, np.array([1, 1, 0], bool), (2,)), ValueError, "fewer than the 2 units"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(principal_directions(X, Y))
