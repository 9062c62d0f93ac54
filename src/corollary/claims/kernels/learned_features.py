"""Learning the features: what it gains, and what it costs."""

import altair as alt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, picture
from corollary.kernels import LearnedFeatureClassifier, learned_feature_loss, train_classifier


def _task(key, n, dim):
    """Points labelled by one hidden unit: sign(ReLU(u·x) - 1/2)."""
    u_key, x_key = jax.random.split(key)
    u = jax.random.normal(u_key, (dim,))
    u = u / jnp.linalg.norm(u)
    x = jax.random.normal(x_key, (n, dim))
    return x, jnp.where(jax.nn.relu(x @ u) > 0.5, 1.0, -1.0), u


@claim(rows=("M04.17",), full={"n": 2000, "steps": 1500, "seeds": 64, "dim": 20})
def learning_pays(key, *, n: Size = 500, dim: Size = 20, units: Size = 20, steps: Count = 400, seeds: Count = 32):
    r"""Learned features classify better than as many random ones.

    $\operatorname{sign}(\sum_nc^n\sigma(w^n\cdot x+b^n))$ with ReLU, trained by Adam on the logistic loss, on labels
    $\operatorname{sign}(\mathrm{ReLU}(u\cdot x)-\frac12)$ in 20 dimensions. With $c$ and $w$ trained the test accuracy
    is above that with $w$ frozen at random by more than 0.1 on average; the frozen features do not move.
    """

    @jax.jit
    @jax.vmap
    def measure(key):
        task_key, model_key = jax.random.split(key)
        x, y, u = _task(task_key, n + 2000, dim)
        model = LearnedFeatureClassifier(dim, units, key=model_key)

        def run(frozen):
            end = train_classifier(model, x[:n], y[:n], steps=steps, step=0.02, freeze_features=frozen)
            accuracy = jnp.mean(jax.vmap(end.network)(x[n:]) == y[n:])
            along = jnp.abs(end.network.w @ u) / jnp.linalg.norm(end.network.w, axis=1)
            return accuracy, along, jnp.abs(end.network.w - model.w).max(), end.losses[-1]

        return run(False), run(True)

    (learned, along, _, loss), (frozen, random, moved, frozen_loss) = measure(jax.random.split(key, seeds))
    yield at_least("mean gap in accuracy", (learned - frozen).mean(), 0.1)
    yield equal("frozen features do not move", moved, 0.0, rtol=0, atol=0)
    yield at_most("training loss, learned against frozen", loss, frozen_loss)
    rows = [
        {"cosine": float(c), "features": name}
        for name, values in (("learned", along), ("random", random))
        for c in np.asarray(values).ravel()
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_bar(opacity=0.6)
    yield picture(
        "features point where the label does: |cosine| with u",
        chart.encode(
            alt.X("cosine:Q", bin=alt.Bin(maxbins=25), title="|cosine|"),
            alt.Y("count()", stack=None, title=None),
            alt.Color("features:N", title=None),
        ).properties(width=300, height=190),
    )


@claim(rows=("M04.18",))
def not_convex(key, *, n: Size = 40, dim: Size = 3, units: Size = 3, points: Count = 100):
    r"""With the features fixed the loss is convex; with the features learned it is not.

    For fixed $w$ and a convex loss the objective is convex in $c$: its Hessian is semidefinite everywhere. Jointly in
    $(c,w)$, whose dimension is $N(1+d)$ instead of $N$, it is not: the Hessian has negative eigenvalues. Exchanging
    two units, or reversing the signs of $c$ and $w$ where $\sigma$ is odd, gives another solution of the same loss;
    half-way between $(c,w)$ and $(-c,-w)$ the network is zero and the logistic loss is $\ln2$.
    """
    x_key, y_key, model_key, fit_key = jax.random.split(key, 4)
    x = jax.random.normal(x_key, (n, dim))
    y = jnp.where(jax.random.bernoulli(y_key, shape=(n,)), 1.0, -1.0)

    def build(key):
        return LearnedFeatureClassifier(dim, units, sigma="tanh", bias=False, key=key)

    @jax.jit
    def measure(x, y, model_key, fit_key):
        def spectrum(key):
            model = jax.tree.map(lambda a: 2 * a, build(key))
            flat, back = ravel_pytree(model)
            joint = jax.hessian(lambda v: learned_feature_loss(back(v), x, y))(flat)
            only = jax.hessian(lambda c: learned_feature_loss(eqx.tree_at(lambda m: m.c, model, c), x, y))(model.c)
            return jnp.linalg.eigvalsh(only)[0], jnp.linalg.eigvalsh(joint)[0], jnp.array([model.c.size, flat.size])

        # a solution of a task that another network of the same size sets
        teacher = build(fit_key)
        easy = jnp.where(jax.vmap(teacher.score)(x) >= 0, 1.0, -1.0)
        solved = train_classifier(build(jax.random.fold_in(fit_key, 1)), x, easy, steps=2000, step=0.02).network
        ts = jnp.linspace(0, 1, 41)
        swap = jnp.arange(units).at[jnp.array([0, 1])].set(jnp.array([1, 0]))
        exchanged = learned_feature_loss(jax.tree.map(lambda a: a[swap], solved), x, easy)
        # tanh is odd: (c, w) and (-c, -w) are one network, and half-way between them there is none
        along = jax.vmap(lambda t: learned_feature_loss(jax.tree.map(lambda a: (1 - 2 * t) * a, solved), x, easy))(ts)
        # the same segment for c alone, at fixed features
        turned = eqx.tree_at(lambda m: m.c, solved, -solved.c)
        convex = jax.vmap(
            lambda t: learned_feature_loss(jax.tree.map(lambda a, b: (1 - t) * a + t * b, solved, turned), x, easy)
        )(ts)
        return jax.lax.map(spectrum, jax.random.split(model_key, points)), along, convex, ts, exchanged

    (only, joint, sizes), along, convex, ts, exchanged = measure(x, y, model_key, fit_key)
    yield at_least("smallest eigenvalue of the Hessian in c", only, 0.0, atol=1e-12)
    yield control("only c varies: here c and w", at_least("smallest eigenvalue of the Hessian", joint, 0.0, atol=1e-3))
    yield equal("number of unknowns: N, and N(1 + d)", sizes[0], jnp.array([units, units * (1 + dim)]), rtol=0, atol=0)
    yield equal("loss with two units exchanged", exchanged, along[0])
    yield equal("loss half-way and at (-c, -w)", along[jnp.array([20, 40])], jnp.array([jnp.log(2.0), along[0]]))
    chord = (1 - ts) * convex[0] + ts * convex[-1]
    yield at_most("loss on a segment in c, below its chord", convex, chord, atol=1e-12, x=ts, along="t")
    yield control(
        "only c varies: here c and w",
        at_most("loss on the segment, below its chord", along, along[0], atol=1e-6, x=ts, along="t"),
    )
