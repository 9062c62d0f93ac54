"""Gradients of squared expectations: one path is biased, two independent ones are not."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from corollary.differential import NeuralSDE, moment_loss, one_path_gradient, two_path_gradient
from corollary.evidence import Count, Positive, Size, claim, control, equal, estimate, printed


class _Scaled(eqx.Module):
    """θx, or θ alone."""

    theta: jax.Array
    by_state: bool = eqx.field(static=True, default=True)

    def __call__(self, x):
        return self.theta * (x if self.by_state else jnp.ones_like(x))


@claim(rows=("M22.15", "M22.16", "M22.17"), full={"draws": 1_000_000})
def one_path_and_two(
    key, *, draws: Count = 100_000, steps: Size = 10, theta: Positive = 0.5, interest: Positive = 0.05
):
    r"""The gradient through one path has the gradient of half the variance in it; through two it is unbiased.

    For $\Lambda(\theta)=\frac12(E\,g(X_T^\theta)-Y)^2$ the one-path estimate $(g(X)-Y)\nabla g(X)$ has the mean
    $\nabla(\Lambda+\frac12\mathrm{Var}\,g(X))$, and $(g(\bar X)-Y)\nabla g(X)$ with an independent $\bar X$ has
    $\nabla\Lambda$. For $dX=rX\,dt+\theta X\,dW$ and $g(x)=x$ in $n$ steps $E X$ does not depend on $\theta$, so that
    the gradient is 0, while the one-path mean is $n((1+r\Delta)^2+\theta^2\Delta)^{n-1}\theta\Delta$. The payoff must
    be continuous: a jump is not seen along a path.
    """
    delta = 1.0 / steps

    @jax.jit
    def measure(key, theta):
        sde = NeuralSDE(_Scaled(jnp.asarray(interest)), _Scaled(theta))
        one_step = NeuralSDE(_Scaled(jnp.asarray(0.0)), _Scaled(theta, by_state=False))
        keys = jax.random.split(key, draws)
        y = jnp.zeros(1)

        def each(estimator, sde, payoffs, y, steps):
            def one(key):
                return estimator(sde, payoffs, y, jnp.ones(1), 1.0, steps=steps, key=key).diffusion.theta

            return jax.lax.map(one, keys, batch_size=4096)

        # with one step and constant noise X = 1 + θZ, and the expectations are closed
        def jump(x):
            return jnp.where(x > 1.5, 1.0, 0.0) + jax.nn.relu(x - 1.5)

        def expectation(theta):
            z = 0.5 / theta
            return norm.sf(z) + theta * norm.pdf(z) - 0.5 * norm.sf(z)

        value, slope = jax.value_and_grad(expectation)(theta)
        return (
            each(one_path_gradient, sde, lambda x: x, y, steps),
            each(two_path_gradient, sde, lambda x: x, y, steps),
            each(two_path_gradient, one_step, jump, y, 1),
            value * slope,
        )

    single, double, jumps, with_jump = measure(key, jnp.asarray(theta))
    predicted = steps * ((1 + interest * delta) ** 2 + theta**2 * delta) ** (steps - 1) * theta * delta
    yield estimate("one path", single, predicted, wrong=0.0)
    yield estimate("two paths", double, 0.0, wrong=predicted)
    yield control("a continuous payoff: here one that jumps", estimate("two paths", jumps, float(with_jump), wrong=0.0))


@claim(rows=("M22.16",))
def one_path_shrinks_the_variance(key, *, steps: Count = 4_000, batch: Count = 128, target: Positive = 0.5):
    r"""Trained with one path the variance comes out at a third of the target; with two it is met.

    $X=\sigma Z$ and $g(x)=x^2$: $\Lambda=\frac12(\sigma^2-Y)^2$, and with half of $\mathrm{Var}\,g=2\sigma^4$ added the
    minimum is at $\sigma^2=Y/3$. Stochastic gradient descent, averaged over its second half, ends there with one path
    and at $Y$ with two; with both paths driven by the same noise two are no better than one.
    """

    @jax.jit
    def measure(key):
        def trained(gradient):
            def onward(theta, key):
                sde = NeuralSDE(_Scaled(jnp.asarray(0.0)), _Scaled(theta, by_state=False))
                found = jax.vmap(lambda key: gradient(sde, key))(jax.random.split(key, batch))
                theta = theta - 0.02 * found.mean()
                return theta, theta**2

            path = jax.lax.scan(onward, jnp.asarray(1.0), jax.random.split(key, steps))[1][steps // 2 :]
            # means of a twentieth of the half each: their spread says how well the mean is known
            return path.reshape(40, -1).mean(1)

        def by(estimator):
            def gradient(sde, key):
                found = estimator(sde, lambda x: x**2, jnp.full(1, target), jnp.zeros(1), 1.0, steps=1, key=key)
                return found.diffusion.theta

            return gradient

        def same_noise(sde, key):
            """(g(X) - Y) ∇g(X) with X̄ = X: the premise of independence broken."""
            z = jax.random.normal(key)
            theta = sde.diffusion.theta
            return ((theta * z) ** 2 - target) * 2 * theta * z**2

        return trained(by(one_path_gradient)), trained(by(two_path_gradient)), trained(same_noise)

    single, double, same = measure(key)
    # steps of 0.02 leave a bias of the order of the step times the noise of a batch, below 1 %, which averages do not
    # remove
    yield equal("variance with one path", single.mean(), target / 3, rtol=0.03)
    yield equal("variance with two paths", double.mean(), target, rtol=0.03)
    yield control("independent paths: here the same", equal("variance with two paths", same.mean(), target, rtol=0.03))


@claim(
    rows=("M22.16",),
    erratum="The loss of one path is called an unbiased estimate of the objective: half the variance too large.",
)
def one_path_loss_as_printed(key, *, draws: Count = 20_000, sigma: Positive = 0.5):
    r"""The squared error of one path overestimates the squared error of the mean, by half the variance.

    Printed: $\tilde\Lambda=\frac12(g(X)-Y)^2$ is an unbiased estimate of $\Lambda=\frac12(E\,g(X)-Y)^2$. For
    $X=1+\sigma Z$, $g(x)=x$ and $Y=0$ $\Lambda=\frac12$, and the mean of $\tilde\Lambda$ is $\frac12+\frac12\sigma^2$.
    """

    @jax.jit
    def measure(key):
        sde = NeuralSDE(_Scaled(jnp.asarray(0.0)), _Scaled(jnp.asarray(sigma), by_state=False))

        def one(key):
            return moment_loss(sde, lambda x: x, jnp.zeros(1), jnp.ones(1), 1.0, steps=1, paths=1, key=key)

        return jax.vmap(one)(jax.random.split(key, draws))

    losses = measure(key)
    yield estimate("loss of one path", losses, 0.5 + sigma**2 / 2, wrong=0.5)
    yield printed(estimate("loss of one path, as printed", losses, 0.5, wrong=0.5 + sigma**2 / 2))
