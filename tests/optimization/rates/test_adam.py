import numpy as np
import pytest

from corollary.optimization import moving_average_weights, rates


def test_step_bounds():
    w1, w2 = (np.asarray(moving_average_weights(40, d, bias_correction=True)) for d in (0.9, 0.999))
    assert float(rates.adam.adam_step(0.9, 0.999, 40)) == pytest.approx(np.sqrt((w1**2 / w2).sum()), rel=1e-10)
    g = 0.999 ** -np.arange(39.0, -1, -1)
    worst = w1 @ g / max(0.999 ** np.arange(39, -1, -1) * g)
    assert float(rates.adam.adamax_step(0.9, 0.999, 40)) == pytest.approx(worst, rel=1e-10)
    assert float(rates.adam.adam_step(0.9, 0.999, 1e6)) == pytest.approx(7.27, abs=0.01)
