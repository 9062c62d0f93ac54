"""Steps that Diffrax chooses, imported when first used: for solutions that are quick here and slow there, and stiff."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete

METHODS = ("adaptive", "stiff")
MOST = 2**16  # steps


def by_diffrax(field, start, times, method: str, tolerance):
    """The solution at `times`, by a pair of Runge and Kutta, or an implicit one where it is stiff, both of order 5."""
    try:
        import diffrax
    except ImportError as error:
        raise ImportError(f"method={method!r} needs Diffrax: pip install 'corollary[ode]'.") from error
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, u, _: field(u)),
        diffrax.Tsit5() if method == "adaptive" else diffrax.Kvaerno5(),
        times[0],
        times[-1],
        None,
        start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
        max_steps=MOST,
        throw=False,
    )
    if concrete(found.ys) and not bool(diffrax.is_okay(found.result)):
        reached = np.isfinite(np.asarray(found.ys)).reshape(len(times), -1).all(1)
        last = float(np.asarray(times)[max(0, int(reached.sum()) - 1)])
        advice = "" if method == "stiff" else ", or is stiff (method='stiff')"
        raise ValueError(
            f"The solution cannot be followed far beyond time {last:.4g} to a tolerance of {float(tolerance):.3g} in "
            f"{MOST:,} steps: it explodes{advice}."
        )
    return jax.tree.map(jnp.asarray, found.ys)
