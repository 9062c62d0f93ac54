"""Linear maps, networks of them, and why depth adds nothing to what they can represent."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed
from corollary.nets import (
    MLP,
    DeepLinearNetwork,
    FullyConnected,
    ShallowNetwork,
    collapse,
    identity,
    matrix_of,
    parameter_count,
    rank_error,
    relu,
    standard_normal,
    superposition_defect,
    tanh,
    train,
    truncated_svd,
)
from corollary.network import BatchLoss


def _worst_defect(f, key, dim, trials):
    """The largest superposition defect over random arguments."""
    x, y = jax.random.normal(key, (2, trials, dim))
    alpha, beta = 2 * jax.random.normal(jax.random.fold_in(key, 1), (2, trials))
    return jnp.max(jax.vmap(lambda x, y, a, b: superposition_defect(f, x, y, a, b))(x, y, alpha, beta))


@claim(rows=("B02.04",))
def superposition(key, *, dim: Size = 16, trials: Size = 200):
    r"""A map is linear exactly if it respects superposition, and is then multiplication by one matrix.

    $f(\alpha x+\beta y)=\alpha f(x)+\beta f(y)$ for all $x,y\in\mathbb R^n$ and $\alpha,\beta$ if and only if
    $f(x)=Ax$ with the unique $A=(f(e_1)\mid\dots\mid f(e_n))\in\mathbb R^{m\times n}$. (The text has
    $n\times m$.) Shown for a discrete derivative, a convolution and the real part of the Fourier transform.
    """
    x_key, kernel_key = jax.random.split(key)
    x = jax.random.normal(x_key, (trials, dim))
    kernel = jax.random.normal(kernel_key, (5,))
    linear = ("difference", "convolution", "Fourier")
    others = ("an affine map", "|x|, homogeneous for positive factors", "a ReLU layer")

    @jax.jit
    def measure(x, kernel, key):
        maps = (
            jnp.diff,
            lambda v: jnp.convolve(v, kernel, mode="same"),
            lambda v: jnp.fft.fft(v).real,
            lambda v: jnp.diff(v) + 1.0,
            jnp.abs,
            lambda v: relu(jnp.convolve(v, kernel, mode="same")),
        )
        # every map against the multiplication by its matrix, and its superposition defect
        fits = [(jax.vmap(f)(x), x @ matrix_of(f, dim).T) for f in maps]
        return fits, [_worst_defect(f, key, dim, trials) for f in maps]

    fits, defects = (dict(zip(linear + others, found, strict=True)) for found in measure(x, kernel, key))
    for name in linear:
        yield equal(f"{name} as a matrix", fits[name][0], fits[name][1], atol=1e-12 * dim)
    yield at_most("superposition defect of the linear maps", jnp.stack([defects[n] for n in linear]), 1e-11)
    for name in others:
        yield control(f"{name} has a defect", at_most("superposition defect", defects[name], 1e-11))
        yield control(f"{name} is no matrix", equal("map as a matrix", fits[name][0], fits[name][1], atol=1e-12 * dim))


@claim(rows=("B02.05", "E02.14", "M01.01"))
def closure_under_composition(key, *, width: Size = 12, depth: Count = 6, points: Size = 100):
    r"""A deep linear network is a single linear layer.

    The composition of linear maps is linear, with the product of the matrices: $W_L\cdots W_1x=(W_L\cdots W_1)x$, of
    rank at most the smallest width, and generically equal to it. With biases the network is one affine map. With an
    entrywise non-linearity between the layers it is neither.
    """
    net_key, affine_key, x_key, defect_key = jax.random.split(key, 4)
    narrow = max(width // 3, 1)
    sizes = [width] * depth + [narrow] + [width]
    network = DeepLinearNetwork(sizes, key=net_key, initialisation=standard_normal)
    affine = MLP(sizes, identity, key=affine_key)
    bent = MLP(sizes, relu, key=affine_key, bias=False, initialisation=standard_normal)
    x = jax.random.normal(x_key, (points, width))

    @jax.jit
    def measure(network, affine, bent, x, defect_key):
        return {
            "deep": jax.vmap(network)(x),
            "product": x @ network.end_to_end_matrix().T,
            "columns": matrix_of(network, width),
            "matrix": network.end_to_end_matrix(),
            "affine": jax.vmap(affine)(x),
            "collapsed": jax.vmap(collapse(affine))(x),
            "values": jnp.linalg.svd(network.end_to_end_matrix(), compute_uv=False),
            "defect": _worst_defect(network, defect_key, width, points),
            "bent defect": _worst_defect(bent, defect_key, width, points),
            "middle": jax.vmap(lambda a, b: bent((a + b) / 2) - (bent(a) + bent(b)) / 2)(x[::2], x[1::2]),
        }

    m = measure(network, affine, bent, x, defect_key)
    size = float(jnp.abs(m["deep"]).max())  # products of Gaussian matrices grow; rounding with them
    yield equal("deep network as one matrix", m["deep"], m["product"], atol=1e-13 * size)
    yield equal("its columns are the images of the basis", m["columns"], m["matrix"], atol=1e-13 * size)
    yield equal("network with biases as one affine map", m["affine"], m["collapsed"], atol=1e-13)
    yield at_most("superposition defect", m["defect"], 1e-11 * size)
    rounding = 1e-13 * depth * float(m["values"][0])
    rank = jnp.sum(m["values"] > rounding)
    yield equal("rank of the matrix is the smallest width", rank, narrow, rtol=0, atol=0)
    yield control("with ReLU between the layers", at_most("superposition defect", m["bent defect"], 1e-11 * size))
    yield control("with ReLU midpoints are not kept", equal("defect at midpoints", m["middle"], 0.0, atol=1e-13 * size))


@claim(rows=("M01.10", "M01.09"))
def identity_activation(key, *, dim: Size = 5, units: Size = 30, points: Size = 100):
    r"""A shallow network with the identity as activation is a linear model.

    $\sum_nc^n(w^n\cdot x+b^n)=w\cdot x+b$ with $w=\sum_nc^nw^n$ and $b=\sum_nc^nb^n$: of its $N(d+2)$ parameters only
    $d+1$ combinations matter. Permuting the units changes nothing, whatever the activation.
    """
    net_key, x_key, order_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (points, dim))
    flat, bent = (ShallowNetwork(dim, units, phi, key=net_key) for phi in (identity, tanh))
    order = jax.random.permutation(order_key, units)
    weight, bias = flat.outer @ flat.hidden.weight, flat.outer @ flat.hidden.bias

    @jax.jit
    def measure(flat, bent, x):
        permuted = jax.tree.map(lambda a: a[order], bent)
        return [jax.vmap(f)(x) for f in (flat, bent, permuted)] + [jax.vmap(collapse(flat))(x)[:, 0]]

    out, curved, permuted, collapsed = measure(flat, bent, x)
    yield equal("network with the identity", out, x @ weight + bias)
    yield equal("collapsed to one layer", collapsed, out)
    yield equal("units in another order", permuted, curved)
    yield equal("number of parameters", parameter_count(flat), units * (dim + 2), rtol=0, atol=0)
    yield control("with tanh it is not linear", equal("network", curved, x @ weight + bias, atol=1e-3))


@claim(rows=("E02.14",))
def bottleneck(key, *, outputs: Size = 5, inputs: Size = 4, rank: Count = 1, steps: Count = 4000):
    r"""A linear network with a bottleneck of width r represents exactly the matrices of rank at most r.

    Every $m\times n$ matrix factors through the width $\min(m,n)$; through a width $r$ below its rank the smallest
    error is $(\sum_{i>r}\sigma_i^2)^{1/2}$, which training from a small start reaches.
    """
    target_key, net_key = jax.random.split(key)
    u, _, vt = jnp.linalg.svd(jax.random.normal(target_key, (outputs, inputs)), full_matrices=False)
    small = min(inputs, outputs)
    values = 2.0 - 0.9 * jnp.arange(small) / max(small - 1, 1)  # apart from each other, so that descent is quick
    target = (u * values) @ vt

    @BatchLoss
    def loss(network, _):
        return jnp.sum((network.end_to_end_matrix() - target) ** 2)

    start = DeepLinearNetwork((inputs, rank, outputs), key=net_key)
    result = train(start, loss, (), optax.sgd(0.05), steps=steps)
    factor = FullyConnected.of(u * jnp.sqrt(values)), FullyConnected.of(jnp.sqrt(values)[:, None] * vt)
    yield equal("factorised through the full width", factor[0].weight @ factor[1].weight, target)
    trained = result.network.end_to_end_matrix()
    yield equal(
        "error of the trained bottleneck", jnp.linalg.norm(trained - target), rank_error(target, rank), rtol=1e-6
    )
    yield equal("the trained matrix", trained, truncated_svd(target, rank), atol=1e-4)
    yield at_least("loss on the way", jnp.sqrt(result.losses), rank_error(target, rank), along="iteration")
    wide = train(DeepLinearNetwork((inputs, small, outputs), key=net_key), loss, (), optax.sgd(0.05), steps=steps)
    yield control(
        "the bottleneck is narrower than the rank: here it has the full width",
        at_least("loss on the way", jnp.sqrt(wide.losses), rank_error(target, rank), along="iteration"),
    )


@claim(rows=("E02.07",), erratum="The bias is said to lie in the space of the inputs; W x has m entries and so must b.")
def bias_of_the_input_size(key, *, inputs: Size = 3, outputs: Size = 7):
    r"""A fully connected layer from n to m units has a bias with n entries.

    As printed: $f[W,b](x)=\phi(Wx+b)$ with $W\in\mathbb R^{m\times n}$ and $b\in\mathbb R^n$. The sum $Wx+b$ has a
    meaning only for $b\in\mathbb R^m$.
    """
    layer = FullyConnected(inputs, outputs, relu, key=key)
    needed = jnp.size(layer.weight @ jnp.ones(inputs))  # W x + b adds entry to entry
    yield equal("entries of the layer's b", layer.bias.size, needed, rtol=0, atol=0)
    yield equal("entries of b that W x + b needs, corrected", needed, outputs, rtol=0, atol=0)
    yield printed(equal("entries of b that W x + b needs, as printed", needed, inputs, rtol=0, atol=0))
