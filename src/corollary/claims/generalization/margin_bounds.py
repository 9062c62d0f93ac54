"""The bound by spectral norms and margin: valid on every sample but a few, and the same in all units."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.evidence import Range, at_least, at_most, claim, control, equal, frequency_at_most, printed
from corollary.generalization import margins, operator_norms, spectral_margin_bound, stable_ranks
from corollary.linear import min_norm_interpolant

DELTA = 0.05


def _relu_layers(matrices, x):
    for a in matrices[:-1]:
        x = jax.nn.relu(a @ x)
    return matrices[-1] @ x


@claim(rows=("T05.32",), full={"draws": 20_000})
def spectral_norms_and_margin(
    key,
    *,
    n: Annotated[int, Range(200, 5000)] = 500,
    draws: Annotated[int, Range(2000, 100_000)] = 2000,
):
    r"""Margins, spectral norms and stable ranks bound the error of ReLU networks on new examples, with all constants.

    With probability $1-\delta$, for all $f=A_d\mathrm{ReLU}(\cdots A_1x)$ with one output and $\|x\|\le R$:
    $L(f)\le\hat
    L_\gamma(f)+\sqrt{\frac1{2n}(q\ln(1+24d\rho)+\ln\prod_i\min(h_{i-1},h_i)+\ln\frac{(k+1)(k+2)}\delta)}$,
    $\rho=2^k\ge R\prod_i\|A_i\|_2/\gamma$ and $q\le18hd^2\rho^2\sum_i\|A_i\|_F^2/\|A_i\|_2^2$ (Theorem 5.5.6). Here
    two layers of two units on a circle, the labels of a direction, and of three networks the worst one after looking
    at the sample; for the best one the bound is below 0.9. It does not change if one layer is scaled up and another
    down, nor in other units of the inputs. If all examples are the same one, it fails.
    """
    angle_key, net_key, draw_key = jax.random.split(key, 3)
    angle = 2 * jnp.pi * jnp.arange(360) / 360
    points = jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)

    def make(key, turn):
        unit = jnp.array([jnp.cos(turn), jnp.sin(turn)])
        return [jnp.stack([unit, -unit]) + 0.05 * jax.random.normal(key, (2, 2)), jnp.array([[1.0, -1.0]])]

    @jax.jit
    def measure(angle_key, net_key, draw_key):
        shift = jax.random.uniform(angle_key) * 2 * jnp.pi
        truth = jnp.where(jnp.cos(angle - shift) > 0, 1.0, -1.0)
        # one in the direction of the labels, two a third of a turn away, which err on two thirds
        nets = [make(k, shift + 2 * jnp.pi * i / 3) for i, k in enumerate(jax.random.split(net_key, 3))]
        wrong = jnp.stack([jnp.mean(truth * jax.vmap(lambda x, a=a: _relu_layers(a, x)[0])(points) <= 0) for a in nets])

        def bounds(rows):
            return jnp.stack([_value(a, points[rows], truth[rows], 1.0) for a in nets])

        def beyond(rows):
            return jnp.any(wrong > bounds(rows))

        def one(key):
            rows = jax.random.randint(key, (n,), 0, 360)
            return beyond(rows), beyond(jnp.broadcast_to(rows[0], (n,)))

        rows = jax.random.randint(draw_key, (n,), 0, 360)
        failed, same = jax.lax.map(one, jax.random.split(draw_key, draws), batch_size=200)
        return failed, same, nets[0], bounds(rows)[0], points[rows], truth[rows]

    failed, same, (first, last), value, x, y = measure(angle_key, net_key, draw_key)
    yield frequency_at_most("a network with an error beyond its bound", np.asarray(failed), DELTA)
    yield at_most("bound of the network in the direction of the labels", value, 0.9)
    scaled = [_value([c * first, last / c], x, y, 1.0) for c in (0.01, 1.0, 100.0)]
    yield equal("bound with one layer scaled up and the other down", scaled, value)
    units = [_value([first, last], c * x, y, c) for c in (0.01, 1.0, 100.0)]
    yield equal("bound with inputs in other units", units, value)
    yield at_most("bound by ranks, against that by stable ranks", value, _value([first, last], x, y, 1.0, "printed"))
    yield control(
        "the examples are independent: here all the same one",
        frequency_at_most("a network with an error beyond its bound", np.asarray(same), DELTA),
    )


def _value(matrices, x, y, radius, form="sharp"):
    network = Network(_relu_layers, matrices)
    return spectral_margin_bound(network, (x, y), DELTA, radius=radius, form=form).value


@claim(rows=("T05.32",), erratum="The length of the inputs is printed in the place of its square.")
def spectral_margin_as_printed(
    key, *, n: Annotated[int, Range(10, 200)] = 40, tests: Annotated[int, Range(500, 20_000)] = 2000
):
    r"""The error on new examples is below a constant times √(hd² max‖x‖ ∏‖A‖² Σ stable ranks/(γ²n)).

    As printed in Theorem 5.5.6, "the generalization error can be bounded by $\tilde O(\cdot)$". A network of two
    layers that fits $n$ random labels of points in $2n$ dimensions with the margin $\gamma$ errs on half of new ones,
    in whatever units the inputs are: $c$ times the inputs are $c$ times the margin, and the printed expression falls
    as $c^{-1/2}$, below any constant, while that with $\max\|x\|^2$ stays. The constant here is 10,000.
    """
    x_key, y_key, t_key = jax.random.split(key, 3)
    d = 2 * n
    x, y = jax.random.normal(x_key, (n, d)), jax.random.rademacher(y_key, (n,), float)
    w = min_norm_interpolant(x, y)
    new, labels = jax.random.normal(t_key, (tests, d)), jax.random.rademacher(t_key, (tests,), float)
    network = Network(_relu_layers, [jnp.stack([w, -w]), jnp.array([[1.0, -1.0]])])
    norms, ranks = operator_norms(network, (d,)), stable_ranks(network, (d,))
    scales = 10.0 ** np.arange(0, 17, 4)
    gaps, corrected, as_printed = [], [], []
    for c in scales:
        train, test = (np.asarray(margins(network, (c * a, b))) for a, b in ((x, y), (new, labels)))
        gaps.append(np.mean(test <= 0) - np.mean(train <= 0))
        longest, gamma = float(jnp.linalg.norm(c * x, axis=1).max()), train.min()
        rest = np.prod([float(a.upper) ** 2 for a in norms]) * sum(float(r.upper) for r in ranks)
        rest *= d * 2**2 / (gamma**2 * n)
        corrected.append(1e4 * np.sqrt(rest * longest**2))
        as_printed.append(1e4 * np.sqrt(rest * longest))
    yield at_least("gap", gaps, 0.4, x=scales, along="scale of the inputs")
    yield at_most("gap, corrected", gaps, corrected, x=scales, along="scale of the inputs")
    yield printed(at_most("gap", gaps, as_printed, x=scales, along="scale of the inputs"))
