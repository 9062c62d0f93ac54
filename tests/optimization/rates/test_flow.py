r"""The gradient flow $\dot\theta=-\nabla f(\theta)$: no step size, and so no smoothness among the premises."""

import numpy as np
import pytest

from corollary.optimization import rates


def test_flow_rates_by_hand():
    assert rates.flow.convex(2.0, 4.0) == 0.5
    assert rates.flow.polyak_lojasiewicz(0.5, 3.0, 2.0) == pytest.approx(3 * np.exp(-2))
    assert rates.flow.euler_error(1.0, 2.0, 0.1, 1.0) == pytest.approx(0.1 * np.expm1(1))
