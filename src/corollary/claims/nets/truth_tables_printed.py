"""Misprints of Section 5.2: each formula as printed, against the region that it is printed for."""

import jax
import jax.numpy as jnp

from corollary.claims.nets._regions import off_axes
from corollary.evidence import Positive, Size, at_most, claim, equal, printed
from corollary.nets import (
    FeedForward,
    conjunction_error,
    in_region,
    logistic,
    region_indicator,
    smooth_clip,
    smooth_step,
    truth_table_network,
)

MARGIN, EPS = 0.3, 0.05
ROUNDING = 3e-16  # of 1 - S(u) for large u


def _error(region, values, x, y):
    return jnp.abs(values - in_region(region, x, y))


@claim(rows=("M05.08",), erratum="The sign of x is missing in the indicator of the left half-plane.")
def left_half_plane(key):
    r"""The left half-plane is near the step of x.

    As printed: $\mathbf 1_{\mathbb R_-\times\mathbb R}\approx S_\varepsilon(x)$, which is the right half-plane; it
    should be $S_\varepsilon(-x)$.
    """
    x, y = off_axes(2.0, MARGIN)
    allowed = jax.nn.sigmoid(-MARGIN / EPS)
    yield at_most("error with -x", _error("x < 0", smooth_step(-x, EPS), x, y), allowed, atol=ROUNDING)
    literal = _error("x < 0", smooth_step(x, EPS), x, y)
    yield printed(at_most("error as printed", literal, allowed, atol=ROUNDING))


@claim(
    rows=("M05.08", "M05.11"),
    erratum="The second form of the third quadrant has the step of -y where that of y is meant, twice.",
)
def third_quadrant(key):
    r"""The third quadrant in two ways that are equal.

    As printed, and again with a clip around in (5.14):
    $S_\varepsilon(S_\varepsilon(-x)+S_\varepsilon(-y)-\frac32)=S_\varepsilon(-S_\varepsilon(x)-S_\varepsilon(-y)+\frac12)$.
    The right-hand side is the second quadrant; $-S_\varepsilon(y)$ is meant.
    """
    x, y = off_axes(2.0, MARGIN)
    literal = smooth_step(-smooth_step(x, EPS) - smooth_step(-y, EPS) + 0.5, EPS)
    meant = smooth_step(-smooth_step(x, EPS) - smooth_step(y, EPS) + 0.5, EPS)
    allowed = conjunction_error(MARGIN, EPS)
    # the clip sees what two layers leave
    clipped = jax.nn.sigmoid(-(0.5 - allowed) / EPS)
    yield at_most("error, corrected", _error("Q3", meant, x, y), allowed, atol=ROUNDING)
    yield at_most("error with a clip, corrected", _error("Q3", smooth_clip(meant, EPS), x, y), clipped, atol=ROUNDING)
    yield equal("what is printed is the second quadrant", literal, region_indicator("Q2", x, y, EPS), rtol=1e-10)
    yield printed(at_most("error as printed", _error("Q3", literal, x, y), allowed, atol=ROUNDING))
    again = _error("Q3", smooth_clip(literal, EPS), x, y)
    yield printed(at_most("error as printed in (5.14)", again, clipped, atol=ROUNDING))


@claim(
    rows=("M05.08",),
    erratum="The second form of the complement of the third quadrant is the complement of the first.",
)
def complement_of_third_quadrant(key):
    r"""The complement of the third quadrant in two ways that are equal.

    As printed:
    $S_\varepsilon(-S_\varepsilon(-x)-S_\varepsilon(-y)+\frac32)=S_\varepsilon(S_\varepsilon(-x)+S_\varepsilon(-y)-\frac12)$.
    The right-hand side should have $x$ and $y$.
    """
    x, y = off_axes(2.0, MARGIN)
    literal = smooth_step(smooth_step(-x, EPS) + smooth_step(-y, EPS) - 0.5, EPS)
    meant = smooth_step(smooth_step(x, EPS) + smooth_step(y, EPS) - 0.5, EPS)
    allowed = conjunction_error(MARGIN, EPS)
    yield at_most("error, corrected", _error("not Q3", meant, x, y), allowed, atol=ROUNDING)
    yield equal(
        "what is printed is the complement of the first", literal, region_indicator("not Q1", x, y, EPS), rtol=1e-10
    )
    yield printed(at_most("error as printed", _error("not Q3", literal, x, y), allowed, atol=ROUNDING))


