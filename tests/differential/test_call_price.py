import jax
import numpy as np
import pytest
from scipy import integrate, signal, stats

from corollary.differential import black_scholes_call, euler_call

NUMBERS = (1.0, 1.05, 0.05, 0.5, 1.0)


def test_formula_against_quadrature():
    law = stats.norm(0.05 - 0.125, 0.5)
    value = integrate.quad(lambda s: (np.exp(s) - 1.05) * law.pdf(s), np.log(1.05), 8)[0]
    np.testing.assert_allclose(black_scholes_call(*NUMBERS), np.exp(-0.05) * value, rtol=1e-9)
    # the derivative by the spot is Φ(d1)
    assert float(jax.grad(black_scholes_call)(*NUMBERS)) == pytest.approx(stats.norm.cdf(0.25242), abs=1e-5)


def test_scheme_against_convolutions():
    """The law of the logarithm on a grid, convolved with itself."""
    steps = 25
    centre, width = 1 + 0.05 / steps, 0.5 / np.sqrt(steps)
    grid = np.arange(-3000, 3001) * 1e-3
    # the mass of a cell from the distribution function of the factor
    edges = stats.norm.cdf((np.exp(np.append(grid - 5e-4, grid[-1] + 5e-4)) - centre) / width)
    one, law = np.diff(edges), np.array([1.0])
    for _ in range(steps):
        law = signal.fftconvolve(law, one)
        keep = min(law.size, grid.size)
        middle = law.size // 2
        law = law[middle - keep // 2 : middle + keep // 2 + 1]
    price = np.exp(-0.05) * law @ np.maximum(np.exp(grid) - 1.05, 0)
    # a cell of 1e-3 spreads every factor by its variance of 1e-6 / 12
    assert euler_call(*NUMBERS, steps=steps) == pytest.approx(price, abs=2e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"spot": 0.0}, "spot must be"),
        ({"volatility": -1.0}, "volatility must be"),
        ({"horizon": 0.0}, "horizon must be"),
    ],
)
def test_bad_input(change, sentence):
    names = ("spot", "strike", "interest", "volatility", "horizon")
    arguments = {**dict(zip(names, NUMBERS, strict=True)), **change}
    with pytest.raises(ValueError, match=sentence):
        black_scholes_call(**arguments)
    with pytest.raises(ValueError, match=sentence):
        euler_call(**arguments, steps=100)


def test_too_few_steps():
    with pytest.raises(ValueError, match="steps must be more"):
        euler_call(*NUMBERS, steps=4)
