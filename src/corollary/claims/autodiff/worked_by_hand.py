"""The small networks and chains that the texts differentiate by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from corollary.autodiff import (
    ACTIVATION_PAIRS,
    Layer,
    TwoLayer221,
    WorkedMLP,
    backprop_221,
    forward_pass,
    layered_backprop,
    mlp_gradient,
    one_neuron,
    scalar_chain,
    sgd_step,
)
from corollary.claims.autodiff._pictures import curves
from corollary.evidence import Size, at_most, claim, control, equal, printed


def _flat(tree):
    return ravel_pytree(eqx.filter(tree, eqx.is_array))[0]


@claim(rows=("M06.03",))
def one_neuron_backwards(key, *, instances: Size = 64, inputs: Size = 4):
    r"""One neuron, forwards and backwards: every derivative from the one before it.

    $\Lambda=\frac12(y-c\,\sigma(w\cdot x))^2$ with $Z=w\cdot x$, $H=\sigma(Z)$, $m=cH$ has $\partial_m\Lambda=-(y-m)$,
    $\partial_c\Lambda=-(y-m)H$, $\partial_H\Lambda=-(y-m)c$, $\delta=\partial_Z\Lambda=-(y-m)c\,\sigma'(Z)$ and
    $\partial_w\Lambda=\delta x$.
    """
    x, w = jax.random.normal(key, (2, instances, inputs))
    y, c = jax.random.normal(jax.random.fold_in(key, 1), (2, instances))

    @jax.jit
    @jax.vmap
    def measure(x, y, c, w):
        rows = []
        for name in ("logistic", "tanh", "softplus"):
            value = ACTIVATION_PAIRS[name][0]
            ours = one_neuron(x, y, c, w, name)
            by_c, by_w = jax.grad(lambda c, w, value=value: (y - c * value(w @ x)) ** 2 / 2, (0, 1))(c, w)
            by_pre = jax.grad(lambda z, value=value: (y - c * value(z)) ** 2 / 2)(w @ x)
            by_activation = jax.grad(lambda h: (y - c * h) ** 2 / 2)(value(w @ x))
            theirs = jnp.concatenate([jnp.stack([by_c, by_activation, by_pre]), by_w])
            quartic = jax.grad(lambda c, value=value: (y - c * value(w @ x)) ** 4 / 4)(c)
            found = jnp.concatenate([jnp.stack([ours.by_c, ours.by_activation, ours.delta]), ours.by_w])
            rows.append((found, theirs, quartic))
        return tuple(jnp.stack(column) for column in zip(*rows, strict=True))

    ours, theirs, quartic = measure(x, y, c, w)
    yield equal("all derivatives, three activations", ours, theirs, atol=1e-13)
    yield control("the error is not squared", equal("derivative by c", ours[..., 0], quartic, atol=1e-13))


@claim(rows=("M06.04", "M06.05"))
def two_two_one(key, *, instances: Size = 32):
    r"""The 2-2-1 network with biases, entry by entry: gradient, and a step of descent.

    $\delta_1^2=\frac{\partial\Lambda}{\partial m}\sigma'(Z_1^2)$ with $\frac{\partial\Lambda}{\partial m}=-(y-m)$ for
    $\Lambda=\frac12(y-m)^2$; $\delta_j^1=\delta_1^2w_{j1}^2\sigma'(Z_j^1)$; $\partial\Lambda/\partial
    b_j^\ell=\delta_j^\ell$ and $\partial\Lambda/\partial w_{ij}^\ell=\delta_j^\ell x_i^{\ell-1}$. A short step
    $w\leftarrow w-\eta\delta x$ lowers the loss.
    """

    @jax.jit
    @jax.vmap
    def measure(key):
        net_key, x_key, y_key = jax.random.split(key, 3)
        net, x, y = TwoLayer221(key=net_key), jax.random.normal(x_key, (2,)), jax.random.normal(y_key) + 2.0
        loss = lambda net: (y - net(x)) ** 2 / 2  # noqa: E731
        layers = [Layer(net.w1, net.b1), Layer(net.w2[:, None], net.b2[None])]
        general = layered_backprop(layers, x, y[None]).gradient
        ours, theirs = _flat(net.backprop(x, y)), _flat(jax.grad(loss)(net))
        entries = jnp.concatenate([_flat(general[0]), _flat(general[1])])
        # one bias for both hidden units, whose derivative is the sum of both sensitivities
        shared = jax.grad(lambda b: loss(eqx.tree_at(lambda n: n.b1, net, net.b1 * 0 + b)))(net.b1[0])
        one_of_two = eqx.tree_at(lambda n: n.b1, net, net.b1 * 0 + net.b1[0]).backprop(x, y).b1[0]
        return ours, theirs, entries, loss(net), loss(net.step(x, y, 0.01)), one_of_two, shared

    ours, theirs, general, start, down, one_of_two, shared = measure(jax.random.split(key, instances))
    yield equal("gradient", ours, theirs, atol=1e-14)
    yield equal("the general recursion", general, theirs, atol=1e-14)
    yield at_most("loss after a step", down, start)
    yield control("two units share one bias", equal("derivative by the bias", one_of_two, shared, atol=1e-14))


@claim(
    rows=("M06.04",),
    erratum="The derivative of the squared loss by the output is printed without its minus sign.",
)
def printed_sign(key):
    r"""The derivative of half the squared error by the output is label minus output.

    As printed in section 6.3: for $\Lambda=\frac12(y-m)^2$, $\partial\Lambda/\partial m=(y-m)$. It is $-(y-m)$;
    with the printed sign a step of "descent" goes up.
    """
    net_key, x_key = jax.random.split(key)
    net, x, y = TwoLayer221(key=net_key), jax.random.normal(x_key, (2,)), 2.0
    loss = lambda net: (y - net(x)) ** 2 / 2  # noqa: E731
    stepped = jax.tree.map(lambda p, g: p + 0.1 * g, net, net.backprop(x, y))
    slope = jax.grad(lambda m: (y - m) ** 2 / 2)(net(x))
    yield equal("derivative by the output, output minus label", slope, net(x) - y)
    yield at_most("loss after a step with that sign", loss(net.step(x, y, 0.1)), loss(net))
    yield printed(equal("derivative by the output, label minus output", slope, y - net(x)))
    yield printed(at_most("loss after a step with the printed sign", loss(stepped), loss(net)))


@claim(
    rows=("M06.04",),
    erratum="The summary takes the input j of a weight that leads from input i.",
)
def printed_index(key):
    r"""The derivative by a weight is the sensitivity of its target times the input of the same number.

    As printed in the summary of section 6.3 and in its update rule: $w_{ij}\leftarrow w_{ij}-\eta\,\delta_jx_j$. The
    weight $w_{12}$ leads from input 1 to unit 2, and its derivative is $\delta_2x_1$.
    """
    net_key, x_key = jax.random.split(key)
    net, x = TwoLayer221(key=net_key), jnp.array([1.0, -2.0]) + 0.1 * jax.random.normal(x_key, (2,))
    true = jax.grad(lambda net: (2.0 - net(x)) ** 2 / 2)(net)
    delta = true.b1  # the derivative by a bias is the sensitivity
    yield equal("with the input the weight leads from", jnp.outer(x, delta), true.w1, atol=1e-14)
    yield printed(
        equal("with the input of the number of the target", delta * x * jnp.ones((2, 1)), true.w1, atol=1e-14)
    )


@claim(
    rows=("M06.04",),
    erratum="The chain for the second hidden unit is printed with a derivative of one hidden unit by the other.",
)
def printed_chain(key):
    r"""The sensitivity of the second hidden unit is itself times the derivative of the first unit by the second.

    As printed in section 6.3: $\delta_2^1=\frac{\partial\Lambda}{\partial Z_2^1}\frac{\partial Z_1^1}{\partial
    Z_2^1}$. Units of one layer do not depend on each other: the second factor is zero. Through the layer above the
    chain is right: $\frac{\partial\Lambda}{\partial Z_1^2}\frac{\partial Z_1^2}{\partial Z_2^1}$.
    """
    net = TwoLayer221(key=key)
    x = jnp.array([1.0, -1.0])
    pre = net.w1.T @ x + net.b1

    def above(pre):
        return net.w2 @ jax.nn.sigmoid(pre) + net.b2

    def loss(top):
        return (2.0 - jax.nn.sigmoid(top)) ** 2 / 2

    true = net.backprop(x, 2.0).b1[1]  # the derivative by a bias is the sensitivity
    through = jax.grad(loss)(above(pre)) * jax.grad(above)(pre)[1]
    # the first pre-activation as a function of both: it does not see the second
    across = jax.grad(lambda pre: pre[0])(pre)[1]
    yield equal("the product through the layer above", through, true, atol=1e-14)
    yield printed(equal("the product across the layer", jax.grad(lambda p: loss(above(p)))(pre)[1] * across, true))


@claim(rows=("B02.18", "B02.19"), full={"epochs": 1000})
def shallow_network(key, *, n: Size = 100, units: Size = 16, epochs: Size = 200):
    r"""The gradient of the shallow sigmoid network in closed form, and stochastic descent with it.

    For $f(x)=\sum_j\beta_j\sigma(w_j\cdot x)$ and $L=\frac12(f(x)-y)^2$: $\partial_{\beta_j}L=(f-y)\,\sigma(w_j\cdot
    x)$, $\partial_{w_{ji}}L=(f-y)\,\beta_jx_i\,\frac1{1+e^{-w_j\cdot x}}\,\frac1{1+e^{w_j\cdot x}}$. The steps of
    single examples from one point, averaged, are the step of full descent. One example at a time, the loss on 100
    points of a sine falls by more than nine tenths in 200 epochs.
    """
    model_key, x_key = jax.random.split(key)
    # a column of ones serves as bias
    x = jnp.stack([jnp.linspace(-3.0, 3.0, n), jnp.ones(n)], 1)
    x = x.at[:, 0].add(0.01 * jax.random.normal(x_key, (n,)))
    y = jnp.sin(x[:, 0])
    model = WorkedMLP(2, units, key=model_key)

    @jax.jit
    def measure(model, x, y, key):
        mean = lambda m: jnp.mean((jax.vmap(m)(x) - y) ** 2) / 2  # noqa: E731
        single = jax.vmap(lambda a, b: _flat(mlp_gradient(model, a, b)))(x, y)
        automatic = jax.vmap(lambda a, b: _flat(jax.grad(lambda m: (m(a) - b) ** 2 / 2)(model)))(x, y)
        steps = jax.vmap(lambda a, b: _flat(sgd_step(model, a, b, 0.1)))(x, y).mean(0)
        descent = _flat(model) - 0.1 * _flat(jax.grad(mean)(model))

        def epoch(model, key):
            order = jax.random.permutation(key, n)
            model, _ = jax.lax.scan(lambda m, i: (sgd_step(m, x[i], y[i], 0.1), None), model, order)
            return model, mean(model)

        _, losses = jax.lax.scan(epoch, model, jax.random.split(key, epochs))
        start = mean(model)
        quartic = jax.vmap(lambda a, b: _flat(jax.grad(lambda m: (m(a) - b) ** 4 / 4)(model)))(x, y)
        return single, automatic, steps, descent, jnp.concatenate([start[None], losses]), quartic

    single, automatic, steps, descent, losses, quartic = measure(model, x, y, key)
    yield equal("gradient of every example", single, automatic, atol=1e-13)
    yield equal("average of the single steps", steps, descent, atol=1e-13)
    yield at_most("loss after all epochs", losses[-1], losses[0] / 10)
    yield control("the error is not squared", equal("gradient of every example", single, quartic, atol=1e-13))
    yield curves(
        "stochastic descent",
        jnp.arange(losses.size),
        {"average loss": losses},
        titles=("epoch", "average loss"),
        log="y",
    )


@claim(rows=("B02.20",))
def figure_2_8(key, *, instances: Size = 64):
    r"""Backpropagation on the 2-2-1 network without biases: all six derivatives, and every quantity on the way.

    $\partial_{\hat y}L=\hat y-y$; $\partial_{w_{3i}}L=(\hat y-y)\,\sigma'(net_{o})\,h_i$; $\partial_{h_i}L=(\hat
    y-y)\,\sigma'(net_o)\,w_{3i}$; $\partial_{w_{ji}}L=\partial_{h_i}L\,\sigma'(net_{h_i})\,x_j$ for all four weights
    of the first layer.
    """
    w = jax.random.normal(key, (instances, 2, 2))
    v, x = jax.random.normal(jax.random.fold_in(key, 1), (2, instances, 2))
    y = jax.random.uniform(jax.random.fold_in(key, 2), (instances,))

    @jax.jit
    @jax.vmap
    def measure(w, v, x, y):
        layers = [Layer(w, jnp.zeros(2)), Layer(v[:, None], jnp.zeros(1))]
        loss = lambda w, v: (y - jax.nn.sigmoid(v @ jax.nn.sigmoid(x @ w))) ** 2 / 2  # noqa: E731
        ours, theirs = backprop_221(w, v, x, y), jax.grad(loss, (0, 1))(w, v)
        by_hidden = jax.grad(lambda h: (y - jax.nn.sigmoid(v @ h)) ** 2 / 2)(ours.hidden)
        general = layered_backprop(layers, x, y[None]).gradient
        return {
            "ours": jnp.concatenate([ours.by_w.ravel(), ours.by_v]),
            "theirs": jnp.concatenate([theirs[0].ravel(), theirs[1]]),
            "general": jnp.concatenate([general[0].weights.ravel(), general[1].weights.ravel()]),
            "hidden": (ours.by_hidden, by_hidden),
            "output": (ours.output, forward_pass(layers, x).post[-1][0]),
            "biased": jax.grad(lambda w: (y - jax.nn.sigmoid(v @ jax.nn.sigmoid(x @ w + 1.0))) ** 2 / 2)(w).ravel(),
        }

    m = measure(w, v, x, y)
    yield equal("six derivatives", m["ours"], m["theirs"], atol=1e-14)
    yield equal("the general recursion", m["general"], m["theirs"], atol=1e-14)
    yield equal("derivatives by the hidden units", *m["hidden"], atol=1e-14)
    yield equal("output", *m["output"])
    yield control(
        "the hidden units have a bias",
        equal("derivatives by the first weights", m["ours"][:, :4], m["biased"], atol=1e-14),
    )


def _cosine(n: int):
    return (lambda z: jnp.cos(2.0**n * z), lambda z: -(2.0**n) * jnp.sin(2.0**n * z))


@claim(rows=("M06.11", "M06.12", "M06.13"))
def scalar_chains(key, *, points: Size = 20):
    r"""Chains of scalar layers: sensitivities from the top, one factor per layer.

    For $m=g(\sigma_3(w_3\sigma_2(w_2\sigma_1(w_1x+b_1)+b_2)+b_3))$: $\delta^3=g'\sigma_3'(Z^3)$,
    $\delta^{i}=\delta^{i+1}w_{i+1}\sigma_i'(Z^i)$, $\partial_{w_i}=\delta^i\sigma_{i-1}(Z^{i-1})$,
    $\partial_{b_i}=\delta^i$. Exercises: 6.3 (squared error of a tanh chain with $h=\exp$), 6.4 ($e^{\pi\sigma_3}$
    with $\sigma_n=\cos2^nz$) and 6.5 ($|\sigma_2(w_2\sigma_1(w_1x))-3|^2$).
    """
    weights, biases = jax.random.normal(key, (2, points, 3))
    x = jax.random.normal(jax.random.fold_in(key, 1), (points,))
    cosines = [_cosine(1), _cosine(2), _cosine(3)]
    squared = (lambda h: (1.5 - jnp.exp(h)) ** 2, lambda h: -2 * (1.5 - jnp.exp(h)) * jnp.exp(h))
    chains = {
        "Exercise 6.3": ([ACTIVATION_PAIRS[n] for n in ("tanh", "logistic", "tanh")], squared, 3),
        "Exercise 6.4": (cosines, (lambda h: jnp.exp(jnp.pi * h), lambda h: jnp.pi * jnp.exp(jnp.pi * h)), 3),
        "Exercise 6.5": (cosines[:2], (lambda h: (h - 3) ** 2, lambda h: 2 * (h - 3)), 2),
    }

    @jax.jit
    @jax.vmap
    def measure(x, weights, biases):
        out = {}
        for name, (layers, head, depth) in chains.items():
            w, b = weights[:depth], biases[:depth] * (name != "Exercise 6.5")

            def value(w, b, layers=layers, head=head):
                h = x
                for i, (sigma, _) in enumerate(layers):
                    h = sigma(w[i] * h + b[i])
                return head[0](h)

            ours = scalar_chain(x, w, b, layers, head)
            theirs = jax.grad(value, (0, 1))(w, b)
            shared = jax.grad(lambda s, value=value, w=w, b=b: value(0 * w + s, b))(w[0])
            one = scalar_chain(x, 0 * w + w[0], b, layers, head).by_weights[0]
            out[name] = (jnp.concatenate([ours.by_weights, ours.by_biases]), jnp.concatenate(theirs), one, shared)
        return out

    m = measure(x, weights, biases)
    for name, (ours, theirs, *_) in m.items():
        scale = jnp.abs(theirs).max(axis=-1, keepdims=True)
        # the argument 8 Z of a cosine is rounded, and that error is multiplied by every slope above
        yield equal(f"{name}, over the largest derivative", ours / scale, theirs / scale, rtol=0, atol=1e-12)
    _, _, one, shared = m["Exercise 6.4"]
    yield control("all layers share one weight", equal("Exercise 6.4, derivative by the first weight", one, shared))
