"""Every kind of check draws itself into a specification that the renderer accepts."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import vl_convert
from scipy import stats

import corollary
from corollary.evidence import (
    at_least,
    at_most,
    claim,
    control,
    draw,
    equal,
    estimate,
    frequency_at_most,
    monotone,
    picture,
    printed,
    rate,
    run,
    same_law,
    save,
)
from corollary.evidence._claim import _REGISTRY

RNG = np.random.default_rng(0)
K = np.arange(60)
CHECKS = {
    "scalar": equal("a number", 1.0, 1.0),
    "scatter": equal("instances", np.arange(20.0), np.arange(20.0)),
    "constant": equal("instances against a constant", RNG.normal(size=50), 0.0, atol=9),
    "curve": equal("a curve", 0.9**K * np.ones((3, 1)), 0.9**K, along="iteration"),
    "bound": at_most("a bound", 0.8**K, 0.9**K, along="iteration"),
    "floor": at_least("a floor", [1.0, 2.0], [0.5, -1.0]),
    "order": monotone("an order", 0.9**K, "decreasing"),
    "rate": rate("a rate", K + 1.0, (K + 1.0) ** -2, -2.0, tolerance=0.1, along="n"),
    "semilog": rate("a rate", K, 0.5**K, np.log(0.5), tolerance=0.1, axes="semi-log"),
    "mean": estimate("a mean", RNG.normal(size=400), 0.0, wrong=1.0),
    "means": estimate("means", RNG.normal(size=(400, 3)), 0.0, wrong=1.0),
    "frequency": frequency_at_most("a frequency", RNG.random(4000) < 0.04, 0.05),
    "law": same_law("a law", RNG.normal(size=500), stats.norm.cdf, wrong=stats.norm(2).cdf),
    "zeros": at_most("from zero on", np.r_[0.0, 2.0**-K], 1.0),
    "attained": at_most("attained at the start", [1.0, 0.5, 0.25], 1.0, along="n"),
    "printed": printed(equal("printed numbers", [1.0, 2.0], [1.0, 3.0])),
    "everywhere": at_least("one number everywhere", np.full(12, 4.0), 4.0),
    "rounded": equal("ones up to rounding", [1.0, 1.0 + 1e-15, 1.0 - 1e-15], 1.0),
    "failed": at_most("too much", 3.0, 1.0),
    "control": control("a premise is broken", at_most("too much", 1.5**K, 0.9**K, along="iteration")),
    "negative": at_most("mixed signs", np.linspace(-1, 1, 30), 1.0, along="t"),
}


@pytest.mark.parametrize("kind", CHECKS)
def test_every_check_is_drawn(kind):
    svg = vl_convert.vegalite_to_svg(draw(CHECKS[kind]))
    assert svg.startswith("<svg")
    words = CHECKS[kind].name.split()
    assert words[0] in svg


def encodings(spec):
    """All encodings of positions in a specification, however deep."""
    if isinstance(spec, dict):
        yield from (v for k, v in spec.items() if k in ("x", "y") and isinstance(v, dict))
        spec = list(spec.values())
    if isinstance(spec, list):
        for part in spec:
            yield from encodings(part)


@pytest.mark.parametrize("kind", CHECKS)
def test_no_axis_is_called_index_and_each_says_what_it_is(kind):
    across = [e for e in encodings(draw(CHECKS[kind])) if e.get("axis", 1) is not None]
    assert not any("index" in str((e.get("title"), e.get("field"))) for e in across)
    if CHECKS[kind].axes.get("x"):
        assert CHECKS[kind].axes["x"] in [e.get("title") for e in across] or "line" in [e["field"] for e in across]


@pytest.mark.parametrize(("kind", "scale"), [("curve", "log"), ("bound", "log"), ("zeros", "symlog"), ("floor", None)])
def test_data_that_span_decades_have_a_logarithmic_axis(kind, scale):
    assert {e["scale"].get("type") for e in encodings(draw(CHECKS[kind])) if e["field"] in ("y", "measured")} == {scale}


def test_one_number_against_one_number_is_a_line_of_text():
    for kind, text in (
        ("scalar", "measured 1, predicted 1"),
        ("everywhere", "measured 4, at least 4, everywhere · All meet the bound up to rounding."),
        ("failed", "measured 3, not at most 1"),
        ("rounded", "measured 1, predicted 1, everywhere"),
    ):
        spec = draw(CHECKS[kind])
        assert spec["data"]["values"][1]["text"] == text
        assert {layer["mark"]["type"] for layer in spec["layer"]} == {"text"}
    assert draw(CHECKS["failed"])["data"]["values"][0]["text"] == "FAILED: too much"
    close = at_most("close", 1.0 - 1e-8, 1.0)
    assert draw(close)["data"]["values"][1]["text"].startswith("measured 0.99999999, at most 1")


def test_what_meets_a_bound_is_said_in_the_picture():
    assert draw(CHECKS["attained"])["title"]["subtitle"] == ["1 of 3 meet the bound up to rounding."]


def test_printed_and_control_are_named():
    assert draw(CHECKS["printed"])["title"]["text"] == ["printed: printed numbers"]
    assert draw(CHECKS["control"])["title"]["text"] == ["control: too much"]
    assert draw(CHECKS["control"])["title"]["subtitle"][0] == "a premise is broken"


def test_dashed_lines_are_dashed_in_the_legend_too():
    svg = vl_convert.vegalite_to_svg(draw(CHECKS["rate"]))
    # predicted and fitted: two lines, and two symbols in the legend
    assert svg.count('stroke-dasharray="5,4"') == 4


@pytest.mark.parametrize("kind", ["rate", "curve", "scatter", "frequency", "law", "bound"])
def test_numbers_of_an_axis_do_not_collide(kind):
    """The labels of the horizontal axis are further apart than the wider of two neighbours, at six units a letter."""
    svg = vl_convert.vegalite_to_svg(draw(CHECKS[kind]))
    group = re.search(r'class="mark-text role-axis-label".*?</g>', svg, re.DOTALL).group()
    labels = [
        (float(x), len(text))
        for x, opacity, text in re.findall(
            r'<text text-anchor="middle" transform="translate\(([-\d.]+),[^>]*?(opacity="0")?>([^<]*)</text>', group
        )
        if not opacity
    ]
    assert len(labels) >= 2
    for (x, n), (z, m) in itertools.pairwise(labels):
        assert z - x >= 6 * (n + m) / 2, labels


def test_claims_and_audit_draw_no_axis_called_index():
    root = Path(corollary.__file__).parent
    for path in [*(root / "claims").rglob("*.py"), *(root / "audit").rglob("*.py")]:
        assert not re.search(r"""["']index(:[QON])?["']""", path.read_text(encoding="utf-8")), path


def test_the_evidence_of_a_claim_with_a_figure_of_its_own(tmp_path):
    import altair as alt

    def drawn(key):
        """A title.

        A statement.
        """
        yield CHECKS["curve"]
        chart = alt.Chart(alt.Data(values=[{"a": 1, "b": 2}])).mark_point().encode(x="a:Q", y="b:Q")
        yield picture("of its own", chart)
        yield CHECKS["control"]

    made = claim(rows=())(drawn)
    _REGISTRY.pop(made.id)
    paths = save(run(made), tmp_path / "deep" / "figures")
    assert [p.suffix for p in paths] == [".png", ".svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "of its own" in paths[1].read_text()
    assert "http" not in paths[1].read_text().replace("http://www.w3.org", "")


def test_control_characters_are_written_out_in_pictures():
    from corollary.evidence import Figure
    from corollary.evidence._figures import svg

    spec = {"title": "red \x1b[31m \uffff", "data": {"values": [{"a": 1}]}, "mark": "point"}
    made = svg(Figure("f", spec))
    assert "red \\x1b[31m \\uffff" in made
