"""Extreme eigenpairs of a symmetric matrix known only by its products: Lanczos with full reorthogonalisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.landscape import Eigenpairs, eigenpairs


def test_degenerate_and_tiny_matrices():
    with jax.enable_x64(True):
        spectrum = jnp.array([3.0] * 5 + [1.0] * 20 + [0.0] * 30 + [-2.0])
        find = jax.jit(lambda d: eigenpairs(lambda v: d * v, 56, 7, key=jax.random.key(0)))
        np.testing.assert_allclose(find(spectrum).values, [3] * 5 + [1] * 2, atol=1e-9)
        nothing = find(0 * spectrum)
        np.testing.assert_allclose(nothing.values, 0, atol=1e-12)
        assert nothing.converged
        for size in (1, 3):
            found = eigenpairs(lambda v: jnp.arange(1.0, v.size + 1) * v, size, size, key=jax.random.key(1))
            np.testing.assert_allclose(found.values, np.arange(size, 0, -1), atol=1e-12)


def test_a_close_start_needs_fewer_products():
    with jax.enable_x64(True):
        spectrum = jnp.linspace(0, 1, 2000)
        start = jnp.zeros(2000).at[-1].set(1.0)
        kwargs = dict(key=jax.random.key(0), tolerance=1e-4)
        cold = eigenpairs(lambda v: spectrum * v, 2000, 1, **kwargs)
        warm = eigenpairs(lambda v: spectrum * v, 2000, 1, start=start, **kwargs)
        np.testing.assert_allclose(warm.values, 1, rtol=1e-7)
        assert warm.products < cold.products


def test_lanczos_holds_the_basis_and_a_few_vectors_more():
    size, basis = 1_000_000, 34
    scale = jnp.arange(size, dtype=jnp.float32)
    run = jax.jit(lambda d, key: eigenpairs(lambda v: d * v, size, 5, key=key, basis=basis, dtype=jnp.float32))
    used = run.lower(scale, jax.random.key(0)).compile().memory_analysis().temp_size_in_bytes
    assert used < (basis + 8) * 4 * size


def test_plot_shows_the_values_and_their_error_bounds():
    found = Eigenpairs(jnp.asarray([900.0, 30.0, 1.0]), jnp.eye(3), jnp.asarray([1.0, 2.0, 5.0]), True, 9)
    bars, dots = found.plot().to_dict()["layer"]
    assert dots["encoding"]["y"]["scale"]["type"] == "log"
    assert [r["eigenvalue"] for r in dots["data"]["values"]] == [900.0, 30.0, 1.0]
    assert [r["high"] for r in bars["data"]["values"]] == [901.0, 32.0, 6.0]
    assert bars["data"]["values"][1]["low"] == 28.0
    # a bound below zero ends where the axis does
    assert bars["data"]["values"][2]["low"] == dots["encoding"]["y"]["scale"]["domain"][0]
    with pytest.raises(ValueError, match="of one matrix"):
        found._replace(values=jnp.ones((2, 3))).plot()
