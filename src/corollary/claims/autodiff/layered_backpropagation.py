"""The recursion of sensitivities through multilayer networks, against automatic differentiation."""

from typing import Annotated

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from corollary.autodiff import (
    LOSSES,
    Layer,
    backprop_columns,
    backprop_rows,
    block_backprop,
    dense_block,
    forward_pass,
    layered_backprop,
    random_layers,
    residual_block,
    softmax_block,
)
from corollary.evidence import Range, Size, claim, control, equal, printed

Depth = Annotated[int, Range(2, 12)]


def _flat(tree):
    return ravel_pytree(tree)[0]


@claim(rows=("M06.05",), full={"depth": 10})
def sensitivities(key, *, depth: Depth = 4, instances: Size = 8):
    r"""The recursion of the sensitivities gives the gradient of a multilayer network by all its parameters.

    For $H^\ell=\sigma(Z^\ell)$, $Z^\ell=(W^\ell)^\top H^{\ell-1}+B^\ell$ and $\Lambda=\frac12\|y-H^L\|^2$:
    $\delta^L=(H^L-y)\odot\sigma'(Z^L)$, $\delta^{\ell-1}=(W^\ell\delta^\ell)\odot\sigma'(Z^{\ell-1})$, and then
    $\partial\Lambda/\partial B^\ell=\delta^\ell$, $\partial\Lambda/\partial W^\ell=H^{\ell-1}(\delta^\ell)^\top$.
    Measured for four activations, on layers of different widths.
    """
    widths = [3 + (2 * i) % 5 for i in range(depth + 1)]
    keys = jax.random.split(key, instances)
    names = ["logistic", "tanh", "softplus", "relu"]

    @jax.jit
    def measure(keys):
        def one(key):
            layer_key, x_key, y_key = jax.random.split(key, 3)
            layers = random_layers(widths, key=layer_key, scale=0.7)
            x, y = jax.random.normal(x_key, (widths[0],)), jax.random.normal(y_key, (widths[-1],))
            loss = lambda p, name: LOSSES["squared"][0](forward_pass(p, x, name).post[-1], y)  # noqa: E731
            pairs = [
                (_flat(layered_backprop(layers, x, y, name).gradient), _flat(jax.grad(loss)(layers, name)))
                for name in names
            ]
            ours, theirs = (jnp.stack(each) for each in zip(*pairs, strict=True))
            seen = lambda p: loss(p, "logistic") + jnp.sum(forward_pass(p, x).post[1] ** 2)  # noqa: E731
            return ours, theirs, ours[0], _flat(jax.grad(seen)(layers))

        return jax.vmap(one)(keys)

    ours, theirs, logistic, seen = measure(keys)
    # a few rounding units of the largest entry
    scale = 1 + jnp.abs(theirs).max(axis=-1, keepdims=True)
    yield equal("gradient, over its largest entry", ours / scale, theirs / scale, rtol=0, atol=1e-13)
    top = jnp.abs(seen).max(axis=-1, keepdims=True)
    yield control(
        "the loss sees a hidden layer too, not the output alone",
        equal("gradient, over its largest entry", logistic / top, seen / top, rtol=0, atol=1e-13),
    )


@claim(
    rows=("M06.05",),
    erratum="The sum over the units below runs to the width of the layer itself instead of that below.",
)
def printed_forward_sum(key):
    r"""A unit adds up as many inputs as its own layer has units.

    As printed in section 6.4: $H_j^\ell=\sigma(\sum_{i=1}^{N_\ell}w_{ij}^\ell H_i^{\ell-1}+b_j^\ell)$. Compared with
    the matrix form of the same section, $H^\ell=\sigma((W^\ell)^\top H^{\ell-1}+B^\ell)$, for 4 inputs and 2 units.
    """
    layer_key, x_key = jax.random.split(key)
    (layer,) = random_layers([4, 2], key=layer_key)
    x = jax.random.normal(x_key, (4,))
    matrix = forward_pass([layer], x).post[-1]
    below, own = (jax.nn.sigmoid(x[:n] @ layer.weights[:n] + layer.biases) for n in (4, 2))
    yield equal("sum over the units of the layer below", below, matrix)
    yield printed(equal("sum up to the width of the layer itself", own, matrix))


