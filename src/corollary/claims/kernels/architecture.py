"""Kernels of wide convolutional, residual and graph networks against the gradients of finite ones."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.kernels._wide import dense_network, gradient_gram
from corollary.evidence import Count, Size, at_least, claim, control, equal, estimate
from corollary.kernels import (
    Activation,
    Architecture,
    Conv,
    Dense,
    Flatten,
    GlobalAveragePool,
    Residual,
    graph_ntk,
    nngp,
    ntk,
)


def _grams(network, key, nets, x):
    def one(key):
        params = network.init(x.shape[1:], key=key).params
        return gradient_gram(lambda p: network.apply(p, x)[:, 0], params)

    return jax.lax.map(one, jax.random.split(key, nets), batch_size=250)


@claim(rows=("T09.25", "T09.02"))
def convolutional_tangent_kernel(key, *, nets: Count = 1500, channels: Size = 6, side: Size = 5):
    r"""The tangent kernel of a convolutional network is that of its patches, averaged over places.

    With infinitely many channels the covariance of the pre-activations at two places of two images is $\sigma_w^2$
    times the mean over the window of the covariances below, plus $\sigma_b^2$; an activation maps it by its dual
    kernels, a flattening keeps pairs of equal places, and global average pooling averages over all pairs. With one
    activation, products of gradients average to this at any number of channels. Zeros around the image, periodic
    images and strides change the windows only. Pooled, a periodic image may be shifted; flattened it may not.
    """
    first = {"bias_std": 0.3, "weight_std": 1.5}
    relu, pool = Activation("relu"), GlobalAveragePool()
    networks = {
        "zeros, flattened": [Conv(channels, (3, 3), **first), relu, Flatten()],
        "periodic, pooled": [Conv(channels, (3, 3), padding="CIRCULAR", **first), relu, pool],
        "two layers, stride 2": [Conv(channels, (3, 3), stride=2, **first), relu, Conv(channels, (2, 2)), pool],
    }
    networks = {name: Architecture([*layers, Dense(1)]) for name, layers in networks.items()}

    @jax.jit
    def measure(key):
        x_key, key = jax.random.split(key)
        x = jax.random.normal(x_key, (2, side, side, 2))
        found = {name: (_grams(network, key, nets, x), network.ntk(x)) for name, network in networks.items()}
        moved = jnp.roll(x, (1, 2), (1, 2))
        pooled = networks["periodic, pooled"]
        flat = Architecture([*pooled.layers[:2], Flatten(), pooled.layers[3]])
        return found, [(n.ntk(x), n.ntk(x, moved)) for n in (pooled, flat)]

    found, ((still, moved), (flat, flat_moved)) = measure(key)
    for name, (samples, limit) in found.items():
        yield estimate(f"products of gradients, {name}", samples, limit, wrong=limit / 2 - 0.1)
    yield equal("pooled kernel of a shifted image", moved, still)
    yield control(
        "the places are pooled: here they are flattened", equal("kernel of a shifted image", flat_moved, flat)
    )


@claim(rows=("T09.02",))
def residual_tangent_kernel(key, *, nets: Count = 4000, width: Size = 12):
    r"""The tangent kernel of a residual layer is the sum of those of its two parts.

    $z\mapsto z+\frac{\sigma_w}{\sqrt m}W\phi(z)+\sigma_bb$: the branch ends in fresh weights, so that the two parts are
    uncorrelated, forward and backward: covariance and tangent kernel add. With one activation products of gradients
    average to this at every width. The branch alone has another kernel.
    """
    x = jnp.array([[1.0, 0.5, -0.3], [-0.2, 0.7, 0.4]])
    branch = (Activation("relu"), Dense(width, 1.2, 0.3))
    network = Architecture([Dense(width), Residual(branch), Dense(1)])
    alone = Architecture([Dense(width), *branch, Dense(1)])
    parts = Architecture([Dense(2)]), Architecture([Dense(2), *branch])

    @jax.jit
    def measure(key):
        summed = 2 * sum(part.ntk(x) + part.nngp(x) for part in parts)
        return _grams(network, key, nets, x), network.ntk(x), summed, _grams(alone, key, nets, x)

    samples, limit, summed, branch_only = measure(key)
    yield estimate("products of gradients", samples, limit, wrong=limit / 2 - 0.1)
    yield equal("the two parts under the last layer", limit, summed)
    yield control(
        "the input is added to the branch: here it is not",
        estimate("products of gradients", branch_only, limit, wrong=-9.0),
    )


@claim(rows=("T09.24",))
def graph_tangent_kernel(key, *, nets: Count = 3000, width: Size = 8, nodes: Size = 6):
    r"""The tangent kernel of graph networks does not see the order of nodes, and tells graphs apart by their edges.

    Every node adds its neighbours to itself and passes through a dense layer with ReLU; the sum over nodes is read out.
    As the width grows the products of gradients between graphs tend to a kernel; with one such block they average to
    it at every width. Renaming the nodes of a graph leaves it as it is; moving an edge does not.
    """

    def network(params, x, a):
        h = jnp.sqrt(2) * (x + a @ x) @ params[0] / jnp.sqrt(x.shape[-1])
        return jnp.sqrt(2) * jnp.sum(jax.nn.relu(h), 0) @ params[1] / jnp.sqrt(width)

    @jax.jit
    def measure(key):
        x_key, a_key, order_key, key = jax.random.split(key, 4)
        x = jax.random.normal(x_key, (2, nodes, 3))
        upper = jnp.triu(jax.random.bernoulli(a_key, 0.4, (2, nodes, nodes)).astype(float), 1)
        upper = upper.at[:, 0, 1].set(1.0).at[:, 0, 2].set(0.0)
        a = upper + jnp.swapaxes(upper, 1, 2)
        order = jax.random.permutation(order_key, nodes)
        moved = upper.at[:, 0, 1].set(0.0).at[:, 0, 2].set(1.0)

        def gram(key):
            one, two = jax.random.split(key)
            params = jax.random.normal(one, (3, width)), jax.random.normal(two, (width,))
            return gradient_gram(lambda p: jax.vmap(lambda x, a: network(p, x, a))(x, a), params)

        grams = jax.vmap(gram)(jax.random.split(key, nets))
        renamed = graph_ntk(x, a, x[:, order], a[:, order][:, :, order], blocks=2)
        other = graph_ntk(x, a, x, moved + jnp.swapaxes(moved, 1, 2), blocks=2)
        return grams, graph_ntk(x, a), graph_ntk(x, a, blocks=2), renamed, other

    grams, limit, deep, renamed, other = measure(key)
    yield estimate("products of gradients between graphs", grams, limit, wrong=limit / 2 - 0.1)
    yield equal("kernel of a graph with its nodes renamed", renamed, deep, rtol=1e-7)
    yield control("a graph with its nodes renamed: here an edge is moved", equal("kernel", other, deep, rtol=1e-7))


@claim(rows=("B07.20",))
def table_of_kernels(key, *, nets: Count = 4000, width: Size = 16, n: Size = 4):
    r"""Which kernel is which: at the start and in training, for random features and for networks.

    | | random features | network |
    | --- | --- | --- |
    | at the start | $\frac1p\phi\cdot\phi$ | $\Sigma$ |
    | in training | $\frac1p\phi\cdot\phi$ | $\Theta$ |

    Of a model $\frac1{\sqrt p}\theta\cdot\phi(x)$ with fixed features the covariance of the output over $\theta$ and
    the product of its gradients are one matrix. A network's are not: $\Theta$ exceeds $\Sigma$ by what the inner
    layers learn, and the share of its last layer (weights and bias) is exactly $\Sigma$.
    """
    x = jnp.asarray(np.random.default_rng(0).normal(size=(n, 3)))
    network = dense_network((width,), bias_std=0.5)

    @jax.jit
    def measure(key):
        feature_key, theta_key, key = jax.random.split(key, 3)
        w = jax.random.normal(feature_key, (30, 3))

        def features(theta):
            return jax.nn.relu(x @ w.T) @ theta / jnp.sqrt(30)

        theta = jax.random.normal(theta_key, (30,))
        basis = jax.vmap(features)(jnp.eye(30))  # outputs are linear in θ: the covariance is the sum over a basis

        def one(key):
            params = network.init((3,), key=key).params
            whole = gradient_gram(lambda p: network.apply(p, x)[:, 0], params)
            last = gradient_gram(lambda p: network.apply((*params[:2], p), x)[:, 0], params[2])
            return last, whole

        last, whole = jax.vmap(one)(jax.random.split(key, nets))
        return gradient_gram(features, theta), basis.T @ basis, last, whole

    gradients, covariance, last, whole = measure(key)
    sigma, theta = nngp(x, depth=1, bias_std=0.5), ntk(x, depth=1, bias_std=0.5)
    yield equal("random features: gradients and covariance", gradients, covariance)
    yield estimate("network: gradients of the last layer", last, sigma, wrong=theta + 0.1)
    yield estimate("network: gradients of all layers", whole, theta, wrong=sigma - 0.1)
    gap = jnp.linalg.norm(theta - sigma) / jnp.linalg.norm(sigma)
    yield at_least("distance of the two kernels over the first", gap, 0.1)
    yield control(
        "the features are fixed: here they are trained",
        estimate("gradients against the covariance", whole, sigma, wrong=-9.0),
    )
