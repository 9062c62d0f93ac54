"""Scales and axes: logarithmic where the data span decades, few numbers, none on top of another."""

import sys
from subprocess import run

import numpy as np
import pytest
import vl_convert

from corollary._charts import axis, lines, log_scale, position_scale, scale, stretches


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.0, 40.0], None),
        ([1.0, 60.0], "log"),
        ([1e-9, 1e-3, None, float("nan")], "log"),
        ([0.0, 1e-4, 1.0], "symlog"),
        ([0.0, 0.5, 1.0], None),
        ([-1.0, 1e-4, 1.0], None),
        ([0.0, 0.0], None),
        ([], None),
    ],
)
def test_values_that_span_decades_are_drawn_on_a_logarithmic_scale(values, kind):
    assert scale(values).get("type") == kind


def test_positions_are_logarithmic_where_they_crowd():
    assert position_scale([2.0**k for k in range(8)])["type"] == "log"
    assert "type" not in position_scale(list(range(1, 1000)))
    assert "type" not in position_scale([1.0, 1000.0])


def test_rounding_is_not_zoomed_into():
    low, high = scale([1.0, 1.0 + 1e-12])["domain"]
    assert low < 0.95
    assert high > 1.05


@pytest.mark.parametrize("ends", [(1e-12, 1.0), (0.02, 0.06), (3.0, 500.0), (1e-30, 1e30), (1.0, 1.05), (7e4, 2e6)])
def test_logarithmic_axes_have_a_few_ticks_inside(ends):
    across = log_scale(list(ends))
    ticks = axis(across, list(ends))["values"]
    assert 2 <= len(ticks) <= 8
    assert across["domain"][0] <= ticks[0]
    assert ticks[-1] <= across["domain"][1]
    assert ticks == sorted(set(ticks))


def test_whole_numbers_have_whole_ticks():
    assert axis({"zero": False}, [0, 1, 2])["values"] == [0, 1, 2]
    assert "values" not in axis({"zero": False}, [0, 100])
    assert axis({"zero": False}, [1e-7, 2e-7])["format"] == "~e"


def test_zero_is_a_tick_of_its_own_among_powers_of_ten():
    values = [0.0, 1e-9, 1.0]
    found = axis(scale(values), values)
    assert found["values"][0] == 0
    assert "'0'" in found["labelExpr"]


def test_stretches_keep_the_mean():
    values = np.random.default_rng(0).normal(size=(2, 1234))
    ends, means = stretches(values, 100)
    assert means.shape == (2, 100)
    assert ends[-1] == 1233
    lengths = np.diff([-1, *ends])
    np.testing.assert_allclose((means * lengths).sum(1) / 1234, values.mean(1))
    np.testing.assert_allclose(stretches(values[:, :7])[1], values[:, :7])


def test_dashes_are_in_the_legend():
    rows = [{"t": t, "v": v, "kind": k} for t in range(3) for k, v in (("seen", t), ("said", 2 * t))]
    svg = vl_convert.vegalite_to_svg(lines(rows, "t", "v", dashes="kind").to_dict())
    # the line itself, and its symbol in the legend
    assert svg.count('stroke-dasharray="5,4"') == 2


def test_the_hessian_of_a_network_loads_neither_estimators_nor_charts():
    code = """
import sys, jax, jax.numpy as jnp
from corollary import kernels, landscape
from corollary.nets import MLP
network, x = MLP((2, 3, 1), jnp.tanh, key=jax.random.key(0)), jnp.ones((4, 2))
print(landscape.hessian(network, "squared", (x, x[:, :1])).top(1))
kernels.empirical_ntk(network, x)
print(*(m for m in ("sklearn", "pandas", "altair", "scipy.stats") if m in sys.modules))
"""
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "", done.stdout
    assert done.stdout.startswith("Eigenpairs(values=[")
