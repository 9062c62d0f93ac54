"""VC dimensions by brute force over sets of places, their counts, and gaps over all members."""

from itertools import combinations
from math import comb, e, log, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import FiniteLaw
from corollary.generalization.classes import (
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    SineClass,
    Thresholds,
    dichotomies,
    shatters,
)
from corollary.generalization.dimension import (
    largest_gap,
    radon_labelling,
    relu_vc_upper,
    sauer,
    vc,
    vc_dimension,
    vc_entropy,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("cls", "dimension"),
    [
        (Thresholds(), 1),
        (Intervals(), 2),
        (Rectangles(2), 4),
        (Halfspaces(2), 3),
        (Halfspaces(3, bias=False), 3),
    ],
)
def test_certificates_are_shattered(cls, dimension):
    found = vc_dimension(cls)
    assert found.lower == found.upper == dimension == len(found.points)
    assert shatters(cls, found.points)


@pytest.mark.parametrize("size", [1, 5, 12, 40])
def test_finite_classes_by_brute_force(size):
    table = RNG.integers(0, 2, (size, 6)).astype(bool)
    found = vc_dimension(FiniteClass(table))
    sets = [s for k in range(7) for s in combinations(range(6), k) if len(np.unique(table[:, s], axis=0)) == 2**k]
    assert found.lower == max(map(len, sets)) <= np.log2(size)
    assert found.lower == 0 or shatters(FiniteClass(table), found.points)
    assert len(sets) >= len(np.unique(table, axis=0))  # Pajor


def test_sine_class_has_none():
    assert vc_dimension(SineClass()).upper == np.inf
    with pytest.raises(TypeError, match="cls must be a class"):
        vc_dimension(None)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_radon_labelling_is_not_linear(d):
    points = RNG.normal(size=(d + 2, d))
    labelling = np.asarray(radon_labelling(points))
    ways = {tuple(way) for way in dichotomies(Halfspaces(d), points)}
    assert tuple(labelling) not in ways
    assert tuple(~labelling) not in ways
    with pytest.raises(ValueError, match=f"points must be at least {d + 2} in {d} dimensions, got {d + 1}"):
        radon_labelling(points[:-1])


def test_sums_of_binomials():
    assert sauer(10, 3) == 1 + 10 + comb(10, 2) + comb(10, 3)
    assert sauer(5, 9) == 32
    assert sauer(100, 2) <= (e * 100 / 2) ** 2


def test_entropy_of_points_that_repeat():
    samples = np.array([[0.1, 0.2, 0.3], [0.1, 0.1, 0.1]])
    found = vc_entropy(Thresholds(), samples)
    np.testing.assert_allclose(found, [(log(4) + log(2)) / 2, log(3)])
    with pytest.raises(ValueError, match=r"samples must have shape \(repetitions, n, ...\), got \(3,\)"):
        vc_entropy(Thresholds(), samples[0])


def test_bounds():
    np.testing.assert_allclose(
        vc(50, 0.05, growth=lambda m: m + 1).check().value, 2 * sqrt(2 * (log(101) + log(40)) / 50)
    )
    np.testing.assert_allclose(
        vc(200, 0.05, dimension=1, form="printed").value, 2 * sqrt(2 * (log(400) + 1 + log(40)) / 200)
    )
    np.testing.assert_allclose(vc(200, 0.05, dimension=3).value, 2 * sqrt(2 * (3 * log(400 * e / 3) + log(40)) / 200))
    np.testing.assert_allclose(vc(2, 0.05, dimension=9).value, 2 * sqrt(2 * (4 * log(2) + log(40)) / 2))
    assert vc(10, 0.05, growth=lambda m: 2**m).vacuous
    assert vc(200, 0.05, dimension=0).value == vc(200, 0.05, growth=lambda m: 1).value
    for given in ({}, {"growth": lambda m: m, "dimension": 1}):
        with pytest.raises(ValueError, match="vc needs one of growth and dimension"):
            vc(10, 0.05, **given)


def test_networks():
    # a line with two hidden units: W = (4, 7), k = (2, 1), R = 2 + 2
    r = 2 * e * 4
    np.testing.assert_allclose(relu_vc_upper([1, 2, 1]), 2 + 11 * np.log2(2 * r * np.log2(r)))
    with pytest.raises(ValueError, match="widths must hold inputs and outputs at least"):
        relu_vc_upper([3])


def test_largest_gap_over_all_members():
    mass = RNG.dirichlet(np.ones(5))
    law = FiniteLaw(jnp.arange(5.0), jnp.array([0, 1, 0, 1, 1]), mass)
    rows, _ = law.samples(3)
    gaps = np.asarray(largest_gap(Intervals(), rows, law))
    y = np.asarray(law.y)
    members = [(np.arange(5) >= a) & (np.arange(5) <= b) for a in range(5) for b in range(-1, 5)]
    for row, gap in list(zip(np.asarray(rows), gaps, strict=True))[::17]:
        wrong = np.array([m != y for m in members])
        assert gap == pytest.approx((wrong @ mass - wrong[:, row].mean(1)).max(), abs=1e-14)
    with pytest.raises(TypeError, match="law must be a FiniteLaw, got str"):
        largest_gap(Intervals(), rows, "uniform")
