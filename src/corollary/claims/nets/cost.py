"""What a softmax classifier costs, counted in a pass that counts as it goes (M section 8.3)."""

import math
from itertools import pairwise

import equinox as eqx
import jax
import numpy as np

from corollary.evidence import Size, at_least, claim, control, equal, monotone, printed
from corollary.nets import (
    Classifier,
    backward_cost,
    forward_cost,
    memory_cost,
    printed_backward_cost,
    printed_memory_cost,
    tanh,
)

EXAMPLE = {"depth": 5, "width": 500, "inputs": 1000, "classes": 100}
LISTING = {"depth": 1, "width": 100, "inputs": 784, "classes": 10}  # the MNIST network of section 7.5.2


class _Counter:
    """Arithmetic on NumPy arrays that keeps the tally of section 8.3."""

    def __init__(self):
        self.total = 0

    def product(self, matrix, vector):
        self.total += 2 * matrix.size
        return matrix @ vector

    def outer(self, a, b):
        self.total += a.size * b.size
        return np.outer(a, b)

    def entrywise(self, value):
        self.total += value.size
        return value


def _counted(layers, x, y):
    """The operations forwards and backwards, and the gradient that they give."""
    there = _Counter()
    states = [x]
    for weight, bias in layers[:-1]:
        states.append(there.entrywise(np.tanh(there.entrywise(there.product(weight, states[-1]) + bias))))
    u = there.entrywise(there.product(layers[-1][0], states[-1]) + layers[-1][1])
    p = there.entrywise(np.exp(u - u.max()) / np.exp(u - u.max()).sum())
    back = _Counter()
    slope = back.entrywise(p - np.eye(p.size)[y])
    gradient = [(back.outer(slope, states[-1]), slope)]
    delta = back.product(layers[-1][0].T, slope)
    for i in reversed(range(len(layers) - 1)):
        slope = back.entrywise(delta * (1 - states[i + 1] ** 2))
        gradient.insert(0, (back.outer(slope, states[i]), slope))
        if i > 0:
            delta = back.product(layers[i][0].T, slope)
    return there.total, back.total, np.concatenate([np.ravel(a) for pair in gradient for a in pair])


def _layers(rng, sizes):
    return [(rng.normal(size=(m, n)), rng.normal(size=m)) for n, m in pairwise(sizes)]


def _parameters(depth, width, inputs, classes):
    """How many the network really has; it is built of shapes alone."""
    shapes = eqx.filter_eval_shape(lambda k: Classifier(inputs, width, depth, classes, key=k), jax.random.key(0))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def _wide_first(depth, width, inputs, classes):
    """The widths of a network whose first hidden layer is twice as wide as the others."""
    return (inputs, 2 * width, *[width] * (depth - 1), classes)


def _random_sizes(key, networks):
    return [tuple(map(int, row)) for row in jax.random.randint(key, (networks, 4), 2, 12)]


@claim(rows=("M08.03", "M08.04"), full={"networks": 500})
def operations(key, *, networks: Size = 50):
    r"""Operations of a multi-layer softmax network, forwards and backwards, in closed form.

    With $2ab$ for the product of an $a\times b$ matrix and a vector, $ab$ for an outer product, $a$ for anything
    entrywise on $a$ numbers and $J$ for the softmax: forwards $2(L-1)(d_H^2+d_H)+2d_H(1+d+J)+2J$ (as printed), and
    backwards, from what the forward pass left, $(L-1)(3d_H^2+d_H)+d_H(d+3J+1)+J$. Measured by an implementation that
    counts, and whose gradient is right. Forwards the cost is linear in $L$ and for large $d_H$ four times as large
    for twice the width.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    sizes = _random_sizes(key, networks)
    there, back = [], []
    for depth, width, inputs, classes in sizes:
        layers = _layers(rng, (inputs, *[width] * depth, classes))
        forwards, backwards, _ = _counted(layers, rng.normal(size=inputs), 0)
        there.append(forwards)
        back.append(backwards)
    yield equal("forwards", there, [forward_cost(*s) for s in sizes], rtol=0, atol=0, along="network")
    yield equal("backwards", back, [backward_cost(*s) for s in sizes], rtol=0, atol=0, along="network")
    model, x = Classifier(3, 4, 2, 3, tanh, key=key), rng.normal(size=3)
    layers = [(np.asarray(layer.weight), np.asarray(layer.bias)) for layer in model.network.layers]
    exact = jax.grad(lambda m: m.loss(x, 1))(model).network.layers
    exact = np.concatenate([np.ravel(a) for layer in exact for a in (layer.weight, layer.bias)])
    yield equal("gradient of the pass that counts", _counted(layers, x, 1)[2], exact)
    depths = [forward_cost(depth, 50, 20, 5) for depth in range(1, 8)]
    yield equal("second differences in the depth", np.diff(depths, 2), 0, rtol=0, atol=0)
    doubled = forward_cost(5, 20_000, 20, 5) / forward_cost(5, 10_000, 20, 5)
    yield equal("cost of twice the width", doubled, 4.0, rtol=1e-3)
    wider = [_counted(_layers(rng, _wide_first(*s)), rng.normal(size=s[2]), 0)[0] for s in sizes]
    yield control(
        "all hidden layers are equally wide: here the first is twice as wide",
        equal("forwards", wider, [forward_cost(*s) for s in sizes], rtol=0, atol=0, along="network"),
    )


@claim(
    rows=("M08.04",),
    erratum="The printed count has 2 d_H^2 + J operations that backpropagation does not make.",
)
def backward_cost_as_printed(key, *, networks: Size = 50):
    r"""The printed number of operations of the backward step.

    As printed: $(L-1)(3d_H^2+d_H)+d_H(2d_H+d+3J+1)+2J$, under the convention for which the printed forward count is
    exact. For the text's example 4,152,700 instead of 3,652,600.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    sizes, counted = _random_sizes(key, networks), []
    for depth, width, inputs, classes in sizes:
        layers = _layers(rng, (inputs, *[width] * depth, classes))
        counted.append(_counted(layers, rng.normal(size=inputs), 0)[1])
    yield equal("corrected", counted, [backward_cost(*s) for s in sizes], rtol=0, atol=0, along="network")
    literal = [printed_backward_cost(*s) for s in sizes]
    yield printed(equal("as printed", counted, literal, rtol=0, atol=0, along="network"))


