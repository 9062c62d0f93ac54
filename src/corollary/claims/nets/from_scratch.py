"""The multilayer perceptron written from scratch in section 2.7 of text B, as printed and corrected."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from corollary.claims.nets._pictures import curves, scatter
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, printed
from corollary.foundations import binary_cross_entropy
from corollary.linear import logistic_function
from corollary.nets import MLP, bayes_logit, book_two_gaussians, parameter_count, relu
from corollary.nets.from_scratch import backward, bce_backward, bce_forward, forward, gd_step, initial_parameters, run
from corollary.nets.two_gaussians import COVARIANCES, MEANS, two_gaussians
from corollary.network.losses import cross_entropy

SIZES = (2, 200, 200, 1)


def _gradients(parameters, x, y, *, divide_again):
    """The listing's backward pass, as one vector, and the derivative by the input."""
    logits, inputs = forward(parameters, x)
    slopes, by_x = backward(parameters, inputs, bce_backward(bce_forward(logits, y)[1], y), divide_again=divide_again)
    return ravel_pytree(slopes)[0], by_x


def _loss(parameters, x, y):
    """The same network and loss, written independently of the listing."""
    for layer in parameters[:-1]:
        x = jax.nn.relu(x @ layer.weight + layer.bias)
    logits = x @ parameters[-1].weight + parameters[-1].bias
    return jnp.mean(jax.vmap(cross_entropy)(logits, y))


def _batch(key, n):
    x, y = two_gaussians(n, key=key)
    return x, y[:, None].astype(float)


@claim(rows=("B02.22", "B02.23", "B02.24", "B02.21"))
def backward_pass(key, *, n: Size = 20, hidden: Size = 7):
    r"""The backward pass of the from-scratch network, divided by N once, is the gradient of its loss.

    For the mean binary cross-entropy of $N$ points, $dZ=(\hat y-y)/N$ at the logits; through a layer $Z=XW+b$,
    $dW=X^\top dZ$, $db=\sum_idZ_i$, $dX=dZW^\top$; through ReLU, $dX\cdot1[Z>0]$. Measured by automatic differentiation
    and central differences of an independent implementation. $[2,200,200,1]$ has 41001 parameters.
    """
    data_key, net_key = jax.random.split(key)
    x, y = _batch(data_key, n)
    # biases other than 0: a point that no unit of the first layer sees would lie on the kinks of the second
    parameters = jax.tree.map(lambda a: a + 0.1, initial_parameters((2, hidden, hidden, 1), key=net_key))
    h = 1e-7

    @jax.jit
    def measure(parameters, x, y):
        flat, back = ravel_pytree(parameters)
        squared = lambda p: jnp.mean((logistic_function(forward(p, x)[0]) - y) ** 2)  # noqa: E731
        moves = jax.vmap(lambda e: (_loss(back(flat + h * e), x, y) - _loss(back(flat - h * e), x, y)) / (2 * h))
        return {
            "once": _gradients(parameters, x, y, divide_again=False),
            # another loss of the same outputs
            "squared": ravel_pytree(jax.grad(squared)(parameters))[0],
            "autodiff": (ravel_pytree(jax.grad(_loss)(parameters, x, y))[0], jax.grad(_loss, 1)(parameters, x, y)),
            "central": moves(jnp.eye(flat.size)),
            "losses": (bce_forward(forward(parameters, x)[0], y)[0], _loss(parameters, x, y)),
        }

    m = measure(parameters, x, y)
    yield equal("loss", *m["losses"])
    yield equal("gradient by all parameters", m["autodiff"][0], m["once"][0])
    yield equal("gradient by the input", m["autodiff"][1], m["once"][1])
    # losses of the size 1 are rounded at a few 1e-16 and divided by 2h; a kink of one of the 14 units lies within h
    # of one of the 20 points in one run of ten thousands
    yield equal("gradient by central differences", m["central"], m["once"][0], rtol=0, atol=3e-15 / h)
    count = parameter_count(MLP(SIZES, relu, key=key))
    yield equal("parameters of [2, 200, 200, 1]", count, 41001, rtol=0, atol=0)
    yield equal("the listing's own count", parameter_count(initial_parameters(SIZES, key=key)), count, rtol=0, atol=0)
    yield control(
        "the loss is the cross-entropy: here the squared error",
        equal("gradient by all parameters", m["squared"], m["once"][0]),
    )


