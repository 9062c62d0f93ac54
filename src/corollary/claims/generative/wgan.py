"""Wasserstein GANs: what bounds the slope of the critic, and what his verdict then is."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import linprog

from corollary.claims.generative._shift import NODES, WEIGHTS, Line, Shift
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.foundations import wasserstein
from corollary.generative import WGAN, clip_params, critic_slopes, train_wgan


def _exact_value(critic, generator, a):
    """What a critic finds between N(a, 1) and the generator's law, without sampling."""
    z = NODES[:, None]
    return WGAN(generator, critic).value(z + a, z, x_weights=WEIGHTS, z_weights=WEIGHTS)


def _ascended(a, theta, steps, most=None):
    """The critic w x from w = 0 after so many steps up the value, cut back to [-most, most] after each."""

    def up(w, _):
        w = w + 0.1 * jax.grad(lambda w: _exact_value(Line(w, 0.0), Shift(theta), a))(w)
        w = w if most is None else clip_params(w, most)
        return w, w

    path = jax.lax.scan(up, jnp.zeros(()), length=steps)[1]
    return path, jax.vmap(lambda w: _exact_value(Line(w, 0.0), Shift(theta), a))(path)


@claim(rows=("M15.30",))
def linear_critic(key, *, gaps: Size = 8):
    r"""A linear critic of slope 1 at most finds the distance of two shifted normal laws, with a slope that never dies.

    Between $N(a,1)$ and $N(\theta,1)$ the best of the critics $wx$ with $|w|\le1$ has the value $|a-\theta|$, which is
    $W_1$; the slope of that value by $\theta$ is $\mp1$, however far apart the laws are. He is found by steps up the
    value, cut back after each. With twice the slope allowed he finds twice as much.
    """

    @jax.jit
    def measure(key):
        theta = jax.random.normal(key, ())
        apart = jnp.concatenate([-jnp.linspace(1.0, 8.0, gaps), jnp.linspace(1.0, 8.0, gaps)])
        a = theta + apart

        def one(a, most):
            path, values = _ascended(a, theta, 30, most)
            w = path[-1]
            return values[-1], jax.grad(lambda t: _exact_value(Line(w, 0.0), Shift(t), a))(theta)

        # the two laws as equally many quantiles, which are shifted too
        points = jax.scipy.stats.norm.ppf((jnp.arange(200) + 0.5) / 200)
        distances = jax.vmap(lambda a: wasserstein(points + a, points + theta))(a)
        return apart, jax.vmap(lambda a: one(a, 1.0))(a), jax.vmap(lambda a: one(a, 2.0))(a)[0], distances

    apart, (values, slopes), steeper, distances = measure(key)
    yield equal("value of the best critic", values, distances, rtol=1e-9, x=apart, along="a - θ")
    yield equal("slope by the shift", slopes, -np.sign(apart), rtol=1e-9, x=apart, along="a - θ")
    yield control("slope 1 at most: here 2", equal("value of the best critic", steeper, distances, rtol=1e-9))


@claim(rows=("M15.30",), erratum="Over all parameters of the critic the supremum in (15.14) is infinite.")
def printed_unbounded_critic(key, *, doublings: Size = 6):
    r"""Only over critics of bounded slope is the supremum of the objective a distance.

    As printed: $\min_{\theta_G}\sup_{\theta_D}\mathbb Em(X)-\mathbb Em(g(Z))$ stands for the least $W_1$, without a
    bound on $\theta_D$. Between $N(a,1)$ and $N(\theta,1)$ a linear critic who ascends passes the distance and goes on:
    his value is proportional to the number of steps. Divided by his slope it is the distance at any time.
    """

    @jax.jit
    def measure(key):
        theta, gap = jax.random.normal(key, ()), 1.5
        path, values = _ascended(theta + gap, theta, 20 * 2 ** (doublings - 1))
        points = jax.scipy.stats.norm.ppf((jnp.arange(200) + 0.5) / 200)
        return path, values, wasserstein(points + theta + gap, points + theta)

    path, values, distance = measure(key)
    steps = 20 * 2 ** np.arange(doublings)
    path, values = np.asarray(path)[steps - 1], np.asarray(values)[steps - 1]
    yield printed(at_most("value of an unbounded critic", values, distance, x=steps, along="steps"))
    yield rate("growth of the value", steps, values, 1.0, tolerance=0.01, along="steps")
    yield equal("value over slope", values / path, np.full(doublings, distance), rtol=1e-9, x=steps, along="steps")


