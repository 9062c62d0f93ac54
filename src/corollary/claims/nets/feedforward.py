"""A feed-forward network with all its numbers written out."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._regions import heat_maps, square
from corollary.evidence import Size, at_least, claim, control, equal, printed
from corollary.nets import book_feedforward, parameter_count

FIRST, FIRST_BIAS = [[1, -3], [2, 4], [-6, 0]], [-2, 0, -1]
SECOND, SECOND_BIAS = [[-1, -2, 0], [6, 7, -1], [5, 6, -2], [0, 1, -2]], [4, 1, -2, 3]
THIRD = [5, -1, 1, 0]


def _last_argument(x, last_bias, inside=0.0):
    """What ReLU is applied to, one unit at a time; `inside` is added within the outer tanh, where it is wrong."""
    hidden = [np.tanh(w[0] * x[:, 0] + w[1] * x[:, 1] + b) for w, b in zip(FIRST, FIRST_BIAS, strict=True)]
    outer = [
        np.tanh(sum(a * h for a, h in zip(w, hidden, strict=True)) + b + inside)
        for w, b in zip(SECOND, SECOND_BIAS, strict=True)
    ]
    return sum(c * h for c, h in zip(THIRD, outer, strict=True)) + last_bias


def _unit_by_unit(x, last_bias, inside=0.0):
    """The network one unit at a time in NumPy."""
    return np.maximum(_last_argument(x, last_bias, inside), 0.0)


@claim(rows=("M05.01", "M05.02"))
def written_out(key, *, points: Size = 500):
    r"""The network 2-3-4-1 with the parameters (5.2), layer by layer and unit by unit.

    $m(x;\theta)=\mathrm{ReLU}(W_3\tanh(W_2\tanh(W_1x+B_1)+B_2)+B_3)$ with $D=(2,3,4,1)$ holds
    $\sum_nD_n(D_{n-1}+1)=30$ numbers. With (5.2), $m(0,0)=10.99892$, $m(1,1)=10.74312$, $m(1,-1)=9.47715$. The argument
    of ReLU is at least $4+5\tanh1$ for every input, so ReLU acts only with another last bias, here $-10$.
    """
    x = 3 * jax.random.normal(key, (points, 2))

    @jax.jit
    def outputs(x, last_bias):
        return jax.vmap(book_feedforward(last_bias))(x)[:, 0]

    values, shifted = outputs(x, 6.0), outputs(x, -10.0)
    yield equal("output against unit by unit", values, _unit_by_unit(np.asarray(x), 6.0))
    yield equal("output with the last bias -10", shifted, _unit_by_unit(np.asarray(x), -10.0))
    corners = jnp.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0], [-1.0, 2.0], [-1.0, -1.0]])
    five = [10.998921187856604, 10.743115183588827, 9.477150720656265, 9.218625052326598, 10.999936895714002]
    yield equal("output at five points", outputs(corners, 6.0), five, rtol=1e-14)
    yield equal("parameters", parameter_count(book_feedforward()), 30, rtol=0, atol=0)
    yield at_least("argument of ReLU", values, 4 + 5 * jnp.tanh(1.0))
    yield equal("ReLU leaves its argument alone", values, _last_argument(np.asarray(x), 6.0))
    yield control(
        "the last bias is 6: with -10 ReLU acts",
        equal("ReLU leaves its argument alone", shifted, _last_argument(np.asarray(x), -10.0)),
    )
    u, v = square(3.0)
    grid = jnp.stack([u, v], 1)
    fields = {"last bias 6": outputs(grid, 6.0), "last bias -10": outputs(grid, -10.0) + 10.0}
    yield heat_maps("output over the plane (the second raised by 10)", fields, radius=3.0, columns=2, size=140)


@claim(
    rows=("M05.02",),
    erratum="In (5.3) the bias 6 of the last layer stands inside the outer tanh.",
)
def printed_parenthesis(key, *, points: Size = 100):
    r"""Formula (5.3) is the network with the parameters (5.2).

    As printed, $\mathrm{ReLU}(W_3\tanh(W_2\tanh(W_1x+B_1)+B_2+6))$: a parenthesis is missing before the $+6$, which
    then moves every unit of the second layer instead of the output.
    """
    x = jax.random.normal(key, (points, 2))
    network = jax.jit(jax.vmap(book_feedforward()))(x)[:, 0]
    yield equal("(5.3) with the parenthesis, against the network", _unit_by_unit(np.asarray(x), 6.0), network)
    literal = _unit_by_unit(np.asarray(x), 0.0, inside=6.0)
    yield printed(equal("(5.3) as printed, against the network", literal, network))
