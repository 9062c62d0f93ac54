"""What the theorems promise: every rate as a function of the constants in its premises.

The arguments are the premises. `L` is the Lipschitz constant of the gradient, `mu` the constant of strong convexity or
of Polyak and Łojasiewicz, `distance` the distance of the start to a minimiser, `gap` the value at the start less the
minimum, `k` the number of steps (an array gives the whole curve). What a text prints with other constants says so.

A promise is on the value less the minimum, of `stationary`, `nonconvex` and AdaGrad on squared gradient norms; those on
the distance to the minimiser, or on its square, say so in their names: `…_distance`, `…_squared_distance`.
"""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