def _best_of_slope(x, y, slope, height=None):
    """The largest difference of means over all functions of that slope, and height, on the points of both samples."""
    points = np.concatenate([x, y])
    n = len(points)
    means = np.concatenate([np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))])
    i, j = np.triu_indices(n, 1)
    rows = np.zeros((2 * len(i), n))
    rows[np.arange(len(i)), i], rows[np.arange(len(i)), j] = 1, -1
    rows[len(i) :] = -rows[: len(i)]
    apart = slope * np.abs(points[i] - points[j])
    bounds = (-height, height) if height else (None, None)
    # a function is fixed up to a constant, which the first point settles
    held = {"A_eq": np.eye(1, n), "b_eq": [0.0]} if height is None else {}
    return -linprog(-means, A_ub=rows, b_ub=np.tile(apart, 2), bounds=bounds, **held).fun


@claim(rows=("M15.31",))
def steeper_critics(key, *, n: Size = 8):
    r"""Over critics of slope K the supremum is K times the distance, and so are its slopes by the generator.

    $J_K=\sup_{\|f\|_{Lip}\le K}\mathbb E_\mu f-\mathbb E_\nu f=K\,W_1(\mu,\nu)$, hence
    $\nabla_\theta W_1=\frac1K\nabla_\theta J_K$. Measured by a linear program over all values of $f$ on the points of
    two samples, for $K=\frac12,1,3$, against the distance by sorting; and the slope by a shift of the second sample,
    where no two points meet. If the height of $f$ is bounded too, the class does not scale.
    """
    slopes = np.array([0.5, 1.0, 3.0])

    def distance(theta, x, y):
        return wasserstein(x, y + theta)

    @jax.jit
    def measure(key):
        x_key, y_key = jax.random.split(key)
        x, y = jax.random.normal(x_key, (n,)), 0.5 + jax.random.normal(y_key, (n + 1,))
        return x, y, *jax.value_and_grad(distance)(0.0, x, y)

    x, y, least, by_shift = (np.asarray(v) for v in measure(key))
    # a shift so small that the order of the points stays; the solver's own tolerance is 1e-7
    gaps = np.abs(x[:, None] - y)
    h = min(1e-2, gaps.min() / 3)
    best = np.array([[_best_of_slope(x, y + t, k) for t in (-h, 0, h)] for k in slopes])
    yield equal("supremum over K", best[:, 1] / slopes, np.full(3, least), rtol=1e-6, x=slopes, along="K")
    changes = (best[:, 2] - best[:, 0]) / (2 * h) / slopes
    yield equal("slope by the shift, over K", changes, np.full(3, by_shift), rtol=0, atol=1e-6 / h)
    flat = np.array([_best_of_slope(x, y, k, 0.2) for k in slopes])
    yield control(
        "all functions of slope K: here no higher than 0.2",
        equal("supremum over K", flat / slopes, np.full(3, least), rtol=1e-6),
    )


