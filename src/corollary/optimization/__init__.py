"""Problems with known constants, methods, trajectories, and the rates that the theorems promise."""

from corollary.optimization import rates
from corollary.optimization.adagrad import adagrad, adagrad_full, adagrad_norm, adagrad_shifted, flattest
from corollary.optimization.adam import adam, amsgrad
from corollary.optimization.adamax import adamax
from corollary.optimization.averages import (
    abel_mean,
    cesaro_means,
    decaying_maximum,
    exponential_moving_average,
    laplace_mean,
    laplace_mean_of_averages,
    moving_average_weights,
    power_average,
)
from corollary.optimization.cosines import cosines, random_cosines
from corollary.optimization.minimize import Method, Path, minimize, of_optax
from corollary.optimization.plateau import plateau_reductions, reduce_on_plateau
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
from corollary.optimization.rmsprop import rmsprop, rmsprop_amplitude

__all__ = [
    "FiniteSum",
    "Method",
    "Noisy",
    "Path",
    "Problem",
    "abel_mean",
    "adagrad",
    "adagrad_full",
    "adagrad_norm",
    "adagrad_shifted",
    "adam",
    "adamax",
    "amsgrad",
    "cesaro_means",
    "cosines",
    "decaying_maximum",
    "exponential_moving_average",
    "finite_sum",
    "flattest",
    "huber",
    "laplace_mean",
    "laplace_mean_of_averages",
    "least_squares",
    "logistic_loss_problem",
    "minimize",
    "moving_average_weights",
    "noisy",
    "of_optax",
    "plateau_reductions",
    "power_average",
    "quadratic",
    "random_cosines",
    "random_quadratic",
    "rates",
    "reduce_on_plateau",
    "ridge_logistic",
    "rmsprop",
    "rmsprop_amplitude",
    "wavy",
]
