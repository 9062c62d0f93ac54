"""Covers of small sets, against their definition, and the bound against its formula."""

import numpy as np
import pytest

from corollary.generalization.covers import cover_bound, cover_size, greedy_cover

RNG = np.random.default_rng(0)


def test_greedy_cover_covers_and_packs():
    points = RNG.uniform(-1, 1, (300, 2))
    found = greedy_cover(points, 0.5)
    centres = points[np.asarray(found.chosen)]
    assert len(centres) == found.size
    distance = np.linalg.norm(points[:, None] - centres, axis=-1)
    assert (distance.min(1) <= 0.5).all()
    between = np.linalg.norm(centres[:, None] - centres, axis=-1)
    assert between[~np.eye(len(centres), dtype=bool)].min() > 0.5
    # point by point, as the definition says
    taken = []
    for i, p in enumerate(points):
        if all(np.linalg.norm(p - points[j]) > 0.5 for j in taken):
            taken.append(i)
    np.testing.assert_array_equal(np.flatnonzero(found.chosen), taken)


def test_sizes():
    np.testing.assert_allclose(cover_size([1, 2], 0.5), [5, 25])
    np.testing.assert_allclose(cover_size(2, 0.5, form="printed"), 6.25)
    np.testing.assert_allclose(cover_size(3, 0.25, form="printed") * 8, cover_size(3, 0.25))


def test_bound_with_the_best_radius():
    fixed = [float(cover_bound(500, 3, 0.05, lipschitz=2.0, radius=r).check().value) for r in (0.001, 0.01, 0.1)]
    root = np.sqrt((3 * np.log(201) + np.log(20)) / 1000)
    np.testing.assert_allclose(fixed[1], 0.04 + root)
    best = cover_bound(500, 3, 0.05, lipschitz=2.0).check()
    assert best.value <= min(fixed)
    radii = np.geomspace(1e-4, 0.1, 20_000)
    fine = 4 * radii + np.sqrt((3 * np.log1p(2 / radii) + np.log(20)) / 1000)
    np.testing.assert_allclose(best.value, fine.min(), rtol=1e-5)


def test_sentences():
    with pytest.raises(ValueError, match="radius must be positive"):
        greedy_cover(np.ones((2, 1)), 0.0)
    with pytest.raises(ValueError, match="lipschitz must be zero or more"):
        cover_bound(10, 1, 0.05, lipschitz=-1.0)
