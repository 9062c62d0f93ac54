"""Residual layers: their Jacobians, and what depth does with and without them."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, estimate, monotone
from corollary.nets import (
    MLP,
    ProjectedResidualLayer,
    ResidualBlock,
    lecun_normal,
    relu,
    tanh,
    train,
    zeros,
)
from corollary.nets.convolutional import IMAGENET_ERRORS
from corollary.network import BatchLoss


@claim(rows=("B10.19", "B10.20", "B10.21"))
def jacobians_near_the_identity(key, *, width: Size = 32, depth: Count = 50, runs: Count = 2000):
    r"""Residual layers with small branches keep gradients; the singular values lie in a product interval.

    $g(x)=x+f(x)$ has $J_g=I+J_f$, and $g(x)=Wx+f(x)$ has $J_g=W+J_f$; with a last layer of zeros in $f$, $g$ is the
    identity. For $L$ of them in a row the singular values of the Jacobian lie in
    $$\Big[\prod_l(1-\|J_{f_l}\|),\ \prod_l(1+\|J_{f_l}\|)\Big]\qquad(\|J_{f_l}\|\le1),$$
    both ends attained by $f_l=\pm cx$. With branches $\frac1L\mathrm{ReLU}(Wx)$, $W_{ij}\sim N(0,\frac1d)$, that is
    near 1 at any depth. Without the identity, $E\|Jv\|^2=2^{-L}\|v\|^2$ for every $v$ and $x$. The branch must be
    small: with a factor 1 instead of $\frac1L$ the norm explodes.
    """

    x_key, key = jax.random.split(key)
    # drawn apart: inside, the compiler may draw it twice, and round differently
    x = jax.random.normal(x_key, (width,))

    @jax.jit
    def measure(key, x):
        f_key, deep_key, v_key, plain_key = jax.random.split(key, 4)
        branch = MLP((width, 8, width), tanh, key=f_key)
        layer = ProjectedResidualLayer(width, 3, tanh, key=f_key)
        dead = MLP((width, 8, width), tanh, key=f_key, initialisation=zeros, bias_initialisation=zeros)

        weights = jax.random.normal(deep_key, (depth * width**2,)).reshape(depth, width, width) / jnp.sqrt(width)

        def network(x, scale):
            return jax.lax.scan(lambda h, w: (h + scale * relu(w @ h), h), x, weights)

        def deep(scale):
            """The Jacobian of the whole, and of every branch at the state that it sees."""
            whole, states = jax.jacobian(network, has_aux=True)(x, scale)
            return whole, scale * (jnp.einsum("lij,lj->li", weights, states) > 0)[:, :, None] * weights

        def plain(key):
            def advance(carry, k):
                x, v = carry
                w = jax.random.normal(k, (width, width)) / jnp.sqrt(width)
                return jax.jvp(lambda x: relu(w @ x), (x,), (v,)), None

            v = jax.random.normal(v_key, (width,))
            (_, out), _ = jax.lax.scan(advance, (x, v), jax.random.split(key, 8))
            return jnp.sum(out**2) / jnp.sum(v**2)

        return {
            "identity": (jax.jacobian(ResidualBlock(branch))(x), jnp.eye(width) + jax.jacobian(branch)(x)),
            "projection": (jax.jacobian(layer)(x), layer.projection + jax.jacobian(layer.branch)(x)),
            "zero": (ResidualBlock(dead)(x), x),
            "deep": jax.vmap(deep)(jnp.array([1 / depth, 1.0])),
            "plain": jax.vmap(plain)(jax.random.split(plain_key, runs)),
        }

    found = measure(key, x)
    yield equal("Jacobian of x + f(x)", found["identity"][0].ravel(), found["identity"][1].ravel())
    yield equal("Jacobian of Wx + f(x)", found["projection"][0].ravel(), found["projection"][1].ravel())
    yield equal("last layer zero", *found["zero"], rtol=0, atol=0)
    ends = {}
    for name, whole, layers in zip(("small", "large"), *map(np.asarray, found["deep"]), strict=True):
        norms = np.linalg.norm(layers, 2, axis=(1, 2))
        ends[name] = np.linalg.svd(whole, compute_uv=False)[[-1, 0]], np.prod(1 - norms), np.prod(1 + norms)
    (least, most), low, high = ends["small"]
    yield at_least("smallest singular value", least, low)
    yield at_most("largest singular value", most, high)
    # the branches have norms of about 2 (random matrices) before the factor 1/L
    yield at_most("largest singular value, whatever the depth", most, np.exp(2.5))
    yield control("a factor 1", at_most("largest singular value", ends["large"][0][1], np.exp(2.5)))
    c = 1 / depth
    scaled = np.linalg.svd(np.linalg.matrix_power(np.eye(2) + np.diag([c, -c]), depth), compute_uv=False)
    yield equal("both ends attained by f = cx and f = -cx", scaled, [(1 + c) ** depth, (1 - c) ** depth])
    yield estimate("squared norm after 8 plain layers, times 2^8", 2**8 * found["plain"], 1.0, wrong=2.0)


@claim(rows=("B10.24", "B10.25"), full={"steps": 1000, "depth": 64})
def depth_hurts_plain_networks(
    key, *, depth: Annotated[int, Range(24, 100)] = 32, width: Size = 10, points: Size = 24, steps: Count = 100
):
    r"""Deeper is worse without shortcuts, and not worse with them.

    Networks of 4 and of many ReLU layers with weights of variance $1/d$, the same optimiser, data and number of steps,
    six of each: the deep plain ones end with a larger *training* loss than the shallow ones, so that it is no
    overfitting. With a shortcut around every two layers (and $n$ such branches scaled by $n^{-1/2}$) the deep ones end
    no higher. On ImageNet, the errors of residual networks that B prints fall from 34 to 152 layers.
    """
    runs = 6
    optimiser = optax.sgd(0.02, 0.9)
    blocks = depth // 2
    # networks of both depths and kinds are one program: blocks beyond the depth pass their input on
    counts, kept = jnp.array([2, blocks, 2, blocks]), jnp.array([0.0, 0.0, 1.0, 1.0])

    @BatchLoss
    def loss(model, data):
        (weights, biases, head), (x, y, count, shortcut) = model, data

        def block(h, leaf):
            (inner, outer), (b, c), i = leaf
            out = relu(h @ inner.T + b) @ outer.T + c
            out = jnp.where(shortcut > 0, h + out / jnp.sqrt(count), relu(out))
            return jnp.where(i < count, out, h), None

        h, _ = jax.lax.scan(block, x, (weights, biases, jnp.arange(blocks)))
        return jnp.mean((h @ head - y) ** 2)

    @jax.jit
    def measure(key):
        x_key, y_key, *keys = jax.random.split(key, 2 + runs)
        x = jax.random.normal(x_key, (points, width))
        y = jax.vmap(MLP((width, width, 1), tanh, key=y_key, initialisation=lecun_normal))(x)[:, 0]
        y = (y - y.mean()) / y.std()

        def one(key, count, shortcut):
            w_key, head_key = jax.random.split(key)
            weights = jax.random.normal(w_key, (2 * blocks * width**2,)).reshape(blocks, 2, width, width) / jnp.sqrt(
                width
            )
            head = jax.random.normal(head_key, (width,)) / jnp.sqrt(width)
            data = (x, y, count.astype(float), shortcut)
            return train((weights, jnp.zeros((blocks, 2, width)), head), loss, data, optimiser, steps=steps).losses[-1]

        # one after the other: batches of small products take a CPU longer to compile than to compute
        instances = jnp.tile(jnp.stack(keys), 4), jnp.repeat(counts, runs), jnp.repeat(kept, runs)
        return jax.lax.map(lambda instance: one(*instance), instances).reshape(4, runs)

    plain4, plain, residual4, residual = np.asarray(measure(key))

    yield at_least("plain and deep: training loss in every run; 1 is the best constant", plain, 0.9, along="run")
    yield at_most("plain and shallow: mean over the runs", plain4.mean(), 0.3)
    yield at_most("residual and deep: mean over the runs, against the shallow", residual.mean(), 1.1 * residual4.mean())
    yield control("plain networks", at_most("deep against shallow", plain.mean(), 1.1 * plain4.mean()))
    printed = [IMAGENET_ERRORS[f"ResNet-{n}"] for n in ("34 C", "50", "101", "152")]
    yield monotone("printed errors, top 1 and top 5", np.transpose(printed), "decreasing", strict=True)
