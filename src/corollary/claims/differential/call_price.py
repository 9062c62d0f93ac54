"""The price of a call under the model and under its discretisation."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.differential import NeuralSDE, black_scholes_call, euler_call, euler_maruyama
from corollary.evidence import Count, Size, claim, control, equal, estimate, rate

SPOT, STRIKE, INTEREST, VOLATILITY = 1.0, 1.05, 0.05, 0.5


@claim(rows=("M22.20",))
def price_of_the_scheme(key, *, paths: Count = 200_000, steps: Size = 25):
    r"""The price under Euler's scheme is that of simulated paths, and tends to the formula's with the step.

    $C=S_0\Phi(d_1)-Ke^{-rT}\Phi(d_2)$ is $e^{-rT}E\max(S_T-K,0)$ for $dS=rS\,dt+\sigma S\,dW$: 0.197898 for $S_0=1$,
    $K=1.05$, $r=0.05$, $\sigma=0.5$, $T=1$. Under the scheme with 100 steps it is 0.198036, and the difference goes
    like $\Delta$. Paths that
    drift faster than the interest have another mean.
    """
    numbers = (SPOT, STRIKE, INTEREST, VOLATILITY, 1.0)

    @jax.jit
    def payoffs(key, drift):
        sde = NeuralSDE(lambda s: drift * s, lambda s: VOLATILITY * s)
        ends = euler_maruyama(sde, jnp.full(1, SPOT), 1.0, steps=steps, paths=paths, key=key)
        return jnp.exp(-INTEREST) * jax.nn.relu(ends[:, 0] - STRIKE)

    formula = float(black_scholes_call(*numbers))
    # the expectation over ln S_T, which is normal
    law = scipy.stats.norm(INTEREST - VOLATILITY**2 / 2, VOLATILITY)
    integral = scipy.integrate.quad(lambda s: (np.exp(s) - STRIKE) * law.pdf(s), np.log(STRIKE), 8.0, epsabs=1e-12)[0]
    yield equal("price by the formula", formula, np.exp(-INTEREST) * integral, rtol=1e-9)
    # half of the last digit that is stated
    yield equal("price of the scheme with 100 steps", euler_call(*numbers, steps=100), 0.198036, rtol=0, atol=5e-7)
    sizes = 2 ** np.arange(5, 10)
    gaps = [abs(euler_call(*numbers, steps=int(n)) - formula) for n in sizes]
    yield rate(
        "price of the scheme less that of the formula", sizes, gaps, -1.0, tolerance=0.1, along="number of steps"
    )
    scheme = euler_call(*numbers, steps=steps)
    yield estimate("price over simulated paths", payoffs(key, INTEREST), scheme, wrong=0.9 * scheme)
    yield control(
        "the drift is the interest: here twice that",
        estimate("price over paths", payoffs(key, 2 * INTEREST), scheme, wrong=0.9 * scheme),
    )
