"""Problems with known constants, methods, trajectories, and the rates that the theorems promise."""

from corollary.optimization import rates
from corollary.optimization.minimize import Method, Path, minimize, of_optax
from corollary.optimization.problem import FiniteSum, Noisy, Problem, finite_sum, noisy
from corollary.optimization.problems import (
    huber,
    least_squares,
    logistic_loss_problem,
    quadratic,
    random_quadratic,
    ridge_logistic,
    wavy,
)

__all__ = [
    "FiniteSum",
    "Method",
    "Noisy",
    "Path",
    "Problem",
    "finite_sum",
    "huber",
    "least_squares",
    "logistic_loss_problem",
    "minimize",
    "noisy",
    "of_optax",
    "quadratic",
    "random_quadratic",
    "rates",
    "ridge_logistic",
    "wavy",
]