@claim(
    rows=("M05.11",), erratum="The network is defined with the scaled step, while its weights are divided by ε already."
)
def scaled_twice(key, *, points: Size = 200, eps: Positive = 0.3):
    r"""The network with the scaled step and the weights divided by ε computes the nested steps.

    As defined below (5.14), $S_\varepsilon$ follows every affine map; as used from (5.15) on, with the weights over
    $\varepsilon$, $S$ does. Both together would divide by $\varepsilon$ twice.
    """
    x, y = jax.random.normal(key, (2, points))
    network = truth_table_network("Q1", eps)
    twice = jax.tree.map(lambda a: a / eps, network)  # S_ε after the layer is S after the layer over ε
    nested = smooth_clip(region_indicator("Q1", x, y, eps), eps)
    inputs = jnp.stack([x, y], 1)
    yield equal("S and weights over ε", jax.vmap(network)(inputs)[:, 0], nested)
    yield printed(equal("scaled step and weights over ε, as printed", jax.vmap(twice)(inputs)[:, 0], nested))


@claim(rows=("M05.11",), erratum="The first two lines of (5.14) hold approximately, not with equality.")
def exact_constants(key, *, eps: Positive = 0.1):
    r"""Nested steps of -1 and of 1 are equal to 0 and to 1.

    As printed in (5.14): $\mathbf 1_\emptyset=S_\varepsilon(S_\varepsilon(S_\varepsilon(-1)-\frac12)-\frac12)$ and
    the same with 1. A logistic function is never 0 or 1: here they are off by about
    $S(-\frac1{2\varepsilon})=0.0067$.
    """
    values = smooth_clip(smooth_clip(smooth_step(jnp.array([-1.0, 1.0]), eps), eps), eps)
    yield at_most("distance from 0 and 1", jnp.abs(values - jnp.array([0.0, 1.0])), 2 * jax.nn.sigmoid(-0.5 / eps))
    yield printed(equal("value, as printed", values, jnp.array([0.0, 1.0]), rtol=0))


@claim(
    rows=("M05.12",),
    erratum="The weights announced for the complement of the second quadrant are those of the complement of the first.",
)
def announced_complement(key):
    r"""Weights for the complement of R- x R+.

    As announced: $W^{(1)}=-I/\varepsilon$, $B^{(1)}=0$, first row of $W^{(2)}$ $(1,1)/\varepsilon$,
    $B^{(2)}=-(\frac12,0)/\varepsilon$, $W^{(3)}=(1,0)/\varepsilon$, $B^{(3)}=-\frac1{2\varepsilon}$. The network
    leaves out the first quadrant, as its last line says.
    """
    x, y = off_axes(2.0, MARGIN)
    theta = [(-jnp.eye(2), jnp.zeros(2)), (jnp.array([[1.0, 1.0], [0.0, 0.0]]), jnp.array([-0.5, 0.0]))]
    theta.append((jnp.array([[1.0, 0.0]]), jnp.array([-0.5])))
    network = FeedForward.of([(w / EPS, b / EPS) for w, b in theta], logistic)
    values = jax.jit(jax.vmap(network))(jnp.stack([x, y], 1))[:, 0]
    # the last clip sees what two layers leave
    allowed = jax.nn.sigmoid(-(0.5 - conjunction_error(MARGIN, EPS)) / EPS)
    yield at_most("error for the complement of R+ x R+", _error("not Q1", values, x, y), allowed, atol=ROUNDING)
    yield printed(
        at_most("error for the complement of R- x R+", _error("not Q2", values, x, y), allowed, atol=ROUNDING)
    )


@claim(
    rows=("M05.12",),
    erratum="In the last computation one component lacks its outer step and has -1/2 instead of +1/2.",
)
def opposing_components(key, *, points: Size = 200):
    r"""The second hidden value of the network for opposing quadrants is an affine function of the first layer.

    As printed in the last display, the second layer has the components
    $S_\varepsilon(S_\varepsilon(x)+S_\varepsilon(y)-\frac32)$ and $-S_\varepsilon(x)-S_\varepsilon(y)-\frac12$. The
    second is $S_\varepsilon(-S_\varepsilon(x)-S_\varepsilon(y)+\frac12)$, as in the line before and the line after.
    """
    x, y = jax.random.normal(key, (2, points))
    network = truth_table_network("Q1 or Q3", EPS)
    hidden = jax.vmap(lambda p: network.layers[1](network.layers[0](p)))(jnp.stack([x, y], 1))[:, 1]
    level = -smooth_step(x, EPS) - smooth_step(y, EPS)
    # rounding of arguments of size 1/ε, magnified by 1/(4ε)
    rounding = 10 * 2.3e-16 / EPS / (4 * EPS)
    yield equal("second component, corrected", hidden, smooth_step(level + 0.5, EPS), rtol=0, atol=rounding)
    yield printed(equal("second component, as printed", hidden, level - 0.5, rtol=0, atol=rounding))
