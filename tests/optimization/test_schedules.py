import numpy as np

from corollary.optimization import inverse_power, inverse_time, step_decay, step_sizes


def test_schedules_count_from_one():
    np.testing.assert_allclose(step_sizes(inverse_time(2.0, 5.0, 3.0), 3), 2 / (5 + 3 * np.array([1, 2, 3])))
    np.testing.assert_allclose(step_sizes(inverse_power(0.5, 1.0), 3), 0.5 / np.array([1, 2, 3]))
    np.testing.assert_allclose(step_sizes(inverse_power(0.5), 2), [0.5, 0.5 / np.sqrt(2)])
    sizes = step_sizes(step_decay(1.0, [2, 3, 5]), 6)
    np.testing.assert_allclose(sizes, [1, 1, 0.1, 0.01, 0.01, 0.001], rtol=1e-6)
    np.testing.assert_allclose(step_sizes(0.3, 2), [0.3, 0.3])
