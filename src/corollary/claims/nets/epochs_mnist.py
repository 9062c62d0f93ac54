"""Softmax regression on MNIST: which steps go with which batches (M Exercise 7.4)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._pictures import curves
from corollary.data import mnist
from corollary.evidence import Count, Probability, Size, at_least, at_most, claim, control, equal, monotone
from corollary.nets import epoch_batches

STEPS = (0.03, 0.1, 0.3, 1.0, 3.0)
BATCHES = (10, 100)


def _loss(w, x, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x @ w.T), y[:, None], axis=1))


@claim(rows=("M07.30",), full={"images": 60_000, "tests": 10_000, "epochs": 5, "least": 0.915})
def step_and_batch(
    key, *, images: Size = 3000, tests: Size = 2000, epochs: Count = 3, least: Probability = 0.8, steps: Count = 30
):
    r"""Softmax regression on MNIST: a larger batch wants a larger step.

    $m(x;\theta)=S_{softmax}(\theta x)$ from $\theta=0$ by minibatch SGD over reshuffled epochs. After equally many
    epochs the step that ends with the least training loss is not smaller for batches of 100 than for batches of 10.
    Gradient descent on all images lowers the loss at every step if $\eta<2/L$ with $L=\frac12\lambda_{\max}(\overline{
    xx^\top})$; that is sufficient and far from necessary: the bound assumes the curvature at its largest, and SGD
    still trains at ten times that step. (A gradient of softmax regression is bounded, so that no step makes it diverge
    exponentially.)
    """
    train, test = mnist("train"), mnist("test")
    etas = jnp.array(STEPS, jnp.float32)

    @jax.jit
    def measure(key, x, y, test_x, test_y):
        x, test_x = (a.reshape(a.shape[0], -1).astype(jnp.float32) / 255 for a in (x, test_x))
        start = jnp.zeros((10, x.shape[1]), jnp.float32)

        def sgd(eta, batch):
            def advance(w, chosen):
                return w - eta * jax.grad(_loss)(w, x[chosen], y[chosen]), None

            def epoch(w, k):
                return jax.lax.scan(advance, w, epoch_batches(images, batch, key=k))[0], None

            w, _ = jax.lax.scan(epoch, start, jax.random.split(key, epochs))
            return _loss(w, x, y), jnp.mean(jnp.argmax(test_x @ w.T, axis=1) == test_y)

        def descent(eta):
            def advance(w, _):
                value, slope = jax.value_and_grad(_loss)(w, x, y)
                return w - eta * slope, value

            return jax.lax.scan(advance, start, length=steps)[1]

        limit = 4 / jnp.linalg.eigvalsh(x.T @ x / images)[-1]
        grid = [jax.vmap(lambda eta, batch=batch: sgd(eta, batch))(etas) for batch in BATCHES]
        losses, accuracies = (jnp.stack(each) for each in zip(*grid, strict=True))
        descents = jax.vmap(descent)(limit * jnp.array([0.99, 100.0], jnp.float32))
        return losses, accuracies, descents, limit

    losses, accuracies, descents, limit = measure(
        key, train.x[:images], train.y[:images], test.x[:tests], test.y[:tests]
    )
    yield at_least("best test accuracy", accuracies.max(), least)
    best = etas[jnp.argmin(losses, axis=1)]
    yield monotone("step with the least training loss, for batches of 10 and of 100", best, along="batch")
    # single precision
    yield monotone("all images, step just below 2/L: the loss", descents[0], "decreasing", atol=1e-6, along="iteration")
    yield equal("loss at the start", descents[0, 0], np.log(10), rtol=1e-6)
    yield at_most("batches of 100, loss at a step near ten times 2/L", losses[1, 3], np.log(10) / 2)
    yield at_least("that step over 2/L", STEPS[3] / limit, 5.0)
    yield control(
        "all images, step 100 times 2/L",
        monotone("the loss", descents[1], "decreasing", atol=1e-6, along="iteration"),
    )
    lines = {f"batches of {b}": row for b, row in zip(BATCHES, accuracies, strict=True)}
    yield curves("accuracy after equally many epochs", np.log10(STEPS), lines, "log10 step", "test accuracy")