@claim(rows=("M06.06", "M06.09"))
def any_loss(key, *, instances: Size = 16):
    r"""Changing the loss changes the first sensitivity and nothing else.

    For any differentiable loss of the output, $\delta^L=\nabla_{H^L}\Lambda\odot\sigma'(Z^L)$ and the recursion is as
    before. For the cross-entropy after logistic units $\delta^L=H^L-y$: the slope cancels, so that at a logit of 10
    and the label 0 the sensitivity is 0.99995, where the squared loss has 0.000045.
    """
    widths = [3, 5, 4, 2]

    @jax.jit
    def measure(keys):
        def one(key):
            layer_key, x_key, y_key = jax.random.split(key, 3)
            layers, x = random_layers(widths, key=layer_key), jax.random.normal(x_key, (widths[0],))
            y = jax.random.bernoulli(y_key, shape=(widths[-1],)).astype(x.dtype)

            def value(loss, penalty=0.0):
                def total(p):
                    weights = sum(jnp.sum(layer.weights**2) for layer in p)
                    return LOSSES[loss][0](forward_pass(p, x).post[-1], y) + penalty * weights

                return _flat(jax.grad(total)(layers))

            ours = jnp.stack([_flat(layered_backprop(layers, x, y, loss=name).gradient) for name in LOSSES])
            plugged = _flat(layered_backprop(layers, x, y, loss=lambda h, y: (h - y) / (h * (1 - h))).gradient)
            return ours, jnp.stack([value(name) for name in LOSSES]), plugged, value("cross_entropy", 0.1)

        return jax.vmap(one)(keys)

    ours, theirs, plugged, penalised = measure(jax.random.split(key, instances))
    yield equal("gradients for four losses", ours, theirs, atol=1e-13)
    yield equal("a loss given by its gradient", plugged, theirs[:, -1], atol=1e-13)
    unit = [Layer(jnp.ones((1, 1)), jnp.zeros(1))]
    deltas = [layered_backprop(unit, jnp.array([10.0]), jnp.array([0.0]), loss=n).deltas[0][0] for n in LOSSES]
    saturated = dict(zip(LOSSES, deltas, strict=True))
    yield equal("cross-entropy, saturated and wrong", saturated["cross_entropy"], 0.99995, rtol=0, atol=5e-6)
    yield equal("squared loss, saturated and wrong", saturated["squared"], 4.54e-5, rtol=0, atol=5e-8)
    yield control(
        "a penalty on the weights is no loss of the output alone",
        equal("gradient", ours[:, -1], penalised, atol=1e-13),
    )


@claim(rows=("M06.07", "M06.05"))
def batches(key, *, n: Size = 12):
    r"""A batch as rows or as columns: the gradient of the average is the average of the gradients.

    With the examples as rows, $Z=HW+B$ and the gradient by $W$ is $\frac1nH^\top\delta$, one matrix product a layer;
    with the examples as columns everything is transposed. The first examples are those of the text, $((1,2,3),4)$ and
    $((5,6,7),8)$.
    """
    layer_key, x_key = jax.random.split(key)
    rows = jnp.concatenate([jnp.array([[1.0, 2, 3], [5, 6, 7]]), 4 + 2 * jax.random.normal(x_key, (n, 3))])
    labels = rows.sum(1, keepdims=True) / 2 - jnp.array([-1.0])
    labels = labels.at[:2].set(jnp.array([[4.0], [8.0]]))
    names = ["tanh", "logistic", "linear"]
    layers = random_layers([3, 4, 5, 1], key=layer_key, scale=0.3)

    @jax.jit
    def measure(layers, rows, labels):
        columns = [Layer(w.T, b) for w, b in layers]
        turned = backprop_columns(columns, rows.T, labels.T, names).gradient
        single = jax.vmap(lambda x, y: layered_backprop(layers, x, y, names).gradient)(rows, labels)
        mean = lambda p: jnp.mean(jnp.sum((forward_pass(p, rows, names).post[-1] - labels) ** 2, 1)) / 2  # noqa: E731

        def centred(p):
            """Every output less the average of the batch, so that the examples see each other."""
            out = forward_pass(p, rows, names).post[-1]
            return jnp.mean(jnp.sum((out - out.mean(0) - labels) ** 2, 1)) / 2

        return {
            "rows": _flat(backprop_rows(layers, rows, labels, names).gradient),
            "columns": _flat(tuple(Layer(w.T, b) for w, b in turned)),
            "average": _flat(jax.tree.map(lambda g: g.mean(0), single)),
            "automatic": _flat(jax.grad(mean)(layers)),
            "centred": _flat(jax.grad(centred)(layers)),
        }

    m = measure(layers, rows, labels)
    scale = float(jnp.abs(m["automatic"]).max())
    yield equal("rows", m["rows"], m["automatic"], atol=1e-13 * scale)
    yield equal("columns", m["columns"], m["automatic"], atol=1e-13 * scale)
    yield equal("average over the examples", m["average"], m["automatic"], atol=1e-13 * scale)
    yield control(
        "the batch centres its outputs, so that the loss of an example depends on the others",
        equal("average over the examples", m["average"], m["centred"], atol=1e-13 * scale),
    )


