"""Tiled matrices against those computed at once; their memory; and on four devices, in a process of its own."""

import re
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.kernels import Activation, Architecture, Conv, Dense, GlobalAveragePool, ntk, tile_for, tiled
from corollary.kernels.tiles import _whole

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(23, 4)), RNG.normal(size=(11, 4))
KERNEL = partial(ntk, depth=2, bias_std=0.1)


@pytest.mark.parametrize("tile", [7, 100, (5, 3), (1, 11)])
def test_against_the_whole(tile):
    np.testing.assert_allclose(tiled(KERNEL, X, Y, tile=tile), KERNEL(X, Y), rtol=1e-12)
    square = np.asarray(tiled(KERNEL, X, tile=tile))
    np.testing.assert_allclose(square, KERNEL(X), rtol=1e-12)
    off = ~np.eye(23, dtype=bool)
    np.testing.assert_allclose(square[off], square.T[off], rtol=1e-12)


def test_convolutional_kernels():
    network = Architecture([Conv(4, (3, 3)), Activation("relu"), GlobalAveragePool(), Dense(1)])
    x = RNG.normal(size=(5, 6, 6, 2)).astype(np.float32)
    out = tiled(network.ntk, x, tile=2)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, network.ntk(x), rtol=1e-5)


def test_memory_is_the_result_and_a_tile():
    n, m, tile = 4000, 3000, 100
    x, y = (jax.ShapeDtypeStruct((k, 10), jnp.float32) for k in (n, m))
    for second, result in ((y, n * m), (None, n * n)):
        memory = _whole.lower(KERNEL, x, second, (tile, tile)).compile().memory_analysis()
        assert memory.output_size_in_bytes == 4 * result
        # the working arrays: a dozen tiles, and the list of where they begin; a thousandth of the result
        assert memory.temp_size_in_bytes < 12 * 4 * tile**2 + 16 * (n // tile + 1) ** 2 + 4 * 12 * (n + m)


def test_the_budget():
    assert tile_for(budget=6 * 4 * 512**2) == 512
    assert tile_for(784, pairs=True, budget=6 * 4 * 784**2 * 9) == 3
    assert tile_for(784, budget=1) == 1


CODE = """
import jax, numpy as np
from functools import partial
from jax.sharding import NamedSharding, PartitionSpec as P
from corollary.kernels import ntk, tiled
assert len(jax.devices()) == 4
x, y = np.random.default_rng(0).normal(size=(2, 16, 3)).astype(np.float32)
kernel = partial(ntk, depth=2)
mesh = jax.make_mesh((2, 2), ("a", "b"))
for spec in (P("a", "b"), P(("a", "b")), P(None, "b"), P()):
    sharding = NamedSharding(mesh, spec)
    out = tiled(kernel, x, y, tile=3, sharding=sharding)
    assert out.sharding.is_equivalent_to(sharding, 2), out.sharding
    assert {s.data.shape for s in out.addressable_shards} == {sharding.shard_shape((16, 16))}
    np.testing.assert_allclose(out, kernel(x, y), rtol=1e-5)
try:
    tiled(kernel, x[:15], y, sharding=NamedSharding(mesh, P("a")))
except ValueError as error:
    print(error)
"""


def test_four_devices(four_devices):
    done = subprocess.run([sys.executable, "-c", CODE], env=four_devices, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "x1 must hold a multiple of 2 points, one part per device, got 15." in done.stdout


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: tiled(3, X), TypeError, "kernel must be a function of two sets of points, got int."),
        (lambda: tiled(KERNEL, X[0]), ValueError, "x1 must hold points in its rows, got shape (4,)."),
        (lambda: tiled(KERNEL, X, Y[:, :2]), ValueError, "x2 must hold points of shape (4,) as x1 does, got (2,)."),
        (lambda: tiled(KERNEL, X, tile=0), ValueError, "tile must be at least 1, got 0."),
        (lambda: tiled(lambda a, b: a, X, Y), ValueError, "kernel must return a matrix of shape (23, 11)"),
        (lambda: tiled(KERNEL, X, sharding=3), TypeError, "sharding must be a NamedSharding, got int."),
        (lambda: tile_for(0), ValueError, "pixels must be at least 1, got 0."),
    ],
)
def test_sentences(call, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        call()
