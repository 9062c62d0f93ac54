r"""Nesterov's accelerated gradient: the convex schedules, the constant momentum for strong convexity, all forms."""

import jax.numpy as jnp

from corollary._validate import one_of, positive, real, within
from corollary.catalog import implements
from corollary.optimization.heavy_ball import _companion, _three
from corollary.optimization.minimize import Method

FORMS = ("lookahead", "velocity", "scaled velocity", "shifted")


@implements("M17.20", "T02.15", "E03.10")
def nesterov(step, momentum=None, *, form: str = "lookahead") -> Method:
    r"""Nesterov's method with step $\eta$ and momentum $\rho$: a number in $[0,1]$, a function of $k=0,1,\dots$ such
    as `convex_momentum`, or None for the sequence $t_0=1$, $t_{k+1}=\frac{1+\sqrt{1+4t_k^2}}2$, for which the step from
    $\theta_{k+1}$ has $\rho=\frac{t_k-1}{t_{k+1}}$.

    Forms: `"lookahead"` $\chi=\theta_k+\rho(\theta_k-\theta_{k-1})$, $\theta_{k+1}=\chi-\eta\nabla f(\chi)$ (E);
    `"scaled velocity"` $u_{k+1}=\rho u_k-\eta\nabla f(\theta_k+\rho u_k)$, $\theta_{k+1}=\theta_k+u_{k+1}$ (M);
    `"velocity"` $u_{k+1}=\rho u_k-\nabla f(\theta_k+\eta\rho u_k)$, $\theta_{k+1}=\theta_k+\eta u_{k+1}$ (T, where the
    argument is misprinted). `"shifted"` follows $\hat\theta_k=\theta_k+\rho u_k$ instead,
    $u_{k+1}=\rho u_k-\eta\nabla f(\hat\theta_k)$, $\hat\theta_{k+1}=\hat\theta_k+\rho(u_{k+1}-u_k)+u_{k+1}$ (M), with
    constant momentum; that is `optax.sgd(step, momentum, nesterov=True)`.
    """
    one_of("form", form, FORMS)
    eta = positive("step", real("step", step, ""))
    if form == "shifted" and (momentum is None or callable(momentum)):
        raise ValueError("momentum must be a number in the shifted form.")
    if not (momentum is None or callable(momentum)):
        momentum = within("momentum", real("momentum", momentum, ""), 0.0, 1.0)

    def rho_and_t(k, t):
        if momentum is None:
            longer = (1 + jnp.sqrt(1 + 4 * t**2)) / 2
            # the first step has no past, whatever the momentum; t_k belongs to the step from k to k + 1
            return jnp.where(k == 0, 0.0, (t - 1) / longer), jnp.where(k == 0, t, longer)
        return (momentum(k) if callable(momentum) else momentum), t

    def init(problem, theta):
        return theta, (theta if form == "lookahead" else jnp.zeros_like(theta)), 0, jnp.ones((), theta.dtype)

    def advance(problem, state, key):
        theta, memory, k, t = state
        rho, t = rho_and_t(k, t)
        if form == "lookahead":
            chi = theta + rho * (theta - memory)
            return chi - eta * problem.oracle(chi, key), theta, k + 1, t
        if form == "velocity":
            u = rho * memory - problem.oracle(theta + eta * rho * memory, key)
            return theta + eta * u, u, k + 1, t
        if form == "scaled velocity":
            u = rho * memory - eta * problem.oracle(theta + rho * memory, key)
            return theta + u, u, k + 1, t
        u = rho * memory - eta * problem.oracle(theta, key)
        return theta + rho * (u - memory) + u, u, k + 1, t

    return Method(init, advance, lambda state: state[0])


@implements("E03.10")
def convex_momentum(k):
    r"""$\rho_k=\frac{k-1}{k+2}$, the simple schedule for convex functions; the first step has no past and none."""
    k = within("k", real("k", k), 0.0)
    return jnp.maximum(k - 1, 0) / (k + 2)


@implements("M17.21")
def strongly_convex_momentum(L, mu):
    r"""$\rho=\frac{\sqrt m-1}{\sqrt m+1}$ with $m=L/\mu$: no momentum at $m=1$, towards 1 for large $m$."""
    L, mu = positive("L", real("L", L)), positive("mu", real("mu", mu))
    return (jnp.sqrt(L) - jnp.sqrt(mu)) / (jnp.sqrt(L) + jnp.sqrt(mu))


@implements("M17.20")
def nesterov_matrix(step, momentum, curvature):
    r"""What a step does to $(\theta_k,\theta_{k-1})$ on $\frac h2\theta^2$:
    $\begin{pmatrix}(1+\rho)(1-\eta h)&-\rho(1-\eta h)\\1&0\end{pmatrix}$.

    Where it oscillates its spectral radius is $\sqrt{\rho(1-\eta h)}$: the larger the curvature the stronger the
    damping, where heavy ball has $\sqrt\rho$ at all curvatures.
    """
    eta, rho, h = _three(step, momentum, curvature)
    return _companion((1 + rho) * (1 - eta * h), -rho * (1 - eta * h))
