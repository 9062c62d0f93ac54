"""Deep linear classifiers under the cross-entropy: gradients, and how they grow with the depth."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.landscape._linear_data import normal_chain
from corollary.evidence import Range, Size, at_most, claim, control, equal, estimate, printed
from corollary.landscape import classifier_passes


def _examples(key, examples, inputs, classes):
    x = jax.random.normal(jax.random.fold_in(key, 1), (examples, inputs))
    return x, jax.random.randint(jax.random.fold_in(key, 2), (examples,), 0, classes)


def _total(weights, x, y, bend=0.0):
    """The sum of the cross-entropies, from the logits of all examples at once; `bend` 1 makes the hidden units tanh."""
    hidden = x
    for w in weights[:-1]:
        z = hidden @ w.T
        hidden = z + bend * (jnp.tanh(z) - z)
    logits = hidden @ weights[-1].T
    return jnp.sum(jax.nn.logsumexp(logits, axis=1) - jnp.take_along_axis(logits, y[:, None], 1)[:, 0])


@claim(rows=("B06.22",))
def backward_pass(key, *, inputs: Size = 5, classes: Annotated[int, Range(2, 10)] = 4, examples: Size = 20):
    r"""The backward pass of a deep linear classifier gives the gradient of the cross-entropy.

    For $z=W^L\cdots W^1x$, $p=\mathrm{softmax}(z)$, $\ell=-\ln p_y$: $\delta^L=p-e_y$,
    $\delta^l=(W^{l+1})^\top\delta^{l+1}$, $\partial\ell/\partial W^l=\delta^l(a^{l-1})^\top=(W^L\cdots W^{l+1})^\top
    (p-e_y)\,(W^{l-1}\cdots W^1x)^\top$, and $\|p-e_y\|\le\sqrt2$.
    """
    sizes = (inputs, 4, 3, 3, classes)

    @jax.jit
    def measure(key):
        weights = normal_chain(key, sizes)
        x, y = _examples(key, examples, inputs, classes)
        passes = jax.vmap(lambda x, y: classifier_passes(weights, x, y))(x, y)
        formula = [g.sum(0) for g in passes.gradients]
        # linear hidden units, and tanh
        both = jax.vmap(lambda bend: jax.value_and_grad(_total)(weights, x, y, bend))(jnp.array([0.0, 1.0]))
        return both, passes.loss.sum(), formula, passes.errors

    (value, slopes), loss, formula, errors = measure(key)
    yield equal("loss", loss, value[0])
    for layer, (measured, predicted) in enumerate(zip(slopes, formula, strict=True), 1):
        yield equal(f"gradient of layer {layer}", measured[0], predicted, atol=1e-11)
    yield control("linear hidden units: here tanh", equal("gradient of layer 1", slopes[0][1], formula[0], atol=1e-11))
    # two probability vectors are at most a diagonal of the unit square apart
    yield at_most("norm of the last error", jnp.linalg.norm(errors[-1], axis=1), np.sqrt(2.0))


@claim(rows=("B06.22",), erratum="The activations before layer l are the product with the last of the layers first.")
def printed_order(key, *, dim: Annotated[int, Range(2, 8)] = 3, examples: Size = 20):
    r"""The gradient of a deep linear classifier with the product of the earlier layers in the printed order.

    As printed: $\partial\ell/\partial W^l=\delta^l(\prod_{k=1}^{l-1}W^kx)^\top$, where "the product indicates the
    ordered multiplication" of $\prod_{k=l+1}^L(W^k)^\top=(W^{l+1})^\top\cdots(W^L)^\top$, the first factor on the left.
    So read it is $W^1\cdots W^{l-1}x$, and not $W^{l-1}\cdots W^1x$, as in the line after. All dimensions are equal, so
    that it exists; $l=3$.
    """

    @jax.jit
    def measure(key):
        weights = normal_chain(key, (dim,) * 5)
        x, y = _examples(key, examples, dim, dim)
        passes = jax.vmap(lambda x, y: classifier_passes(weights, x, y))(x, y)
        orders = weights[0] @ weights[1], weights[1] @ weights[0]
        return jax.grad(_total)(weights, x, y)[2], [passes.errors[2].T @ (x @ w.T) for w in orders]

    slope, (first_left, first_right) = measure(key)
    yield printed(equal("gradient of layer 3, the first layer on the left", slope, first_left, atol=1e-9))
    yield equal("gradient of layer 3, the first layer on the right", slope, first_right, atol=1e-9)


@claim(rows=("B06.22",))
def gradient_growth(
    key, *, width: Annotated[int, Range(16, 64)] = 24, draws: Annotated[int, Range(4000, 20000)] = 4000
):
    r"""The gradients of a deep linear classifier grow or vanish with the gain to the power of the depth.

    Let all hidden layers and the input have $d$ units, and the weights be independent normal with variance
    $\sigma^2$. For inputs so small that $p=\frac1k$ throughout, $\mathbb E\|\partial\ell/\partial W^l\|_F^2=
    (1-\frac1k)\|x\|^2(d\sigma^2)^{L-1}$ for every layer $l$. For any input
    $\mathbb E\|\partial\ell/\partial W^l\|_F^2\le2(k-1)\|x\|^2(d\sigma^2)^{L-1}$, as $p-e_y$ is a convex combination of
    the $e_i-e_y$; the text's argument, which treats $p$ as independent of the weights, would give the factor 2. So
    $\sigma=1/\sqrt d$ keeps the gradients of one size at all depths.
    """
    classes, gains, depths = 4, np.array([0.5, 1.0, 2.0]), (2, 4, 6)

    @jax.jit
    def measure(key):
        x = jax.random.normal(key, (width,))
        x = x / jnp.linalg.norm(x)

        def squares(depth):
            sizes = (width,) * depth + (classes,)

            def one(key):
                unit = normal_chain(key, sizes, 1 / jnp.sqrt(width))

                def of(gain, scale):
                    passes = classifier_passes([jnp.sqrt(gain) * w for w in unit], scale * x, 0)
                    return jnp.stack([jnp.sum(g**2) for g in passes.gradients]) / scale**2

                scales = jnp.array([1e-6, 1.0])
                return jax.vmap(lambda s: jax.vmap(lambda g: of(g, s))(jnp.asarray(gains)))(scales)

            # in pieces, so that the matrices of all draws are never there at once
            return jax.lax.map(one, jax.random.split(jax.random.fold_in(key, depth), draws), batch_size=250)

        def lifted(key):
            # deep, of gain 1 and small input, with weights of a mean above zero
            weights = normal_chain(key, (width,) * depths[-1] + (classes,), 1 / jnp.sqrt(width))
            passes = classifier_passes([w + 0.5 / jnp.sqrt(width) for w in weights], 1e-6 * x, 0)
            return jnp.mean(jnp.stack([jnp.sum(g**2) for g in passes.gradients])) / 1e-12

        return [jnp.swapaxes(squares(depth), 0, 1) for depth in depths], jax.vmap(lifted)(jax.random.split(key, 500))

    found, lifted = measure(key)
    for depth, (small, large) in zip(depths, found, strict=True):
        growth = gains ** (depth - 1)
        # over the layers of a draw the squares differ little; the mean of the draws is what is compared
        relative = np.asarray(small).mean(2) / growth
        yield estimate(
            f"{depth} layers, small input: mean square over its growth",
            relative,
            np.full(3, 1 - 1 / classes),
            wrong=np.full(3, 1.2 * (1 - 1 / classes)),
        )
        mean = np.asarray(large).mean(0)
        yield at_most(
            f"{depth} layers, input of length 1: mean square",
            mean,
            np.outer(2 * (classes - 1) * growth, np.ones(depth)),
        )
    yield control(
        "weights of mean zero: here above", estimate("small input: mean square", lifted, 1 - 1 / classes, wrong=0.0)
    )
