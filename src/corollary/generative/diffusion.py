r"""Diffusion models: noise is added in steps, and a network that tells the noise takes it away again.

```python
model = DiffusionModel(network, Schedule.cosine(1000), 2)
trained = nets.fit(model, diffusion_loss(), x, optax.adam(1e-3), steps=5000, batch_size=256, key=key).network
trained.sample(100, key=key)
```

With classes the network is given the class too, `diffusion_loss(dropped=0.1)` trains on `(x, labels)`, and
`trained.sample(3, labels=[7, 7, 1], key=key)` draws from the classes that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import log_ndtr
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._engine.runge_kutta import stepped
from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete, positive, real, whole, within
from corollary.catalog import implements
from corollary.generative.mixture import GaussianMixture
from corollary.network import BatchLoss


@implements("T14.23")
class Schedule(eqx.Module):
    r"""$\alpha_0,\dots,\alpha_{T-1}\in(0,1)$, the share of the variance that each step of noise leaves.

    >>> Schedule([0.5, 0.5]).levels().tolist()
    [1.0, 0.5, 0.25]
    """

    alphas: jax.Array

    def __init__(self, alphas: Float[ArrayLike, "t"]):
        self.alphas = within("alphas", real("alphas", alphas, "t"), 0.0, 1.0, open="both")

    __repr__ = shown

    @classmethod
    def linear(cls, steps: int, *, first: float | None = None, last: float | None = None) -> Schedule:
        r"""$1-\alpha_t$ on a line from `first` to `last`: unless given $0.1/T$ and $20/T$, so more than 20 steps."""
        steps = whole("steps", steps)
        if last is None and steps <= 20:
            raise ValueError(f"steps must be more than 20, or last must be given, got {steps}.")
        first, last = (0.1 / steps if first is None else first), (20 / steps if last is None else last)
        for name, share in (("first", first), ("last", last)):
            within(name, share, 0.0, 1.0, open="both")
        return cls(1 - jnp.linspace(first, last, steps))

    @classmethod
    def cosine(cls, steps: int, *, offset: float = 0.008, largest: float = 0.999) -> Schedule:
        r"""$\bar\alpha\propto\cos^2(\frac{t/T+s}{1+s}\frac\pi2)$, with no $1-\alpha_t$ above `largest`."""
        steps, largest = whole("steps", steps), within("largest", largest, 0.0, 1.0, open="both")
        angle = (np.arange(steps + 1) / steps + within("offset", offset, 0.0)) / (1 + offset) * np.pi / 2
        return cls(np.clip(np.cos(angle[1:]) ** 2 / np.cos(angle[:-1]) ** 2, 1 - largest, None))

    @implements("T14.24")
    def levels(self) -> Float[Array, "_"]:
        r"""$\bar\alpha_t=\prod_{i<t}\alpha_i$ for $t=0,\dots,T$: the share of the signal in the variance of $x_t$."""
        return jnp.concatenate([jnp.ones(1, self.alphas.dtype), jnp.cumprod(self.alphas)])

    def strided(self, steps: int) -> Schedule:
        r"""The schedule that visits only `steps` of the levels, evenly spaced, and ends at the same one."""
        at = np.linspace(0, len(self.alphas), whole("steps", steps, 1, len(self.alphas)) + 1).round().astype(int)
        levels = self.levels()[at]
        return Schedule(levels[1:] / levels[:-1])


@implements("T14.23")
def noise_path(x: Float[ArrayLike, "..."], eps: Float[ArrayLike, "t ..."], schedule: Schedule) -> Float[Array, "_ ..."]:
    r"""$x_0=x$ and $x_{t+1}=\sqrt{\alpha_t}x_t+\sqrt{1-\alpha_t}\epsilon_t$: all of $x_0,\dots,x_T$, step by step."""
    x, eps, alphas = real("x", x), real("eps", eps), _schedule(schedule).alphas
    if eps.shape != (len(alphas), *x.shape):
        raise ValueError(f"eps must have shape {(len(alphas), *x.shape)}, noise like x for each step, got {eps.shape}.")

    def onward(x, given):
        alpha, z = given
        x = jnp.sqrt(alpha) * x + jnp.sqrt(1 - alpha) * z
        return x, x

    start = x.astype(jnp.result_type(x, eps, alphas))
    return jnp.concatenate([start[None], lax.scan(onward, start, (alphas, eps))[1]])


@implements("T14.24")
def noised(
    x: Float[ArrayLike, "..."], t: Int[ArrayLike, ""], schedule: Schedule, *, key: PRNGKeyArray
) -> Float[Array, "..."]:
    r"""$x_t=\sqrt{\bar\alpha_t}x_0+\sqrt{1-\bar\alpha_t}\epsilon$ in one draw, for one example and $0\le t\le T$."""
    x, levels = real("x", x), _schedule(schedule).levels()
    if concrete(t):
        whole("t", t if isinstance(t, int) else np.asarray(t).item(), 0, len(levels) - 1)
    return _mixed(x, jax.random.normal(key, x.shape, x.dtype), levels[t])


class DiffusionBound(NamedTuple):
    r"""The terms of the bound of $-\ln p(x)$: of $x_T$ against $N(0,I)$, of the steps down to $x_1$, and of $x_0$."""

    prior: jax.Array
    steps: jax.Array
    first: jax.Array

    __repr__ = shown

    @property
    def total(self) -> jax.Array:
        """Their sum, at least minus the log-likelihood of the sampler."""
        return self.prior + self.steps.sum(-1) + self.first


@implements("T14.25")
class DiffusionModel(eqx.Module):
    r"""A network that is given $(x_t,\bar\alpha_t)$ and returns the noise $\epsilon$ in it, and the schedule of noise.

    `shape` is that of one example, a number for a vector. The schedule is not trained, but it is among the arrays,
    and weight decay would move it. A network of classes is given $(x_t,\bar\alpha_t,\text{label})$ wherever a label is
    given, and -1 is no class.
    """

    network: Any
    schedule: Schedule
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, network: NetworkLike, schedule: Schedule, shape: int | Sequence[int]):
        if not callable(network):
            raise TypeError(f"network must be a network of one example, got {type(network).__name__}.")
        self.network, self.schedule = network, _schedule(schedule)
        sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        self.shape = tuple(whole("shape", size) for size in sizes)

    __repr__ = shown

    def noise(
        self, x: Float[ArrayLike, "..."], level: Float[ArrayLike, ""], label: Int[ArrayLike, ""] | None = None
    ) -> Float[Array, "..."]:
        r"""What the network takes for the noise in $x_t$ where $\bar\alpha_t$ is `level`."""
        out = self.network((x, level) if label is None else (x, level, label))
        if jnp.shape(out) != self.shape:
            raise ValueError(f"the network must return noise of shape {self.shape}, got {jnp.shape(out)}.")
        return out

    def loss(
        self,
        x: Float[ArrayLike, "..."],
        t: Int[ArrayLike, ""],
        eps: Float[ArrayLike, "..."],
        label: Int[ArrayLike, ""] | None = None,
    ) -> Float[Array, ""]:
        r"""$\|\epsilon-\epsilon_\theta(x_t,\bar\alpha_t)\|^2$ for one example, noised with $\epsilon$ to step $t$."""
        x, eps, level = self._example("x", x), self._example("eps", eps), self._levels()[t]
        return jnp.sum((eps - self.noise(_mixed(x, eps, level), level, label)) ** 2)

    def sample(
        self, count: int, *, labels: Int[ArrayLike, "_"] | None = None, steps: int | None = None, key: PRNGKeyArray
    ) -> Float[Array, "_ ..."]:
        r"""Independent samples: from $N(0,I)$ down the schedule, or down `steps` evenly spaced levels of it.

        $x_{t-1}=\frac1{\sqrt\alpha}(x_t-\frac{1-\alpha}{\sqrt{1-\bar\alpha_t}}\epsilon_\theta)+\sigma_t\xi$ with the
        variance $\sigma_t^2=\frac{1-\bar\alpha_{t-1}}{1-\bar\alpha_t}(1-\alpha)$ that $x_{t-1}$ has given $x_t$ and
        $x_0$; without noise at the last step. With `labels`, one for each sample, every one is of its class.
        """
        count, labels = whole("count", count), None if labels is None else jnp.asarray(labels)
        if labels is not None and (labels.shape != (count,) or not jnp.issubdtype(labels.dtype, jnp.integer)):
            raise ValueError(f"labels must be {count} whole numbers, one for each sample, got {labels.shape}.")
        schedule = self.schedule if steps is None else self.schedule.strided(steps)
        levels, alphas, variances = self._reverse(schedule)
        variances = variances.at[0].set(0.0)
        start_key, key = jax.random.split(key)
        start = jax.random.normal(start_key, (count, *self.shape), levels.dtype)

        def back(x, given):
            level, alpha, variance, key = given
            mean = jax.vmap(lambda x, label: self._mean(x, level, alpha, label))(x, labels)
            return mean + jnp.sqrt(variance) * jax.random.normal(key, x.shape, x.dtype), None

        keys = jax.random.split(key, len(alphas))
        return lax.scan(back, start, (levels[1:], alphas, variances, keys), reverse=True)[0]

    def bound(
        self,
        x: Float[ArrayLike, "..."],
        eps: Float[ArrayLike, "k ..."],
        *,
        label: Int[ArrayLike, ""] | None = None,
        cell: Scalar | None = None,
    ) -> DiffusionBound:
        r"""The variational bound of $-\ln p(x)$, the mean over `k` draws of noise, the same at every step.

        Reverse steps have the variances of `sample`, and the last one $1-\alpha_0$. With a `cell` it bounds minus the
        logarithm of the probability of the cube of that width around `x`: the first term is that of the cube.
        """
        x, eps = self._example("x", x), real("eps", eps)
        if eps.shape[1:] != x.shape:
            raise ValueError(f"eps must have shape (k, {', '.join(map(str, x.shape))}), got {eps.shape}.")
        levels, alphas, variances = self._reverse(self.schedule)
        last = levels[-1]
        prior = 0.5 * jnp.sum(last * x**2 - last - jnp.log1p(-last))

        def missed(level):
            """In the units of the noise, the mean over the draws."""
            return jnp.mean(jax.vmap(lambda e: jnp.sum((e - self.noise(_mixed(x, e, level), level, label)) ** 2))(eps))

        def first(e):
            width, scale = within("cell", real("cell", cell, ""), 0.0, open="low"), jnp.sqrt(variances[0])
            off = (self._mean(_mixed(x, e, levels[1]), levels[1], alphas[0], label) - x) / scale
            return -jnp.sum(_log_between(jnp.abs(off), 0.5 * width / scale))

        terms = (1 - alphas) ** 2 / (2 * variances * alphas * (1 - levels[1:])) * lax.map(missed, levels[1:])
        if cell is None:
            return DiffusionBound(prior, terms[1:], terms[0] + 0.5 * x.size * jnp.log(2 * jnp.pi * variances[0]))
        return DiffusionBound(prior, terms[1:], jnp.mean(jax.vmap(first)(eps)))

    def log_prob(
        self,
        x: Float[ArrayLike, "..."],
        *,
        t: int = 0,
        steps: int = 200,
        tolerance: Scalar | None = None,
        label: Int[ArrayLike, ""] | None = None,
        probes: Float[ArrayLike, "k ..."] | None = None,
    ) -> Float[Array, ""]:
        r"""$\ln p(x)$ by the probability flow from $\bar\alpha=1$ down to the last level, where $x\sim N(0,I)$.

        With $\bar\alpha=\cosh^{-2}\tau$ it is $\frac{dx}{d\tau}=\epsilon_\theta(x,\bar\alpha)-x\tanh\tau$, and $\ln p$
        falls by the divergence: `steps` equal steps of Runge and Kutta in $\tau$, the divergence exact, at the cost of
        as many networks as $x$ has numbers, or by Hutchinson's estimate as the mean of $v^\top\partial_x\epsilon_\theta
        v$ over `probes`, random signs. With `t` it is the density of $x_t$, which is smooth where that of grey values
        is not; the steps are then equal in $\ln\sinh\tau$, half the logarithm of noise over signal.

        With a `tolerance` the number of steps is doubled until two results in a row are that near to each other, which
        for this method is some 15 times the error of the second. Where that takes more than eight times it is an error,
        and NaN inside `jit` or `vmap`. Derivatives by $x$ are for a fixed number of steps only.
        """
        levels, steps = self._levels(), whole("steps", steps)
        tolerance = None if tolerance is None else positive("tolerance", real("tolerance", tolerance, ""))
        t, last = whole("t", t, 0, len(levels) - 2), levels[-1]
        x = self._example("x", x)
        x = x.astype(jnp.result_type(x, levels))
        if probes is not None:
            probes = real("probes", probes)
            if probes.shape[1:] != self.shape:
                raise ValueError(f"probes must have shape (k, {', '.join(map(str, self.shape))}), got {probes.shape}.")
            probes = probes.reshape(len(probes), -1)
        ends = jnp.arccosh(1 / jnp.sqrt(levels[t])), jnp.arccosh(1 / jnp.sqrt(last))
        if t:
            ends = tuple(jnp.log(jnp.sinh(tau)) for tau in ends)

        def velocity(state, place):
            tau = jnp.arcsinh(jnp.exp(ends[0] + place)) if t else place
            pace = jnp.tanh(tau) if t else 1.0  # how fast tau goes by
            guess = lambda flat: self.noise(flat.reshape(self.shape), jnp.cosh(tau) ** -2, label).ravel()  # noqa: E731
            if probes is None:
                found, divergence = guess(state[0]), jnp.trace(jax.jacfwd(guess)(state[0]))
            else:
                found, along = jax.linearize(guess, state[0])
                divergence = jnp.mean(jax.vmap(lambda v: v @ along(v))(probes.astype(x.dtype)))
            return pace * (found - jnp.tanh(tau) * state[0]), pace * divergence

        def density(steps):
            h = (ends[1] - ends[0]) / steps

            def onward(i, state):
                return stepped(lambda state, share: velocity(state, (i + share) * h), state, h)

            final, gained = lax.fori_loop(0, steps, onward, (x.ravel(), jnp.zeros((), x.dtype)))
            # what tanh adds to the divergence integrates to the logarithm of cosh
            return gained - 0.5 * jnp.sum(final**2 + jnp.log(2 * jnp.pi) - jnp.log(last) + jnp.log(levels[t]))

        return density(steps) if tolerance is None else _doubled(density, steps, tolerance, x.dtype)

    def _levels(self):
        return lax.stop_gradient(self.schedule.levels())

    def _reverse(self, schedule):
        """Levels 0 to T; the share that each step leaves; the variances of reverse steps, 1 - α at the last one."""
        levels, alphas = (lax.stop_gradient(a) for a in (schedule.levels(), schedule.alphas))
        between = (1 - levels[:-1]) / (1 - levels[1:]) * (1 - alphas)
        return levels, alphas, between.at[0].set(1 - alphas[0])

    def _mean(self, x, level, alpha, label):
        return (x - (1 - alpha) / jnp.sqrt(1 - level) * self.noise(x, level, label)) / jnp.sqrt(alpha)

    def _example(self, name, x):
        x = real(name, x)
        if x.shape != self.shape:
            raise ValueError(f"{name} must be one example of shape {self.shape}, got {x.shape}.")
        return x


def _doubled(density, steps, tolerance, dtype):
    """`density(n)` for n = steps, twice as many and so on, until two in a row agree."""

    def apart(state):
        n, before, value = state
        return ~(jnp.abs(value - before) <= tolerance) & (n <= steps * 2**8)

    unknown = jnp.full((), jnp.nan, dtype)
    start = jnp.asarray(steps), unknown, unknown
    _, before, value = lax.while_loop(apart, lambda state: (2 * state[0], state[2], density(state[0])), start)
    found = jnp.where(jnp.abs(value - before) <= tolerance, value, jnp.nan)
    if concrete(found) and np.isnan(found):
        raise ValueError(
            f"log_prob does not settle within tolerance={float(tolerance):.3g} in {steps * 2**8} steps: "
            f"{float(before):.6g}, then {float(value):.6g}."
        )
    return found


@implements("T14.25")
def diffusion_loss(*, dropped: Scalar = 0.0) -> BatchLoss:
    r"""The mean of $\|\epsilon-\epsilon_\theta\|^2$ over a batch `x`, at a random step each: for `nets.fit`.

    Of a batch `(x, labels)` the network is given the labels too, but for a share `dropped` of them -1, no class: so it
    learns the law of all classes beside those of each.
    """
    dropped = float(within("dropped", dropped, 0.0, 1.0))

    def on_batch(network, batch, *, key):
        x, labels = batch if isinstance(batch, tuple | list) else (batch, None)
        t_key, e_key, l_key = jax.random.split(key, 3)
        t = jax.random.randint(t_key, (len(x),), 1, len(network.schedule.alphas) + 1)
        eps = jax.random.normal(e_key, x.shape, x.dtype)
        if labels is not None:
            hidden = jax.random.bernoulli(l_key, dropped, labels.shape)
            labels = jnp.where(hidden, -1, labels.astype(jnp.int32))
        return jnp.mean(jax.vmap(network.loss)(x, t, eps, labels))

    return BatchLoss(on_batch)


@implements("T14.25")
class MixtureDenoiser(eqx.Module):
    r"""The best network for a mixture: $\mathbb E[\epsilon|x_t]=-\sqrt{1-\bar\alpha_t}\nabla\ln p_t(x_t)$.

    $p_t$ is the mixture with means $\sqrt{\bar\alpha_t}\mu_h$ and covariances $\bar\alpha_t\Sigma_h+(1-\bar\alpha_t)I$.
    """

    mixture: GaussianMixture

    def __init__(self, mixture: GaussianMixture):
        if not isinstance(mixture, GaussianMixture):
            raise TypeError(f"mixture must be a GaussianMixture, got {type(mixture).__name__}.")
        self.mixture = mixture

    __repr__ = shown

    def at(self, level: Float[ArrayLike, ""]) -> GaussianMixture:
        r"""The law of $x_t$ where $\bar\alpha_t$ is `level`."""
        m, level = self.mixture, real("level", level, "")
        identity = jnp.eye(m.means.shape[1], dtype=m.means.dtype)
        noisy = level * m.covariances + (1 - level) * identity
        return GaussianMixture(m.weights, jnp.sqrt(level) * m.means, noisy)

    def __call__(self, x: tuple[Float[ArrayLike, "_"], Float[ArrayLike, ""]]) -> Float[Array, "_"]:
        r"""$\mathbb E[\epsilon|x_t]$ for the pair of $x_t$ and $\bar\alpha_t$."""
        point, level = x
        return -jnp.sqrt(1 - level) * jax.grad(self.at(level).log_prob)(point)


def _log_between(off, half):
    """ln P(|z - off| < half) of a standard normal z, for off >= 0: the two tails by their logarithms."""
    upper, lower = log_ndtr(half - off), log_ndtr(-half - off)
    return upper + jnp.log(-jnp.expm1(lower - upper))


def _mixed(x, eps, level):
    return jnp.sqrt(level) * x + jnp.sqrt(1 - level) * eps


def _schedule(schedule):
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}.")
    return schedule
