import itertools

import jax
import numpy as np
import pytest

from corollary.nets import (
    REGIONS,
    in_region,
    parameter_count,
    region_indicator,
    region_of,
    smooth_xnor,
    truth_table_network,
)

CORNERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], float)


def test_all_patterns_are_there_once():
    patterns = set(itertools.product((0, 1), repeat=4))
    assert {region.quadrants for region in REGIONS.values()} == patterns
    assert len(REGIONS) == 16
    assert all(REGIONS[region_of(p)].quadrants == p for p in patterns)


@pytest.mark.parametrize("region", REGIONS)
def test_formula_network_and_truth_agree(region):
    rng = np.random.default_rng(1)
    x, y = rng.choice([-1, 1], (2, 200)) * rng.uniform(0.3, 3, (2, 200))
    quadrant = np.where(x > 0, np.where(y > 0, 0, 3), np.where(y > 0, 1, 2))
    truth = np.array(REGIONS[region].quadrants)[quadrant]
    np.testing.assert_array_equal(in_region(region, x, y), truth)
    np.testing.assert_allclose(
        region_indicator(region, x, y, 0.05), truth, atol=0.003
    )  # q = 1/(1+e^6) for a half-plane
    network = truth_table_network(region, 0.05)
    np.testing.assert_allclose(jax.vmap(network)(np.stack([x, y], 1))[:, 0], truth, atol=1e-4)
    assert parameter_count(network) == 15
    assert [layer.weight.shape for layer in network.layers] == [(2, 2), (2, 2), (1, 2)]


def test_printed_weights():
    eps = 0.1
    network = truth_table_network("Q1 or Q3", eps)
    np.testing.assert_allclose(network.layers[1].weight * eps, [[1, 1], [-1, -1]])
    np.testing.assert_allclose(network.layers[1].bias * eps, [-1.5, 0.5])
    network = truth_table_network("not Q1", eps)
    np.testing.assert_allclose(network.layers[0].weight * eps, -np.eye(2))
    np.testing.assert_allclose(network.layers[1].bias * eps, [-0.5, 0])
    network = truth_table_network("everywhere", eps)
    np.testing.assert_allclose(network.layers[2].weight * eps, [[0.5, 0.5]])


def test_network_against_the_nested_formula():
    x, y = np.random.default_rng(2).normal(size=(2, 100))
    network = truth_table_network("Q1 or Q3", 0.1)
    values = jax.vmap(network)(np.stack([x, y], 1))[:, 0]
    np.testing.assert_allclose(values, smooth_xnor(x, y, 0.1), atol=1e-13)


def test_axes_and_scalars():
    assert in_region("x > 0", 0.0, 1.0) == 0
    assert in_region("everywhere", 0.0, 0.0) == 1
    np.testing.assert_allclose(region_indicator("y < 0", 3.0, -1.0, 0.1), 1 / (1 + np.exp(-10)))
    assert region_indicator("Q2", np.ones((3, 1)), np.ones(4), 0.1).shape == (3, 4)
    slope = jax.grad(lambda e: truth_table_network("Q1", e)(CORNERS[0])[0])(0.2)
    assert -np.inf < slope < 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: region_of([1, 0, 1]), "pattern must hold four bits"),
        (lambda: region_of([1, 0, 2, 0]), "pattern must hold four bits"),
        (lambda: in_region("Q5", 1.0, 1.0), "region must be one of 'nowhere'"),
        (lambda: region_indicator("Q1", np.nan, 1.0, 0.1), "x must be finite"),
        (lambda: region_indicator("Q1", 1.0, 1.0, -0.1), "eps must be positive"),
        (lambda: truth_table_network("Q1", 0.0), "eps must be positive"),
        (lambda: truth_table_network("Q1", [0.1, 0.2]), "eps must have shape"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
