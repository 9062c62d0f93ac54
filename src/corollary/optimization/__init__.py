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
from corollary.optimization.circle import circle_grid, diffuse, expectation, generator, interpolation, transition
from corollary.optimization.convexity import (
    CriticalPoint,
    Violation,
    chord_gap,
    classify_critical_point,
    convexity_violation,
    curvature_range,
    gradient_product,
    leaves_set,
    max_descent_step,
    steepest_step,
    tangent_gap,
)
from corollary.optimization.cosines import cosines, random_cosines
from corollary.optimization.diffusion import diffusion_sgd, gaussian_sgd, modified_drift
from corollary.optimization.epochs import epoch_variance
from corollary.optimization.flow import Flow, gradient_flow
from corollary.optimization.geman_mcclure import geman_mcclure
from corollary.optimization.hard import haystack, random_clauses, satisfiability, satisfies
from corollary.optimization.hard_for_momentum import bent_line, nesterov_chain
from corollary.optimization.heavy_ball import (
    damped_oscillator,
    heavy_ball,
    heavy_ball_matrix,
    heavy_ball_of_flow,
    polyak_parameters,
)
from corollary.optimization.linear_modes import ModeTimes, linear_network_loss, mode_strength, mode_times
from corollary.optimization.mass import MassParameters, mass, mass_parameters
from corollary.optimization.minimize import Method, Path, minimize, of_optax
from corollary.optimization.moments import (
    averaged_error,
    confusion_zone,
    expected_value,
    least_squares_moments,
    quadratic_law,
    quadratic_moments,
    stationary_value,
)
from corollary.optimization.nesterov import convex_momentum, nesterov, nesterov_matrix, strongly_convex_momentum
from corollary.optimization.newton import block_newton, isotropic_model, newton, taylor_model
from corollary.optimization.noise import (
    batch_constants,
    batch_factor,
    decreasing_step,
    gradient_covariance,
    gradient_noise,
    gradient_variance,
    least_growth,
    noise_constants,
)
from corollary.optimization.nonconvex import cosine_wells, double_well, log_squares, sigmoid_classification, washboard
from corollary.optimization.plateau import plateau_reductions, reduce_on_plateau
from corollary.optimization.polyak_lojasiewicz import pl_constant, pl_ratio, valley
from corollary.optimization.power_method import Power, power_method
from corollary.optimization.preconditioned import jacobi, preconditioned, preconditioned_spectrum
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
from corollary.optimization.quadratics import best_step, condition_number, quadratic_factor, steps_to_shrink
from corollary.optimization.risk import erm_expected_risk, erm_training_risk, gaussian_risk
from corollary.optimization.rmsprop import rmsprop, rmsprop_amplitude
from corollary.optimization.schedules import inverse_power, inverse_time, step_decay, step_sizes
from corollary.optimization.sgd import averaged, batch_gradient, best_iterate, minibatch, random_iterate, sgd
from corollary.optimization.stochastic_momentum import (
    CoordinateLeastSquares,
    best_contraction,
    contraction,
    coordinate_least_squares,
    second_moment_matrix,
    spectral_radius,
)
from corollary.optimization.sums import coin, least_squares_sum, sigmoid_sum, walk
from corollary.optimization.variance_reduction import gradient_alignment, sag, svrg, svrg_variance

__all__ = [
    "CoordinateLeastSquares",
    "CriticalPoint",
    "FiniteSum",
    "Flow",
    "MassParameters",
    "Method",
    "ModeTimes",
    "Noisy",
    "Path",
    "Power",
    "Problem",
    "Violation",
    "abel_mean",
    "adagrad",
    "adagrad_full",
    "adagrad_norm",
    "adagrad_shifted",
    "adam",
    "adamax",
    "amsgrad",
    "averaged",
    "averaged_error",
    "batch_constants",
    "batch_factor",
    "batch_gradient",
    "bent_line",
    "best_contraction",
    "best_iterate",
    "best_step",
    "block_newton",
    "cesaro_means",
    "chord_gap",
    "circle_grid",
    "classify_critical_point",
    "coin",
    "condition_number",
    "confusion_zone",
    "contraction",
    "convex_momentum",
    "convexity_violation",
    "coordinate_least_squares",
    "cosine_wells",
    "cosines",
    "curvature_range",
    "damped_oscillator",
    "decaying_maximum",
    "decreasing_step",
    "diffuse",
    "diffusion_sgd",
    "double_well",
    "epoch_variance",
    "erm_expected_risk",
    "erm_training_risk",
    "expectation",
    "expected_value",
    "exponential_moving_average",
    "finite_sum",
    "flattest",
    "gaussian_risk",
    "gaussian_sgd",
    "geman_mcclure",
    "generator",
    "gradient_alignment",
    "gradient_covariance",
    "gradient_flow",
    "gradient_noise",
    "gradient_product",
    "gradient_variance",
    "haystack",
    "heavy_ball",
    "heavy_ball_matrix",
    "heavy_ball_of_flow",
    "huber",
    "interpolation",
    "inverse_power",
    "inverse_time",
    "isotropic_model",
    "jacobi",
    "laplace_mean",
    "laplace_mean_of_averages",
    "least_growth",
    "least_squares",
    "least_squares_moments",
    "least_squares_sum",
    "leaves_set",
    "linear_network_loss",
    "log_squares",
    "logistic_loss_problem",
    "mass",
    "mass_parameters",
    "max_descent_step",
    "minibatch",
    "minimize",
    "mode_strength",
    "mode_times",
    "modified_drift",
    "moving_average_weights",
    "nesterov",
    "nesterov_chain",
    "nesterov_matrix",
    "newton",
    "noise_constants",
    "noisy",
    "of_optax",
    "pl_constant",
    "pl_ratio",
    "plateau_reductions",
    "polyak_parameters",
    "power_average",
    "power_method",
    "preconditioned",
    "preconditioned_spectrum",
    "quadratic",
    "quadratic_factor",
    "quadratic_law",
    "quadratic_moments",
    "random_clauses",
    "random_cosines",
    "random_iterate",
    "random_quadratic",
    "rates",
    "reduce_on_plateau",
    "ridge_logistic",
    "rmsprop",
    "rmsprop_amplitude",
    "sag",
    "satisfiability",
    "satisfies",
    "second_moment_matrix",
    "sgd",
    "sigmoid_classification",
    "sigmoid_sum",
    "spectral_radius",
    "stationary_value",
    "steepest_step",
    "step_decay",
    "step_sizes",
    "steps_to_shrink",
    "strongly_convex_momentum",
    "svrg",
    "svrg_variance",
    "tangent_gap",
    "taylor_model",
    "transition",
    "valley",
    "walk",
    "washboard",
    "wavy",
]
