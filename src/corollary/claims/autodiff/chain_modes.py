"""Forward and reverse mode through a chain of functions: the same derivative at different prices."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.autodiff import (
    ChainModel,
    composition_cost,
    forward_mode,
    jacobian_chain,
    multiplications,
    reverse_mode,
)
from corollary.claims.autodiff._pictures import curves
from corollary.evidence import Range, Size, claim, control, equal, printed


@claim(rows=("M06.01",))
def two_bracketings(
    key, *, depth: Annotated[int, Range(2, 20)] = 6, width: Size = 5, inputs: Size = 7, outputs: Size = 3
):
    r"""The Jacobian of a composition is the product of the Jacobians, in whatever order it is multiplied out.

    $F=\sigma_L\circ\dots\circ\sigma_1$ has $\partial F/\partial\theta=D^L\cdots D^1$, where $D^\ell$ is the Jacobian
    of $\sigma_\ell$ at the output of the layers below. Measured on affine maps followed by tanh, against JAX and
    against central differences of $F$.
    """
    sizes = [inputs] + [width] * (depth - 1) + [outputs]
    keys = jax.random.split(key, depth + 1)
    weights = [jax.random.normal(k, (n, m)) / jnp.sqrt(m) for k, m, n in zip(keys, sizes, sizes[1:], strict=False)]
    theta = jax.random.normal(keys[-1], (inputs,))
    h = 1e-3

    @jax.jit
    def measure(theta, weights):
        def composed(theta):
            for w in weights:
                theta = jnp.tanh(w @ theta)
            return theta

        def central(h):
            return jax.vmap(lambda e: (composed(theta + h * e) - composed(theta - h * e)) / (2 * h))(jnp.eye(inputs)).T

        jacobians, misplaced, state = [], [], theta
        for w in weights:
            pre = w @ state
            state = jnp.tanh(pre)
            jacobians.append((1 - state**2)[:, None] * w)
            misplaced.append((1 - jnp.tanh(state) ** 2)[:, None] * w)  # at the layer's own output
        return {
            "forward": jacobian_chain(jacobians, "forward"),
            "reverse": jacobian_chain(jacobians, "reverse"),
            "misplaced": jacobian_chain(misplaced, "reverse"),
            "jax": jax.jacobian(composed)(theta),
            "differences": (4 * central(h / 2) - central(h)) / 3,
            "coarser": (4 * central(h) - central(2 * h)) / 3,
        }

    m = measure(theta, weights)
    yield equal("forward mode against reverse mode", m["forward"], m["reverse"], atol=1e-14)
    yield equal("against automatic differentiation", m["reverse"], m["jax"], atol=1e-14)
    # two differences of fourth order, one at the double step, are 15 errors apart; rounding is a few eps / h
    allowed = float(jnp.abs(m["coarser"] - m["differences"]).max()) + 1e-12
    yield equal("against central differences", m["reverse"], m["differences"], rtol=0, atol=allowed)
    yield control(
        "Jacobians taken at the outputs instead of the inputs of their layers",
        equal("against automatic differentiation", m["misplaced"], m["jax"], atol=1e-14),
    )


def _measured(mode, depth, width, outputs, parameters):
    """Multiplications that `jacobian_chain` makes on matrices of these shapes."""
    shapes = [(width, parameters)] + [(width, width)] * (depth - 2) + [(outputs, width)]
    return multiplications(lambda *d: jacobian_chain(d, mode), *(jax.ShapeDtypeStruct(s, float) for s in shapes))


@claim(rows=("M06.02", "M24.06"))
def cost_of_composition(key, *, instances: Size = 50):
    r"""Forward mode is cheaper exactly for fewer parameters than outputs, reverse mode for more.

    For dense Jacobians $D^1\in\mathbb R^{K\times d}$, $D^\ell\in\mathbb R^{K\times K}$, $D^L\in\mathbb R^{M\times K}$
    the product takes $(L-2)K^2d+MKd$ multiplications from the right (forward) and $(L-2)K^2M+MKd$ from the left
    (reverse). For $L>2$ the sign of the difference is that of $d-M$. Counted in the programs that JAX records. The
    orders in the text have a further $K^2d$ in both modes, $\mathcal O(K^2d+(L-2)K^2M+MKd)$ for the reverse one: an
    upper bound, but not a tight one, since no $K\times K$ matrix ever meets a $K\times d$ one from the left.
    """
    draws = np.asarray(jax.random.randint(key, (instances, 4), jnp.array([3, 2, 1, 1]), jnp.array([9, 20, 30, 30])))
    forward = np.array([_measured("forward", *map(int, row)) for row in draws])
    reverse = np.array([_measured("reverse", *map(int, row)) for row in draws])
    formula = [[composition_cost(*map(int, row), mode) for row in draws] for mode in ("forward", "reverse")]
    yield equal("multiplications, forward", forward, formula[0], rtol=0, atol=0)
    yield equal("multiplications, reverse", reverse, formula[1], rtol=0, atol=0)
    sign = np.sign(draws[:, 3] - draws[:, 2])
    yield equal("sign of forward minus reverse", np.sign(forward - reverse), sign, rtol=0, atol=0)
    shallow = [[_measured(mode, 2, *map(int, row[1:])) for row in draws] for mode in ("forward", "reverse")]
    yield control(
        "with two layers there is one product, and no difference",
        equal("sign of forward minus reverse", np.sign(np.subtract(*shallow)), sign, rtol=0, atol=0),
    )
    outputs = np.arange(1, 33)
    counts = [[_measured(mode, 5, 8, int(m), 16) for m in outputs] for mode in ("forward", "reverse")]
    cheaper = np.sign(np.subtract(*counts))
    both = dict(zip(("forward", "reverse"), counts, strict=True))
    yield curves("5 layers of width 8, 16 parameters", outputs, both, titles=("outputs M", "multiplications"))
    yield equal(
        "which is cheaper with 16 parameters (1: reverse)",
        cheaper,
        np.sign(16 - outputs),
        rtol=0,
        x=outputs,
        along="outputs",
    )


def _chain(key, depth, width, inputs, outputs):
    model_key, x_key, loss_key = jax.random.split(key, 3)
    chain = ChainModel(depth, width, inputs, key=model_key)
    return chain, jax.random.normal(x_key, (inputs,)), jax.random.normal(loss_key, (outputs, width))


def _squares(readout):
    """A loss with several outputs: ½ (A z)² entry by entry."""
    return lambda z: (readout @ z) ** 2 / 2


@claim(rows=("M24.01", "M24.02", "M24.04"))
def chain_derivatives(
    key, *, depth: Annotated[int, Range(1, 20)] = 5, width: Size = 4, inputs: Size = 3, outputs: Size = 2
):
    r"""Sensitivities passed down and tangents carried up give the same derivative by the parameters.

    For $z_\ell=m_\ell(z_{\ell-1},x;\theta)$ and $\Lambda=\rho(z_L)\in\mathbb R^{d_O}$: reverse mode with $\hat
    z_L=\partial\rho/\partial z_L$ and $\hat z_\ell=\hat z_{\ell+1}\,(\partial m_{\ell+1}/\partial z)(z_\ell)$ gives
    $\partial\Lambda/\partial\theta=\sum_\ell\hat z_\ell\,\partial m_\ell/\partial\theta$; forward mode with $\tilde
    z_\ell=\partial m_\ell/\partial\theta+(\partial m_\ell/\partial z)\,\tilde z_{\ell-1}$ gives
    $(\partial\rho/\partial z_L)\,\tilde z_L$. Measured for $m_\ell=\tanh(W_zz+W_xx)$ and a loss with several outputs.
    """
    chain, x, readout = _chain(key, depth, width, inputs, outputs)

    @jax.jit
    def measure(chain, x, readout):
        rho = _squares(readout)
        slope = jax.jacobian(rho)(chain(x))
        reference = jax.jacobian(lambda c: rho(c(x)))(chain)
        modes = [reverse_mode(chain, x, slope), forward_mode(chain, x, slope), reverse_mode(chain, x, readout)]
        return [_flat(each) for each in (*modes, reference)]

    reverse, forward, unweighted, reference = measure(chain, x, readout)
    scale = float(jnp.abs(reference).max())
    yield equal("reverse mode", reverse, reference, atol=1e-14 * scale)
    yield equal("forward mode", forward, reference, atol=1e-14 * scale)
    yield control(
        "the recursion starts with the slope of another loss",
        equal("reverse mode", unweighted, reference, atol=1e-14 * scale),
    )


def _flat(jacobian):
    outputs = jacobian.inputs.shape[0]
    return jnp.concatenate([jacobian.hidden.reshape(outputs, -1), jacobian.inputs.reshape(outputs, -1)], 1)


@claim(
    rows=("M24.02",),
    erratum="The sensitivity of a layer is printed with the Jacobian of that layer; it is that of the layer above.",
)
def printed_recursion(key, *, depth: Annotated[int, Range(3, 12)] = 4, width: Size = 3):
    r"""The sensitivity of layer l is that of layer l + 1 times the Jacobian of layer l.

    As printed before (24.2): $\hat z_\ell=\hat z_{\ell+1}\,\frac{\partial m_\ell}{\partial z}(z_{\ell-1},x;\theta)$.
    Measured at every layer of a tanh chain with as many units as inputs, against the derivative by that layer's
    output.
    """
    chain, x, readout = _chain(key, depth, width, width, 1)

    @jax.jit
    def measure(chain, x, readout):
        states, slopes = chain.states(x)

        def above(layer, z):
            for i in range(layer + 1, depth):
                z = jnp.tanh(chain.hidden[i - 1] @ z + chain.inputs[i] @ x)
            return readout @ z

        true = [jax.jacobian(lambda z, i=i: above(i, z))(states[i]) for i in range(depth)]
        own = [slopes[i][:, None] * chain.hidden[i - 1] for i in range(1, depth)]
        right = jnp.stack([true[i + 1] @ own[i] for i in range(1, depth - 1)])
        shifted = jnp.stack([true[i + 1] @ own[i - 1] for i in range(1, depth - 1)])
        return jnp.stack(true[1:-1]), right, shifted

    true, right, shifted = measure(chain, x, readout)
    yield equal("with the Jacobian of the layer above", right, true, atol=1e-14)
    yield printed(equal("with the Jacobian of the layer itself", shifted, true, atol=1e-14))


@claim(
    rows=("M24.02",),
    erratum="The derivative by the state is printed as the derivative by the parameters.",
)
def printed_parameter_derivative(key):
    r"""The derivative of a layer by its parameters is the slope times the weights.

    As printed after (24.2): $\partial m_\ell/\partial\theta=\sigma'(W_zz+W_xx)\odot W_z$. For one unit, $m=\tanh(wz)$:
    the right side is $\partial m/\partial z$, while $\partial m/\partial w=\sigma'(wz)\,z$, as (24.3) has it.
    """
    w, z = jax.random.uniform(key, (2,), minval=0.5, maxval=1.5) * jnp.array([1.0, 2.0])
    by_weight, by_state = jax.grad(lambda w, z: jnp.tanh(w * z), (0, 1))(w, z)
    slope = 1 - jnp.tanh(w * z) ** 2
    yield equal("derivative by the state: slope times weight", by_state, slope * w)
    yield equal("derivative by the parameter: slope times state", by_weight, slope * z)
    yield printed(equal("derivative by the parameter: slope times weight", by_weight, slope * w))
