"""Residual and dense connections: what they add to a plain deep network."""

from typing import Annotated

import jax
import jax.numpy as jnp
import optax

from corollary.claims.nets._pictures import curves
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal
from corollary.nets import (
    ACTIVATIONS,
    MLP,
    Composition,
    DenseNetwork,
    FullyConnected,
    ProjectedResidualLayer,
    ResidualLayer,
    Stack,
    lecun_normal,
    logistic,
    parameter_count,
    softplus,
    tanh,
    train,
    zeros,
)


@claim(rows=("E02.16", "E02.15", "E02.17"))
def zero_parameters_are_the_identity(key, *, size: Size = 6, depth: Count = 50):
    r"""A residual layer with zero parameters is the identity, at any depth and for any activation.

    $F[W,b](x)=x+(\phi(Wx+b)-\phi(0))$ has $F[0,0]=\mathrm{Id}$; with a projection,
    $F[V,W,b](x)=Vx+(\phi(Wx+b)-\phi(0))$ has $F[V,0,0]=V$, and $V=I$ gives back the first. Without the correction
    $\phi(0)$ the logistic function adds $\frac12$ a layer.
    """
    x_key, v_key, w_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (size,))
    names = ("identity", "logistic", "tanh", "arctan", "relu")
    functions = [ACTIVATIONS[n] for n in names] + [softplus(1.0)]
    blank = {"initialisation": zeros, "bias_initialisation": zeros}

    @jax.jit
    def measure(x):
        deep = [Stack(lambda k, f=f: ResidualLayer(size, f, key=k, **blank), depth, key=key)(x) for f in functions]
        projected = [ProjectedResidualLayer(size, size + 2, f, key=v_key, **blank) for f in functions]
        free = ResidualLayer(size, tanh, key=w_key)
        eye = ProjectedResidualLayer(size, size, tanh, key=w_key, projection_initialisation=lambda *_: jnp.eye(size))
        shared = jnp.eye(size) @ x + (eye.branch(x) - jnp.tanh(0.0))
        uncorrected = jax.lax.fori_loop(0, depth, lambda _, h: h + logistic(0 * h), x)
        plain = [FullyConnected(size, size, f, key=key, **blank)(x) for f in functions]
        return {
            "deep": jnp.stack(deep),
            "projected": jnp.stack([p(x) for p in projected]),
            "linear": jnp.stack([p.projection @ x for p in projected]),
            "same": (free(x), x + jnp.tanh(free.branch.weight @ x + free.branch.bias)),
            "eye": (eye(x), shared),
            "uncorrected": uncorrected,
            "plain": jnp.stack(plain),
        }

    m = measure(x)
    yield equal("deep residual network with zero parameters", m["deep"], x, rtol=0, atol=0)
    yield equal("with a projection", m["projected"], m["linear"], rtol=0, atol=0)
    yield equal("residual layer with tanh", *m["same"])
    yield equal("the identity as projection", *m["eye"])
    at_zero = jnp.stack([f(jnp.zeros(size)) for f in functions])
    yield equal("plain layers with zero parameters are constant", m["plain"], at_zero, rtol=0, atol=0)
    yield equal("logistic without correction", m["uncorrected"], x + depth / 2)
    yield control("without the correction φ(0)", equal("deep residual network", m["uncorrected"], x, rtol=0, atol=0))