@claim(rows=("M15.33",))
def clipped_parameters(key, *, width: Size = 6, networks: Size = 50):
    r"""Cutting parameters back to [-c, c] is the nearest point of a box, and bounds the slope of a network.

    $P(\theta)=\max(\min(\theta,c),-c)$ is idempotent, never moves two points apart, and $(\theta-P\theta)\cdot
    (\vartheta-P\theta)\le0$ for every $\vartheta$ of the box, which makes it the nearest point. A network of rectified
    units whose weights lie in the box has at most the slope $\prod_\ell c\sqrt{n_\ell n_{\ell-1}}$; with all weights
    $c$ and inputs that are positive it has that slope. Weights that were not cut back exceed it.
    """
    most, sizes = 0.3, (3, width, width, 1)
    arrays, rest = eqx.partition(
        eqx.nn.MLP(sizes[0], "scalar", width, 2, key=jax.random.key(0), dtype=float), eqx.is_array
    )
    shape = jax.tree.structure(arrays)
    bound = np.prod([most * np.sqrt(a * b) for a, b in itertools.pairwise(sizes)])

    @jax.jit
    def measure(key):
        t_key, s_key, b_key, n_key, x_key = jax.random.split(key, 5)
        theta, other = (jax.random.normal(k, (networks, 20)) for k in (t_key, s_key))
        inside = jax.random.uniform(b_key, (networks, 20), minval=-most, maxval=most)
        near, near_other = clip_params(theta, most), clip_params(other, most)
        x = jax.random.normal(x_key, (30, sizes[0]))

        def slopes(key):
            keys = jax.tree.unflatten(shape, [*jax.random.split(key, shape.num_leaves)])
            drawn = jax.tree.map(lambda w, key: jax.random.normal(key, w.shape), arrays, keys)
            return [critic_slopes(eqx.combine(a, rest), x).max() for a in (clip_params(drawn, most), drawn)]

        keys = jax.random.split(n_key, networks)
        full = eqx.combine(clip_params(jax.tree.map(lambda w: jnp.full_like(w, 5.0), arrays), most), rest)
        return (
            near,
            clip_params(near, most),
            jnp.linalg.norm(near - near_other, axis=1),
            jnp.linalg.norm(theta - other, axis=1),
            jnp.sum((theta - near) * (inside - near), 1),
            jax.lax.map(slopes, keys),
            critic_slopes(full, jnp.abs(x)).max(),
        )

    near, again, after, before, angle, (clipped, free), full = measure(key)
    yield equal("cut back twice", again, near, rtol=0, atol=0)
    yield at_most("distance of two points", after, before)
    yield at_most("angle with any point of the box", angle, 0.0, atol=1e-12)
    yield at_most("slope of networks", clipped, bound)
    yield equal("slope of the network with all weights c", full, bound, rtol=1e-12)
    yield control("weights in the box: here as they were drawn", at_most("slope of networks", free, bound))


class _Point(eqx.Module):
    """The generator that always makes the same example."""

    theta: jax.Array

    def __call__(self, z):
        return 0 * z + self.theta


@claim(rows=("M15.32",), erratum="Algorithm 2 updates the generator once, after the critic: an outer loop is missing.")
def printed_algorithm(key, *, rounds: Count = 400):
    r"""The generator of a clipped Wasserstein GAN arrives when critic and generator take turns, and not in one step.

    As printed (Algorithm 2) the loop ends with the critic's convergence, and then the generator takes one step, which
    is at most the step size times $c$ for a linear critic. With a loop around both, the shift of a normal law is found.
    Data are $N(a,1)$, steps of the generator 0.05 falling to 0, critics $wx+b$, cut back to $[-1,1]$, where their
    parameters are in all rounds.
    """

    @jax.jit
    def measure(key):
        a_key, x_key, train_key = jax.random.split(key, 3)
        a = jax.random.uniform(a_key, (), minval=1.0, maxval=3.0)
        x = jax.random.normal(x_key, (1000, 1))
        x = a + x - x.mean()
        wgan = WGAN(Shift(jnp.zeros(())), Line(jnp.zeros(()), jnp.zeros(())))

        def run(steps, critic_steps, generator_optimiser):
            return train_wgan(
                wgan,
                x,
                optax.sgd(0.5),
                generator_optimiser=generator_optimiser,
                steps=steps,
                critic_steps=critic_steps,
                clip=1.0,
                batch_size=256,
                key=train_key,
                measure=lambda g: jnp.stack([g.generator.theta, g.critic.w, g.critic.b]),
            ).record

        return (
            a,
            run(1, 200, optax.sgd(0.05))[-1],
            run(rounds, 10, optax.sgd(optax.cosine_decay_schedule(0.05, rounds))),
        )

    a, once, path = measure(key)
    # the means of two batches of 256 differ by 0.09 where the laws do not, and ten steps of the critic follow them
    yield printed(equal("shift of the generator, one step", once[0], a, rtol=0, atol=0.1))
    yield equal("shift of the generator, in turns", path[-1, 0], a, rtol=0, atol=0.1)
    yield at_most("one step of the generator", once[0], 0.05)
    yield at_most("parameters of the critic in all rounds", jnp.abs(path[:, 1:]), 1.0)


