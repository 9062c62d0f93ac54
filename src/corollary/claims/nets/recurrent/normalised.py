"""Normalised recurrent cells, and what they do not see."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed
from corollary.nets.recurrent import LSTM, BatchNormalised, ElmanCell, LayerNormCell


def _cells(key, inputs, units, delta=0.0):
    cell_key, gain_key, bias_key = jax.random.split(key, 3)
    cell = LayerNormCell(inputs, units, key=cell_key, eps=delta)
    return eqx.tree_at(
        lambda c: (c.gain, c.bias),
        cell,
        (jax.random.normal(gain_key, (units,)), jax.random.normal(bias_key, (units,))),
    )


@claim(rows=("M13.31", "M13.32"))
def layer_norm_rescaling(key, *, inputs: Size = 3, units: Size = 6, draws: Size = 20):
    r"""A layer-normalised recurrent cell does not see a positive factor in front of its input and state.

    $Z_t=\phi(\frac g{\sigma_t}\odot(\alpha_t-\mu_t)+B)$ with $\alpha_t=WX_t+UZ_{t-1}$, mean $\mu_t$ and standard
    deviation $\sigma_t$ over the units of the layer. If $(X_t,Z_{t-1})$ becomes $(\zeta X_t,\zeta Z_{t-1})$ with
    $\zeta>0$, then $\mu_t$ and $\sigma_t$ are multiplied by $\zeta$ and $Z_t$ does not change. For $\zeta<0$ it does:
    $\sigma_t$ is multiplied by $|\zeta|$, so that with $B=0$ and an odd $\phi$ the sign of $Z_t$ changes. With
    $\delta>0$ added to $\sigma_t^2$ the invariance is broken by the order of $\delta/\sigma_t^2$; it fails for a plain
    cell, and with a bias inside $\alpha_t$.
    """
    factors = np.array([1e-3, 0.1, 7.0, 1e3])
    delta = 1e-5

    @jax.jit
    def measure(key):
        cell_key, x_key, z_key = jax.random.split(key, 3)
        cell, soft = (_cells(cell_key, inputs, units, d) for d in (0.0, delta))
        plain = ElmanCell(inputs, units, key=cell_key)
        xs, zs = jax.random.normal(x_key, (draws, inputs)), jax.random.normal(z_key, (draws, units))

        def one(x, z):
            moved = lambda c: jax.vmap(lambda s: c(s * x, s * z) - c(x, z))(jnp.asarray(factors))  # noqa: E731
            odd = eqx.tree_at(lambda c: c.bias, cell, jnp.zeros(units))
            # a bias inside alpha: one more input that is always one
            inner = lambda x, z: cell.step(cell.drive(x) + cell.bias, z)  # noqa: E731
            alpha = cell.drive(x) + cell.recurrent @ z
            variance = jnp.var(alpha)
            # |tanh'| <= 1, the normalised entries change by their size times |1 / sqrt(1 + d) - 1| <= d / 2
            rest = delta / variance / 2 * jnp.maximum(1, factors**-2.0)
            largest = jnp.abs(cell.gain * (alpha - alpha.mean()) / jnp.sqrt(variance)).max()
            return {
                "moved": moved(cell),
                "soft": jnp.abs(moved(soft)).max(1),
                "allowed": rest * largest,
                "plain": moved(plain),
                "inner": moved(inner),
                "minus": cell(-x, -z) - cell(x, z),
                "odd": (odd(-x, -z), -odd(x, z)),
            }

        return jax.vmap(one)(xs, zs)

    found = measure(key)
    # rounding of a mean of large or small numbers, over a standard deviation that may be small beside the mean
    yield equal("change of the state under the factors 0.001, 0.1, 7, 1000", found["moved"], 0.0, atol=1e-11)
    yield at_most("with delta: change of the state", found["soft"], found["allowed"], atol=1e-12)
    yield equal("factor -1, odd and without bias: the state changes its sign", *found["odd"])
    yield control("the factor is positive: here -1", equal("change of the state", found["minus"], 0.0, atol=1e-3))
    yield control("the cell is normalised: here not", equal("change of the state", found["plain"], 0.0, atol=1e-3))
    yield control(
        "the bias is added after normalisation: here before",
        equal("change of the state", found["inner"], 0.0, atol=1e-3),
    )


@claim(rows=("M13.32",), erratum="The factor must be positive: a negative one changes the sign of what is normalised.")
def layer_norm_any_scalar(key, *, inputs: Size = 3, units: Size = 6):
    r"""A layer-normalised recurrent cell does not see any scalar in front of its input and state.

    As printed in section 13.8.3: if $X_t$ and $Z_{t-1}$ are multiplied by a scalar $\zeta$, then so are $\mu_t$ and
    $\sigma_t$, and $Z_t$ stays the same. A standard deviation is multiplied by $|\zeta|$: it holds for $\zeta>0$.
    """

    @jax.jit
    def measure(key):
        cell_key, x_key, z_key = jax.random.split(key, 3)
        cell = _cells(cell_key, inputs, units)
        x, z = jax.random.normal(x_key, (inputs,)), jax.random.normal(z_key, (units,))
        return cell(-x, -z), cell(3 * x, 3 * z), cell(x, z)

    minus, three, one = measure(key)
    yield equal("state under the factor 3", three, one, rtol=1e-10)
    yield printed(equal("state under the factor -1", minus, one, rtol=1e-6))


@claim(rows=("M13.29", "M13.30"))
def batch_norm_of_inputs(key, *, inputs: Size = 3, units: Size = 4, batch: Size = 16, steps: Count = 6):
    r"""A recurrent cell with batch-normalised inputs does not see how they are scaled and shifted.

    $T_p(x)=w\hat x+b$ with $\hat x=(x-\mu)/\sigma$, mean and standard deviation over the batch (and all steps).
    Normalising $WX_t$ alone, $Z_t=\phi(T_p(WX_t)+UZ_{t-1}+B)$, makes the states invariant under $X\mapsto aX+c$ for
    $a>0$ and any constant vector $c$; so it does in each of the four parts of an LSTM. Normalising everything,
    $\phi(T_p(WX_t+UZ_{t-1}+B))$, with the statistics of each step, takes out $c$ and $B$ but not $a$, since what comes
    from the state does not scale. A plain cell sees both.
    """

    @jax.jit
    def measure(key):
        cell_key, x_key, c_key = jax.random.split(key, 3)
        xs = jax.random.normal(x_key, (batch, steps, inputs))
        c = jax.random.normal(c_key, (inputs,))
        elman = ElmanCell(inputs, units, key=cell_key)
        lstm = LSTM(inputs, units, key=cell_key)

        def states(cell, place, xs):
            norm = BatchNormalised(cell, place, eps=0.0)
            return jax.tree.leaves(norm.batch(xs, norm.state())[0])[0]

        def change(cell, place, a, c):
            return jnp.abs(states(cell, place, a * xs + c) - states(cell, place, xs)).max()

        alone, _ = BatchNormalised(elman, eps=0.0).norm.batch(xs @ elman.inputs.T, BatchNormalised(elman).state())
        plain = jax.vmap(lambda x: jnp.tanh(elman.drive(x)))
        return {
            "mean": alone.mean((0, 1)),
            "variance": alone.var((0, 1)),
            "inputs": jnp.stack([change(elman, "inputs", 3.0, c), change(lstm, "inputs", 3.0, c)]),
            "shift": change(elman, "all", 1.0, c),
            "scale": change(elman, "all", 3.0, 0 * c),
            "minus": change(elman, "inputs", -1.0, 0 * c),
            "plain": jnp.abs(plain(3.0 * xs + c) - plain(xs)).max(),
        }

    found = measure(key)
    yield equal("mean after normalisation", found["mean"], 0.0)
    yield equal("variance after normalisation", found["variance"], 1.0)
    yield equal("inputs scaled and shifted: change of Elman and LSTM", found["inputs"], 0.0, atol=1e-11)
    yield equal("all normalised, inputs shifted: change", found["shift"], 0.0, atol=1e-11)
    yield at_least("all normalised, inputs scaled: change", found["scale"], 1e-3)
    yield control("the factor is positive: here -1", equal("change", found["minus"], 0.0, atol=1e-3))
    yield control("the inputs are normalised: here not", equal("change", found["plain"], 0.0, atol=1e-3))
