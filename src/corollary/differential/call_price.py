r"""The price of a call, $e^{-rT}E\max(S_T-K,0)$, for $dS=rS\,dt+\sigma S\,dW$ and for Euler's scheme for it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements


@implements("M22.20")
def black_scholes_call(
    spot: Scalar, strike: Scalar, interest: Scalar, volatility: Scalar, horizon: Scalar
) -> Float[Array, ""]:
    r"""$C=S_0\Phi(d_1)-Ke^{-rT}\Phi(d_2)$, $d_{1,2}=\frac{\ln(S_0/K)+(r\pm\sigma^2/2)T}{\sigma\sqrt T}$.

    >>> print(f"{black_scholes_call(1.0, 1.05, 0.05, 0.5, 1.0):.4f}")
    0.1979
    """
    spot, strike, interest, volatility, horizon = _checked(spot, strike, interest, volatility, horizon)
    spread = volatility * jnp.sqrt(horizon)
    d = (jnp.log(spot / strike) + (interest + volatility**2 / 2) * horizon) / spread
    return spot * norm.cdf(d) - strike * jnp.exp(-interest * horizon) * norm.cdf(d - spread)


def euler_call(spot: float, strike: float, interest: float, volatility: float, horizon: float, *, steps: int) -> float:
    r"""The exact price under Euler's scheme, in which $S$ is multiplied by $1+r\Delta+\sigma\sqrt\Delta\,Z$ at each
    step.

    The characteristic function of the logarithm of one factor, by quadrature, to the power of the number of steps is
    that of $\ln S_T$, and the price its cosine series. Factors that are negative are left out: the sentence below says
    when they are too many for that.

    >>> print(round(euler_call(1.0, 1.05, 0.05, 0.5, 1.0, steps=100), 6))
    0.198036
    """
    numbers = _checked(spot, strike, interest, volatility, horizon)
    spot, strike, interest, volatility, horizon = (float(v) for v in numbers)
    step = horizon / whole("steps", steps)
    centre, width = 1 + interest * step, volatility * np.sqrt(step)
    if centre < 8.5 * width:
        raise ValueError(
            f"steps must be more: with {steps} a factor is negative with a probability that shows in the price "
            f"({volatility} times the root of a step is {width:.3g}, 1/8.5 of {centre:.3g} is allowed)."
        )
    # the density of Z by Gauss and Legendre on [-8.4, 8.4], beyond which lie 5e-17
    nodes, weights = np.polynomial.legendre.leggauss(400)
    z, weights = 8.4 * nodes, 8.4 * weights * np.exp(-((8.4 * nodes) ** 2) / 2) / np.sqrt(2 * np.pi)
    log_factor = np.log(centre + width * z)
    mean = np.log(spot) + steps * weights @ log_factor
    spread = np.sqrt(steps * weights @ (log_factor - weights @ log_factor) ** 2)
    # 14 standard deviations to both sides: the law of the sum is close to the normal one
    low, high = mean - 14 * spread, mean + 14 * spread
    k = np.arange(400) * np.pi / (high - low)
    phi = (np.exp(1j * np.outer(k, log_factor)) @ weights) ** steps * np.exp(1j * k * (np.log(spot) - low))
    density = 2 / (high - low) * phi.real
    density[0] /= 2
    # the integrals of (e^s - K) cos(k (s - low)) from the logarithm of the strike to the upper end
    edge = np.clip(np.log(strike), low, high)

    def antiderivatives(s):
        angle = k * (s - low)
        grown = np.exp(s) * (np.cos(angle) + k * np.sin(angle)) / (1 + k**2)
        flat = np.append(s, np.sin(angle[1:]) / k[1:])
        return grown - strike * flat

    return float(np.exp(-interest * horizon) * density @ (antiderivatives(high) - antiderivatives(edge)))


def _checked(spot, strike, interest, volatility, horizon):
    values = {"spot": spot, "strike": strike, "volatility": volatility, "horizon": horizon}
    spot, strike, volatility, horizon = (positive(name, real(name, value, "")) for name, value in values.items())
    return spot, strike, real("interest", interest, ""), volatility, horizon
