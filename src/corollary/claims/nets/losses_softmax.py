"""Softmax and the logistic function as outputs, with the cross-entropy that goes with them."""

import jax
import jax.numpy as jnp
import optax
from scipy import stats

from corollary.data import logistic_data
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone, printed
from corollary.linear import (
    fit_newton,
    logistic_function,
    logistic_gradient,
    logistic_hessian,
    logistic_loss,
    max_margin,
    softmax,
    softmax_jacobian,
)
from corollary.nets import train
from corollary.network import BatchLoss
from corollary.network.losses import cross_entropy


@claim(rows=("B02.15", "E02.12", "T15.04"))
def softmax_map(key, *, dim: Size = 4, classes: Size = 5, points: Size = 200):
    r"""Softmax gives probabilities, ignores a common shift, and for two classes is the logistic function.

    $\sigma^{\max}_i(x;\Theta)=e^{x^\top\theta_i}/\sum_je^{x^\top\theta_j}$ is positive, sums to one, and stays the same
    when one vector is added to all $\theta_i$, so that $\theta_k=0$ loses nothing. It commutes with permutations. For
    $k=2$ it is $\sigma(x^\top(\theta_1-\theta_2))$. Its Jacobian in the logits is $\mathrm{diag}(p)-pp^\top$, positive
    semidefinite with $\mathbf 1$ in its kernel.
    """
    x_key, theta_key, shift_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (points, dim))
    theta = jax.random.normal(theta_key, (dim, classes))
    shift = 3 * jax.random.normal(shift_key, (dim, classes))
    order = jnp.roll(jnp.arange(classes), 1)

    @jax.jit
    def measure(x, theta):
        z = x @ theta
        p = softmax(z)
        jacobians = jax.vmap(jax.jacobian(lambda z: jnp.exp(z) / jnp.exp(z).sum()))(z)
        return {
            "p": p,
            "naive": jnp.exp(z) / jnp.exp(z).sum(1, keepdims=True),
            "shifted": softmax(x @ (theta + shift[:, :1])),
            "last zero": softmax(x @ (theta - theta[:, -1:])),
            "other shift": softmax(x @ (theta + shift)),
            "permuted": softmax(z[:, order]),
            "two": softmax(z[:, :2])[:, 0],
            "jacobian": jacobians,
            "formula": softmax_jacobian(z),
            "eigenvalues": jnp.linalg.eigvalsh(jacobians),
            "along one": jacobians.sum(2),
            "large": softmax(1e3 * z),
        }

    m = measure(x, theta)
    yield at_least("probabilities", m["p"], 0.0)
    yield equal(
        "sum of the probabilities, also of logits of size 1000", jnp.stack([m["p"].sum(1), m["large"].sum(1)]), 1.0
    )
    yield equal("against the definition", m["p"], m["naive"])
    yield equal("one vector added to all parameters", m["shifted"], m["p"])
    yield equal("last parameter zero", m["last zero"], m["p"])
    yield equal("logits permuted", m["permuted"], m["p"][:, order])
    yield equal("two classes", m["two"], logistic_function(x @ (theta[:, 0] - theta[:, 1])))
    yield equal("Jacobian", m["jacobian"], m["formula"])
    yield at_least("eigenvalues of the Jacobian", m["eigenvalues"], 0.0, atol=1e-15 * classes)
    yield equal("Jacobian on equal entries", m["along one"], 0.0)
    yield control("a different vector added to each parameter", equal("probabilities", m["other shift"], m["p"]))


@claim(
    rows=("B02.15",),
    erratum="The second term of the denominator must be 1; as printed the middle line is σ of twice the logit.",
)
def two_class_middle_line(key, *, points: Size = 100):
    r"""Softmax with two classes in the middle line of its derivation.

    As printed: $\sigma_1^{\max}(x)=\frac{e^{u}}{e^{u}+e^{-u}}$ with $u=x\cdot(\theta_1-\theta_2)$. That is
    $\sigma(2u)$; the next line of the text, $\frac1{1+e^{-u}}$, is right again.
    """
    z = jax.random.normal(key, (points, 2))
    u = z[:, 0] - z[:, 1]
    yield equal("σ(2u) is the printed line", logistic_function(2 * u), jnp.exp(u) / (jnp.exp(u) + jnp.exp(-u)))
    yield equal("first probability, corrected", softmax(z)[:, 0], jnp.exp(u) / (jnp.exp(u) + 1))
    yield printed(equal("first probability, as printed", softmax(z)[:, 0], jnp.exp(u) / (jnp.exp(u) + jnp.exp(-u))))