def _blocks(key, classes=4):
    params = [(w.T, b) for w, b in random_layers([3, 5, 5, 5, classes], key=key)]
    kinds = [dense_block("tanh"), residual_block("tanh"), residual_block("softplus"), dense_block("linear")]
    return [*kinds, softmax_block()], [*params, ()]


@claim(rows=("E03.01",))
def through_blocks(key, *, instances: Size = 16):
    r"""Backpropagation needs the transposed Jacobians of the blocks and nothing else about them.

    For $h^\ell=F^\ell[\theta^\ell](h^{\ell-1})$: $\delta^L=\partial\ell/\partial\hat y$, $\delta^\ell=[\partial
    h^{\ell+1}/\partial h^\ell]^\top\delta^{\ell+1}$, $\partial\ell/\partial\theta^\ell=[\partial
    h^\ell/\partial\theta^\ell]^\top\delta^\ell$. Measured on a dense layer, two residual ones, a linear one and a
    softmax with the cross-entropy $-\ln\hat y_c$.
    """

    @jax.jit
    def measure(keys):
        def one(key):
            block_key, x_key = jax.random.split(key)
            blocks, params = _blocks(block_key)
            x = jax.random.normal(x_key, (3,))

            def loss(params, x):
                for block, theta in zip(blocks, params, strict=True):
                    x, _ = block.forward(theta, x)
                return -jnp.log(x[1])

            def last(h):
                return jnp.zeros_like(h).at[1].set(-1 / h[1])

            ours = block_backprop(blocks, params, x, last)
            by_params, by_input = jax.grad(loss, (0, 1))(params, x)
            # both residual blocks with the parameters of the first
            tied = lambda shared: [params[0], shared, shared, *params[3:]]  # noqa: E731
            one_of_two = block_backprop(blocks, tied(params[1]), x, last).params[1]
            by_shared = jax.grad(lambda shared: loss(tied(shared), x))(params[1])
            return (
                _flat(ours.params),
                _flat(tuple(by_params)),
                ours.deltas[0],
                by_input,
                _flat(one_of_two),
                _flat(by_shared),
            )

        return jax.vmap(one)(keys)

    ours, theirs, delta, by_input, one_of_two, by_shared = measure(jax.random.split(key, instances))
    yield equal("gradient by all parameters", ours, theirs, atol=1e-13)
    yield equal("sensitivity of the input", delta, by_input, atol=1e-13)
    yield control(
        "two blocks share their parameters",
        equal("gradient by the parameters of one block", one_of_two, by_shared, atol=1e-13),
    )


@claim(
    rows=("E03.01",),
    erratum="The recurrence is printed with the quotient of the layers' outputs; it needs their derivative.",
)
def printed_quotient(key):
    r"""The sensitivity is passed down by the quotients of the activations.

    As printed: $\delta^\ell=[h^{\ell+1}/h^\ell]^\top\delta^{\ell+1}$, where
    $[\partial h^{\ell+1}/\partial h^\ell]^\top\delta^{\ell+1}$ is right. Measured for layers of one unit, where a
    quotient has a meaning, on $h'=\tanh(wh)$ with the loss $\frac12(h'-2)^2$.
    """
    w, h = jax.random.uniform(key, (2,), minval=0.5, maxval=1.5)
    out = jnp.tanh(w * h)
    above = out - 2.0
    true = jax.grad(lambda h: (jnp.tanh(w * h) - 2.0) ** 2 / 2)(h)
    yield equal("with the derivative", (1 - out**2) * w * above, true, atol=1e-14)
    yield printed(equal("with the quotient", out / h * above, true, atol=1e-14))
