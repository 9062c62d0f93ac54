"""The classifier of chapter 12 of text M, on its data."""

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.data import book_importance_data
from corollary.linear import fit_newton


class Threshold(eqx.Module):
    """1 where a linear function of the features is positive, else 0."""

    theta: jax.Array

    def __call__(self, x):
        return jnp.where(self.theta[:-1] @ x + self.theta[-1] > 0, 1.0, 0.0)


def book_fit(*, fresh: bool = False, penalty: float = 1.0):
    """Logistic regression on the chapter's points, half a squared norm of the weights added to the sum of the losses.

    The mean of the losses is what is minimised here, so that the penalty is divided by twice the number of points; the
    intercept has none.
    """
    data = book_importance_data(fresh=fresh)
    weights = jnp.array([1.0, 1.0, 0.0]) * penalty / (2 * len(data.y))
    return fit_newton(data.x, data.y, penalty=weights).theta, data


def book_classifier():
    """The classifier m* and its data."""
    theta, data = book_fit()
    return Threshold(theta), (data.x, data.y.astype(float))