@claim(rows=("B02.16", "B02.21", "E02.12"))
def cross_entropy_gradient(key, *, dim: Size = 3, classes: Size = 4, points: Size = 60):
    r"""Softmax with cross-entropy has the gradient (probability minus label) times the input, and is convex.

    $\ell=-\sum_iy_i\ln\sigma_i^{\max}=-\sum_iy_ix^\top\theta_i+\ln\sum_ie^{x^\top\theta_i}$ for $\sum_iy_i=1$, and
    $\nabla_{\theta_i}\ell=(\sigma_i^{\max}-y_i)x$. The Hessian is $(\mathrm{diag}(p)-pp^\top)\otimes xx^\top\succeq0$.
    For two classes it is the binary cross-entropy of $\hat y=\sigma(z)$ at $z=z_1-z_2$, with $dL/dz=\hat y-y$.
    """
    x_key, theta_key, y_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (points, dim))
    theta = jax.random.normal(theta_key, (classes, dim))
    y = jax.nn.softmax(2 * jax.random.normal(y_key, (points, classes)))  # soft labels: one-hot ones are a special case

    @jax.jit
    def measure(x, y, theta):
        def loss(theta, x, y):
            return cross_entropy(theta @ x, y)

        p = softmax(x @ theta.T)
        hessian = jax.vmap(jax.hessian(loss), (None, 0, 0))(theta, x, y).reshape(points, theta.size, theta.size)
        kron = jax.vmap(jnp.kron)(softmax_jacobian(x @ theta.T), jnp.einsum("ni,nj->nij", x, x))
        z = x @ theta[:2].T
        binary = jax.vmap(cross_entropy)(z[:, 0] - z[:, 1], y[:, 0])
        pair = jnp.stack([y[:, 0], 1 - y[:, 0]], axis=1)
        return {
            "loss": jax.vmap(loss, (None, 0, 0))(theta, x, y),
            "by definition": -jnp.sum(y * jnp.log(p), axis=1),
            "gradient": jax.vmap(jax.grad(loss), (None, 0, 0))(theta, x, y),
            "formula": (p - y)[:, :, None] * x[:, None, :],
            "doubled": (
                -jnp.sum(2 * y * jnp.log(p), axis=1),
                -jnp.sum(2 * y * (x @ theta.T), axis=1) + jax.nn.logsumexp(x @ theta.T, axis=1),
            ),
            "hessian": hessian,
            "kronecker": kron,
            "eigenvalues": jnp.linalg.eigvalsh(hessian),
            "binary": binary,
            "two classes": jax.vmap(cross_entropy)(z, pair),
            "binary slope": jax.vmap(jax.grad(cross_entropy))(z[:, 0], y[:, 0]),
            "residual": logistic_function(z[:, 0]) - y[:, 0],
            "extreme": cross_entropy(jnp.array([1e3, -1e3, 0.0]), jnp.eye(3)[1]),
        }

    m = measure(x, y, theta)
    yield equal("two forms of the loss", m["loss"], m["by definition"])
    yield equal("gradient", m["gradient"], m["formula"])
    yield equal("Hessian", m["hessian"], m["kronecker"])
    yield at_least("eigenvalues of the Hessian", m["eigenvalues"], 0.0, atol=1e-14 * dim)
    yield equal("logits of 1000 and -1000", m["extreme"], 2000.0)
    yield equal("two classes as binary cross-entropy", m["two classes"], m["binary"])
    yield equal("derivative of the binary cross-entropy", m["binary slope"], m["residual"])
    yield control("labels sum to one: here to two", equal("two forms of the loss", *m["doubled"]))


@claim(rows=("E02.05", "E02.04", "E02.03"))
def logistic_regression_gradient(key, *, dim: Size = 4, points: Size = 80):
    r"""The gradient of the binary cross-entropy of logistic regression is (probability minus label) times the input.

    For $y\in\{0,1\}$: $-\ln\sigma((2y-1)\,w^\top x)=-y\ln f-(1-y)\ln(1-f)$ with $f=\sigma(w^\top x)$, its gradient is
    $(\sigma(w^\top x)-y)\,x$, and the Hessian of the mean is $\frac1s\sum\sigma(1-\sigma)xx^\top$, between 0 and
    $\frac14\|X\|^2/s$.
    """
    x_key, y_key, w_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (points, dim))
    y = jax.random.bernoulli(y_key, shape=(points,)).astype(float)
    theta = jnp.append(jax.random.normal(w_key, (dim,)), 0.0)  # no bias in the notes

    @jax.jit
    def measure(x, y, theta):
        def signed(w):
            return -jnp.mean(jnp.log(logistic_function((2 * y - 1) * (x @ w))))

        w = theta[:-1]
        return {
            "signed": signed(w),
            "loss": logistic_loss(theta, x, y),
            "gradient": jax.grad(signed)(w),
            "formula": x.T @ (logistic_function(x @ w) - y) / points,
            "library": logistic_gradient(theta, x, y)[:-1],
            "hessian": jax.hessian(signed)(w),
            "curvature": logistic_hessian(theta, x)[:-1, :-1],
            "top": jnp.linalg.eigvalsh(jax.hessian(signed)(w)),
            "flat": jnp.linalg.eigvalsh(jax.hessian(signed)(0 * w))[-1],
            # labels -1 and 1 put into the formula of the loss for 0 and 1
            "signs": -jnp.mean(
                (2 * y - 1) * jnp.log(logistic_function(x @ w)) + (2 - 2 * y) * jnp.log(logistic_function(-x @ w))
            ),
            "bound": jnp.linalg.norm(x, ord=2) ** 2 / (4 * points),
        }

    m = measure(x, y, theta)
    yield equal("two forms of the loss", m["signed"], m["loss"])
    yield equal("gradient by automatic differentiation", m["gradient"], m["formula"])
    yield equal("gradient of the library", m["library"], m["formula"])
    yield equal("Hessian", m["hessian"], m["curvature"])
    yield at_least("eigenvalues of the Hessian", m["top"], 0.0, atol=1e-14)
    yield at_most("largest eigenvalue of the Hessian", m["top"][-1], m["bound"])
    yield equal("at w = 0 the bound is attained", m["flat"], m["bound"])
    yield control("labels are 0 and 1: here -1 and 1", equal("two forms of the loss", m["signed"], m["signs"]))


