"""Rules of quadrature against integrals that are known."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from corollary.foundations import gauss_legendre, half_line, normal_rule, panels


@pytest.mark.parametrize("nodes", [1, 3, 8])
def test_gauss_legendre_is_exact_below_twice_its_nodes_and_not_there(nodes):
    x, w = gauss_legendre(nodes)
    powers = np.arange(2 * nodes + 1)
    error = np.abs(w @ x[:, None] ** powers - 1 / (powers + 1))
    assert error[:-1].max() < 1e-15 * 2 * nodes
    assert error[-1] > 1e-12


def test_panels_integrate_piece_by_piece():
    x, w = panels(jnp.array([-1.0, 0.3, 2.0]), 6)
    assert x.shape == w.shape == (12,)
    # a kink at a break costs nothing: the polynomials on both sides have degree 3
    np.testing.assert_allclose(w @ (jnp.abs(x - 0.3) * x**2), integrate.quad(lambda t: abs(t - 0.3) * t**2, -1, 2)[0])


@pytest.mark.parametrize(
    ("f", "integral"),
    [
        (lambda t: np.exp(-t), 1.0),
        (lambda t: 1 / (1 + t) ** 2.5, 2 / 3),
        (lambda t: np.exp(-t) / np.sqrt(t), special.gamma(0.5)),
    ],
)
def test_half_line_with_heavy_tails_and_singular_ends(f, integral):
    t, w = half_line()
    np.testing.assert_allclose(w @ f(t), integral, rtol=1e-12)


def test_normal_rule_has_the_moments_of_the_normal_law():
    z, w = normal_rule(64, jnp.float64)
    np.testing.assert_allclose([w @ z**k for k in (0, 2, 4, 6)], [1, 1, 3, 15], rtol=1e-11)
    np.testing.assert_allclose(w @ np.cos(z), np.exp(-0.5), rtol=1e-12)
    assert np.abs(normal_rule(64, jnp.float32)[0]).max() == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gauss_legendre(0), "nodes must be at least 1"),
        (lambda: panels(jnp.ones((2, 2)), 3), "breaks must have shape"),
        (lambda: half_line(0), "points must be at least 1"),
        (lambda: normal_rule(1, jnp.float64), "nodes must be at least 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