@claim(
    rows=("B02.22", "B02.23"),
    erratum="The loss already divides by N and every layer divides by N again: all gradients are N times too small.",
)
def backward_pass_as_printed(key, *, n: Size = 20, hidden: Size = 7):
    r"""The backward pass of the listing as printed is the gradient of its loss.

    As printed, `BCE.backward` returns $(\hat y-y)/N$ (its comment says $\hat y-y$) and `LinearLayer.backward` computes
    $dW=\frac1NX^\top dZ$ and $db=\frac1N\sum_idZ_i$.
    """
    data_key, net_key = jax.random.split(key)
    x, y = _batch(data_key, n)
    parameters = initial_parameters((2, hidden, 1), key=net_key)
    measured, _ = _gradients(parameters, x, y, divide_again=True)
    exact = ravel_pytree(jax.grad(_loss)(parameters, x, y))[0]
    yield equal("divided once, corrected", _gradients(parameters, x, y, divide_again=False)[0], exact)
    yield equal("printed gradient times N", 2 * n * measured, exact)
    yield printed(equal("printed gradient", measured, exact))


@claim(
    rows=("B02.24",), erratum="The list [d_in, 10, 5, d_out] makes two hidden layers, of 10 and of 5 units, not three."
)
def hidden_layers_of_the_example(key):
    r"""The widths [d_in, 10, 5, d_out] make a network with three hidden layers.

    As printed in the listing. Three is the number of linear layers.
    """
    parameters = initial_parameters((2, 10, 5, 1), key=key)
    hidden = [a.shape[1] for a in forward(parameters, jnp.ones((1, 2)))[1][1:]]  # what enters all layers but the first
    yield equal("units of the hidden layers", hidden, [10, 5], rtol=0, atol=0)
    yield equal("linear layers", len(parameters), 3, rtol=0, atol=0)
    yield printed(equal("hidden layers", len(hidden), 3, rtol=0, atol=0))


@claim(rows=("B02.25",))
def weight_decay(key, *, hidden: Size = 6, steps: Count = 40):
    r"""The listing's weight decay shrinks the weights by 1 - λ a step whatever the learning rate, and not the biases.

    $W\leftarrow W-(\eta\,dW+\lambda W)$, $b\leftarrow b-\eta\,db$. Without a gradient $W_k=(1-\lambda)^kW_0$. The
    usual decay multiplies by $1-\eta\lambda$. With $\lambda=0$ it is plain gradient descent.
    """
    data_key, net_key = jax.random.split(key)
    x, y = _batch(data_key, 20)
    parameters = initial_parameters((2, hidden, 1), key=net_key)
    parameters = jax.tree.map(lambda a: a + 0.1, parameters)  # biases that could decay
    eta, decay = 0.1, 0.05

    @jax.jit
    def measure(parameters):
        nothing = jax.tree.map(jnp.zeros_like, parameters)

        def repeat(coupled):
            body = lambda p, _: (gd_step(p, nothing, eta, decay, coupled=coupled),) * 2  # noqa: E731
            return jax.lax.scan(body, parameters, length=steps)[1]

        slopes = jax.grad(_loss)(parameters, x, y)
        updates, _ = (plain := optax.sgd(eta)).update(slopes, plain.init(parameters))

        def descend(p, _):
            return (gd_step(p, jax.grad(_loss)(p, x, y), eta, decay),) * 2

        driven = jax.lax.scan(descend, parameters, length=steps)[1]
        ends = gd_step(parameters, slopes, eta), optax.apply_updates(parameters, updates)
        return repeat(False), repeat(True), *ends, driven

    listing, usual, stepped, plain, driven = measure(parameters)
    k = jnp.arange(1, steps + 1)[:, None, None]
    weight = parameters[0].weight
    yield equal("weights without a gradient", listing[0].weight, (1 - decay) ** k * weight, along="step")
    yield equal("biases without a gradient", listing[0].bias, parameters[0].bias, rtol=0, atol=0)
    yield equal("weights, decay times the step", usual[0].weight, (1 - eta * decay) ** k * weight)
    yield equal("without decay", ravel_pytree(stepped)[0], ravel_pytree(plain)[0], rtol=1e-14)
    yield control(
        "there is no gradient: here there is that of the loss",
        equal("weights", driven[0].weight, (1 - decay) ** k * weight, along="step"),
    )