@claim(rows=("E02.06",), full={"steps": 400_000})
def stochastic_logistic_regression(key, *, dim: Size = 5, points: Size = 500, steps: Count = 4000):
    r"""Logistic regression by stochastic gradient descent, where a minimiser exists and where none does.

    $w\leftarrow w-\eta_t(\sigma(w^\top x_i)-y_i)x_i$ with $\eta_t\propto1/(t_0+t)$ approaches the minimum that
    Newton's method finds. On separable data there is no minimiser: under gradient descent $\|w\|$ grows without end,
    and the margin of $w/\|w\|$ rises to the greatest one: it is at least $-\ln(e^{s\ell(w)}-1)/\|w\|$.
    """
    data_key, sgd_key, cloud_key = jax.random.split(key, 3)
    x, y = logistic_data(jnp.append(jnp.ones(dim) / dim**0.5, 0.0), points, key=data_key)
    y = y.astype(float)
    best = fit_newton(x, y)

    loss = BatchLoss(lambda theta, data: logistic_loss(theta, *data))
    schedule = optax.sgd(lambda t: 20.0 / (100.0 + t))
    start = jnp.zeros(dim + 1)
    run = train(start, loss, (x, y), schedule, steps=steps, key=sgd_key, batch_size=1)
    excess = loss(run.network, (x, y)) - best.loss
    yield equal("gradient at Newton's minimiser", logistic_gradient(best.theta, x, y), 0.0, atol=1e-10)
    yield at_least("loss after stochastic descent", best.loss + excess, best.loss)
    # With the step c/t the excess is c tr(H)/(4t) on average, because noise and curvature H are equal at a maximum of
    # likelihood, and tr(H) is at most (d + 1)/4. It is distributed like a mean of d + 1 squares of normals.
    average = 20.0 * (dim + 1) / 16 / (100 + steps)
    yield at_most("excess loss after stochastic descent", excess, average * stats.chi2.isf(1e-6, dim + 1) / (dim + 1))

    side = jnp.where(jnp.arange(40) < 20, 1.0, -1.0)
    cloud = jax.random.uniform(cloud_key, (40, 2), minval=-1.0, maxval=1.0)
    cloud = cloud.at[:, 0].set(side * (0.5 + jnp.abs(cloud[:, 0])))  # margin of at least 1/2 along the first axis
    widest = max_margin(cloud, side, bias=False)

    bare = BatchLoss(lambda w, data: logistic_loss(jnp.append(w, 0.0), *data))

    # every fourth point of the second class has the wrong label
    mixed = jnp.where((jnp.arange(40) >= 20) & (jnp.arange(40) % 4 == 0), 1.0, side)

    @jax.jit
    def descend(sides):
        run = lambda s: train(  # noqa: E731
            jnp.zeros(2),
            bare,
            (cloud, (s + 1) / 2),
            optax.sgd(2.0),
            steps=steps,
            measure=lambda w: w,
            every=steps // 20,
        )
        return jax.vmap(lambda s: run(s).record[1:])(sides)

    path, settled = descend(jnp.stack([side, mixed]))
    times = jnp.arange(1, 21) * (steps // 20)
    norms = jnp.linalg.norm(path, axis=1)
    margins = jnp.min(path @ (side[:, None] * cloud).T, axis=1) / norms
    # a point of the smallest margin alone makes the loss at least ln(1 + e^-(margin * norm)) / 40
    losses = jax.vmap(lambda w: bare(w, (cloud, (side + 1) / 2)))(path)
    least = -jnp.log(jnp.expm1(40 * losses))
    yield monotone("norm on separable data", norms, strict=True, x=times, along="step")
    yield at_most("margin of the direction of w", margins, widest.margin, x=times, along="step")
    yield at_least("margin of the direction of w, from the loss", margins, least / norms, x=times, along="step")
    # w is near ln t times the largest-margin vector, of length 1 / margin; half of what a fourfold time adds
    growth = 0.5 * jnp.log(4.0) / widest.margin
    yield at_least("growth of the norm from a quarter of the time on", norms[-1] - norms[4], growth)
    ends = jnp.linalg.norm(settled, axis=1)
    yield control(
        "the data are separable: here some labels are wrong",
        at_least("growth of the norm from a quarter of the time on", ends[-1] - ends[4], growth),
    )
