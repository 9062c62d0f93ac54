"""Dividing the step of SGD: how far the losses fall, exactly for least squares, and for a network on digits."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import digits
from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, estimate, picture
from corollary.nets import MLP, empirical_risk, he_normal, tanh, train
from corollary.optimization import least_squares_moments, least_squares_sum, minimize, step_decay, step_sizes


@claim(rows=("T02.36",))
def stairs_of_least_squares(
    key, *, n: Size = 40, dim: Size = 20, runs: Count = 128, stage: Count = 400, sigma: Positive = 1.0
):
    r"""Where every step of SGD is a contraction plus noise, the stairs of both losses can be computed.

    Least squares on $n$ examples with inputs $N(0,\Sigma)$ of falling variances and labels
    $\theta^*\cdot x+\sigma\xi$, SGD on one example at a time. Mean $m_k$ and second moment $S_k$ of
    $\theta_k-\hat\theta$ follow a closed recursion, and with them the training loss
    $\mathcal R_S(\hat\theta)+\frac12\mathrm{tr}(HS_k)$ and the expected one
    $\frac12\sigma^2+\frac12\mathbb E\|\theta_k-\theta^*\|_\Sigma^2$. Before the step is divided by ten the excess
    of the training loss is for the most part noise in proportion to the step; two epochs after more than 30 % of
    it are gone, and the held-out loss has fallen as well. Later the slow directions fit the noise of the labels:
    the training loss goes on falling and the held-out loss rises. Gradient descent has no noise, and no stair;
    labels without noise have no such rise.
    """
    per, ends = n, (stage, 2 * stage)
    steps = 4 * stage
    at = np.array([stage, stage + 2 * per, 2 * stage, 2 * stage + 2 * per, steps])

    @jax.jit
    def measure(key):
        x_key, t_key, n_key, r_key = jax.random.split(key, 4)
        scale = jnp.arange(1.0, dim + 1) ** -0.5
        x = jax.random.normal(x_key, (n, dim)) * scale
        # what there is to learn lies in the three largest directions
        truth = jnp.where(jnp.arange(dim) < 3, jax.random.normal(t_key, (dim,)), 0.0)
        noise = jax.random.normal(n_key, (n,))
        first = 0.5 / jnp.sum(x**2, axis=1).mean()
        schedule = step_decay(first, ends)

        def curves(etas, batch, sigma):
            y = x @ truth + sigma * noise
            moments = least_squares_moments(x, y, jnp.zeros(dim), etas, steps, batch_size=batch)
            problem = least_squares_sum(x, y)
            off = problem.minimiser - truth
            training = problem.minimum + 0.5 * jnp.einsum("kij,ij->k", moments.variance, x.T @ x / n)
            spread = jnp.einsum("kii,i->k", moments.variance, scale**2) + 2 * moments.mean @ (scale**2 * off)
            return jnp.stack([training, 0.5 * (sigma**2 + spread + off @ (scale**2 * off))])

        divided, constant = step_sizes(schedule, steps), jnp.full(steps, first)
        etas = jnp.stack([divided, constant, divided, divided])
        # with a constant step; without the noise of the draws; without that of the labels
        found = jax.lax.map(
            lambda a: curves(*a), (etas, jnp.array([1.0, 1.0, 1e12, 1.0]), jnp.array([sigma, sigma, sigma, 0.0]))
        )
        problem = least_squares_sum(x, x @ truth + sigma * noise)
        path = jax.vmap(lambda k: minimize(problem, optax.sgd(schedule), steps=steps, key=k).theta[at])(
            jax.random.split(r_key, runs)
        )
        training = jax.vmap(jax.vmap(problem))(path)
        held_out = 0.5 * (sigma**2 + jnp.sum((scale * (path - truth)) ** 2, axis=-1))
        return found, training, held_out, problem.minimum

    found, training, held_out, least = (np.asarray(a) for a in measure(key))
    (inside, outside), constant, plain, clean = found
    # before the first division nothing distinguishes the two: there the stated wrong value is the minimum
    wrong = np.where(at <= stage, [[least], [sigma**2 / 2]], constant[:, at])
    name = "at the divisions, two epochs later, at the end"
    yield estimate(f"training loss of the runs: {name}", training, inside[at], wrong=wrong[0])
    yield estimate(f"held-out loss of the runs: {name}", held_out, outside[at], wrong=wrong[1])

    def fall(curve):
        return curve[stage + 2 * per] / curve[stage]

    yield at_most("excess training loss two epochs after the first division over before", fall(inside - least), 0.7)
    yield at_most("held-out loss two epochs after the first division over before", fall(outside), 1.0)
    later = 5 * per

    def crossings(training, held_out):
        """How many stretches of five epochs have a falling training loss and a rising held-out loss."""
        down, up = training[later::per] < training[:-later:per], held_out[later::per] > held_out[:-later:per]
        return (down & up).sum()

    yield at_least("stretches in which one falls and the other rises", crossings(inside, outside), 1.0)
    rest = "excess training loss later over before"
    yield control("all examples in every step", at_most(rest, fall(plain[0] - least), 0.7))
    yield control("a constant step", at_most(rest, fall(constant[0] - least), 0.7))
    yield control("labels without noise", at_least("stretches of that kind", crossings(*clean), 1.0))
    yield _stairs(inside[::10], outside[::10], np.array(ends) / per, 10 / per)


@claim(rows=("T02.36",))
def loss_in_stairs(
    key,
    *,
    runs: Size = 8,
    examples: Size = 500,
    width: Size = 64,
    batch: Size = 5,
    first: Size = 15,
    second: Size = 30,
):
    r"""When the step of SGD is divided both losses fall; later the held-out one rises while the other falls.

    A small counterpart of the figure for PreResNet32 on CIFAR10 (rate 1, divided by 10 at epochs 80 and 300, batches of
    128): 64 tanh units on 500 of the 8 by 8 digits, a tenth of the labels drawn at random, rate 0.5 divided by 10 at
    epochs 15 and 30 of 40, batches of 5 drawn with replacement, the other 1,297 digits held out. Within two epochs of
    the first division the training loss has fallen by more than 30 % of its mean over the five epochs before, and the
    held-out loss too (in the mean of the runs); after it, every run has stretches of five epochs in which the training
    loss falls and the held-out loss rises. What falls is the noise of the steps: gradient descent under the same
    schedule has no stair, and the networks whose rate is not divided stay higher.
    """
    epochs, per = second + 10, examples // batch
    data = digits()

    @jax.jit
    def measure(key, x, y):
        def one(key, factor, per, batch):
            order_key, which_key, label_key, net_key, run_key = jax.random.split(key, 5)
            order = jax.random.permutation(order_key, x.shape[0])
            inside, outside = order[:examples], order[examples:]
            wrong = jax.random.uniform(which_key, (examples,)) < 0.1
            labels = jnp.where(wrong, jax.random.randint(label_key, (examples,), 0, 10), y[inside])
            network = MLP((64, width, 10), tanh, key=net_key, initialisation=he_normal)
            # single precision is enough for noise of this size, and twice as fast
            network = jax.tree.map(lambda a: a.astype(jnp.float32), network)

            def look(model):
                parts = (x[inside], labels), (x[outside], y[outside])
                return jnp.stack([empirical_risk(model, "cross_entropy", part) for part in parts])

            def rate(count):
                return 0.5 * factor ** ((count >= first * per).astype(float) + (count >= second * per))

            return train(
                network,
                "cross_entropy",
                (x[inside], labels),
                optax.sgd(rate),
                steps=epochs * per,
                key=run_key,
                batch_size=batch,
                measure=look,
                every=per,
            ).record

        keys = jax.random.split(key, runs)
        both, factor = jnp.concatenate([keys, keys]), jnp.repeat(jnp.array([0.1, 1.0]), runs)
        # one after the other: small matrices are faster alone than batched
        noisy = jax.lax.map(lambda a: one(*a, per, batch), (both, factor))
        # gradient descent, ten steps for an epoch
        return noisy, jax.lax.map(lambda k: one(k, 0.1, 10, None), keys[:2])

    record, smooth = measure(key, jnp.asarray(data.x, jnp.float32), jnp.asarray(data.y))
    training, held_out = np.moveaxis(np.asarray(record, float), -1, 0)
    plain = np.asarray(smooth, float)[..., 0]

    def fall(curves):
        return curves[:, first + 2] / curves[:, first - 4 : first + 1].mean(1)

    yield at_most("training loss after the first division over before", fall(training[:runs]), 0.7)
    after = slice(first + 2, second)
    apart = np.log(training[:runs, after] / training[runs:, after])
    # of each pair the two curves are one up to the division; of eight pairs the mean with five standard errors
    high = apart.mean(1).mean() + 5 * apart.mean(1).std(ddof=1) / runs**0.5
    yield at_most("logarithm of the training loss against the same network at a constant rate", high, 0.0)
    yield at_most("held-out loss after the first division over before, mean", fall(held_out[:runs]).mean(), 0.7)
    down = training[:runs, first + 5 :] < training[:runs, first:-5]
    up = held_out[:runs, first + 5 :] > held_out[:runs, first:-5]
    yield at_least("stretches in which one falls and the other rises", (down & up).sum(1), 1.0)
    yield control("all examples in every step", at_most("training loss later over before", fall(plain), 0.7))
    yield _stairs(training[0], held_out[0], (first, second))


def _stairs(training, held_out, divisions, unit=1.0):
    rows = [
        {"epoch": e * unit, "loss": float(v), "of": name}
        for name, curve in (("training", training), ("held out", held_out))
        for e, v in enumerate(curve)
    ]
    lines = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=1.5)
    lines = lines.encode(
        alt.X("epoch:Q"),
        alt.Y("loss:Q", scale=alt.Scale(type="log"), title="loss"),
        alt.Color("of:N", sort=["training", "held out"], legend=alt.Legend(title=None, orient="bottom")),
    )
    marks = alt.Chart(alt.Data(values=[{"epoch": float(e)} for e in divisions]))
    marks = marks.mark_rule(strokeDash=[4, 3], color="#777").encode(alt.X("epoch:Q"))
    return picture("both losses, rate divided at the marks", (lines + marks).properties(width=300, height=190))
