"""Permutations of hidden units: many parameters, one function."""

from itertools import permutations
from typing import Annotated

import jax
import jax.numpy as jnp

from corollary.evidence import Range, Size, at_least, claim, control, equal
from corollary.nets import ACTIVATIONS, MLP, logistic, permute_hidden, relu, standard_normal


@claim(rows=("E02.09", "E02.08"))
def permutation_symmetry(key, *, width: Annotated[int, Range(3, 1000)] = 8, points: Size = 60):
    r"""Renaming the units of a hidden layer leaves the function of a network unchanged.

    For a permutation matrix $P$ and an entrywise $\phi$, $\phi(Wx+b)=P^{-1}\phi(PWx+Pb)$. So
    $(W^\ell,b^\ell,W^{\ell+1})\to(PW^\ell,Pb^\ell,W^{\ell+1}P^{-1})$ keeps the function, and at least
    $\prod_\ell m_\ell!$ parameter vectors share it. What is needed is that $\phi$ commutes with $P$: softmax does too,
    sorting does not, and a rotation in place of $P$ does not commute with ReLU. (Footnote 5 says of $P$ that its rows
    and columns sum to one. That is true and not enough: the entries must be 0 or 1 as well.)
    """
    net_key, x_key, order_key, small_key = jax.random.split(key, 4)
    x = jax.random.normal(x_key, (points, 4))
    order = jax.random.permutation(order_key, width)
    order = jnp.where(jnp.all(order == jnp.arange(width)), order[::-1], order)
    names = ("logistic", "tanh", "relu")
    functions = [ACTIVATIONS[n] for n in names] + [jax.nn.softmax]
    rotation, _ = jnp.linalg.qr(jax.random.normal(order_key, (width, width)))
    small = MLP((2, 3, 1), logistic, key=small_key)
    every = jnp.array(list(permutations(range(3))))

    def conjugated(network, matrix, inverse):
        """The output with `matrix` on the first hidden layer and its inverse on the weights that follow."""
        first, *rest = network.layers

        def apply(x):
            h = first.activation(matrix @ (first.weight @ x + first.bias))
            h = rest[0].activation(rest[0].weight @ inverse @ h + rest[0].bias)
            return rest[1](h)

        return apply

    @jax.jit
    def measure(x, net_key, order, rotation, small):
        nets = [
            MLP((4, width, width, 2), f, key=net_key, initialisation=standard_normal) for f in (*functions, jnp.sort)
        ]
        plain = [jax.vmap(n)(x) for n in nets]
        renamed = [jax.vmap(permute_hidden(permute_hidden(n, 0, order), 1, order[::-1]))(x) for n in nets]
        last = MLP((4, width, width, 2), relu, key=net_key, initialisation=standard_normal)
        rotated = jax.vmap(conjugated(last, rotation, rotation.T))(x)
        ordered = jax.vmap(lambda p: permute_hidden(small, 0, p))(every)
        vectors = jnp.concatenate([a.reshape(6, -1) for a in jax.tree.leaves(ordered)], axis=1)
        values = jax.vmap(lambda n: jax.vmap(n)(x[:, :2]))(ordered)
        layers = nets[2].activations(x[0])
        prefix = [nets[2].layers[0](x[0]), nets[2].layers[1](nets[2].layers[0](x[0]))]
        # rows and columns sum to one, the matrix is invertible, and it is no permutation
        summing = jnp.eye(width).at[:3, :3].set(jnp.array([[2.0, -1.0, 0.0], [-1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]))
        summed = jax.vmap(conjugated(last, summing, jnp.linalg.inv(summing)))(x)
        return jnp.stack(plain), jnp.stack(renamed), (rotated, summed, summing), vectors, values, layers, prefix

    plain, renamed, (rotated, summed, summing), vectors, values, layers, prefix = measure(
        x, net_key, order, rotation, small
    )
    yield equal("network with renamed units", renamed[:-1], plain[:-1])
    apart = jnp.linalg.norm(vectors[:, None] - vectors[None], axis=-1) + jnp.eye(6) * 1e9
    yield at_least("distance between the 6 parameter vectors of 3 units", apart, 1e-3)
    yield equal("the 6 functions", values, values[:1])
    yield equal("activations are those of the truncated networks", jnp.stack(layers[1:3]), jnp.stack(prefix))
    yield equal("sums of a matrix that is no permutation", jnp.stack([summing.sum(0), summing.sum(1)]), 1.0)
    yield control("φ is entrywise: here it sorts", equal("network with renamed units", renamed[-1], plain[-1]))
    yield control("P is a permutation: here a rotation", equal("network with rotated units", rotated, plain[2]))
    yield control(
        "P is a permutation: here its rows and columns sum to one",
        equal("network with P and its inverse", summed, plain[2]),
    )
