"""The price of a call under the model and under its discretisation."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.differential import NeuralSDE, black_scholes_call, euler_call, euler_maruyama
from corollary.evidence import Count, Size, at_most, claim, control, equal, estimate, printed, rate

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


@claim(rows=("M22.19",), erratum="Five digits of a price over 100,000 paths are said to be right: three are known.")
def digits_as_printed(key, *, evaluations: Count = 4, paths: Count = 100_000, steps: Size = 100):
    r"""The price over 100,000 paths has a standard error of 1.26e-3: agreement to 1e-5 is luck.

    Printed: the trained model has the price $\hat C=0.19809113$ where $C=0.1981$ is asked for, $\hat C$ a mean over
    100,000 paths. The standard deviation of $e^{-rT}\max(S_T-K,0)$ is known from the normal law of $\ln S_T$, so that
    even the volatility that made the price does not have it to $10^{-5}$ in one evaluation after the other.
    """
    numbers = (SPOT, STRIKE, INTEREST, VOLATILITY, 1.0)

    @jax.jit
    def evaluated(key):
        sde = NeuralSDE(lambda s: INTEREST * s, lambda s: VOLATILITY * s)
        ends = euler_maruyama(sde, jnp.full(1, SPOT), 1.0, steps=steps, paths=paths, key=key)
        payoffs = jnp.exp(-INTEREST) * jax.nn.relu(ends[:, 0] - STRIKE)
        return payoffs.mean(), payoffs.std() / np.sqrt(paths)

    law = scipy.stats.norm(INTEREST - VOLATILITY**2 / 2, VOLATILITY)
    square = scipy.integrate.quad(lambda s: (np.exp(s) - STRIKE) ** 2 * law.pdf(s), np.log(STRIKE), 8.0, epsabs=1e-12)
    spread = np.sqrt(np.exp(-2 * INTEREST) * square[0] - float(black_scholes_call(*numbers)) ** 2)
    prices, errors = jax.lax.map(evaluated, jax.random.split(key, evaluations))
    # half of the last digit that is stated
    yield equal("standard error of 100,000 paths", spread / np.sqrt(100_000), 1.26e-3, rtol=0, atol=5e-6)
    # payoffs of heavy tails give their spread to 1 % each; the scheme's law is not quite the formula's
    yield equal("standard error of an evaluation", errors, spread / np.sqrt(paths), rtol=0.05)
    scheme = euler_call(*numbers, steps=steps)
    yield at_most("distance of the prices, in standard errors", jnp.abs(prices - scheme) / errors, 5.0)
    yield printed(at_most("distance of the prices, as printed", jnp.abs(prices - scheme), 1e-5))
