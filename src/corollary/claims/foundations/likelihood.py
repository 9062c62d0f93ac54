"""Losses for classification: the logistic loss of a margin, and the likelihood that it is the logarithm of."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.linear._pictures import contours
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, monotone, printed
from corollary.foundations import bernoulli_mass, binary_cross_entropy, likelihood, negative_log_likelihood
from corollary.linear import logistic_function, logistic_loss, logistic_point_losses
from corollary.optimization import gradient_descent


@claim(rows=("T01.02", "M01.13"))
def logistic_loss_of_the_margin(key, *, points: Annotated[int, Range(10, 10_000)] = 401):
    r"""The logistic loss falls with the margin, is convex, and loses no digits anywhere.

    For a label $y\in\{-1,1\}$ and a score $h$ the loss is $\ln(1+e^{-yh})$, a function of the margin $yh$ alone, with
    derivative $-\sigma(-yh)$. It is the binary cross-entropy $-y\ln y'-(1-y)\ln(1-y')$ of the label in $\{0,1\}$ and
    the probability $y'=\sigma(h)$. At a margin of $-10^4$ it is $10^4$, where the cross-entropy of the rounded
    probability is infinite.
    """
    margin = np.linspace(-30, 30, points)

    @jax.jit
    def measure(margin):
        unit = jnp.array([1.0, 0.0])
        ones, zeros = jnp.ones(points, int), jnp.zeros(points, int)
        losses = logistic_point_losses(unit, margin, ones)
        mirrored = logistic_point_losses(unit, -margin, zeros)
        slope = jax.vmap(jax.grad(lambda z: logistic_point_losses(unit, z[None], ones[:1])[0]))(margin)
        entropy = (
            binary_cross_entropy(ones, logistic_function(margin)),
            binary_cross_entropy(zeros, logistic_function(margin)),
        )
        far = logistic_point_losses(unit, jnp.array([-1e4, 1e4]), ones[:2])
        # labels 1 and 0 in turn: then the score is no margin
        mixed = logistic_point_losses(unit, margin, jnp.arange(points) % 2)
        return losses, mirrored, slope, entropy, far, mixed, binary_cross_entropy(0.0, logistic_function(1e4))

    losses, mirrored, slope, entropy, far, mixed, lost = jax.tree.map(np.asarray, measure(margin))
    yield equal("loss of label 1 against the formula", losses, np.log1p(np.exp(-margin)), x=margin, along="margin")
    yield equal("loss of label -1 at the opposite score", mirrored, losses, rtol=1e-14, x=margin, along="margin")
    yield equal("derivative", slope, -1 / (1 + np.exp(margin)), x=margin, along="margin")
    yield monotone("loss against margin", losses, "decreasing", strict=True, x=margin, along="margin")
    # second differences of numbers up to 30 are rounded at a few times 30 eps
    yield at_least("second differences of the loss", np.diff(losses, 2), 0.0, atol=8 * 30 * 2.3e-16)
    # a probability near 1 is rounded to eps: that is e^20 eps of 1 - p at a score of 20
    yield equal("cross-entropy of label 1", entropy[0], losses, atol=2.3e-16)
    yield equal(
        "cross-entropy of label 0", entropy[1][margin < 20], losses[::-1][margin < 20], rtol=np.exp(20) * 2.3e-16
    )
    yield equal("loss at margins of -10000 and 10000", far, [1e4, 0.0])
    yield equal("cross-entropy of the rounded probability is infinite there", np.isinf(lost), 1)
    yield control(
        "the score without its label is no margin",
        monotone("loss against score", mixed, "decreasing", x=margin, along="score"),
    )


@claim(
    rows=("T01.02",),
    erratum="The logistic loss is printed without its logarithm: that expression grows with the margin.",
)
def logistic_loss_as_printed(key, *, n: Size = 100, steps: Count = 200):
    r"""Minimising 1/(1 + exp(-yh)) over linear scores h classifies separable data.

    As printed, "the logistic loss" is $\ell((x,y),\theta)=1/(1+e^{-yh_\theta(x)})$, to be minimised. It is the
    probability of the right label: its minimisation makes every margin negative. With the logarithm,
    $\ln(1+e^{-yh})$, it classifies the same data.
    """

    @jax.jit
    def measure(key):
        x_key, start_key = jax.random.split(key)
        x = jax.random.normal(x_key, (n, 2))
        x = x + 0.3 * jnp.sign(x[:, :1]) * jnp.array([1.0, 0.0])  # a gap of 0.6 between the classes
        y = jnp.sign(x[:, 0])
        start = 0.1 * jax.random.normal(start_key, (2,))

        def accuracy(loss):
            slope = jax.grad(lambda w: jnp.mean(loss(y * (x @ w))))
            path = gradient_descent(slope, start, 1.0, steps)
            return jax.vmap(lambda w: jnp.mean(y * (x @ w) > 0))(path)

        return accuracy(jax.nn.sigmoid), accuracy(lambda m: jax.nn.softplus(-m))

    without, right = (np.asarray(a) for a in measure(key))
    late = np.arange(steps // 2, steps + 1)
    yield at_least("training accuracy, with the logarithm", right[late], 0.95, x=late, along="iteration")
    yield printed(at_least("training accuracy, without it", without[late], 0.95, x=late, along="iteration"))


@claim(rows=("M01.12", "M01.13"))
def maximum_likelihood(key, *, n: Annotated[int, Range(6, 40)] = 12, grid: Annotated[int, Range(20, 400)] = 200):
    r"""Maximal likelihood, maximal log-likelihood and minimal cross-entropy choose the same parameter.

    Labels $y_m\in\{0,1\}$, independent given the features, with $P\{y_m=1\}=m(x_m;\theta)\in(0,1)$. The likelihood
    $\prod_m m(x_m)^{y_m}(1-m(x_m))^{1-y_m}$ is $e^{-M\Lambda(\theta)}$ with $\Lambda$ the average of
    $\ell_{y_m}(m(x_m;\theta))$, $\ell_y(y')=-y\ln y'-(1-y)\ln(1-y')$: all three criteria have the same optimisers. For
    thousands of labels the product is 0 in floating point, the sum of logarithms is not.
    """
    w, b = jnp.meshgrid(jnp.linspace(-4, 4, grid), jnp.linspace(-3, 3, grid))
    thetas = jnp.stack([w.ravel(), b.ravel()], 1)

    @jax.jit
    def measure(key):
        x_key, p_key = jax.random.split(key)
        x = jnp.sort(jax.random.normal(x_key, (n,)))
        # ones to the right of zeros, but for a pair that is exchanged: no threshold separates them
        y = (jnp.arange(n) >= n // 2).astype(int).at[n // 2 - 2].set(1).at[n // 2 + 1].set(0)

        def criteria(theta):
            p = logistic_function(theta[0] * x + theta[1])
            entropy = jnp.mean(binary_cross_entropy(y, p))
            return likelihood(p, y), negative_log_likelihood(p, y), entropy, logistic_loss(theta, x, y)

        found = jnp.stack(jax.vmap(criteria)(thetas))
        p = jax.random.uniform(p_key, (5000,), minval=0.01, maxval=0.99)
        many = jnp.concatenate([y, jnp.zeros(5000 - n, int)])
        cases = jnp.where(many == 1, p, 1 - p)
        return x, y, found, bernoulli_mass(p, many), cases, likelihood(p, many), negative_log_likelihood(p, many)

    x, y, found, mass, cases, product, summed = jax.tree.map(np.asarray, measure(key))
    product_of_all, log_loss, entropy, loss = found
    choice = np.array([np.argmax(product_of_all), np.argmax(-log_loss), np.argmin(entropy), np.argmin(loss)])
    yield equal("grid point chosen by each criterion", choice, choice[0], rtol=0, atol=0)
    # the product of n rounded factors is off by n roundings, each factor 1 - p by e^15 eps at the corners of the grid
    yield equal("logarithm of the likelihood", np.log(product_of_all), -n * entropy, rtol=1e-8)
    yield equal("negative log-likelihood against the loss from the logits", log_loss, loss, rtol=1e-8)
    yield equal("mass function against its two cases", mass, cases, rtol=1e-14)
    yield equal("likelihood of 5000 labels in floating point", product, 0.0, rtol=0, atol=0)
    yield at_most("average negative log-likelihood of 5000 labels is a number", summed, -np.log(0.01))
    # every label recorded twice is as probable as recorded once: the factors are no longer independent
    yield control(
        "every label comes twice, so the labels are not independent",
        equal("logarithm of the probability of all labels", np.log(product_of_all), -2 * n * entropy, rtol=1e-8),
    )
    yield contours(
        "negative log-likelihood with its minimiser on the grid",
        lambda theta: logistic_loss(theta, x, y),
        centre=np.asarray(thetas[choice[0]]),
        radius=(3.0, 2.5),
        names=("w", "b"),
    )
