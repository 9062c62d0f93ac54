"""Derivatives of scalar functions of matrices, as a table: (6.1)-(6.7), (6.11), (6.21)-(6.23)."""

import jax
import numpy as np
import pytest

from corollary.landscape import MATRIX_DERIVATIVES, matrix_difference


@pytest.mark.parametrize("row", MATRIX_DERIVATIVES, ids=lambda row: row.name)
def test_matrix_derivatives(row):
    sizes = {"m": 3, "n": 4, "k": 2}
    rng = np.random.default_rng(3)
    arguments = {name: rng.normal(size=[sizes[a] for a in shape.split()]) for name, shape in row.shapes.items()}

    def alone(variable):
        return row.value(**arguments | {row.variable: variable})

    exact = row(**arguments)
    np.testing.assert_allclose(jax.grad(alone)(arguments[row.variable]), exact, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(matrix_difference(alone, arguments[row.variable]), exact, rtol=1e-11, atol=1e-11)
