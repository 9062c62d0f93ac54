import jax
import numpy as np
import pytest

from corollary import data
from corollary.nets.graphs import Edges, wl_colours, wl_distinguishes

KEY = jax.random.key(0)


def refine(a, colours):
    """Colour refinement with tuples, until the number of colours stays."""
    rounds = 0
    while True:
        seen = [(colours[v], tuple(sorted(colours[u] for u in np.flatnonzero(a[v])))) for v in range(len(a))]
        names = {s: i for i, s in enumerate(sorted(set(seen)))}
        new = [names[s] for s in seen]
        if len(names) == len(set(colours)):
            return new, rounds
        colours, rounds = new, rounds + 1


def test_colours_against_tuples():
    rng = np.random.default_rng(0)
    program = jax.jit(wl_colours)
    for p in (0.1, 0.2, 0.5):
        a = np.triu(rng.random((12, 12)) < p, 1).astype(float)
        a = a + a.T
        for start in (np.zeros(12, int), rng.integers(0, 3, 12)):
            found, rounds = program(a, start)
            brute, brute_rounds = refine(a, start.tolist())
            same = np.asarray(found)[:, None] == np.asarray(found)[None]
            np.testing.assert_array_equal(same, np.equal.outer(brute, brute))
            assert rounds == brute_rounds
    # a path refines from its ends inwards
    colours, rounds = program(data.path_graph(12), np.zeros(12, int))
    assert colours.tolist() == [0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0]
    assert rounds == 5
    assert wl_colours(data.path_graph(12), rounds=1).colours.tolist() == [0] + [1] * 10 + [0]


def test_what_is_told_apart():
    program = jax.jit(wl_distinguishes)
    assert not program(*data.wl_twins("hexagon"))
    assert not program(*data.wl_twins("cubic"))
    assert program(data.path_graph(6), data.cycle_graph(6))
    assert wl_distinguishes(data.path_graph(5), data.path_graph(6))
    marked = np.arange(6) == 0
    hexagon, triangles = data.wl_twins("hexagon")
    assert program(hexagon, triangles, marked, marked)  # one vertex named: distances to it differ
    order = np.random.default_rng(0).permutation(6)
    tree = data.binary_tree(2)[:6, :6]
    assert not program(tree, tree[np.ix_(order, order)])


def test_bad_input():
    a = data.path_graph(3)
    with pytest.raises(TypeError, match="adjacency must be an adjacency matrix"):
        wl_colours(Edges.of(a))
    with pytest.raises(ValueError, match=r"colours must have shape \(3,\)"):
        wl_colours(a, [0, 1])
    with pytest.raises(ValueError, match="rounds must be at least 0"):
        wl_colours(a, rounds=-1)
    with pytest.raises(TypeError, match="must be given together"):
        wl_distinguishes(a, a, [0, 0, 0])
    with pytest.raises(ValueError, match="second_colours must hold labels"):
        wl_distinguishes(a, a, [0, 0, 0], [0, 0, -1])
