"""Graphs and point clouds against their definitions."""

import jax
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, shortest_path

from corollary import data

KEY = jax.random.key(0)


def test_standard_graphs():
    cases = {
        "path": (data.path_graph(5), 4, 4),
        "cycle": (data.cycle_graph(7), 7, 3),
        "complete": (data.complete_graph(5), 10, 1),
        "star": (data.star_graph(4), 4, 2),
        "barbell": (data.barbell_graph(3, 2), 3 + 3 + 3, 5),
        "tree": (data.binary_tree(3), 14, 6),
        "grid": (data.grid_graph(3, 4), 3 * 3 + 2 * 4, 5),
    }
    for name, (a, edges, diameter) in cases.items():
        assert np.array_equal(a, a.T), name
        assert not a.diagonal().any(), name
        assert a.sum() == 2 * edges, name
        assert shortest_path(a, unweighted=True).max() == diameter, name
    assert data.path_graph(1).shape == (1, 1)
    assert connected_components(data.disjoint_union(data.path_graph(2), data.cycle_graph(3)))[0] == 2
    np.testing.assert_array_equal(data.adjacency([(2, 0)], 3), [[0, 0, 1], [0, 0, 0], [1, 0, 0]])


def test_karate_club():
    a, sides = data.karate_club()
    assert a.sum() == 2 * 78
    assert connected_components(a)[0] == 1
    assert np.bincount(sides).tolist() == [17, 17]
    assert (sides[0], sides[33]) == (0, 1)
    degrees = a.sum(0).astype(int)
    assert degrees[[0, 1, 2, 32, 33]].tolist() == [16, 9, 10, 12, 17]
    assert int(np.trace(a @ a @ a)) == 6 * 45  # the triangles that are known to be in it
    assert a[np.ix_(sides == 0, sides == 1)].sum() == 11  # friendships that the split cut


@pytest.mark.parametrize("name", ["hexagon", "decalin", "cubic", "rook"])
def test_twins_are_alike_and_not_isomorphic(name):
    a, b = data.wl_twins(name)
    assert sorted(a.sum(0)) == sorted(b.sum(0))
    if name == "rook":  # the same spectrum; what differs are the sets of four that are all joined

        def fours(m):
            return sum(
                m[i, j] * m[i, k] * m[i, l] * m[j, k] * m[j, l] * m[k, l]
                for i in range(16)
                for j in range(i)
                for k in range(j)
                for l in range(k)
            )

        assert (fours(a), fours(b)) == (8, 0)
        np.testing.assert_allclose(np.linalg.eigvalsh(a), np.linalg.eigvalsh(b), atol=1e-12)
    else:
        assert np.abs(np.linalg.eigvalsh(a) - np.linalg.eigvalsh(b)).max() > 0.1


def test_random_graphs():
    a = np.asarray(data.erdos_renyi(200, 0.1, key=KEY))
    assert np.array_equal(a, a.T)
    assert not a.diagonal().any()
    # 19,900 pairs: the standard deviation of the share is 0.002
    assert abs(a.sum() / (200 * 199) - 0.1) < 0.012
    graph, labels = data.two_blocks(400, 40.0, 4.0, key=KEY)
    same = np.asarray(labels)[:, None] == np.asarray(labels)[None]
    # 39,800 pairs inside and 40,000 outside: the standard deviations are 0.0015 and 0.0005
    assert abs(np.asarray(graph)[same].mean() - 0.1) < 0.009
    assert abs(np.asarray(graph)[~same].mean() - 0.01) < 0.003
    assert np.bincount(labels).tolist() == [200, 200]
    assert data.two_blocks_signal(5.0, 1.0) == pytest.approx(16 / 12)


def test_solids_lie_on_their_surfaces():
    x, y, parts = (np.asarray(a) for a in jax.jit(lambda k: data.point_clouds(64, 50, key=k, noise=0.0))(KEY))
    assert x.shape == (64, 50, 3)
    assert set(y) == {0, 1, 2, 3}
    np.testing.assert_array_equal(parts // 2, np.broadcast_to(y[:, None], parts.shape))
    assert len(data.PARTS) == 2 * len(data.SOLIDS)
    assert set(parts.ravel()) == set(range(8))
    assert np.abs(x).max() < 1.2 * 0.8 * 2**0.5 + 1e-6  # the corners of a cube, turned
    assert (x[y == 0][parts[y == 0] == 0][:, 2] >= 0).all()
    for cloud, part in zip(x[y == 2], parts[y == 2], strict=True):  # lids: where a cylinder is highest and lowest
        heights = np.abs(cloud[:, 2])
        np.testing.assert_array_equal(np.isclose(heights, heights.max(), rtol=1e-5), part == 4)


def test_bad_input():
    with pytest.raises(ValueError, match="edges must be pairs"):
        data.adjacency([(0, 1, 2)], 4)
    with pytest.raises(TypeError, match="edges must hold whole numbers"):
        data.adjacency([(0.0, 1.0)], 4)
    with pytest.raises(ValueError, match=r"edges must be in \[0, 2\]"):
        data.adjacency([(0, 3)], 3)
    with pytest.raises(ValueError, match=r"two different vertices, got \(1, 1\)"):
        data.adjacency([(0, 1), (1, 1)], 3)
    with pytest.raises(ValueError, match="nodes must be at least 3"):
        data.cycle_graph(2)
    with pytest.raises(ValueError, match="graphs must be square"):
        data.disjoint_union(np.ones((2, 3)))
    with pytest.raises(ValueError, match="probability must be in"):
        data.erdos_renyi(4, 1.5, key=KEY)
    with pytest.raises(ValueError, match="probabilities must be symmetric"):
        data.stochastic_block_model([0, 1], [[0.5, 0.1], [0.2, 0.5]], key=KEY)
    with pytest.raises(ValueError, match="probabilities must be in"):
        data.stochastic_block_model([0, 1], [[0.5, 2.0], [2.0, 0.5]], key=KEY)
    with pytest.raises(ValueError, match="labels from 0 to 1"):
        data.stochastic_block_model([0, 2], [[0.5, 0.1], [0.1, 0.5]], key=KEY)
    with pytest.raises(ValueError, match="inside must be in"):
        data.two_blocks(10, 20.0, 1.0, key=KEY)
    with pytest.raises(ValueError, match="outside must be in"):
        data.two_blocks(10, 2.0, -1.0, key=KEY)
    with pytest.raises(ValueError, match="inside must be positive"):
        data.two_blocks_signal(0.0, 1.0)
    with pytest.raises(ValueError, match="name must be one of"):
        data.wl_twins("cube")
    with pytest.raises(ValueError, match="noise must be zero or more"):
        data.point_clouds(2, 4, key=KEY, noise=-1.0)
    with pytest.raises(ValueError, match="points must be at least 1"):
        data.point_clouds(2, 0, key=KEY)
