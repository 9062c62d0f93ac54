"""Claims: what their signature declares, how they run, what verdict their checks support, the JSON round trip."""

import json
import math
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corollary.evidence import (
    Check,
    Count,
    Figure,
    ParameterError,
    Positive,
    Range,
    Size,
    UnknownClaim,
    UserError,
    at_most,
    claim,
    claims,
    control,
    equal,
    from_json,
    printed,
    run,
    select,
    summary,
    to_json,
    verdict,
)
from corollary.evidence._claim import _REGISTRY


@pytest.fixture(autouse=True)
def _own_registry():
    before = dict(_REGISTRY)
    yield
    _REGISTRY.clear()
    _REGISTRY.update(before)


def make(body, **options):
    """A claim whose body is `body(key, dim, step)`."""

    def example(key, *, dim: Size = 3, step: Positive = 0.5, kind: Literal["a", "b"] = "a", loud: bool = False):
        """A title.

        A statement.
        """
        yield from body(key, dim, step)

    return claim(rows=("M02.05",), **options)(example)


def good(key, dim, step):
    yield equal("sum", jnp.ones(dim).sum(), dim)
    yield control("the premise is gone", at_most("sum", dim + 1.0, dim))


def test_a_claim_holds_in_float64_and_leaves_the_world_as_it_was():
    def body(key, dim, step):
        yield equal("third", jnp.asarray(1.0) / 3, 1 / 3, rtol=1e-15, atol=0)

    found = run(make(body))
    assert found.verdict == "holds"
    assert found.as_expected
    assert jnp.asarray(1.0).dtype == jnp.float32


def test_the_key_is_the_seed():
    def body(key, dim, step):
        yield equal("draw", jax.random.normal(key, (dim,)), jax.random.normal(jax.random.key(7), (dim,)))

    c = make(body)
    assert run(c, 7).verdict == "holds"
    assert run(c, 8).verdict == "fails"


def test_verdicts():
    passed, failed = at_most("p", 1.0, 2.0), at_most("f", 3.0, 2.0)
    teeth, blunt = control("broken", failed), control("broken", passed)
    nan = at_most("n", math.nan, 1.0)
    assert verdict((passed, teeth))[0] == "holds"
    assert verdict((passed, failed, teeth))[0] == "fails"
    assert verdict((passed, printed(failed), teeth))[0] == "refuted"
    assert verdict((printed(failed),))[0] == "refuted"
    assert verdict((printed(failed), printed(passed)))[0] == "fails"
    assert verdict((printed(failed), failed))[0] == "fails"
    assert verdict((printed(failed), blunt))[0] == "error"
    assert verdict((printed(nan), passed))[0] == "error"
    assert verdict(())[0] == "error"
    assert verdict((passed, blunt))[0] == "error"
    assert verdict((failed, blunt))[0] == "error"
    assert verdict((passed, nan))[0] == "error"
    assert verdict((failed, nan))[0] == "error"
    assert "'p' was not violated" in verdict((passed, blunt))[1]


def test_an_erratum_is_expected_to_be_refuted():
    def off_by_two(key, dim, step):
        yield printed(equal("constant", 1.0, 2.0))

    def unmarked(key, dim, step):
        yield equal("constant", 1.0, 2.0)

    c = make(off_by_two, erratum="The constant is off by two.")
    assert c.expected == "refuted"
    assert run(c).as_expected
    del _REGISTRY[c.id]
    unmarked = make(unmarked, erratum="The constant is off by two.")
    assert not run(unmarked).as_expected
    del _REGISTRY[unmarked.id]
    assert not run(make(off_by_two)).as_expected


def test_an_exception_is_an_error_that_keeps_the_checks_before_it():
    def body(key, dim, step):
        yield equal("first", 1.0, 1.0)
        raise ZeroDivisionError("no")

    found = run(make(body))
    assert found.verdict == "error"
    assert "ZeroDivisionError: no" in found.error
    assert [c.name for c in found.checks] == ["first"]


def test_yielding_something_else_is_an_error():
    def body(key, dim, step):
        yield 3

    assert "not int" in run(make(body)).error


def test_reports_come_while_it_runs():
    heard = []
    run(make(good), report=heard.append)
    assert [c.name for c in heard] == ["sum", "sum"]


