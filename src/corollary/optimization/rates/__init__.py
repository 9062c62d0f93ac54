"""What the theorems promise: every rate as a function of the constants in its premises.

The arguments are the premises. `L` is the Lipschitz constant of the gradient, `mu` the constant of strong convexity or
of Polyak and Łojasiewicz, `distance` the distance of the start to a minimiser, `gap` the value at the start less the
minimum, `k` the number of steps (an array gives the whole curve). What a text prints with other constants says so.
"""

from corollary.optimization.rates import adagrad, adam, flow, gradient_descent, momentum, sgd, variance_reduction

__all__ = ["adagrad", "adam", "flow", "gradient_descent", "momentum", "sgd", "variance_reduction"]
