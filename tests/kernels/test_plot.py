"""A kernel matrix as a picture."""

import jax.numpy as jnp
import numpy as np
import pytest
import vl_convert

from corollary.kernels import plot_kernel


def rows(chart):
    return chart.to_dict()["data"]["values"]


def test_every_entry_is_a_cell_and_is_drawn():
    k = np.arange(6.0).reshape(2, 3)
    chart = plot_kernel(k)
    assert [(r["row"], r["column"], r["kernel"]) for r in rows(chart)] == [
        (i, j, k[i, j]) for i in range(2) for j in range(3)
    ]
    assert vl_convert.vegalite_to_svg(chart.to_dict()).startswith("<svg")


def test_a_large_matrix_is_drawn_by_the_means_of_its_blocks():
    k = np.random.default_rng(0).normal(size=(25, 25))
    cells = rows(plot_kernel(k, most=10))
    assert len(cells) == 81  # blocks of three, the last of one
    assert cells[0]["kernel"] == pytest.approx(k[:3, :3].mean(), rel=1e-5)
    assert cells[-1]["kernel"] == pytest.approx(k[24, 24], rel=1e-5)
    assert (cells[-1]["bottom"], cells[-1]["right"]) == (25, 25)


def test_kernels_of_both_signs_have_a_colour_scale_about_zero():
    signed = plot_kernel(np.asarray([[1.0, -3.0], [-3.0, 1.0]])).to_dict()["encoding"]["color"]["scale"]
    assert signed["domain"] == [3, -3]
    assert "domain" not in plot_kernel(np.eye(2)).to_dict()["encoding"]["color"]["scale"]


def test_bad_input():
    with pytest.raises(ValueError, match="k must have shape"):
        plot_kernel(jnp.ones(3))
    with pytest.raises(ValueError, match="must not be empty"):
        plot_kernel(jnp.ones((0, 0)))
