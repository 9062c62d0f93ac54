"""How fast the steps of Euler and of Runge and Kutta come near the solution of a neural differential equation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.differential import solve
from corollary.evidence import Count, claim, control, equal, rate


@claim(rows=("M22.01", "M22.07"))
def orders_of_the_methods(key, *, starts: Count = 32):
    r"""Euler's method has an error of first order in the step, that of Runge and Kutta of fourth.

    For $\dot u=m(u;\theta)$ with a network $m$ that is smooth, $\max_i|u_i-u(i\Delta)|$ goes like $\Delta$ for
    $u_{i+1}=u_i+m(u_i;\theta)\Delta$ and like $\Delta^4$ for the classical method of Runge and Kutta. Where $m$ has a
    kink, as a ReLU network has, the fourth order is lost. For $\dot u=-u-u^2$, $u(0)=1$ and 100 steps of 0.01 Euler's
    method ends at 0.222652, where the solution has 0.225400.
    """
    steps = 2 ** np.arange(3, 8)  # at 256 the error of Runge and Kutta nears the rounding
    finest = 2048  # its own error is (128 / 2048)^4 = 1.5e-5 of the smallest that is measured

    @jax.jit
    def measure(key):
        network_key, start_key = jax.random.split(key)
        network = eqx.nn.MLP(2, 2, 16, 2, jnp.tanh, key=network_key)
        smooth_starts = jax.random.normal(start_key, (starts, 2))
        kinked_starts = -jax.random.uniform(start_key, (starts, 1), minval=0.5, maxval=1.0)

        def error(field, start, n, method):
            """At the times of the coarsest steps."""
            times = jnp.linspace(0.0, 2.0, steps[0] + 1)
            exact = solve(field, start, times, substeps=finest // steps[0])
            return jnp.abs(solve(field, start, times, method=method, substeps=n // steps[0]) - exact).max()

        def errors(field, starts, method):
            def size(n):
                return jnp.sqrt((jax.vmap(lambda s: error(field, s, n, method))(starts) ** 2).mean())

            return jnp.stack([size(n) for n in steps.tolist()])

        example = solve(lambda u: -u - u**2, 1.0, jnp.linspace(0.0, 1.0, 101), method="euler")[-1]
        fine = solve(lambda u: -u - u**2, 1.0, jnp.linspace(0.0, 1.0, 101))[-1]
        # crosses the kink of |u| at 0 on its way up
        kinked = errors(lambda u: 1 + jnp.abs(u), kinked_starts, "rk4")
        return (
            errors(network, smooth_starts, "euler"),
            errors(network, smooth_starts, "rk4"),
            kinked,
            jnp.stack([example, fine]),
        )

    euler, rk4, kinked, example = (np.asarray(a) for a in measure(key))
    # the next term is by one power of the step smaller: over these sizes it bends the line by less than a tenth of an
    # order
    yield rate("Euler, smooth", steps, euler, -1.0, tolerance=0.15, along="number of steps")
    yield rate("Runge and Kutta, smooth", steps, rk4, -4.0, tolerance=0.4, along="number of steps")
    exact = np.exp(-1) / (2 - np.exp(-1))  # u(t) = e^(-t) / (2 - e^(-t))
    # half of the last digit that is printed, and the error of Runge and Kutta at a step of 0.01
    yield equal("end of the example by Euler's method", example[0], 0.222652, rtol=0, atol=5e-7)
    yield equal("end of the example", example[1], exact, rtol=0, atol=1e-8)
    yield control(
        "smooth: here a kink", rate("Runge and Kutta", steps, kinked, -4.0, tolerance=0.4, along="number of steps")
    )
