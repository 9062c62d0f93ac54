import numpy as np
import pytest

from corollary.nets.normalisation import ScalarProductNetwork, updated_output

RNG = np.random.default_rng(0)


def test_scalar_product_network_and_the_polynomial_of_its_step():
    w, g = RNG.normal(size=5), RNG.normal(size=5)
    network = ScalarProductNetwork(w)
    assert network(2.0) == pytest.approx(2 * np.prod(w))
    np.testing.assert_allclose(network.slopes(2.0), [2 * np.prod(np.delete(w, k)) for k in range(5)], rtol=1e-12)
    step = updated_output(w, g, 2.0)
    np.testing.assert_allclose(step.coefficients[::-1], 2 * np.poly(w / g) * np.prod(-g), rtol=1e-10)
    assert step(0.3) == pytest.approx(2 * np.prod(w - 0.3 * g))
    assert step(0.3, order=1) == pytest.approx(step.coefficients[0] + 0.3 * step.coefficients[1])
