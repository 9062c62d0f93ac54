"""Every kind of check draws itself into a specification that the renderer accepts."""

import numpy as np
import pytest
import vl_convert
from scipy import stats

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
