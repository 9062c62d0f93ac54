"""Shared weights, convolutions and matrix messages."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.autodiff import CircularConvolution, Tensor, multiplications, tied_gradient, tied_matrix
from corollary.evidence import Size, claim, control, equal, printed


@claim(rows=("T04.10", "T04.11"))
def shared_gradient(key, *, size: Size = 12, width: Size = 8):
    r"""The gradient by a shared parameter is the sum of the gradients by its occurrences.

    If $a=u$ and $b=u$ then $\partial f/\partial u=\partial f/\partial a+\partial f/\partial b$. Measured on a network
    that uses one matrix in two layers, and on a convolution written as a dense layer: the gradient by the kernel is
    the dense gradient, added up over the places of each of its entries.
    """
    k1, k2, k3 = jax.random.split(key, 3)
    w, x = jax.random.normal(k1, (width, width)) / jnp.sqrt(width), jax.random.normal(k2, (width,))
    layer = CircularConvolution(2, 3, (3,), key=k3)
    signal = jax.random.normal(jax.random.fold_in(key, 1), (2, size))
    pattern = layer.pattern((size,))

    @jax.jit
    def measure(w, x, signal, kernel):
        twice = lambda a, b: jnp.sum(jnp.tanh(b @ jnp.tanh(a @ x)) ** 2)  # noqa: E731
        shared = jax.grad(lambda u: twice(u, u))(w)
        first, second = jax.grad(twice, (0, 1))(w, w)
        unequal = jax.grad(lambda u: twice(u, 2 * u))(w), sum(jax.grad(twice, (0, 1))(w, 2 * w))
        through = lambda dense: jnp.sum(jnp.tanh(dense @ signal.ravel()) ** 2)  # noqa: E731
        by_dense = jax.grad(through)(tied_matrix(kernel, pattern))
        by_kernel = jax.grad(lambda k: through(tied_matrix(k, pattern)))(kernel)
        return shared, first + second, unequal, by_kernel, tied_gradient(by_dense, pattern, kernel.size)

    shared, total, unequal, by_kernel, added = measure(w, x, signal, layer.kernel.ravel())
    yield equal("one matrix in two layers", shared, total, atol=1e-14)
    yield equal("a kernel in many places", by_kernel, added, atol=1e-13)
    yield control(
        "the second layer uses twice the matrix, not the matrix itself",
        equal("one matrix in two layers", *unequal, atol=1e-14),
    )


@claim(rows=("T04.11",))
def convolution_is_tied(key, *, height: Size = 6, breadth: Size = 5):
    r"""A convolution is a dense layer with tied weights, and commutes with translations.

    The layer computed by sliding the window and the product with the tied dense matrix agree, in one and in two
    dimensions; so do the gradients by the kernel. With circular boundaries, shifting the input shifts the output.
    """
    k1, k2, k3, k4 = jax.random.split(key, 4)
    plane, line = CircularConvolution(2, 3, (3, 2), key=k1), CircularConvolution(2, 2, (4,), key=k2)
    image, signal = jax.random.normal(k3, (2, max(height, 3), max(breadth, 2))), jax.random.normal(k4, (2, 9))

    @jax.jit
    def measure(plane, line, image, signal):
        def loss(direct):
            def of(kernel):
                layer = eqx.tree_at(lambda c: c.kernel, plane, kernel)
                out = layer(image).ravel() if direct else layer.dense(image.shape[1:]) @ image.ravel()
                return jnp.sum(jnp.tanh(out) ** 2)

            return of

        moved = jnp.roll(image, (1, 2), (1, 2))
        # the same connections, each with a weight of its own
        matrix = plane.dense(image.shape[1:])
        matrix = matrix * jnp.linspace(0.5, 1.5, matrix.size).reshape(matrix.shape)
        free = lambda image: (matrix @ image.ravel()).reshape(plane(image).shape)  # noqa: E731
        return {
            "plane": (plane(image).ravel(), plane.dense(image.shape[1:]) @ image.ravel()),
            "line": (line(signal).ravel(), line.dense((9,)) @ signal.ravel()),
            "kernel": (jax.grad(loss(True))(plane.kernel), jax.grad(loss(False))(plane.kernel)),
            "moved": (plane(moved), jnp.roll(plane(image), (1, 2), (1, 2))),
            "untied": (free(moved), jnp.roll(free(image), (1, 2), (1, 2))),
        }

    m = measure(plane, line, image, signal)
    yield equal("two dimensions", *m["plane"], atol=1e-13)
    yield equal("one dimension", *m["line"], atol=1e-13)
    yield equal("gradient by the kernel", *m["kernel"], atol=1e-12)
    yield equal("a shifted input", *m["moved"], atol=1e-13)
    yield control("the weights are not tied", equal("a shifted input", *m["untied"], atol=1e-13))


@claim(rows=("T04.09",))
def matrix_messages(key, *, d1: Size = 4, d2: Size = 3, d3: Size = 5):
    r"""The messages of a matrix product are matrix products, and no Jacobian need be formed.

    For $U=WZ$ with $W\in\mathbb R^{d_1\times d_2}$, $Z\in\mathbb R^{d_2\times d_3}$ and a message $S\in\mathbb
    R^{d_1\times d_3}$: $\frac{\partial U}{\partial Z}[S]=W^\top S$ and $\frac{\partial U}{\partial W}[S]=SZ^\top$, at
    $d_1d_2d_3$ multiplications each; the matrix of the first has $d_2d_3\times d_1d_3$ entries. Messages are the
    adjoint of the derivative: $\langle J\,dZ,S\rangle=\langle dZ,J^*S\rangle$.
    """
    k1, k2, k3, k4 = jax.random.split(key, 4)
    w, z = jax.random.normal(k1, (d1, d2)), jax.random.normal(k2, (d2, d3))
    s, dz = jax.random.normal(k3, (d1, d3)), jax.random.normal(k4, (d2, d3))

    @jax.jit
    def measure(w, z, s):
        left, right = Tensor(w, requires_grad=True), Tensor(z, requires_grad=True)
        ((left @ right) * s).sum().backward()
        other = Tensor(z, requires_grad=True)
        (((left.detach() @ other) * s).sum() + (other**2).sum()).backward()
        # rows of Z and of U are stacked here, so the Jacobian is the Kronecker product of W and the identity
        full = jnp.kron(w, jnp.eye(d3))
        return left.grad, right.grad, full.T @ s.ravel(), full, other.grad

    by_w, by_z, explicit, full, twice = measure(w, z, s)
    yield equal("message to Z on the tape", by_z, w.T @ s, atol=1e-14)
    yield equal("message to W on the tape", by_w, s @ z.T, atol=1e-14)
    yield equal("the explicit transposed Jacobian", by_z.ravel(), explicit, atol=1e-13)
    yield equal("adjoint", jnp.sum((w @ dz) * s), jnp.sum(dz * by_z), atol=1e-12)
    counts = [multiplications(lambda w, s: w.T @ s, w, s), multiplications(lambda j, s: j.T @ s.ravel(), full, s)]
    yield equal("multiplications of both", counts, [d1 * d2 * d3, d1 * d2 * d3**2], rtol=0, atol=0)
    yield control("Z has a second user besides the product", equal("message to Z", twice, w.T @ s, atol=1e-14))


@claim(
    rows=("T04.09",),
    erratum="With the printed shapes the product is ZW, and the message to Z is S times W transposed.",
)
def printed_shapes(key):
    r"""For U in R^(d1 x d3), W in R^(d2 x d3) and Z in R^(d1 x d2) the message to Z is W transposed times S.

    As printed: $U\in\mathbb R^{d_1\times d_3}$ is the product of $W\in\mathbb R^{d_2\times d_3}$ and $Z\in\mathbb
    R^{d_1\times d_2}$, and $\frac{\partial U}{\partial Z}[S]=W^\top S$. These shapes allow $U=ZW$ only. For
    $d_1=d_2=2$ and $d_3=3$, $W^\top S$ is a $3\times3$ matrix, where $Z$ is $2\times2$; and for three equal sizes,
    where all products exist, it has the wrong entries.
    """
    w, z, s = jax.random.normal(key, (3, 3, 3))
    _, pull = jax.vjp(lambda z: z @ w, z)
    yield equal("S times W transposed", s @ w.T, pull(s)[0], atol=1e-14)
    yield printed(equal("W transposed times S", w.T @ s, pull(s)[0], atol=1e-14))
    small, message = np.ones((2, 3)), np.ones((2, 3))
    wrong, right = (small.T @ message).shape, (message @ small.T).shape
    yield equal("shape of S times W transposed, where Z is 2 × 2", right, [2, 2], rtol=0, atol=0)
    yield printed(equal("shape of W transposed times S, where Z is 2 × 2", wrong, [2, 2], rtol=0, atol=0))