def test_parameters_scales_and_overrides():
    c = make(good, full={"dim": 30}, large={"dim": 300, "step": 1.0})
    assert c.values() == {"dim": 3, "step": 0.5, "kind": "a", "loud": False}
    assert c.values("full")["dim"] == 30
    assert c.values("large", {"dim": "7", "step": "2", "kind": "b", "loud": "true"}) == {
        "dim": 7,
        "step": 2.0,
        "kind": "b",
        "loud": True,
    }
    assert run(c, dim=5).parameters["dim"] == 5


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"dim": "0"}, r"dim takes a whole number in \[1, 1e\+06\], got 0"),
        ({"dim": "2.5"}, r"dim takes a whole number .* got '2.5'"),
        ({"step": "nan"}, r"step takes a number in \(0, inf\), got nan"),
        ({"step": -1}, r"step takes a number"),
        ({"step": True}, r"step takes a number"),
        ({"kind": "c"}, r"kind takes one of a, b"),
        ({"loud": "maybe"}, r"loud takes true or false"),
        ({"dmi": "3"}, r"no parameter dmi. Did you mean dim\?"),
        ({"zzz": "3"}, r"It takes dim, step, kind, loud"),
    ],
)
def test_a_parameter_out_of_its_range_gets_the_range(overrides, message):
    with pytest.raises(ParameterError, match=message):
        make(good).values("quick", overrides)


def test_unknown_scale():
    with pytest.raises(UserError, match="no scale huge"):
        make(good).values("huge")


def test_what_a_claim_must_declare():
    def no_docstring(key):
        yield

    def title_only(key):
        """A title."""
        yield

    def not_a_generator(key):
        """A title.

        A statement.
        """

    def no_default(key, *, dim: Size):
        """A title.

        A statement.
        """
        yield

    def no_range(key, *, dim: int = 3):
        """A title.

        A statement.
        """
        yield

    def bad_default(key, *, dim: Annotated[int, Range(5, 9)] = 3):
        """A title.

        A statement.
        """
        yield

    for function, message in [
        (no_docstring, "needs a docstring"),
        (title_only, "has a title only"),
        (not_a_generator, "generator"),
        (no_default, "default"),
        (no_range, "declared range"),
    ]:
        with pytest.raises(TypeError, match=message):
            claim(rows=())(function)
    with pytest.raises(ParameterError, match=r"\[5, 9\]"):
        claim(rows=())(bad_default)
    with pytest.raises(ParameterError, match="no parameter width"):
        make(good, full={"width": 3})
    make(good)
    with pytest.raises(ValueError, match="two claims"):
        make(good)


def test_select_by_glob_and_the_nearest_match():
    known = claims()
    assert [c.id for c in select(["linear.*"])] == [i for i in known if i.startswith("linear.")]
    one = next(iter(known))
    assert len(select([one, one, one[:-1] + "?"])) == 1
    with pytest.raises(UnknownClaim, match="nearest") as caught:
        select([one[:-2] + "zz"])
    assert one in str(caught.value)
    with pytest.raises(UnknownClaim, match="No claim matches"):
        select(["qqqq"])


def test_json_round_trip():
    def body(key, dim, step):
        yield from good(key, dim, step)
        yield Figure("picture", {"mark": "point"})

    found = run(make(body), 3)
    text = to_json(found)
    assert from_json(text) == found
    assert json.loads(text)["schema"] == 2
    with pytest.raises(ValueError, match="schema 99"):
        from_json(text.replace('"schema":2', '"schema":99'))


numbers = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))


@given(
    st.builds(
        Check,
        name=st.text(),
        kind=st.sampled_from(["equal", "rate"]),
        outcome=st.sampled_from(["passed", "violated"]),
        slack=numbers,
        sentence=st.text(),
        tightness=numbers,
        series=st.dictionaries(st.text(), st.lists(numbers)),
        axes=st.dictionaries(st.text(), st.one_of(st.none(), st.text())),
        control=st.one_of(st.none(), st.text(min_size=1)),
    )
)
def test_any_check_survives_the_round_trip(check):
    from dataclasses import replace

    base = BASE[0] if BASE else BASE.append(run(make(good))) or BASE[0]
    evidence = replace(base, checks=(check,))
    assert from_json(to_json(evidence)) == evidence


BASE: list = []


def test_the_summary_is_strict_json():
    def body(key, dim, step):
        yield at_most("nan", math.nan, 1.0)
        yield control("premise", at_most("c", 3.0, 2.0))

    line = json.loads(json.dumps(summary(run(make(body))), allow_nan=False))
    assert set(line) >= {"claim", "seed", "verdict", "expected", "seconds", "checks"}
    assert line["checks"][0]["margin"] is None
    assert line["checks"][1]["control"] is True


def test_counts_take_whole_floats_only_as_integers():
    def example(key, *, steps: Count = 10):
        """A title.

        A statement.
        """
        yield equal("steps", steps, steps)

    c = claim(rows=())(example)
    with pytest.raises(ParameterError, match="whole number"):
        c.values("quick", {"steps": 1.5})
