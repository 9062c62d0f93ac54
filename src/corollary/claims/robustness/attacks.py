"""Sign steps, projected ascent and targets, where the largest loss is known."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, monotone, rate
from corollary.nets import MLP, tanh
from corollary.robustness import Ball, QuantisedInput, fgsm, pgd


def _linear(w):
    return Network(lambda w, x: (w @ x)[None], w)


@claim(rows=("B12.04", "T18.06"))
def sign_step(key, *, dim: Size = 20, n: Size = 50):
    r"""The sign step raises a linear function by the sum of its slopes, and any loss so to first order.

    $x+\epsilon\,\mathrm{sign}\nabla_x\ell$: for a loss that falls with the margin of a linear model the step attains
    the worst case of the cube $\|\delta\|_\infty\le\epsilon$, the margin $yw\cdot x-\epsilon\|w\|_1$, for every
    $\epsilon$; the gradient itself, scaled into the same cube, takes $\epsilon\|w\|_2^2/\|w\|_\infty$ only. For a twice
    differentiable loss $\ell(x+\epsilon\,\mathrm{sign}g)-\ell(x)=\epsilon\|g\|_1+O(\epsilon^2)$, $g=\nabla_x\ell$. If
    no entry of $g$ is 0 a gradient step that is long enough, clipped to the cube, is the sign step.
    """
    sizes = 2.0 ** -np.arange(4, 12)

    @jax.jit
    def measure(key):
        w_key, x_key, net_key = jax.random.split(key, 3)
        w, x = jax.random.normal(w_key, (dim,)), jax.random.normal(x_key, (n, dim))
        y = jnp.sign(x @ w)
        data, radii = (x, y), jnp.array([0.01, 0.3, 2.0])
        stepped = jax.vmap(lambda r: fgsm(_linear(w), "logistic", data, Ball(np.inf, r)).inputs @ w)(radii)
        scaled = y * (x @ w) - radii[:, None] * (w @ w) / jnp.abs(w).max()
        # the slope is exp(-m) times an entry of w or so, for margins m of up to |w||x|, which is below 40
        far = {"steps": 1, "step": 1e30, "direction": "gradient", "stop": False}
        long = pgd(_linear(w), "logistic", data, Ball(np.inf, 0.3), **far)
        network = MLP((dim, 16, 3), tanh, key=net_key)
        labels = jnp.argmax(jax.vmap(network)(x), 1)

        def remainders(network, loss, x, labels):
            before, slopes = jax.vmap(jax.value_and_grad(lambda x, y: loss(network(x), y)))(x, labels)
            at = lambda r: fgsm(network, loss, (x, labels), Ball(np.inf, r)).loss  # noqa: E731
            return jnp.abs(jax.vmap(at)(sizes) - before - sizes[:, None] * jnp.abs(slopes).sum(1)).mean(1)

        entropy = lambda output, y: -jax.nn.log_softmax(output)[y]  # noqa: E731
        smooth = remainders(network, entropy, x, labels)
        size = lambda output, y: jnp.abs(output[0] - y)  # noqa: E731
        kink = remainders(_linear(w), size, x, x @ w)
        return {
            "margins": (y * stepped, y * (x @ w) - radii[:, None] * jnp.abs(w).sum()),
            "scaled": scaled,
            "long": (long.inputs, x - 0.3 * y[:, None] * jnp.sign(w)),
            "smooth": smooth,
            "kink": kink,
        }

    found = measure(key)
    # sums of `dim` products of size one
    yield equal("margin after the step", *found["margins"], atol=1e-12)
    yield at_most("margin after the sign step, against the scaled gradient", found["margins"][0], found["scaled"])
    yield equal("a long gradient step, clipped", *found["long"], rtol=0, atol=1e-12)
    yield rate("what is not first order", sizes, found["smooth"], 2.0, tolerance=0.1, along="ε")
    yield control(
        "differentiable: here an absolute value, at its kink",
        rate("what is not first order", sizes, found["kink"], 2.0, tolerance=0.1, along="ε"),
    )


@claim(rows=("B12.03", "T18.05", "B12.02"), full={"networks": 200})
def projected_ascent(key, *, networks: Count = 24, steps: Annotated[int, Range(20, 200)] = 40, side: Size = 400):
    r"""Projected ascent stays in the ball, finds the worst case of linear models, and nearly that of planar networks.

    $x\leftarrow\Pi(x+\eta\nabla_x\ell(x,y))$ with the nearest point $\Pi$ of $\{\|x-x_0\|_p\le r\}$: every iterate is
    in the ball; for a linear model and $p=2$ it ends at the margin $yw\cdot x-r\|w\|_2$; for small $\eta$ the loss does
    not fall from one step to the next. With steepest steps and some 500 restarts on random tanh networks with three
    classes in the plane the loss is within 1 % of the largest on a grid of 400 times 400 points, in each of the three
    norms. Where inputs are rounded first there is no slope to follow, and it is not.
    """
    lengths = (1, 2, 4, 8, 16, 32)

    @jax.jit
    def measure(key):
        w_key, x_key, net_key, p_key, r_key = jax.random.split(key, 5)
        w, x = jax.random.normal(w_key, (10,)), jax.random.normal(x_key, (20, 10))
        y = jnp.sign(x @ w)
        plain = [
            pgd(_linear(w), "logistic", (x, y), Ball(2, 0.5), steps=k, step=0.1, direction="gradient", stop=False)
            for k in lengths
        ]
        far = pgd(_linear(w), "logistic", (x, y), Ball(2, 0.5), steps=200, step=5.0, direction="gradient", stop=False)
        line = jnp.linspace(-1, 1, side)
        grid = jnp.stack(jnp.meshgrid(line, line), -1).reshape(-1, 2)

        def one(keys):
            start, point, restart = keys
            network = MLP((2, 16, 3), tanh, key=start, initialisation=lambda k, s, d: 1.5 * jax.random.normal(k, s, d))
            x = jax.random.normal(point, (1, 2))
            # no labels but their indicators: an attack on classes prefers another class to a larger loss
            y = jax.nn.one_hot(jnp.argmax(jax.vmap(network)(x), 1), 3)
            loss = lambda output, y: -y @ jax.nn.log_softmax(output)  # noqa: E731
            around = jax.vmap(lambda z: loss(network(x[0] + 0.7 * z), y[0]))(grid)
            attacks, largest = [], []
            for p in (1, 2, np.inf):
                largest.append(jnp.max(jnp.where(jnp.linalg.norm(grid, p, axis=1) <= 1, around, -jnp.inf)))
                # some peaks are narrow: 16 copies of the example side by side, each with random starts of its own
                copies = jnp.repeat(x, 16, 0), jnp.repeat(y, 16, 0)
                made = pgd(network, loss, copies, Ball(p, 0.7), steps=steps, restarts=30, stop=False, key=restart)
                attacks.append((made.loss.max(), made.distance.max()))
            rounded = QuantisedInput(network, 9, -4.0, 4.0)
            blind = pgd(rounded, loss, (x, y), Ball(np.inf, 0.7), steps=steps, stop=False)
            seen = jax.vmap(lambda z: loss(rounded(x[0] + 0.7 * z), y[0]))(grid)
            return attacks, largest, blind.loss[0], seen.max()

        keys = [jax.random.split(k, networks) for k in (net_key, p_key, r_key)]
        planar = jax.lax.map(one, keys)
        exact = y * (x @ w) - 0.5 * jnp.linalg.norm(w)
        ends = jnp.stack([a.loss for a in plain]), jnp.stack([a.distance for a in plain])
        return ends, (y * (far.inputs @ w), exact), planar

    (losses, distances), worst, (attacks, largest, blind, seen) = measure(key)
    yield at_most("distance from the example", distances, 0.5)
    yield monotone("mean loss with the number of small steps", np.asarray(losses).mean(1), "increasing")
    # the direction of the last iterates differs from that of w by the square root of the rounding of their product
    yield equal("margin of linear models", *worst, rtol=1e-9)
    for p, (loss, distance), on_grid in zip((1, 2, "infinity"), attacks, largest, strict=True):
        yield at_least(f"largest loss found, p = {p}", loss, 0.99 * np.asarray(on_grid))
        yield at_most(f"distance, p = {p}", distance, 0.7)
    yield control(
        "the loss has a slope: here inputs are rounded", at_least("largest loss found", blind, 0.99 * np.asarray(seen))
    )


@claim(rows=("T18.07",))
def targeted_ascent(key, *, dim: Size = 6, n: Size = 30, classes: Annotated[int, Range(3, 20)] = 5):
    r"""Towards a class, the cross-entropy leaves the difference of two outputs: the partition function cancels.

    $\nabla_x\ell(x,y)-\nabla_x\ell(x,y')=\nabla_x(f_{y'}-f_y)$ for $\ell=\ln\sum_je^{f_j}-f_y$. On a linear network the
    ascent along it ends at $f_{y'}-f_y$ plus $r$ times the dual norm of the difference of both rows of weights; whether
    the class $y'$ is reached is what the outputs there say. With the squared error of the probabilities the difference
    is another one.
    """

    @jax.jit
    def measure(key):
        net_key, x_key, t_key = jax.random.split(key, 3)
        network = MLP((dim, 12, classes), tanh, key=net_key)
        linear = MLP((dim, classes), key=net_key, bias=False)
        x = jax.random.normal(x_key, (n, dim))
        y = jnp.argmax(jax.vmap(linear)(x), 1)
        target = (y + jax.random.randint(t_key, (n,), 1, classes)) % classes
        entropy = lambda output, y: jax.nn.logsumexp(output) - output[y]  # noqa: E731
        squared = lambda output, y: jnp.sum((jax.nn.softmax(output) - jax.nn.one_hot(y, classes)) ** 2)  # noqa: E731

        def slope(loss, x, y, target):
            return jax.grad(lambda x: loss(network(x), y) - loss(network(x), target))(x)

        towards = jax.vmap(jax.grad(lambda x, y, t: network(x)[t] - network(x)[y]))(x, y, target)
        slopes = [
            jax.vmap(lambda x, y, t, loss=loss: slope(loss, x, y, t))(x, y, target) for loss in (entropy, squared)
        ]
        weight = linear.layers[0].weight
        difference = weight[target] - weight[y]
        ends, exact, hit = [], [], []
        for p, q in ((1, np.inf), (2, 2), (np.inf, 1)):
            made = pgd(linear, "cross_entropy", (x, y), Ball(p, 0.4), target=target, stop=False)
            ends.append(jnp.sum(difference * made.inputs, 1))
            exact.append(jnp.sum(difference * x, 1) + 0.4 * jnp.linalg.norm(difference, q, axis=1))
            hit.append((made.success, jnp.argmax(made.inputs @ weight.T, 1) == target))
        return slopes, towards, (jnp.stack(ends), jnp.stack(exact)), hit

    (entropy, squared), towards, ends, hit = measure(key)
    yield equal("slope of both cross-entropies", entropy, towards, atol=1e-12)
    yield equal("difference of the outputs at the end", *ends, rtol=1e-9)
    yield equal("targets reached", np.stack([a for a, _ in hit]), np.stack([b for _, b in hit]))
    yield control(
        "cross-entropy: here the squared error of the probabilities",
        equal("slope of both losses", squared, towards, atol=1e-12),
    )
