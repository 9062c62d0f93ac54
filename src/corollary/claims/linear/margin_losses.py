"""Losses of a linear classifier, and the perceptron as stochastic gradient descent on one of them."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, at_most, claim, control, equal, frequency_at_most, picture
from corollary.foundations import binary_cross_entropy
from corollary.linear import (
    hinge_loss,
    linear_margins,
    logistic_function,
    logistic_margin_loss,
    perceptron_loss,
    perceptron_loss_gradients,
    perceptron_path,
    sampled_perceptron,
    single_sample_sgd,
    zero_one_loss,
)


def _labelled(key, s, d):
    """Gaussian points with labels of which a tenth or so are against the hyperplane."""
    x_key, w_key, noise_key = jax.random.split(key, 3)
    x, w = jax.random.normal(x_key, (s, d)), jax.random.normal(w_key, (d,))
    noise = jax.random.normal(noise_key, (s,))
    return x, jnp.where(x @ w + 0.5 * noise > 0, 1.0, -1.0)


@claim(rows=("M04.02",))
def staircase(key, *, s: Size = 40, d: Size = 3, points: Size = 4000):
    r"""The 0-1 loss is piecewise constant: its gradient is zero almost everywhere.

    $\Lambda_{0-1}(\theta)=\frac1M\sum_m\mathbf 1[y_m\ne\operatorname{sign}(w\cdot x_m+b)]$ takes at most the $M+1$
    values $0,\frac1M,\dots,1$ and does not change under $\theta\mapsto c\theta$, $c>0$. A difference over a short step
    $h$ is zero unless a jump lies between, which at random $\theta$ has a probability of the order of $h$.
    """
    data_key, theta_key, line_key = jax.random.split(key, 3)
    x, y = _labelled(data_key, s, d)
    theta = jax.random.normal(theta_key, (points, d + 1))
    h = 1e-7

    @jax.jit
    def measure(theta, x, y):
        def differences(loss):
            ahead = jax.vmap(lambda e: jax.vmap(lambda t: loss(t + h * e))(theta))(jnp.eye(d + 1))
            return (ahead - jax.vmap(loss)(theta)) / h

        def share(t):
            return zero_one_loss(t, x, y)

        def surrogate(t):
            return jnp.mean(perceptron_loss(linear_margins(t, x, y)))

        values = jax.vmap(share)(theta)
        scaled = jnp.stack([jax.vmap(share)(c * theta) for c in (2.0**-20, 8.0)])  # powers of two round nothing
        return values, scaled, differences(share), differences(surrogate)

    values, scaled, flat, slope = measure(theta, x, y)
    yield equal("M times the loss is whole", s * values, jnp.round(s * values))
    yield at_most("number of different values", np.unique(np.asarray(values)).size, s + 1)
    yield equal("loss at multiples of θ", scaled, values)
    # a jump lies within h of θ with a probability of the order of h times the number of points
    yield frequency_at_most("differences that are not zero", np.asarray(flat != 0).ravel(), 0.01)
    yield control(
        "the loss is that of the perceptron, not 0 or 1",
        frequency_at_most("differences that are not zero", np.asarray(slope != 0).ravel(), 0.01),
    )
    start, end = jax.random.normal(line_key, (2, d + 1))
    way = jnp.linspace(0.0, 1.0, 200)
    losses = jax.jit(jax.vmap(lambda t: _averages(start + t * (end - start), x, y)))(way)
    yield _lines("along a line of parameters", way, losses, "way from one θ to another")


@claim(rows=("M04.03",))
def surrogates(key, *, s: Size = 50, d: Size = 4, pairs: Size = 2000):
    r"""The perceptron, hinge and logistic losses of the margin are convex; the last two bound the 0-1 loss.

    Of the margin $m=y(w\cdot x+b)$: $\max(0,-m)$ (the text's hinge loss), $\max(0,1-m)$ and $\ln(1+e^{-m})$ are convex
    in $\theta=(w,b)$. $\max(0,1-m)$ and $\ln(1+e^{-m})/\ln2$ are at least the 0-1 loss. $\ln(1+e^{-m})$ is the
    cross-entropy of $S(w\cdot x+b)$ with the label $(1+y)/2$. The gradient of $\max(0,-m)$ is $-y(x,1)$ where $m<0$ and
    zero where $m>0$; its minimum 0 is attained at $\theta=0$, whatever the data, and it does not bound the 0-1 loss.
    """
    data_key, theta_key, mix_key = jax.random.split(key, 3)
    x, y = _labelled(data_key, s, d)
    theta = 2 * jax.random.normal(theta_key, (pairs, 2, d + 1))
    mix = jax.random.uniform(mix_key, (pairs, 1))

    @jax.jit
    def measure(theta, mix, x, y):
        one, two = theta[:, 0], theta[:, 1]
        average = jax.vmap(lambda t: _averages(t, x, y))
        between, ends = average(mix * one + (1 - mix) * two), mix * average(one) + (1 - mix) * average(two)
        m = jax.vmap(lambda t: linear_margins(t, x, y))(one)
        z = one[:, :-1] @ x.T + one[:, -1:]
        small = 10 / jnp.max(jnp.abs(z))
        point = jax.grad(lambda t, x, y: perceptron_loss(linear_margins(t, x[None], y[None])[0]))
        slopes = jax.vmap(lambda t: jax.vmap(point, (None, 0, 0))(t, x, y))(one)
        return {
            "between": between,
            "ends": ends,
            "wrong": (m <= 0).astype(float),
            "losses": jnp.stack([perceptron_loss(m), hinge_loss(m), logistic_margin_loss(m) / jnp.log(2.0)]),
            "entropy": (
                logistic_margin_loss(small * m),
                binary_cross_entropy((1 + y) / 2, logistic_function(small * z)),
            ),
            "slopes": (slopes, jax.vmap(lambda t: perceptron_loss_gradients(t, x, y))(one)),
        }

    m = measure(theta, mix, x, y)
    yield at_most("losses between two θ, against the chord", m["between"][:, 1:], m["ends"][:, 1:])
    yield at_least("hinge loss and logistic loss / ln 2, against mistakes", m["losses"][1:], m["wrong"])
    # logits go up to 10: a probability rounds at eps, and the logarithm of what it lacks to 1 at eps e^10
    yield equal("logistic loss, against the cross-entropy", *m["entropy"], atol=8 * 2.3e-16 * np.exp(10))
    yield equal("gradient of the perceptron loss", *m["slopes"])
    yield equal("perceptron loss at zero", _averages(jnp.zeros(d + 1), x, y)[1], 0.0)
    yield control("the loss is 0 or 1", at_most("loss against the chord", m["between"][:, 0], m["ends"][:, 0]))
    yield control("the loss is that of the perceptron", at_least("loss against mistakes", m["losses"][0], m["wrong"]))
    grid = jnp.linspace(-3, 3, 121)
    four = jnp.stack([grid <= 0, perceptron_loss(grid), hinge_loss(grid), logistic_margin_loss(grid)], axis=1)
    yield _lines("losses of the margin", grid, four, "margin")


@claim(rows=("M04.04", "M04.06", "M04.03"))
def perceptron_is_sgd(key, *, s: Size = 30, d: Size = 3, steps: Size = 500):
    r"""The perceptron is stochastic gradient descent with step 1 on the perceptron loss, given the right subgradient.

    At each step a point is drawn uniformly. $w_{k+1}=w_k+y_kx_k$ if $y_k\ne\operatorname{sign}(w_k\cdot x_k)$ is
    $w_{k+1}=w_k-\nabla\lambda(w_k)$ with $\lambda=\max(0,-y_kw\cdot x_k)$, where at the kink $w\cdot x_k=0$ the
    subgradient is $-y_kx_k$ for the labels that $\operatorname{sign}(0)$ gets wrong: for $y_k=-1$ if
    $\operatorname{sign}(0)=1$, for both if it is 0. Another step only changes the scale, from zero. The text, which
    calls the algorithm "essentially" stochastic gradient descent, prints the gradient 0 at the kink: with that one
    descent from zero never moves.
    """
    x_key, w_key, draw_key = jax.random.split(key, 3)
    # whole numbers, so that the kink is met exactly
    x = jax.random.randint(x_key, (s, d), -2, 3).astype(float)
    w = jax.random.normal(w_key, (d,))
    y = jnp.where(x @ w > 0, 1.0, -1.0)

    @jax.jit
    def measure(x, y, key):
        def descend(moves, step=1.0):
            def gradient(w, x, y):
                m = y * (w @ x)
                return jnp.where((m < 0) | ((m == 0) & moves(y)), -y * x, 0.0)

            return single_sample_sgd(gradient, jnp.zeros(d), x, y, step=step, steps=steps, key=key)

        learned = [sampled_perceptron(x, y, steps=steps, key=key, at_zero=z) for z in (0, 1)]
        kinks = jnp.sum(jnp.sum(learned[1].w[:-1] * x[learned[1].index], axis=1) == 0)
        return {
            "learned": jnp.stack([run.w for run in learned]),
            "descent": jnp.stack([descend(lambda y: True), descend(lambda y: y < 0)]),
            "half": descend(lambda y: True, step=0.5) * 2,
            "still": descend(lambda y: False),
            "kinks": kinks,
        }

    m = measure(x, y, draw_key)
    exact = {"rtol": 0, "atol": 0}
    yield at_least("steps at which the drawn point lies on the hyperplane", m["kinks"], 1)
    yield equal("weights with sign(0) = 0 and sign(0) = 1", m["learned"], m["descent"], **exact)
    yield equal("weights of descent with step ½, doubled", m["half"], m["learned"][0], **exact)
    yield equal("weights of descent with the gradient 0 at the kink", m["still"], 0.0, **exact)
    yield control("the subgradient at the kink is 0", equal("weights", m["still"], m["learned"][1], **exact))


@claim(rows=("M04.05",))
def push(key, *, s: Size = 60, d: Size = 5, steps: Size = 2000):
    r"""An update raises the margin of the point that caused it by its squared length, and nothing else happens.

    If $y_k\ne\operatorname{sign}(w_k\cdot x_k)$ then $w_{k+1}=w_k+y_kx_k$ has
    $y_k\,w_{k+1}\cdot x_k=y_k\,w_k\cdot x_k+\|x_k\|^2$; else $w_{k+1}=w_k$. It needs step 1 and labels with $y^2=1$.
    (The text goes on that the algorithm "attempts to correct itself, eventually leading to a positive value". On
    separable data it does so for all points at once, after at most $R^2/\gamma^2$ updates; on XOR with a constant
    feature every update is a push too, and at no time are all four margins positive.)
    """
    data_key, draw_key = jax.random.split(key)
    x, y = _labelled(data_key, s, d)

    @jax.jit
    def measure(x, y, key):
        run = sampled_perceptron(x, y, steps=steps, key=key)
        point, label = x[run.index], y[run.index]
        rise = label * jnp.sum((run.w[1:] - run.w[:-1]) * point, axis=1)
        half = perceptron_path(x, y, updates=200, bias=False, step=0.5)
        half_rise = y[half.index] * jnp.sum((half.w[1:] - half.w[:-1]) * x[half.index], axis=1)
        return (
            rise,
            jnp.where(run.mistake, jnp.sum(point**2, axis=1), 0.0),
            half_rise,
            jnp.sum(x[half.index] ** 2, axis=1),
        )

    rise, length, half_rise, half_length = measure(x, y, draw_key)
    # weights grow to the order of a hundred at most, and their difference rounds like them
    yield equal("rise of the margin of the drawn point", rise, length, atol=1e-11)
    yield at_least("updates", jnp.sum(length > 0), 1)
    corners = jnp.array([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    sides = jnp.array([1.0, 1.0, -1.0, -1.0])
    path = jax.jit(lambda key: sampled_perceptron(corners, sides, steps=steps, key=key))(draw_key)
    yield at_most("XOR: least of the four margins, at all times", jnp.min(sides * (path.w @ corners.T), axis=1), 0.0)
    yield control("the step is ½", equal("rise of the margin", half_rise, half_length, atol=1e-11))


def _averages(theta, x, y):
    """The averages of the 0-1, perceptron, hinge and logistic losses."""
    m = linear_margins(theta, x, y)
    rest = [jnp.mean(loss(m)) for loss in (perceptron_loss, hinge_loss, logistic_margin_loss)]
    return jnp.stack([zero_one_loss(theta, x, y), *rest])


def _lines(name, x, losses, title):
    names = ["0-1", "perceptron", "hinge", "logistic"]
    rows = [
        {"x": float(a), "value": float(v), "loss": loss}
        for a, values in zip(np.asarray(x), np.asarray(losses), strict=True)
        for loss, v in zip(names, values, strict=True)
    ]
    scale = alt.Scale(domain=names, range=["#22313f", "#1f6f8b", "#d1495b", "#e09f3e"])
    chart = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2, interpolate="linear")
    chart = chart.encode(
        alt.X("x:Q", title=title),
        alt.Y("value:Q", title=None),
        alt.Color("loss:N", scale=scale, legend=alt.Legend(title=None, orient="bottom")),
    )
    return picture(name, chart.properties(width=300, height=190))
