"""A list of all rates with what they take and what they promise, read from their signatures and docstrings."""

import jax
import pytest

from corollary.optimization import rates


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def test_the_listing_has_every_rate_with_its_premises():
    found = rates.listing()
    assert found["gradient_descent.convex"].arguments == ("L", "distance", "k", "step")
    assert "Convex" in found["gradient_descent.convex"].promise
    assert len(found) > 30
    assert all(r.arguments and len(r.promise) > 20 for r in found.values())
    assert {name.split(".")[0] for name in found} == set(rates.__all__) - {"Rate", "listing"}


def test_names_say_whether_a_distance_or_its_square_is_bounded():
    squared, plain = r"$\|\theta_k-\theta^*\|^2\le", r"$\|\theta_k-\theta^*\|\le"
    found = rates.listing()
    assert {n for n, r in found.items() if squared in r.promise} == {n for n in found if n.endswith("squared_distance")}
    assert {n for n, r in found.items() if plain in r.promise} == {
        n for n in found if n.endswith("distance") and "squared" not in n
    }