@claim(rows=("M15.35",))
def penalised_critic(key, *, steps: Count = 800, width: Size = 16):
    r"""With a penalty on his slope a critic is steeper than 1 by the distance over twice the penalty.

    The critic raises $\mathbb Em(x)-\mathbb Em(y)-\lambda\mathbb E(\|\nabla m(\hat x)\|-1)^2$, with $\hat x$ between
    real and generated examples. If the real law lies to the right of the other on the line, the best slope at a point
    is $1+\frac{F_\nu-F_\mu}{2\lambda\rho}$, where $\rho$ is the density of $\hat x$: on the mean over $\hat x$ it is
    $1+\frac{W_1}{2\lambda}$, and the value is $W_1$ at least. A linear critic between two points at the distance $d$
    reaches exactly that slope from 0; but from $-1$ he stays at $-1+\frac d{2\lambda}$ if that is negative, since the
    penalty asks for the size of the slope alone. A network between samples of two normal laws, turned round if it
    begins the wrong way, has the mean slope within a tenth. Its value is nearer to the distance than that of a critic
    whose weights are cut back to 0.1, who is far from steep enough.
    """

    @jax.jit
    def measure(key):
        d_key, x_key, y_key, n_key, t_key, m_key = jax.random.split(key, 6)
        gap = jax.random.uniform(d_key, (), minval=0.5, maxval=4.0)
        penalties = jnp.array([0.5, 2.0, 10.0, 10.0])
        held = optax.sgd(0.0)

        def line(penalty, start):
            pair = WGAN(_Point(jnp.zeros(())), Line(start, jnp.zeros(())))
            run = train_wgan(
                pair,
                jnp.full((4, 1), gap),
                optax.sgd(0.02),
                generator_optimiser=held,
                steps=1,
                critic_steps=1500,
                penalty=penalty,
                key=t_key,
            )
            return run.gan.critic.w

        x, z = 2.0 + jax.random.normal(x_key, (500, 1)), jax.random.normal(y_key, (500, 1))
        critic = eqx.nn.MLP(1, "scalar", width, 2, jax.nn.softplus, key=n_key, dtype=float)
        way = jnp.sign(WGAN(Shift(jnp.zeros(())), critic).value(x, z))
        critic = eqx.tree_at(lambda c: c.layers[-1].weight, critic, replace_fn=lambda w: way * w)
        share = jax.random.uniform(m_key, (500,))
        between = share[:, None] * x + (1 - share[:, None]) * z

        def network(**bound):
            run = train_wgan(
                WGAN(Shift(jnp.zeros(())), critic),
                x,
                optax.adam(1e-2),
                generator_optimiser=held,
                steps=1,
                critic_steps=steps,
                batch_size=200,
                key=t_key,
                **bound,
            )
            judge = run.gan.critic
            return run.gan.value(x, z), critic_slopes(judge, between).mean()

        distance = wasserstein(x, z)
        lines = jax.vmap(line)(penalties, jnp.array([0.0, 0.0, 0.0, -1.0]))
        return gap, penalties, lines, distance, network(penalty=5.0), network(clip=0.1)

    gap, penalties, lines, distance, (value, slope), (cut_value, cut_slope) = measure(key)
    reached = np.array([1, 1, 1, -1]) + gap / (2 * penalties)
    yield equal("slope of a linear critic", lines[:3], reached[:3], rtol=1e-9, x=penalties[:3], along="penalty")
    yield equal("slope of a linear critic that begins the wrong way", lines[3], reached[3], rtol=1e-9)
    # samples of 500 and what is left of the noise of batches of 200
    yield equal("mean slope of a network", slope, 1 + distance / 10, rtol=0.1)
    yield at_least("value of a network", value, 0.95 * distance)
    yield at_most("error of the value, penalty", jnp.abs(value - distance), jnp.abs(cut_value - distance))
    yield control("a penalty: here clipping", equal("mean slope of a network", cut_slope, 1 + distance / 10, rtol=0.1))
