"""The exact checks pass what is true, fail what is false, and never pass what is not a number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from corollary.evidence import Check, at_least, at_most, control, equal, monotone

finite = st.floats(-1e12, 1e12, allow_nan=False)
arrays = hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=6), elements=finite)

# one passing call of every exact check, as a function of the first argument
EXACT = {
    "equal": lambda v: equal("e", v, v),
    "at_most": lambda v: at_most("m", v, np.asarray(v)),
    "at_least": lambda v: at_least("l", v, np.asarray(v)),
    "monotone": lambda v: monotone("o", np.sort(v, axis=None) if np.isfinite(v).all() else v),
}


@given(arrays)
def test_equal_passes_itself_and_fails_one_perturbed_entry(a):
    assert equal("same", a, a).passed
    b = a.copy()
    index = np.unravel_index(np.argmax(np.abs(a)), a.shape)
    b[index] += 1e-6 * (1 + abs(b[index]))
    found = equal("other", b, a)
    assert found.outcome == "violated"
    assert found.margin < 0


@given(arrays, st.floats(0, 1e3))
def test_at_most_and_at_least_mirror_each_other(a, gap):
    assert at_most("m", a, a + gap).passed
    assert at_least("l", a + gap, a).passed
    assert at_most("m", a, a + gap).slack == at_least("l", -a, -(a + gap)).slack


@given(arrays)
def test_an_inequality_violated_in_one_entry_fails(a):
    bound = a.copy()
    bound.flat[-1] -= 1e-3 * (1 + abs(bound.flat[-1]))
    found = at_most("m", a, bound)
    assert found.outcome == "violated"
    assert found.margin < 0


@given(hnp.arrays(np.float64, st.integers(2, 30), elements=finite, unique=True))
def test_monotone(a):
    ordered = np.sort(a)
    assert monotone("up", ordered).passed
    assert monotone("up", ordered, strict=True).passed
    assert monotone("down", ordered[::-1], "decreasing", strict=True).passed
    assert monotone("down", ordered, "decreasing").outcome == "violated"


def test_strict_monotone_fails_standing_still():
    assert monotone("flat", [1, 1, 2]).passed
    assert monotone("flat", [1, 1, 2], strict=True).outcome == "violated"


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_passes_nor_refutes(kind, bad):
    values = np.array([1.0, bad, 2.0])
    assert EXACT[kind](np.array([1.0, 1.5, 2.0])).passed
    found = EXACT[kind](values)
    assert found.outcome == "not finite"
    assert not found.passed
    assert not control("a premise is broken", found).passed


@pytest.mark.parametrize("kind", EXACT)
def test_what_is_empty_never_passes(kind):
    found = EXACT[kind](np.zeros((0,)))
    assert found.outcome == "empty"
    assert not found.passed
    assert not control("a premise is broken", found).passed


@pytest.mark.parametrize("check", [equal, at_most, at_least])
def test_shapes_that_do_not_fit_are_an_error(check):
    with pytest.raises(ValueError, match=r"loss: (predicted|bound) has shape \(2,\), .* \(3,\)"):
        check("loss", np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="does not fit"):
        check("loss", np.zeros(3), np.zeros((3, 3)))
    with pytest.raises(TypeError, match="numbers"):
        check("loss", ["a", "b"], 1.0)
    with pytest.raises(TypeError, match="real numbers"):
        check("loss", 1j, 1.0)
    with pytest.raises(ValueError, match=r"x must have shape"):
        check("loss", np.zeros(3), 0.0, x=[1, 2], along="step")


def test_trailing_axes_and_scalars_spread():
    assert equal("rows", np.ones((4, 3)), np.ones(3)).passed
    assert at_most("scalar", np.ones((4, 3)), 1.0).passed


def test_zero_tolerance_means_identical():
    assert equal("count", 3, 3, rtol=0, atol=0).passed
    assert equal("count", 3, np.nextafter(3, 4), rtol=0, atol=0).outcome == "violated"


def test_tightness_is_the_closest_instance():
    assert at_most("b", [1.0, 3.0, 0.5], [10.0, 4.0, 10.0]).tightness == pytest.approx(0.75)
    assert at_least("b", [2.0, 8.0], [1.0, 1.0]).tightness == pytest.approx(0.5)
    assert at_most("b", 1e-17, 1e-30, atol=1e-14).tightness < 1


def test_the_worst_instance_is_named():
    found = equal("path", [[1.0, 2.0], [3.0, 5.0]], [[1.0, 2.0], [3.0, 4.0]], x=[10, 20], along="iteration")
    assert "at iteration = 20 of instance 1" in found.sentence
    assert "index 2" in at_most("m", [0.0, 0.0, 2.0], 1.0).sentence


def test_figures_keep_the_worst_instance_of_a_long_series():
    values = np.zeros(10_000)
    values[7_777] = 1.0
    found = equal("long", values, 0.0, along="step")
    assert 7_777.0 in found.series["x"]
    assert len(found.series["x"]) < 200


def test_a_control_passes_exactly_when_its_check_is_violated():
    good, bad = at_most("b", 1.0, 2.0), at_most("b", 3.0, 2.0)
    assert not control("no premise is broken", good).passed
    assert control("the step is too long", bad).passed
    assert control("the step is too long", bad).margin > 0
    with pytest.raises(ValueError, match="already a control"):
        control("again", control("the step is too long", bad))
    with pytest.raises(ValueError, match="must name the premise"):
        control(" ", bad)
    with pytest.raises(TypeError, match="takes a check"):
        control("x", True)


@given(arrays, arrays)
def test_margin_sign_always_agrees_with_the_verdict(a, b):
    for found in (at_most("m", a, b.flat[0]), at_least("m", a, b.flat[0]), equal("m", a, b.flat[0])):
        assert isinstance(found, Check)
        assert (found.margin >= 0) == found.passed
        other = control("c", found)
        assert (other.margin > 0) == other.passed


def test_what_meets_a_bound_up_to_rounding_is_said():
    assert at_most("b", [1.0, 2.0], [3.0, 2.0 + 1e-12]).sentence.endswith("1 of 2 meet the bound up to rounding.")
    assert at_least("b", 1.0 - 1e-13, 1.0).sentence.endswith("It meets the bound up to rounding.")
    assert "rounding" not in at_most("b", [1.0, 2.0], 3.0).sentence
    assert at_most("b", [3.0, 3.0], 3.0).axes["note"] == "All meet the bound up to rounding."
