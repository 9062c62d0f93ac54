"""The worked example of an Elman network in M: Table 13.3, and the gradient that was meant."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.data import book_sequence_table
from corollary.evidence import at_least, claim, control, equal, printed
from corollary.nets.recurrent import book_elman, bptt, labelling_loss, rtrl, sensitivities

NAMES = "w_zi, w_zz, b_z, w_o, b_o"
# as printed, to three digits
PRINTED_STATES, PRINTED_OUTPUTS = (0.446, 0.351, 0.402), (-0.105, -0.114, -0.109)
PRINTED_GRADIENT = (0.006, 0.002, 0.006, 0.029, 0.074)
PRINTED_SENSITIVITIES = ((0.821, 0.080, 0.801), (0.783, 0.391, 0.877), (0.896, 0.295, 0.839))
ROUNDED = 5e-4 + 1e-9


def _data():
    x, y = book_sequence_table()
    return x[:3, None], y[:3, None]


def _in_order(gradient):
    """The derivatives by w_zi, w_zz, b_z, w_o and b_o."""
    cell, readout = gradient.cell, gradient.readout
    return jnp.stack([jnp.ravel(a)[0] for a in (cell.inputs, cell.recurrent, cell.bias, readout.weight, readout.bias)])


def _measured():
    model, (xs, ys) = book_elman(), _data()
    run = eqx.filter_jit(
        lambda model: (model.run(xs), rtrl(model, xs, ys), bptt(model, xs, ys), sensitivities(model, xs))
    )
    (states, outputs), forward, backward, by_cell = run(model)
    carried = jnp.stack([jnp.reshape(a, 3) for a in (by_cell.inputs, by_cell.recurrent, by_cell.bias)], axis=1)
    return states[:, 0], outputs[:, 0], forward, backward, carried


def _by_hand(recurrence: float = 1.0, start: float = 0.1):
    """Loss, gradient and sensitivities by the formulas of section 13.4, in NumPy; `recurrence` weighs their memory."""
    x, y = (np.asarray(a, float)[:, 0] for a in _data())
    w_zi, w_zz, b_z, w_o, b_o = 0.20, -0.25, 0.30, 0.10, -0.15
    z, carried, rows, loss, total = start, np.zeros(3), [], 0.0, np.zeros(5)
    for t in range(3):
        slope = 1 / np.cosh(w_zi * x[t] + w_zz * z + b_z) ** 2
        carried = slope * (recurrence * w_zz * carried + np.array([x[t], z, 1.0]))
        z = np.tanh(w_zi * x[t] + w_zz * z + b_z)
        out = np.tanh(w_o * z + b_o)
        error = 2 / 3 * (out - y[t]) * (1 - out**2)
        total += error * np.array([*(w_o * carried), z, 1.0])
        loss += (out - y[t]) ** 2 / 3
        rows.append(carried)
    return loss, total, np.array(rows)


@claim(rows=("M13.06", "M13.07", "M13.08", "M13.05"))
def worked_example(key):
    r"""Table 13.3 is right; the gradient of its loss, forward, backward and by hand.

    For $\theta=(w_{zi},w_{zz},b_z,w_o,b_o)=(0.20,-0.25,0.30,0.10,-0.15)$, $Z_0=0.1$ and three steps of the data: the
    states and outputs are those of Table 13.3, $\Lambda=0.00572502$, and
    $\nabla\Lambda=-(0.0107631,0.00348324,0.0107932,0.0589089,0.148665)$ by real-time recurrent learning, by
    back-propagation through time and by the formulas of section 13.4. What is printed for the gradient is minus one
    half of what the formulas give when the term $w_{zz}\partial Z_{t-1}$ is left out of the sensitivities.
    """
    states, outputs, forward, backward, carried = _measured()
    loss, gradient, rows = _by_hand()
    _, dropped, printed_rows = _by_hand(recurrence=0.0)
    yield equal("states, Table 13.3", states, PRINTED_STATES, rtol=0, atol=ROUNDED, x=[1, 2, 3], along="t")
    yield equal("outputs, Table 13.3", outputs, PRINTED_OUTPUTS, rtol=0, atol=ROUNDED, x=[1, 2, 3], along="t")
    yield equal("loss", jnp.stack([forward.loss, backward.loss]), loss, rtol=1e-12)
    yield equal("loss in six digits", forward.loss, 0.00572502, rtol=0, atol=5e-9)
    found = jnp.stack([_in_order(forward.gradient), _in_order(backward.gradient)])
    yield equal(f"gradient by {NAMES}", found, gradient, rtol=1e-12)
    digits = [-0.0107631, -0.00348324, -0.0107932, -0.0589089, -0.148665]
    yield equal("gradient in six digits", found[0], digits, rtol=5e-6, atol=0)
    theta, step = jnp.eye(5), 1e-5
    model, (xs, ys) = book_elman(), _data()
    order = lambda m: [m.cell.inputs, m.cell.recurrent, m.cell.bias, m.readout.weight, m.readout.bias]  # noqa: E731

    @jax.jit
    @jax.vmap
    def moved(by):
        there = [leaf + d for leaf, d in zip(order(model), by, strict=True)]
        return labelling_loss(eqx.tree_at(order, model, there), xs, ys)

    quotient = (moved(step * theta) - moved(-step * theta)) / (2 * step)
    # the central difference is off by its square and by the rounding over the step
    yield equal("gradient by finite differences", found[0], quotient, rtol=0, atol=1e-9)
    yield equal("sensitivities of the states", carried, rows, rtol=1e-12)
    yield equal("what was printed: minus half, memory left out", -dropped / 2, PRINTED_GRADIENT, rtol=0, atol=ROUNDED)
    yield equal("printed sensitivities: memory left out", printed_rows, PRINTED_SENSITIVITIES, rtol=0, atol=ROUNDED)
    yield control("Z0 is 0.1: here 0", equal(f"gradient by {NAMES}", found, _by_hand(start=0.0)[1], rtol=1e-12))


@claim(
    rows=("M13.08",),
    erratum="The printed numbers have the wrong sign and lack a factor 2, and drop the memory of the sensitivities.",
)
def printed_gradient(key):
    r"""As printed: the gradient of the worked example is (0.006, 0.002, 0.006, 0.029, 0.074).

    Section 13.4, by $w_{zi},w_{zz},b_z,w_o,b_o$, in the rounding of the text, with the sensitivities of the second and
    the third state $(0.783,0.391,0.877)$ and $(0.896,0.295,0.839)$. A step against these numbers goes uphill. The
    formulas of the same section, worked out, give $-(0.0107631,0.00348324,0.0107932,0.0589089,0.148665)$.
    """
    _, _, forward, _, carried = _measured()
    gradient = _in_order(forward.gradient)
    _, by_hand, rows = _by_hand()
    yield equal(f"gradient by {NAMES}, by the formulas", gradient, by_hand, rtol=1e-12)
    yield equal("sensitivities of the states, by the formulas", carried, rows, rtol=1e-12)
    yield at_least("slope along minus the printed gradient: uphill", -gradient @ jnp.array(PRINTED_GRADIENT), 0.0)
    yield printed(equal(f"gradient by {NAMES}", gradient, PRINTED_GRADIENT, rtol=0, atol=ROUNDED))
    yield printed(equal("sensitivities of the states", carried, PRINTED_SENSITIVITIES, rtol=0, atol=ROUNDED))
