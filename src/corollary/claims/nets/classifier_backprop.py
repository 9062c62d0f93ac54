"""Backpropagation for softmax classifiers: the formulas of chapters 7 and 8 of text M in both conventions."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.foundations import finite_difference_gradient
from corollary.nets import Classifier, classifier_backprop, parameter_count, softplus, tanh


def _flat(tree):
    return ravel_pytree(eqx.filter(tree, eqx.is_array))[0]


@claim(rows=("M07.20", "M07.19", "M08.01", "M08.02", "M08.12"), full={"instances": 64})
def both_conventions(key, *, width: Size = 5, instances: Size = 8):
    r"""Backpropagation for the softmax classifier, by hidden values or by pre-activations, is the gradient.

    $\partial_U\lambda=m-e(y)$; with $\delta^\ell=\partial\lambda/\partial H^\ell$:
    $\delta^L=(W^{L+1})^\top\partial_U\lambda$,
    $\delta^\ell=(W^{\ell+1})^\top(\delta^{\ell+1}\odot\sigma'(Z^{\ell+1}))$,
    $\partial_{b^\ell}\lambda=\delta^\ell\odot\sigma'(Z^\ell)$; with $\delta^\ell=\partial\lambda/\partial Z^\ell$ the
    slope is inside. $\partial_{W^\ell}\lambda=\partial_{b^\ell}\lambda(H^{\ell-1})^\top$ for $\ell=1..L$. The
    conventions differ by $\delta_Z=\delta_H\odot\sigma'(Z)$. Measured for 1 and 3 hidden layers. Since
    $\mathbf1^\top\partial_U\lambda=0$, steps of SGD keep $\mathbf1^\top W^{L+1}$ and $\mathbf1^\top b^{L+1}$.
    """
    d, classes = 4, 3

    @jax.jit
    def measure(keys):
        def one(depth, key):
            net_key, x_key = jax.random.split(key)
            model = Classifier(d, width, depth, classes, tanh, key=net_key)
            x, y = jax.random.normal(x_key, (d,)), jax.random.randint(x_key, (), 0, classes)
            exact = jax.grad(lambda m: m.loss(x, y))(model)
            by_h, by_z = (classifier_backprop(model, x, y, by) for by in ("H", "Z"))
            states = model.network.activations(x)[1:-1]
            slopes = jnp.stack([1 - h**2 for h in states])
            last = by_h.gradient.network.layers[-1]
            # the squared distance from the one-hot label has another derivative by U
            other = jax.grad(lambda m: jnp.sum((jax.nn.softmax(m.logits(x)) - jnp.eye(classes)[y]) ** 2))(model)
            return {
                "gradients": (jnp.stack([_flat(by_h.gradient), _flat(by_z.gradient)]), _flat(exact)),
                "relation": (jnp.stack(by_z.deltas), jnp.stack(by_h.deltas) * slopes),
                "kept": jnp.append(last.weight.sum(0), last.bias.sum()),
                "sum": jax.nn.softmax(model.logits(x)).sum(),
                "count": parameter_count(model),
                "other": _flat(other),
            }

        return {depth: jax.vmap(lambda k, depth=depth: one(depth, k))(keys) for depth in (1, 3)}

    for depth, m in measure(jax.random.split(key, instances)).items():
        ours, exact = m["gradients"]
        yield equal(f"gradient, hidden layers {depth}", ours, exact[:, None], atol=1e-14)
        yield equal(f"sensitivities in the two conventions, hidden layers {depth}", *m["relation"], atol=1e-15)
        yield equal(f"column sums of the derivative by the last layer, hidden layers {depth}", m["kept"], 0.0)
        yield equal(f"sum of the probabilities, hidden layers {depth}", m["sum"], 1.0)
        count = width * (d + 1) + (depth - 1) * width * (width + 1) + classes * (width + 1)
        yield equal(f"number of parameters, hidden layers {depth}", m["count"], count, rtol=0, atol=0)
    yield control(
        "the loss is the cross-entropy: here the squared distance",
        equal("gradient", ours, m["other"][:, None], atol=1e-14),
    )


@claim(
    rows=("M08.02",),
    erratum="The formulas for the derivatives by weights and biases are stated up to layer L - 1 but are needed for L.",
)
def layers_as_printed(key, *, width: Size = 5, depth: Annotated[int, Range(2, 6)] = 3):
    r"""The printed formulas give the derivatives by all parameters.

    As printed in 8.2: the derivatives by $W^{L+1}$ and $b^{L+1}$, and those by $W^\ell$ and $b^\ell$ for
    $\ell=1,\dots,L-1$. A program that follows them literally leaves the last hidden layer as it was.
    """
    model, x = Classifier(4, width, depth, 3, tanh, key=key), jax.random.normal(key, (4,))
    ours = classifier_backprop(model, x, 0).gradient
    exact = jax.grad(lambda m: m.loss(x, 0))(model)
    skipped = ours.network.layers[depth - 1]
    literal = eqx.tree_at(
        lambda m: (m.network.layers[depth - 1].weight, m.network.layers[depth - 1].bias),
        ours,
        (0 * skipped.weight, 0 * skipped.bias),
    )
    yield equal("with layer L", _flat(ours), _flat(exact), atol=1e-14)
    yield printed(equal("as printed", _flat(literal), _flat(exact), atol=1e-14))


@claim(rows=("M07.21", "M07.20"))
def same_updates(key, *, steps: Count = 100, width: Size = 8):
    r"""Both conventions of the sensitivities make the same training run.

    For the shallow classifier $\delta=C^\top\partial_U\lambda\odot\sigma'(Z)$ with $\partial_{b^1}\lambda=\delta$, or
    $\delta=C^\top\partial_U\lambda$ with $\partial_{b^1}\lambda=\delta\odot\sigma'(Z)$ (Remark 7.4): the same updates,
    so the same parameters after 100 steps of SGD up to rounding, and those of automatic differentiation. With the
    second $\delta$ in the formulas of the first, the run is another one.
    """
    d, classes, n, step = 3, 3, 30, 0.1

    @jax.jit
    def measure(key):
        net_key, x_key, order_key = jax.random.split(key, 3)
        start = Classifier(d, width, 1, classes, tanh, key=net_key)
        x = jax.random.normal(x_key, (n, d))
        y = jnp.argmax(x, axis=1)
        order = jax.random.randint(order_key, (steps,), 0, n)

        def run(gradient):
            def advance(model, i):
                return jax.tree.map(lambda a, g: a - step * g, model, gradient(model, x[i], y[i])), None

            return _flat(jax.lax.scan(advance, start, order)[0])

        def mixed(model, x, y):
            found = classifier_backprop(model, x, y)
            (delta,) = found.deltas
            return eqx.tree_at(
                lambda m: (m.network.layers[0].weight, m.network.layers[0].bias),
                found.gradient,
                (jnp.outer(delta, x), delta),
            )

        return {
            "H": run(lambda m, x, y: classifier_backprop(m, x, y, "H").gradient),
            "Z": run(lambda m, x, y: classifier_backprop(m, x, y, "Z").gradient),
            "automatic": run(lambda m, x, y: jax.grad(lambda m: m.loss(x, y))(m)),
            "mixed": run(mixed),
            "start": _flat(start),
        }

    m = measure(key)
    # each step rounds at 1e-16 of numbers of order one
    yield equal("parameters after all steps, by H and by Z", m["H"], m["Z"], rtol=0, atol=1e-15 * steps)
    yield equal("parameters after all steps, automatic", m["H"], m["automatic"], rtol=0, atol=1e-14 * steps)
    yield at_least("how far they moved", jnp.abs(m["H"] - m["start"]).max(), 0.05)
    yield control(
        "one convention throughout: here the sensitivity of one in the formula of the other",
        equal("parameters after all steps", m["mixed"], m["Z"], rtol=0, atol=1e-14 * steps),
    )


@claim(rows=("M07.22",))
def finite_difference_check(key, *, width: Size = 4):
    r"""Central differences check a gradient: an error of the order of the squared step, until rounding takes over.

    $|\frac{\lambda(\theta_i+\Delta)-\lambda(\theta_i-\Delta)}{2\Delta}-\partial_i\lambda|=O(\Delta^2)+O(\epsilon/\Delta)$,
    least near $\Delta\approx\epsilon^{1/3}\approx6\cdot10^{-6}$. There the check notices one derivative that is
    wrong by 1 %.
    """
    powers = jnp.arange(2.0, 8.0)
    sizes, tiny = 2.0**-powers, 10.0 ** -jnp.arange(9.0, 13.0)
    best = float(jnp.finfo(float).eps) ** (1 / 3)

    @jax.jit
    def measure(key):
        net_key, x_key = jax.random.split(key)
        model = Classifier(3, width, 1, 3, softplus(), key=net_key)
        x = jax.random.normal(x_key, (3,))
        theta, back = ravel_pytree(eqx.filter(model, eqx.is_array))

        def loss(theta):
            return back(theta).loss(x, 1)

        exact = _flat(classifier_backprop(model, x, 1).gradient)
        every = jnp.concatenate([sizes, tiny, jnp.array([best])])
        errors = jax.vmap(lambda h: jnp.abs(finite_difference_gradient(loss, theta, h) - exact).max())(every)
        worst = jnp.argmax(jnp.abs(exact))
        wrong = exact.at[worst].multiply(1.01)
        return errors, finite_difference_gradient(loss, theta, best), exact, wrong

    errors, measured, exact, wrong = measure(key)
    coarse, fine, least = errors[: sizes.size], errors[sizes.size : -1], errors[-1]
    yield rate("error against the step", sizes, coarse, 2.0, tolerance=0.1, along="step")
    # the loss, of order one, is rounded at 1e-16 at both ends: a few times 1e-16 over the step
    yield at_most("error times the step, small steps, over the rounding", fine * tiny / jnp.finfo(float).eps, 8.0)
    yield at_most("error at the best step, over those of larger and of smaller ones", least / errors[:-1], 0.1)
    # the third derivative is of order one, so both errors are near the square of the step
    yield equal("the gradient", measured, exact, rtol=0, atol=10 * best**2)
    yield control(
        "the gradient is right: here one derivative is off by 1 %",
        equal("the gradient", measured, wrong, rtol=0, atol=10 * best**2),
    )
