"""Softmax regression: what identifies it, where it decides, and how it contains logistic regression."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.data import book_multiclass_features, book_multiclass_table, logistic_data, softmax_data
from corollary.evidence import Size, at_least, at_most, claim, control, equal, monotone, picture, printed
from corollary.foundations import cross_entropy, kl
from corollary.linear import (
    decision_region,
    fit_newton,
    fit_softmax,
    logistic_function,
    meeting_point,
    one_hot,
    plurality,
    softmax,
    softmax_loss,
)

USED = np.array([[2.0, 1.0], [1.0, 0.0], [1.0, -3.0]]), np.array([3.0, 0.0, -1.0])
PRINTED = np.array([[2.0, 1.0], [-1.0, 0.0], [1.0, -3.0]]), np.array([3.0, 0.0, -1.0])


@claim(rows=("M03.22", "M03.23", "M03.28"))
def shift_invariance(key, *, n: Size = 60, classes: Size = 4, dim: Size = 3):
    r"""Adding one vector to all rows of a softmax model changes nothing, so its Hessian has d + 1 null directions.

    $S_{softmax}(z+c\mathbf1)=S_{softmax}(z)$; the loss of $S_{softmax}(Wx+b)$ in $\mathbb R^{J(d+1)}$ has exactly
    $d+1$ flat directions if the features are in general position, and is strictly convex across them. The outputs are
    positive and sum to 1.
    """
    data_key, theta_key, shift_key = jax.random.split(key, 3)
    theta = jax.random.normal(theta_key, (classes, dim + 1))
    x, y = softmax_data(theta, n, key=data_key)
    shift = 5 * jax.random.normal(shift_key, (dim + 1,))

    @jax.jit
    def measure(theta):
        def loss(flat):
            return softmax_loss(flat.reshape(theta.shape), x, y)

        logits = x @ theta[:, :-1].T + theta[:, -1]
        return jnp.linalg.eigvalsh(jax.hessian(loss)(theta.ravel())), loss(theta.ravel()), softmax(logits)

    spectrum, loss, p = measure(theta)
    _, shifted, shifted_p = measure(theta + shift)
    _, tilted, _ = measure(theta.at[0].add(shift))
    rounding = 1e-13 * float(spectrum[-1])
    yield equal("eigenvalues of the Hessian that vanish", (jnp.abs(spectrum) < rounding).sum(), dim + 1, rtol=0, atol=0)
    yield at_least("the others", spectrum[dim + 1], 100 * rounding)
    yield equal(
        "loss and probabilities after the shift", jnp.append(shifted_p, shifted), jnp.append(p, loss), atol=1e-13
    )
    yield equal("sum of the probabilities", p.sum(1), 1.0, rtol=1e-14)
    yield at_least("probabilities", p, 1e-300)
    yield control("the vector is added to one row only", equal("loss after the shift", tilted, loss))


@claim(rows=("M03.24",))
def one_hot_loss(key, *, n: Size = 500, classes: Size = 5):
    r"""For one-hot labels relative entropy is minus the logarithm of the predicted probability of the class.

    $\sum_iy_i\ln\frac{y_i}{p_i}=-\ln p_i$ for $y$ one-hot at $i$, with the label as the first argument; it is never
    negative, and for two classes it is the binary relative entropy. (The display (3.19) has the two arguments
    exchanged.)
    """
    p_key, y_key = jax.random.split(key)
    p = softmax(2 * jax.random.normal(p_key, (n, classes)))
    label = jax.random.randint(y_key, (n,), 0, classes)
    y = one_hot(label, classes)
    other = p[::-1]
    yield equal("relative entropy of a one-hot label", kl(y, p), -jnp.log(p[jnp.arange(n), label]))
    yield equal("cross-entropy of a one-hot label", cross_entropy(y, p), kl(y, p))
    yield at_least("relative entropy of two laws", kl(other, p), 0.0)
    yield control(
        "the label is not one-hot",
        equal("cross-entropy against relative entropy", cross_entropy(other, p), kl(other, p)),
    )


@claim(
    rows=("M03.24",),
    erratum="(3.19) exchanges label and prediction: for a one-hot label it diverges instead of giving -ln p.",
)
def printed_loss(key, *, n: Size = 50):
    r"""The sum of p ln(p/p') tends to -ln of the predicted probability as the label p' becomes one-hot.

    As printed: $\ell_{p'}(p)=\sum_ip_i\ln\frac{p_i}{p_i'}$ for $p'\in(0,1)^3$, "making (3.19) a bit more explicit, we
    have $\ell_{p'}(p)=-\ln p_i$ if $p'$ is the one-hot vector". For labels at a distance $\epsilon\to0$ from one-hot,
    which meet the premise, the difference grows like $\ln\frac1\epsilon$. With the arguments exchanged,
    $\sum_ip_i'\ln\frac{p_i'}{p_i}$, it goes to zero like $\epsilon\ln\frac1\epsilon$.
    """
    p = softmax(jax.random.normal(key, (n, 3)))
    epsilon = 10.0 ** -jnp.arange(2.0, 10.0)
    label = jnp.stack([1 - 2 * epsilon, epsilon, epsilon], 1)[:, None]
    goal = -jnp.log(p[:, 0])
    exchanged = jnp.abs(jnp.sum(p * jnp.log(p / label), axis=-1) - goal).max(1)
    right = jnp.abs(jnp.sum(label * jnp.log(label / p), axis=-1) - goal).max(1)
    along = {"x": -jnp.log10(epsilon), "along": "-log10 of ε"}
    yield monotone("distance to -ln p, label first", right, "decreasing", strict=True, **along)
    # 2ε (ln 1/ε + |ln p|), and no p is below e^-15
    yield at_most("distance to -ln p at the last ε, label first", right[-1], 4e-9 * (np.log(1e9) + 15))
    yield printed(monotone("distance to -ln p, prediction first", exchanged, "decreasing", **along))
    yield printed(
        at_most("distance to -ln p at the last ε, prediction first", exchanged[-1], 4e-9 * (np.log(1e9) + 15))
    )


@claim(rows=("M03.21", "M03.25", "M03.26"))
def decision_regions(key, *, side: Size = 400, models: Size = 20, pairs: Size = 5000):
    r"""A softmax model decides for each class on an intersection of half-spaces, which is convex.

    Class $i$ wins where $(w_i-w_j)\cdot x>b_j-b_i$ for all $j\ne i$. For the logits $(2x_1+x_2+3,\ x_1,\ x_1-3x_2-1)$
    class 1 wins where $x_1+x_2>-3$ and $x_1+4x_2>-4$, and the three regions meet at $(-\frac83,-\frac13)$. A network
    with a hidden layer has regions that are not convex.
    """
    features = book_multiclass_features()
    yield equal("printed features", features[:5], book_multiclass_table().x, rtol=0, atol=0.005 + 1e-12)
    axis = jnp.linspace(-6.0, 6.0, side) + 1e-7  # off the boundaries
    grid = jnp.stack(jnp.meshgrid(axis, axis), -1).reshape(-1, 2)
    weight, bias = USED

    @jax.jit
    def decide(x):
        regions = jnp.stack([decision_region(weight, bias, i).contains(x) for i in range(3)])
        return plurality(softmax(x @ weight.T + bias)), regions

    vote, spaces = decide(grid)
    yield equal("vote against half-spaces, all grid points", spaces, vote == jnp.arange(3)[:, None], rtol=0, atol=0)
    half_planes = (grid.sum(1) > -3) & (grid[:, 0] + 4 * grid[:, 1] > -4)
    yield equal("class 1 against its two inequalities", vote == 0, half_planes, rtol=0, atol=0)
    yield equal("where the three regions meet", meeting_point(weight, bias), jnp.array([-8 / 3, -1 / 3]))

    keys = jax.random.split(key, models)

    @jax.jit
    def broken(key):
        w_key, b_key, v_key, a_key, c_key = jax.random.split(key, 5)
        a, c = 3 * jax.random.normal(a_key, (2, pairs, 4))
        hidden, out = 2 * jax.random.normal(v_key, (20, 4)), jax.random.normal(c_key, (6, 20))

        def linear(x):
            return jnp.argmax(x @ jax.random.normal(w_key, (6, 4)).T + jax.random.normal(b_key, (6,)), -1)

        def network(x):
            return jnp.argmax(jnp.tanh(x @ hidden.T) @ out.T, -1)

        def share(classify):
            same = classify(a) == classify(c)
            return jnp.sum(same & (classify((a + c) / 2) != classify(a)))

        return share(linear), share(network)

    straight, bent = jax.vmap(broken)(keys)
    yield equal("midpoints of one class that leave it", straight, 0, rtol=0, atol=0)
    yield control(
        "the model has a hidden layer", equal("midpoints of one class that leave it", bent, 0, rtol=0, atol=0)
    )
    yield _regions(weight, bias)


@claim(
    rows=("M03.25",),
    erratum="The second row of the weight matrix is printed (-1, 0), but all later formulas use (1, 0).",
)
def printed_matrix(key, *, side: Size = 200):
    r"""The model with the printed weight matrix decides for class 1 on the printed half-planes.

    As printed: $W=((2,1),(-1,0),(1,-3))$, $b=(3,0,-1)$ and "class 1 if $x_1+x_2>-3$ and $x_1+4x_2>-4$". For that
    matrix the first condition is $3x_1+x_2>-3$. With $(1,0)$ as second row, which is what the logits
    $(2x_1+x_2+3,x_1,x_1-3x_2-1)$ of the next line have, they are the half-planes.
    """
    axis = jnp.linspace(-6.0, 6.0, side) + 1e-7
    grid = jnp.stack(jnp.meshgrid(axis, axis), -1).reshape(-1, 2)
    half_planes = (grid.sum(1) > -3) & (grid[:, 0] + 4 * grid[:, 1] > -4)
    used, given = (plurality(grid @ weight.T + bias) == 0 for weight, bias in (USED, PRINTED))
    yield equal("class 1 with (1, 0), all grid points", used, half_planes, rtol=0, atol=0)
    yield printed(equal("class 1 with (-1, 0), all grid points", given, half_planes, rtol=0, atol=0))


@claim(
    rows=("M03.25",), erratum="The second half-plane of class 1 is printed as a condition on the second feature alone."
)
def printed_half_plane(key, *, side: Size = 200):
    r"""Class 1 is decided where x2 > -x1 - 3 and x2 > -x2/2 - 1.

    The title says it as printed (there also called class 0). What follows from $x_1+4x_2>-4$ is $x_2>-\frac14x_1-1$.
    """
    axis = jnp.linspace(-6.0, 6.0, side) + 1e-7
    grid = jnp.stack(jnp.meshgrid(axis, axis), -1).reshape(-1, 2)
    weight, bias = USED
    x1, x2 = grid.T
    vote = plurality(grid @ weight.T + bias) == 0
    yield equal("class 1: x2 > -x1 - 3 and x2 > -x1/4 - 1", vote, (x2 > -x1 - 3) & (x2 > -x1 / 4 - 1), rtol=0, atol=0)
    alone = (x2 > -x1 - 3) & (x2 > -x2 / 2 - 1)
    yield printed(equal("class 1: x2 > -x1 - 3 and x2 > -x2/2 - 1", vote, alone, rtol=0, atol=0))


@claim(rows=("M03.27",))
def two_classes(key, *, n: Size = 200, sets: Size = 6):
    r"""With two classes softmax regression is logistic regression.

    $S_{softmax}(w_1x+b_1,w_2x+b_2)=(1-S(u),S(u))$ with $u=(w_2-w_1)x+(b_2-b_1)$, so that both families contain the same
    models and reach the same least loss. (The last display has the difference the wrong way round.)
    """

    @jax.jit
    def measure(key):
        data_key, w_key = jax.random.split(key)
        x, y = logistic_data(jnp.array([1.5, -0.5]), n, key=data_key)
        w, b = 2 * jax.random.normal(w_key, (2, 2))
        pair = softmax(x[:, None] * w + b)
        s = logistic_function((w[1] - w[0]) * x + b[1] - b[0])
        one, two = fit_newton(x, y), fit_softmax(x, y, 2)
        third = softmax(jnp.concatenate([x[:, None] * w + b, jnp.zeros((n, 1))], 1))[:, :2]
        return pair, jnp.stack([1 - s, s], 1), one.loss, two.loss, two.theta[1] - two.theta[0], one.theta, third

    pair, binary, one, two, difference, theta, third = jax.vmap(measure)(jax.random.split(key, sets))
    yield equal("probabilities", pair, binary, atol=1e-14)
    yield equal("least loss", two, one, rtol=1e-12)
    yield equal("difference of the two rows against the logistic fit", difference, theta, rtol=1e-6, atol=1e-7)
    yield control("there is a third class", equal("probabilities", third, binary, atol=1e-14))


@claim(rows=("M03.27",), erratum="The last display has w1 - w2 and b1 - b2, which exchanges the two classes.")
def printed_difference(key, *, n: Size = 50):
    r"""The second softmax probability of two classes is the logistic function of the first logit less the second.

    As printed: $S_{softmax}(Wx+B)=(1-S((w_1-w_2)x+(b_1-b_2)),\,S((w_1-w_2)x+(b_1-b_2)))$. The line before it has the
    differences the right way round, $w_2-w_1$ and $b_2-b_1$.
    """
    x, w1, w2, b1, b2 = jax.random.normal(key, (5, n))
    pair = softmax(jnp.stack([w1 * x + b1, w2 * x + b2], 1))
    yield equal(
        "second probability: second logit less the first", pair[:, 1], logistic_function((w2 - w1) * x + (b2 - b1))
    )
    yield printed(
        equal(
            "second probability: first logit less the second", pair[:, 1], logistic_function((w1 - w2) * x + (b1 - b2))
        )
    )


def _regions(weight, bias):
    import altair as alt

    axis = np.linspace(-6, 6, 48)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    label = np.asarray(plurality(grid @ np.asarray(weight).T + np.asarray(bias))) + 1
    h = 1.06 * (axis[1] - axis[0]) / 2
    cells = [
        {"a": a - h, "a2": a + h, "b": b - h, "b2": b + h, "class": int(c)}
        for (a, b), c in zip(grid.tolist(), label, strict=True)
    ]
    x = alt.X("a:Q", title="x1", scale=alt.Scale(domain=[-6, 6], nice=False))
    y = alt.Y("b:Q", title="x2", scale=alt.Scale(domain=[-6, 6], nice=False))
    colour = alt.Color(
        "class:N", scale=alt.Scale(range=["#9bc1d6", "#e6a4ad", "#f3d9a4"]), legend=alt.Legend(orient="bottom")
    )
    regions = (
        alt.Chart(alt.Data(values=cells)).mark_rect(clip=True).encode(x, alt.X2("a2:Q"), y, alt.Y2("b2:Q"), colour)
    )
    point = alt.Chart(alt.Data(values=[{"a": -8 / 3, "b": -1 / 3}])).mark_point(filled=True, color="#22313f", size=70)
    return picture(
        "three regions and the point where they meet", (regions + point.encode(x, y)).properties(width=300, height=190)
    )