@claim(rows=("E02.18",), full={"steps": 2000, "points": 400, "depth": 100})
def depth_with_and_without_shortcuts(
    key, *, depth: Annotated[int, Range(50, 200)] = 50, width: Size = 16, points: Size = 32, steps: Count = 100
):
    r"""Residual layers keep gradients alive at a depth where plain logistic layers lose them.

    In a plain network the gradient by $x^\ell$ shrinks by $\frac14\|W\|$ or more a logistic layer: to nothing at depth
    50. With residual layers whose branches are scaled by $L^{-1/2}$ it keeps its size. With the same activation,
    optimiser and number of steps the deep residual network trains and the deep plain one does not.
    """
    options = {"initialisation": lecun_normal, "bias_initialisation": zeros}
    optimiser = optax.adam(3e-3)

    def networks(key):
        """A plain and a residual stack."""

        def plain(k):
            return FullyConnected(width, width, logistic, key=k, **options)

        def residual(k):
            return ResidualLayer(width, logistic, key=k, branch_scale=depth**-0.5, **options)

        return Stack(plain, depth, key=key), Stack(residual, depth, key=key)

    def ratio(stack, direction, x):
        """The norm of the gradient by the first state over that by the last."""
        return jnp.linalg.norm(jax.vjp(stack, x)[1](direction)[0]) / jnp.linalg.norm(direction)

    def loss(f, y):
        return (f[0] - y) ** 2

    @jax.jit
    def measure(key):
        x_key, net_key, head_key, teacher_key = jax.random.split(key, 4)
        x = jax.random.normal(x_key, (points, width))
        y = jax.vmap(MLP((width, width, 1), tanh, key=teacher_key, initialisation=lecun_normal))(x)[:, 0]
        y = (y - y.mean()) / y.std()
        head = FullyConnected(width, 1, key=head_key, initialisation=lecun_normal)
        stacks = networks(net_key)
        weights = stacks[0].layers.weight
        norms = jnp.sqrt(jnp.linalg.eigvalsh(weights @ weights.mT)[:, -1])
        ratios = [jax.vmap(lambda a, s=s: ratio(s, head.weight[0], a))(x[:8]) for s in stacks]
        runs = [train(Composition((s, head)), loss, (x, y), optimiser, steps=steps).losses for s in stacks]
        return *ratios, jnp.prod(norms / 4), *runs

    vanishing, kept, bound, plain, residual = measure(key)
    yield at_most("gradient at the first over the last layer, plain", vanishing, bound)
    yield at_most("the same, to nothing", vanishing, 1e-6)
    yield at_most("the same, residual", kept, 10.0)
    yield at_least("the same, residual, no less than a tenth", kept, 0.1)
    yield control("shortcuts break the bound", at_most("gradient ratio, residual", kept, bound))
    yield at_most("loss of the residual network over that of the plain one", residual[-1] / plain[-1], 0.5)
    yield at_least("loss of the plain network; 1 is the best constant", plain[-1], 0.9)
    yield curves("training", jnp.arange(steps), {"plain": plain, "residual": residual}, "step", "loss")


@claim(rows=("E02.19",))
def dense_connectivity(key, *, inputs: Size = 4, growth: Size = 3, depth: Count = 5):
    r"""In a dense network every layer sees the input directly, and the sizes grow by a constant.

    $x^{\ell+1}=F^{\ell+1}(x^\ell,\dots,x^1,x)$: layer $\ell$ has fan-in $n+k\ell$, there are
    $\sum_{\ell<L}k(n+k\ell)+k$ parameters, and the output has the size $n+kL$. With all weights on earlier layers zero
    the last layer still depends on the input; in a plain chain nothing is left.
    """
    net_key, x_key = jax.random.split(key)
    network = DenseNetwork(inputs, growth, depth, tanh, key=net_key)
    x = jax.random.normal(x_key, (inputs,))
    layers = [FullyConnected.of(l.weight.at[:, inputs:].set(0.0), l.bias, tanh) for l in network.layers]
    direct = Composition([lambda x, l=l: jnp.concatenate([x, l(x)]) for l in layers])
    chain = MLP((inputs, *[growth] * depth), tanh, key=net_key, initialisation=zeros)
    last = slice(-growth, None)
    jacobians = jax.jit(lambda x: [jax.jacobian(f)(x) for f in (network, direct, chain)])(x)
    fan_in = [layer.weight.shape[1] for layer in network.layers]
    yield equal("fan-in of the layers", fan_in, inputs + growth * jnp.arange(depth), rtol=0, atol=0, along="layer")
    count = sum(growth * (inputs + growth * i) + growth for i in range(depth))
    yield equal("number of parameters", parameter_count(network), count, rtol=0, atol=0)
    yield equal("size of the output", network(x).size, inputs + growth * depth, rtol=0, atol=0)
    yield equal("the input is part of the output", network(x)[:inputs], x, rtol=0, atol=0)
    yield at_least(
        "norm of the Jacobian of the last layer, direct path alone", jnp.linalg.norm(jacobians[1][last]), 1e-3
    )
    slope = layers[-1].activation.prime(layers[-1].preactivation(network(x)[:-growth]))
    yield equal("that Jacobian", jacobians[1][last], slope[:, None] * layers[-1].weight[:, :inputs])
    yield control(
        "a chain with the connections cut forgets its input",
        at_least("norm of the Jacobian", jnp.linalg.norm(jacobians[2]), 1e-3),
    )
