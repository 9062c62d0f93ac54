"""The Hessian applied to a vector, by four ways that never form it."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.autodiff import (
    backprop,
    evaluate,
    gradient_graph,
    graph_hessian_vector,
    hessian_operator,
    hessian_vector_product,
    mlp_graph,
    multiplications,
    random_graph,
    random_layers,
)
from corollary.autodiff.layered import forward_pass
from corollary.evidence import Size, at_most, claim, control, equal


def _loss(activation="tanh"):
    return lambda layers, x, y: jnp.mean((forward_pass(layers, x, activation).post[-1] - y) ** 2)


@claim(rows=("T04.16",), full={"width": 24})
def hessian_vector(key, *, width: Size = 8, vectors: Size = 16, n: Size = 20):
    r"""The gradient of the gradient along v is the Hessian times v.

    For twice differentiable $f$ and fixed $v$ let $g(z)=\langle\nabla f(z),v\rangle$. Then
    $\nabla g(z)=\nabla^2f(z)\,v$, and so is the derivative of $\nabla f$ in the direction $v$. Measured on a tanh
    network: forward over reverse mode against the dense Hessian, against central differences of gradients, and for its
    symmetry.
    """
    layer_key, data_key, v_key = jax.random.split(key, 3)
    layers = random_layers([3, width, width, 1], key=layer_key)
    x = jax.random.normal(data_key, (n, 3))
    y = jnp.sin(x.sum(1, keepdims=True))
    theta, back = ravel_pytree(layers)
    v, u = jax.random.normal(v_key, (2, vectors, theta.size))
    h = 1e-3

    @jax.jit
    def measure(theta, v, u, x, y):
        f = lambda t: _loss()(back(t), x, y)  # noqa: E731
        product = jax.vmap(lambda v: hessian_vector_product(f, theta, v))
        tree = jax.vmap(
            lambda v: ravel_pytree(hessian_vector_product(lambda p: _loss()(p, x, y), back(theta), back(v)))[0]
        )
        slope = jax.grad(f)

        def difference(h):
            return jax.vmap(lambda v: (slope(theta + h * v) - slope(theta - h * v)) / (2 * h))(v)

        def bent(t):
            """Its gradient is |t|, which has a kink at 0."""
            return jnp.sum(t * jnp.abs(t)) / 2

        kinked = jax.grad(bent)
        reverse = jax.vmap(lambda v: jax.grad(lambda t: slope(t) @ v)(theta))
        return {
            "products": product(v),
            "trees": tree(v),
            "operator": jax.vmap(hessian_operator(f, theta))(v),
            "reverse": reverse(v),
            "dense": v @ jax.hessian(f)(theta),
            "differences": difference(h),
            "coarser": difference(2 * h),
            "halves": (jnp.sum(u * product(v), 1), jnp.sum(v * product(u), 1)),
            "kink": ((kinked(h * v[0]) - kinked(0 * v[0])) / h, hessian_vector_product(bent, 0 * v[0], v[0])),
        }

    m = measure(theta, v, u, x, y)
    scale = float(jnp.abs(m["dense"]).max())
    yield equal("forward over reverse", m["products"], m["dense"], atol=1e-12 * scale)
    yield equal("on a pytree of layers", m["trees"], m["dense"], atol=1e-12 * scale)
    yield equal("linearised once", m["operator"], m["dense"], atol=1e-12 * scale)
    yield equal("reverse over reverse", m["reverse"], m["dense"], atol=1e-12 * scale)
    # the truncation error is of second order, so the double step errs four times as much: they differ by three errors
    truncation = float(jnp.abs(m["coarser"] - m["differences"]).max())
    yield equal("central differences of gradients", m["differences"], m["dense"], rtol=0, atol=truncation)
    yield at_most("which resolve the product", truncation, 1e-2 * scale)
    left, right = m["halves"]
    yield equal("symmetry", left, right, atol=1e-12 * scale * theta.size)
    yield control(
        "f is not twice differentiable at the point",
        equal("one-sided difference of gradients of t|t|/2 at 0", *m["kink"], atol=1e-3),
    )


@claim(rows=("T04.16", "T04.15"))
def on_graphs(key, *, graphs: Size = 20, leaves: Size = 5, operations: Size = 40):
    r"""On a graph: backpropagation applied to the program of backpropagation gives the Hessian-vector product.

    The gradient is a program itself, so is $g(z)=\langle\nabla f(z),v\rangle$, and messages on its graph give
    $\nabla^2f(z)\,v$. So does backpropagation run on dual numbers. Measured against central differences of the gradient
    with Richardson's extrapolation.
    """
    keys = jax.random.split(key, graphs)
    points = np.asarray(jax.random.uniform(jax.random.fold_in(key, 1), (graphs, leaves), minval=-1.0))
    vectors = np.asarray(jax.random.normal(jax.random.fold_in(key, 2), (graphs, leaves)))
    h = 1e-3
    reverse, forward, differences, truncation, turning, along = [], [], [], [], [], []
    for k, z, v in zip(keys, points, vectors, strict=True):
        graph = random_graph(leaves, operations, key=k)

        def slope(z, graph=graph):
            return np.array(backprop(graph, evaluate(graph, z)).at(graph.leaves), float)

        def central(h, z=z, v=v, slope=slope):
            return (slope(z + h * v) - slope(z - h * v)) / (2 * h)

        paired = gradient_graph(graph).paired(v)
        difference, coarser = (4 * central(h / 2) - central(h)) / 3, (4 * central(h) - central(2 * h)) / 3
        scale = np.abs(difference).max() + np.abs(slope(z)).max()
        reverse.append(np.array(backprop(paired, evaluate(paired, z)).at(paired.leaves), float) / scale)
        forward.append(np.array(graph_hessian_vector(graph, z, v)[0], float) / scale)
        differences.append(difference / scale)
        truncation.append(np.abs(coarser - difference).max() / scale)
        # the gradient of <∇f(z), z>, in which the vector moves with the point
        pairs = [[slope(x) @ x for x in (z + h * e, z - h * e)] for e in np.eye(leaves)]
        turning.append(np.array([(up - down) / (2 * h) for up, down in pairs]) / scale)
        along.append(np.array(graph_hessian_vector(graph, z, z)[0], float) / scale)
    yield equal("reverse over reverse against forward over reverse", reverse, forward, rtol=0, atol=1e-12)
    # the error is of fourth order: the double step errs 16 times as much, so the two differ by 15 errors; rounding is
    # a few hundred eps / h
    allowed = max(truncation) + 1e-10
    yield equal("against differences of the gradient", forward, differences, rtol=0, atol=allowed)
    yield at_most("which resolve it", allowed, 1e-3)
    yield control(
        "the vector is not fixed: it is the point itself",
        equal("gradient of the inner product", turning, along, rtol=0, atol=allowed),
    )


@claim(rows=("T04.16",), full={"widest": 512})
def constant_cost(key, *, widest: Size = 128):
    r"""A Hessian-vector product costs a constant number of gradients, however many parameters; the Hessian does not.

    In multiplications of matrix products, for tanh networks of growing width with one example: the gradient costs less
    than 3 times the function, forward over reverse at most 3 times the gradient (the derivative of a product of two is
    two more products). The dense Hessian costs one Hessian-vector product per parameter.
    """
    widths = np.unique(np.round(np.geomspace(4, max(widest, 16), 6)).astype(int))
    loss = _loss()
    ratios, gradients, dense, parameters = [], [], {}, []
    for width in widths:
        shapes = jax.eval_shape(lambda k, w=int(width): random_layers([w, w, w, 1], key=k), key)
        x, y = jax.ShapeDtypeStruct((int(width),), float), jax.ShapeDtypeStruct((1,), float)
        value = multiplications(loss, shapes, x, y)
        slope = multiplications(jax.grad(loss), shapes, x, y)
        product = multiplications(
            lambda p, v, x, y: hessian_vector_product(lambda p: loss(p, x, y), p, v), shapes, shapes, x, y
        )
        count = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes))
        gradients.append(slope / value)
        ratios.append(product / slope)
        if width < 12:
            whole = multiplications(lambda p, x, y: jax.hessian(lambda p: loss(p, x, y))(p), shapes, x, y)
            dense[count] = whole / slope
        parameters.append(count)
    yield at_most("gradient over function", gradients, 3.0, x=parameters, along="parameters")
    yield at_most("Hessian-vector product over gradient", ratios, 3.0, x=parameters, along="parameters")
    yield control(
        "all columns of the Hessian, not one product with it",
        at_most("Hessian over gradient", [*dense.values()], 3.0, x=[*dense], along="parameters"),
    )
    sizes = [mlp_graph([w] * 4).size for w in (2, 4, 8, 16)]
    tallies = [
        graph_hessian_vector(g := mlp_graph([w] * 4), np.ones(len(g.leaves)), np.ones(len(g.leaves)))[1]
        for w in (2, 4, 8, 16)
    ]
    counts = [tally.values + tally.tangents for tally in tallies]
    # an edge: 2 operations on values and 4 on tangents in the function, as many again in its message and the sum
    yield at_most(
        "on graphs: operations over nodes and edges", np.array(counts) / sizes, 12.0, x=sizes, along="nodes and edges"
    )
