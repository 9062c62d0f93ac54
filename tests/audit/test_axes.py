"""Logarithmic axes of the report's pictures: few ticks, and numbers as people write them."""

import altair as alt
import pytest

from corollary.audit.sections._axes import logarithmic
from corollary.evidence import picture, svg


@pytest.mark.parametrize("values", [[1.0, 1e6], [0.557, 1.0], [1e-7, 1.0], [3.0], []])
def test_few_ticks_at_round_numbers_hold_what_is_drawn(values):
    made = logarithmic(values)
    ticks = made["axis"].to_dict().get("values", [])
    assert len(ticks) <= 8
    if values:
        low, high = made["scale"].to_dict()["domain"]
        assert low <= min(values) <= max(values) <= high
        assert all(low <= tick <= high for tick in ticks)


def test_powers_of_ten_have_no_plus_sign():
    rows = [{"a": 10.0**i, "b": 10.0**i} for i in range(-1, 6)]
    y = alt.Y("b:Q", **logarithmic(row["b"] for row in rows))
    drawn = svg(picture("a line", alt.Chart(alt.Data(values=rows)).mark_line().encode(x="a:Q", y=y)))
    for shown in ("0.1", "10", "1000", "1e4", "1e5"):
        assert f">{shown}</text>" in drawn
    assert "e+" not in drawn