@claim(
    rows=("M08.04",),
    erratum="For a wide input and few hidden layers the backward step is the cheaper one, by either count.",
)
def backward_dearer_as_printed(key):
    r"""The backward step costs more than the forward step.

    As printed, of the text's own two counts: "The backpropagation step is more costly than the forward step." The first
    layer costs $2d_Hd$ forwards and $d_Hd$ backwards, for there is no sensitivity below it. For the text's own MNIST
    network, 784-100-10, the forward step is 159,020 operations, the backward step 101,520 by the printed formula and
    81,510 when counted. True is that the backward step takes more the more layers there are: the quotient grows with
    the depth to $\frac{3d_H+1}{2d_H+2}$ (and it is above one everywhere if the update of the parameters is counted).
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    depth, width, inputs, classes = LISTING.values()
    layers = _layers(rng, (inputs, *[width] * depth, classes))
    forwards, backwards, _ = _counted(layers, rng.normal(size=inputs), 0)
    yield equal("forwards and backwards, counted", [forwards, backwards], [159_020, 81_510], rtol=0, atol=0)
    depths = 2 ** np.arange(11)
    quotients = [backward_cost(**LISTING | {"depth": d}) / forward_cost(**LISTING | {"depth": d}) for d in depths]
    yield monotone("backwards over forwards, of deeper networks", quotients, strict=True, x=depths, along="depth")
    # what the first and the last layer change is of the order of their size over that of all the others
    yield equal("of 1024 layers", quotients[-1], (3 * width + 1) / (2 * width + 2), rtol=10 * inputs / width / 1024)
    literal = printed_backward_cost(**LISTING) / forward_cost(**LISTING)
    yield printed(at_least("the MNIST network by the printed counts: backwards over forwards", literal, 1.0))


@claim(rows=("M08.05",))
def memory(key, *, networks: Size = 10):
    r"""How many numbers a multi-layer softmax network and its backpropagation keep.

    $(L-1)(d_H^2+d_H)+d_H(d+1+J)+J$ parameters, $2M_od_H$ for the sensitivities of two layers, and $2LM_od_H$ for what
    the forward pass leaves behind. Five layers of 500 units, 100 classes, 1000 inputs and batches of 1000: 7,552,600
    numbers, 0.030 GB in single precision, of which the parameters are 0.006.
    """
    sizes = _random_sizes(key, networks)
    real = [_parameters(*s) for s in sizes]
    yield equal("parameters", real, [memory_cost(*s).parameters for s in sizes], rtol=0, atol=0, along="network")
    example = memory_cost(**EXAMPLE, batch_size=1000)
    yield equal("numbers of the example", example, [1_552_600, 1_000_000, 5_000_000], rtol=0, atol=0)
    yield equal("gigabytes of the example", example.gigabytes(), 0.0302, rtol=1e-3)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    wider = [sum(w.size + b.size for w, b in _layers(rng, _wide_first(*s))) for s in sizes]
    yield control(
        "all hidden layers are equally wide: here the first is twice as wide",
        equal("parameters", wider, [memory_cost(*s).parameters for s in sizes], rtol=0, atol=0, along="network"),
    )


@claim(
    rows=("M08.05",),
    erratum="The bias of the first layer is missing: there are d_H more parameters than printed.",
)
def parameters_as_printed(key):
    r"""The printed number of parameters of the multi-layer network.

    As printed: $(L-1)(d_H^2+d_H)+d_H(d+J)+J$, for (8.1) with its biases; with that of the first layer it is
    $(L-1)(d_H^2+d_H)+d_H(d+1+J)+J$. Counted for the text's example.
    """
    real = _parameters(**EXAMPLE)
    yield equal("corrected", real, memory_cost(**EXAMPLE).parameters, rtol=0, atol=0)
    yield printed(equal("as printed", real, printed_memory_cost(**EXAMPLE).parameters, rtol=0, atol=0))


@claim(
    rows=("M08.05",),
    erratum="0.08 is the number of gigabits; in bytes the printed count is 0.01 GB, and 0.03 GB with all that is kept.",
)
def gigabytes_as_printed(key):
    r"""The example network needs about 0.08 GB.

    As printed, for five layers of 500 units, 100 classes, 1000 inputs, batches of 1000 and 32-bit numbers.
    """
    literal, counted = printed_memory_cost(**EXAMPLE, batch_size=1000), memory_cost(**EXAMPLE, batch_size=1000)
    # "approximately" allows for the rounding to the digits given
    yield equal("gigabits of the printed count", 8 * literal.gigabytes(), 0.08, rtol=0.05)
    yield equal("gigabytes of the printed count, corrected", literal.gigabytes(), 0.01, rtol=0.05)
    yield equal("gigabytes of all that is kept, corrected", counted.gigabytes(), 0.03, rtol=0.05)
    yield printed(equal("gigabytes of the printed count", literal.gigabytes(), 0.08, rtol=0.05))
    yield printed(equal("gigabytes of all that is kept", counted.gigabytes(), 0.08, rtol=0.05))
