"""Misprints of Section 5.3: how the text reads its trained networks, as printed."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._regions import off_axes
from corollary.claims.nets.truth_tables_trained import HALF_PLANE_1, HALF_PLANE_2, QUADRANT, printed_network
from corollary.evidence import Positive, at_most, claim, equal, printed
from corollary.nets import smooth_step


def _difference(weights, approximation, margin):
    """How far the printed network is from an approximation by steps, on a grid off the axes."""
    x, y = off_axes(2.0, margin)
    values = jax.vmap(printed_network(weights))(jnp.stack([x, y], 1))[:, 0]
    return jnp.abs(values - approximation(x, y))


@claim(rows=("M05.16",), erratum="The second step of the second layer is taken of y instead of x.")
def second_layer_of_run_1(key, *, margin: Positive = 0.3):
    r"""The second layer of run 1 is near S(8.187 S(x) + 5.993 S(y) - 6.287).

    As printed, with $S_\varepsilon(x)$ and $S_\varepsilon(y)$, $1/\varepsilon=6.595$; both hidden units are steps of
    $x$. A good approximation is off by less than $\frac12$ away from the axes.
    """
    eps = 1 / 6.595
    x_only = _difference(
        HALF_PLANE_1, lambda x, y: smooth_step((8.187 + 5.993) * smooth_step(x, eps) - 6.287, 1.0), margin
    )
    literal = _difference(
        HALF_PLANE_1,
        lambda x, y: smooth_step(8.187 * smooth_step(x, eps) + 5.993 * smooth_step(y, eps) - 6.287, 1.0),
        margin,
    )
    yield at_most("difference from the network, x twice", x_only, 0.5)
    yield printed(at_most("difference from the network, as printed", literal, 0.5))


@claim(rows=("M05.17",), erratum="The scale of run 2 is copied from run 1; from its own weights it is 6.26.")
def scale_of_run_2(key):
    r"""The first layer of run 2 has 1/ε = 6.595.

    As printed, $(7.380+5.809)/2$, the weights of run 1. Those of run 2 are 4.730 and 7.795 in modulus, and the matrix
    itself is rounded to 6.3 in the same place.
    """
    own = np.abs(np.array(HALF_PLANE_2[0])[:, 0]).mean()
    yield equal("mean weight of run 2, rounded to 6.3", own, 6.3, rtol=0, atol=0.05)
    yield printed(equal("mean weight of run 2, as printed", own, 6.595, rtol=0, atol=0.001))


@claim(rows=("M05.17",), erratum="The sum of the outer weights of run 2 has a wrong sign in front of 5.676.")
def outer_scale_of_run_2(key):
    r"""In run 2, 1/ε' = -5.676 + 9.608 = 15.284.

    As printed; the turned unit has the outer weight $+5.676$, and $5.676+9.608=15.284$.
    """
    first, second = HALF_PLANE_2[2][0]
    yield equal("5.676 + 9.608", abs(first) + second, 15.284, rtol=0, atol=5e-4)
    yield printed(equal("-5.676 + 9.608, as printed", first + second, 15.284, rtol=0, atol=5e-4))


@claim(rows=("M05.18",), erratum="The scale of the quadrant network is about 7.5, as its rounded matrix says, not 7.2.")
def scale_of_quadrant(key):
    r"""The first layer of the quadrant network has 1/ε near 7.2.

    As printed. The two large weights are 7.474 and 7.514 in modulus, with the mean 7.494; the matrix is rounded to
    7.5.
    """
    scale = np.abs(np.array(QUADRANT[0])).max(axis=1).mean()
    yield equal("mean large weight", scale, 7.5, rtol=0, atol=0.05)
    yield printed(equal("mean large weight, as printed", scale, 7.2, rtol=0, atol=0.05))


@claim(rows=("M05.18",), erratum="The third line of the computation has the step of x twice and none of y.")
def third_line_of_quadrant(key, *, margin: Positive = 0.4):
    r"""The quadrant network is near S(9.638 S(x) + 9.194 S(x) - 14.06).

    As printed in the third line, which does not depend on $y$; the line before it and the line after have
    $S_\varepsilon(y)$. A good approximation is off by less than $\frac12$ away from the axes.
    """
    eps = 1 / 7.494
    both = _difference(
        QUADRANT,
        lambda x, y: smooth_step(9.194 * smooth_step(x, eps) + 9.638 * smooth_step(y, eps) - 14.06, 1.0),
        margin,
    )
    literal = _difference(
        QUADRANT, lambda x, y: smooth_step((9.638 + 9.194) * smooth_step(x, eps) - 14.06, 1.0), margin
    )
    yield at_most("difference from the network, x and y", both, 0.5)
    yield printed(at_most("difference from the network, as printed", literal, 0.5))


@claim(rows=("M05.18",), erratum="The mean of the outer weights has a wrong sign in front of 9.638.")
def outer_scale_of_quadrant(key):
    r"""For the quadrant, 1/ε' = (-9.638 + 9.194)/2 = 9.416.

    As printed; the turned unit has the outer weight $+9.638$.
    """
    first, second = QUADRANT[2][0]
    yield equal("(9.638 + 9.194)/2", (abs(first) + second) / 2, 9.416, rtol=0, atol=5e-4)
    yield printed(equal("(-9.638 + 9.194)/2, as printed", (first + second) / 2, 9.416, rtol=0, atol=5e-4))
