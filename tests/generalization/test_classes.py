"""Counts of dichotomies against brute force over many members, and against closed forms."""

from itertools import product
from math import comb

import numpy as np
import pytest

from corollary.generalization.classes import (
    FiniteClass,
    Halfspaces,
    Intervals,
    Rectangles,
    SineClass,
    Thresholds,
    dichotomies,
    growth,
    shatters,
)

RNG = np.random.default_rng(0)


def test_lines_against_many_members():
    x = RNG.normal(size=6)
    grid = np.sort(np.concatenate([x - 1e-6, x + 1e-6]))
    cuts = np.unique(x >= np.append(grid, np.inf)[:, None], axis=0)
    np.testing.assert_array_equal(dichotomies(Thresholds(), x), cuts)
    assert len(cuts) == growth(Thresholds(), 6) == 7
    pairs = np.array([(x >= a) & (x <= b) for a in grid for b in grid])
    np.testing.assert_array_equal(dichotomies(Intervals(), x), np.unique(pairs, axis=0))
    assert len(dichotomies(Intervals(), x)) == growth(Intervals(), 6) == comb(7, 2) + 1
    assert len(dichotomies(Intervals(), [0.5, 0.5, 0.1])) == 4


def test_boxes_against_many_members():
    x = RNG.normal(size=(5, 2))
    ends = [np.sort(np.concatenate([c - 1e-6, c + 1e-6])) for c in x.T]
    boxes = [
        (x[:, 0] >= a) & (x[:, 0] <= b) & (x[:, 1] >= c) & (x[:, 1] <= d)
        for a, b in product(ends[0], repeat=2)
        for c, d in product(ends[1], repeat=2)
    ]
    np.testing.assert_array_equal(dichotomies(Rectangles(2), x), np.unique(boxes, axis=0))
    assert growth(Rectangles(2), 3) == 8
    assert growth(Rectangles(2), 4) == 16
    assert len(dichotomies(Rectangles(2), x)) <= growth(Rectangles(2), 5) < 32
    assert growth(Rectangles(1), 6) == growth(Intervals(), 6)


def test_half_spaces_count_as_cover_says():
    x = RNG.normal(size=(5, 2))
    directions = RNG.normal(size=(20_000, 3))
    seen = np.unique(np.concatenate([x, np.ones((5, 1))], 1) @ directions.T > 0, axis=1).T
    ways = dichotomies(Halfspaces(2), x)
    assert len(ways) == growth(Halfspaces(2), 5) == 22
    assert {tuple(way) for way in seen} <= {tuple(way) for way in ways}
    assert len(dichotomies(Halfspaces(2, bias=False), x)) == growth(Halfspaces(2, bias=False), 5) == 10
    assert [growth(Halfspaces(3), n) for n in range(1, 7)] == [2, 4, 8, 16, 30, 52]


def test_finite_classes_by_their_columns():
    table = np.array([[0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1]])
    cls = FiniteClass(table)
    np.testing.assert_array_equal(dichotomies(cls, [0, 3]), [[0, 1], [1, 1]])
    assert [growth(cls, n) for n in (1, 2, 3, 4, 9)] == [2, 3, 3, 3, 3]
    assert shatters(cls, [0])
    assert not shatters(cls, [1, 2])


def test_sine_class_shatters_with_whole_numbers():
    labels = np.array(list(product([False, True], repeat=6)))
    cls = SineClass()
    for wanted in labels:
        np.testing.assert_array_equal(cls(cls.member(wanted), np.arange(1, 7)), wanted)
    assert shatters(cls, np.arange(1, 7))
    assert growth(cls, 80) == 2**80
    # small multiples, for which the sine can be taken
    exponents = np.arange(1, 12)
    for multiple in (3, 14, 1001):
        sines = np.sin(np.pi * multiple / 2.0**exponents)
        away = abs(sines) > 1e-9
        np.testing.assert_array_equal(cls(multiple, exponents)[away], sines[away] > 0)
    long = RNG.integers(0, 2, 3000).astype(bool)
    np.testing.assert_array_equal(cls(cls.member(long), np.arange(1, 3001)), long)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: dichotomies(Rectangles(2), np.zeros(3)), r"points must have shape \(n, 2\), got \(3,\)"),
        (lambda: dichotomies(FiniteClass(np.eye(2)), [5]), r"points must be from 0 to 1, got \[5\]"),
        (lambda: dichotomies(FiniteClass(np.eye(2)), [0.5]), "points must be whole numbers"),
        (lambda: dichotomies(SineClass(), [20]), "points must be exponents up to 16"),
        (lambda: dichotomies(Thresholds(), [0.0, np.nan]), "points must be finite real numbers"),
        (lambda: FiniteClass([[0, 2]]), "table must hold 0 and 1"),
        (lambda: growth(Rectangles(2), 9), "n must leave at most 10,000 orders of 9 points in 2 dimensions"),
        (lambda: dichotomies(Rectangles(3), RNG.normal(size=(30, 3))), "points must be fewer"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_other_things_are_no_classes():
    for call in (lambda: dichotomies("lines", [0.0]), lambda: growth(3, 2)):
        with pytest.raises(TypeError, match="cls must be a class of functions that can be counted"):
            call()
