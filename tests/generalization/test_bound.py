"""The shape of bounds, and classes of finitely many functions against exact binomial laws."""

import jax
import numpy as np
import pytest
from scipy import stats

from corollary.generalization.bound import Bound, finite_class, samples_to_reach


def test_finite_class_against_the_exact_law_of_independent_functions():
    n, size, delta = 60, 7, 0.05
    value = float(finite_class(n, size, delta).value)
    k = np.arange(n + 1)
    for p in (0.1, 0.3, 0.5):
        one = stats.binom.pmf(k, n, p)[p - k / n > value].sum()
        assert 1 - (1 - one) ** size <= delta
        two = stats.binom.pmf(k, n, p)[abs(p - k / n) > float(finite_class(n, size, delta, sides=2).value)].sum()
        assert 1 - (1 - two) ** size <= delta


def test_forms_and_broadcasting():
    sharp = finite_class(np.array([10.0, 100.0]), 20, 0.1)
    np.testing.assert_allclose(sharp.value, np.sqrt(np.log(200) / 2 / np.array([10, 100])))
    np.testing.assert_allclose(finite_class(100, 20, 0.1, form="printed").value, 2 * np.sqrt(np.log(200) / 100))
    np.testing.assert_allclose(finite_class(100, 20, 0.1, sides=2, risk=0.2).value, 0.2 + np.sqrt(np.log(400) / 200))


def test_terms_sum_to_the_value_and_are_what_each_thing_adds():
    bound = finite_class(200, 1000, 0.05, risk=0.1).check()
    alone = finite_class(200, 1, 0.05, risk=0.1)
    assert list(bound.terms) == ["training error", "choice among the class", "confidence"]
    np.testing.assert_allclose(bound.terms["choice among the class"], bound.value - alone.value, rtol=1e-12)
    assert float(alone.terms["choice among the class"]) == 0
    assert "choice among the class 0.07" in repr(bound)
    assert not bound.vacuous
    assert finite_class(2, 1000, 0.05).vacuous


def test_bounds_go_through_transformations():
    slope = jax.grad(lambda n: finite_class(n, 10, 0.05).value)(100.0)
    np.testing.assert_allclose(slope, -finite_class(100, 10, 0.05).value / 200, rtol=1e-12)
    bound = jax.jit(lambda n: finite_class(n, 10, 0.05))(100.0)
    assert isinstance(bound.check(), Bound)


def test_stairs_of_rounding_take_few_looks():
    """In single precision a bound is constant over some 1e8 sizes near its place: straight lines crept along these."""
    looked = []

    def bound(n):
        looked.append(n)
        return Bound(np.float32(0.1) + np.float32(3e7) / np.sqrt(np.float32(n)), np.float32(0.05), {}, ())

    n = samples_to_reach(bound, 1 - 2.0**-24)
    assert bound(n).value < 1 <= bound(n - 1).value
    assert len(looked) < 80


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"value": np.float64(0.5)}, "the terms of a bound must sum to its value, got 0.3 and 0.5."),
        ({"delta": np.float64(1.5)}, r"delta must be in \(0, 1\), got 1.5."),
        ({"terms": {"a": np.float64(0.4), "b": np.float64(-0.1)}}, "the term 'b' must be at least"),
    ],
)
def test_a_bound_that_does_not_add_up(broken, sentence):
    good = {"value": np.float64(0.3), "delta": np.float64(0.1), "terms": {"a": np.float64(0.3)}, "premises": ()}
    assert Bound(**good).check().value == 0.3
    with pytest.raises(ValueError, match=sentence):
        Bound(**{**good, **broken}).check()


def test_samples_to_reach_is_the_least_number():
    def bound(n):
        return finite_class(n, 50, 0.05, risk=0.02)

    n = samples_to_reach(bound, 0.1)
    assert bound(n).value <= 0.1 < bound(n - 1).value
    assert samples_to_reach(bound, 5.0) == 1
    with pytest.raises(ValueError, match="value must be reached with at most 1000 examples"):
        samples_to_reach(bound, 0.01, most=1000)
    with pytest.raises(TypeError, match="bound must be a function of the number of examples, got float"):
        samples_to_reach(0.1, 0.1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: finite_class(10, 5, 0.0), r"delta must be in \(0, 1\)"),
        (lambda: finite_class(10, 5, 0.1, risk=[0.2, 3.0]), "losses in .0, 1., got values from 0.2 to 3"),
        (lambda: finite_class(10, 0, 0.1), "size must be at least 1"),
        (lambda: finite_class(0, 5, 0.1), "n must be at least 1"),
        (lambda: finite_class(10, 5, 0.1, form="best"), "form must be one of 'sharp', 'printed'"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