@claim(rows=("B02.26", "B02.28"), full={"n": 1_000_000})
def two_gaussian_classes(key, *, n: Size = 100_000):
    r"""The data of the listing, and the best that can be done on them.

    Class 0 is $N((2,2),\begin{pmatrix}2&1\\1&2\end{pmatrix})$, class 1 is
    $N((-1,-1),\begin{pmatrix}2&-1\\-1&2\end{pmatrix})$, 1000 points each. The posterior probability given
    by the two densities has the accuracy 0.9461 and the cross-entropy 0.1416; no classifier does better.
    """
    x, y = two_gaussians(n, key=key)
    logit = bayes_logit(x)
    right = ((logit > 0) == (y == 1)).astype(float)
    # the quoted values are themselves averages of four million points: good to about 1e-4
    yield estimate("accuracy of the posterior", right, 0.9461, wrong=0.9361)
    yield estimate("cross-entropy of the posterior", jax.vmap(cross_entropy)(logit, y), 0.1416, wrong=0.1516)
    wide = jnp.asarray(MEANS)[y] + 1.5 * (x - jnp.asarray(MEANS)[y])
    yield control(
        "the points have these covariances: here 1.5 squared times as large",
        estimate("cross-entropy", jax.vmap(cross_entropy)(bayes_logit(wide), y), 0.1416, wrong=0.1516),
    )
    book = book_two_gaussians()
    classes = np.asarray(book.x).reshape(2, 1000, 2)
    # four standard errors of 1000 points: sqrt(2/1000) of a mean, at most sqrt(8/1000) of a covariance
    yield equal("means of the book's points", classes.mean(1), MEANS, rtol=0, atol=4 * (2 / 1000) ** 0.5)
    covariances = np.stack([np.cov(c.T) for c in classes])
    yield equal("covariances of the book's points", covariances, COVARIANCES, rtol=0, atol=4 * (8 / 1000) ** 0.5)
    yield scatter("the data", book.x, book.y)


@claim(rows=("B02.27", "B02.28"), full={"n": 1000, "steps": 500})
def training_run(key, *, n: Size = 150, steps: Count = 60):
    r"""The training run of the listing, corrected, comes as close as one can; as printed it hardly moves.

    A network $[2,200,200,1]$ on $n$ points of each class, full-batch gradient descent with the step 0.5. With the
    gradient as printed the run is the corrected one with the step divided by $N=2n$, exactly: with
    $n=1000$ and seed 0, 500 steps bring the loss from 0.7227 to 0.6085, and to 0.1298 when corrected.
    """
    x, y = book_two_gaussians(n)
    y = y[:, None].astype(float)
    parameters = initial_parameters(SIZES, key=key)

    @jax.jit
    def measure(parameters, x, y, shuffled):
        fixed = run(parameters, x, y, step=0.5, steps=steps)
        literal = run(parameters, x, y, step=0.5, steps=steps, divide_again=True)
        blind = run(parameters, x, shuffled, step=0.5, steps=steps)

        # the same descent by automatic differentiation of an independent network
        def descend(p, _):
            loss, slopes = jax.value_and_grad(_loss)(p, x, y)
            return jax.tree.map(lambda a, g: a - 0.5 / (2 * n) * g, p, slopes), loss

        slow, slow_losses = jax.lax.scan(descend, parameters, length=steps)
        p = logistic_function(forward(fixed.parameters, x)[0])
        bayes = logistic_function(bayes_logit(x))[:, None]
        best = jnp.mean(binary_cross_entropy(y, bayes)), jnp.mean((bayes > 0.5) == (y > 0.5))
        return fixed, literal, blind.losses[-1], (slow, slow_losses), p, *best

    shuffled = jax.random.permutation(key, y)
    fixed, literal, blind, (slow, slow_losses), p, best_loss, best_accuracy = measure(parameters, x, y, shuffled)
    yield equal("run as printed, against the step divided by N", literal.losses, slow_losses, rtol=1e-10, along="step")
    ends = ravel_pytree(literal.parameters)[0], ravel_pytree(slow)[0]
    yield equal("its parameters at the end", *ends, atol=1e-10)
    # 0.015 is a choice: near enough to the cross-entropy of the posterior to tell the two runs apart
    yield at_most("loss at the end, corrected", fixed.losses[-1], best_loss + 0.015)
    yield at_least("accuracy at the end, corrected", fixed.accuracies[-1], best_accuracy - 0.015)
    yield at_least("loss at the end, as printed", literal.losses[-1], 2 * best_loss)
    yield control(
        "the labels belong to the points: here shuffled", at_most("loss at the end", blind, best_loss + 0.015)
    )
    steps_of = np.arange(steps)
    flat = np.full(steps, float(best_loss))
    lines = {"corrected": fixed.losses, "as printed": literal.losses, "posterior": flat}
    yield curves("training loss", steps_of, lines, "iteration", "loss")
    lines = {
        "corrected": fixed.accuracies,
        "as printed": literal.accuracies,
        "posterior": 0 * flat + float(best_accuracy),
    }
    yield curves("training accuracy", steps_of, lines, "iteration", "accuracy")
    yield scatter("predictions", x, (p > 0.5)[:, 0])
