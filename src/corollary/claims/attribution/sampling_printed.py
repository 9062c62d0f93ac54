"""The number of evaluations that is printed for the better approximation of Shapley values."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import Game, group_constant, shapley
from corollary.evidence import Size, claim, printed, rate


@claim(
    rows=("T10.17",),
    erratum="1/ε² is missing from the count, and bounded increments are not enough: utilities must be bounded.",
)
def evaluations_of_the_better_approximation(key, *, runs: Size = 100):
    r"""Of the order of R²N log N evaluations give the Shapley values to within ε.

    As printed: "a method that uses $O(R^2N\log N)$ evaluations", for any $\epsilon$, where $R$ bounds
    $|U(S\cup i)-U(S)|$. With a number of draws that does not depend on $\epsilon$ the error does not follow $\epsilon$;
    with $1/\epsilon^2$ times as many it does. And what is averaged is $Z\,U(S)$, not an increment: for
    $U(S)=|S|$, whose increments are 1, the error after $\frac1{16}Z^2N\ln N$ draws grows as $N$; it is of the order
    of $B=\frac N2$, the largest utility, counted from the middle, at every $N$.
    """
    epsilon = 2.0 ** (-np.arange(7) / 2)
    sizes = (8, 16, 24, 32, 48)
    counts = [int(group_constant(n) ** 2 * n * np.log(n) / 16) for n in sizes]

    def error(estimates, exact):
        return jnp.sqrt(jnp.mean(jnp.sum((estimates - exact) ** 2, -1)))

    @jax.jit
    def measure(key):
        small, *keys = jax.random.split(key, 1 + len(sizes))

        def estimates(n, m, runs, key):
            game = Game(n, lambda inside: 1.0 * jnp.sum(inside))
            draw = lambda key: shapley(game, how="group", samples=m, key=key).values  # noqa: E731
            return jax.lax.map(draw, jax.random.split(key, runs), batch_size=50)

        # a mean of k estimates from m draws each is one from k m draws
        found = estimates(6, 20, runs * 2 ** (len(epsilon) - 1), small).reshape(runs, -1, 6)
        fixed = [error(found[:, k], 1.0) for k in range(len(epsilon))]
        growing = [error(found[:, : 2**k].mean(1), 1.0) for k in range(len(epsilon))]
        larger = [error(estimates(n, m, 50, k), 1.0) for n, m, k in zip(sizes, counts, keys, strict=True)]
        return tuple(map(jnp.stack, (fixed, growing, larger)))

    fixed, growing, larger = measure(key)
    # root mean squares of 50 runs or more, known to 10 % or so: a slope over three doublings to 0.05
    yield printed(rate("error of as many draws for every ε", epsilon, fixed, 1.0, tolerance=0.2, along="ε"))
    yield rate("error of 1/ε² times as many", epsilon, growing, 1.0, tolerance=0.2, along="ε")
    yield printed(rate("error for increments of 1", sizes, larger, 0.0, tolerance=0.3, side="at most", along="players"))
    utilities = np.array(sizes) / 2
    yield rate(
        "error over the largest utility", sizes, larger / utilities, 0.0, tolerance=0.3, side="at most", along="players"
    )
