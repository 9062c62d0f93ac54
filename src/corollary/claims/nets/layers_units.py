"""Single units: linear, ridge and threshold."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, claim, control, equal, monotone, printed
from corollary.nets import ACTIVATIONS, AffineUnit, RidgeUnit, ThresholdUnit, heaviside, logistic, sign, train

SMOOTH = ("identity", "logistic", "tanh", "arctan")


@claim(rows=("B02.12",))
def threshold_units(key, *, dim: Size = 4, points: Size = 200, steps: Count = 100):
    r"""Gradient descent cannot train a threshold unit: its derivative is zero wherever it exists.

    $f^\pm=2f^H-1$ with $H(z)=1[z\ge0]$ and $\mathrm{sign}(0)=1$. (The text does not say what $\mathrm{sign}(0)$ is. Its
    "equivalently" and its values in $\{-1,1\}$ need 1; with the usual 0 the units differ there.) Off the hyperplane
    $x^\top\theta=0$ both are locally constant, the gradient of every loss vanishes and descent stands still, while the
    same unit with the logistic function learns.
    """
    unit_key, x_key, true_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (points, dim))
    y = heaviside(x @ jax.random.normal(true_key, (dim,)))
    steps_of = {kind: ThresholdUnit(dim, kind, key=unit_key) for kind in ("heaviside", "sign")}
    smooth = RidgeUnit(dim, logistic, key=unit_key)
    optimiser = optax.sgd(1.0)

    def loss(f, y):
        return (f - y) ** 2

    binary, signed = jax.vmap(steps_of["heaviside"])(x), jax.vmap(steps_of["sign"])(x)
    yield equal("sign unit", signed, 2 * binary - 1, rtol=0, atol=0)
    yield equal("at zero itself", sign(0.0), 2 * heaviside(0.0) - 1, rtol=0, atol=0)
    stuck = train(steps_of["heaviside"], loss, (x, y), optimiser, steps=steps)
    learns = train(smooth, loss, (x, y), optimiser, steps=steps)
    yield equal("loss of the threshold unit", stuck.losses, stuck.losses[0], rtol=0, atol=0, along="iteration")
    yield monotone("loss of the logistic unit", learns.losses, "decreasing", along="iteration")
    yield control(
        "the unit is a threshold: here logistic",
        equal("loss", learns.losses, learns.losses[0], rtol=0, atol=0, along="iteration"),
    )


@claim(rows=("B02.11", "B02.03"))
def ridge_functions(key, *, dim: Size = 6, points: Size = 100):
    r"""A ridge function is constant orthogonally to its weight, and its parameter gradient points along the input.

    For $f(x;\theta)=\phi(x^\top\theta)$: $f(x+\Delta x)=f(x)$ if $\Delta x\perp\theta$;
    $\|\nabla_xf\|=|\phi'(x^\top\theta)|\,\|\theta\|$; $\nabla_\theta\,\ell(f)$ is a multiple of $x$ for every loss
    $\ell$. For the identity, a linear unit: the rate of change is $\|\theta\|$ everywhere, in the direction
    $\theta/\|\theta\|$.
    """
    unit_key, x_key, shift_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (points, dim))
    units = {n: RidgeUnit(dim, ACTIVATIONS[n], key=unit_key) for n in SMOOTH}
    theta = units["tanh"].weight
    shift = 3 * jax.random.normal(shift_key, (points, dim))
    shift = shift - (shift @ theta)[:, None] * theta / (theta @ theta)

    @jax.jit
    def measure(x, shift):
        values, moved, norms, predicted, cosines = [], [], [], [], []
        for name, unit in units.items():
            values.append(jax.vmap(unit)(x))
            moved.append(jax.vmap(unit)(x + shift))
            norms.append(jnp.linalg.norm(jax.vmap(jax.grad(unit))(x), axis=1))
            predicted.append(jnp.abs(ACTIVATIONS[name].prime(x @ theta)) * jnp.linalg.norm(theta))
            slope = jax.vmap(lambda x, unit=unit: jax.grad(lambda u: (u(x) - 2.0) ** 2)(unit).weight)(x)
            cosines.append(jnp.abs(jnp.sum(slope * x, 1)) / jnp.linalg.norm(slope, axis=1) / jnp.linalg.norm(x, axis=1))
        radial = jnp.tanh(jnp.linalg.norm(x, axis=1)), jnp.tanh(jnp.linalg.norm(x + shift, axis=1))
        return tuple(map(jnp.stack, (values, moved, norms, predicted, cosines))), radial

    (values, moved, norms, predicted, cosines), radial = measure(x, shift)
    yield equal("value after an orthogonal shift", moved, values)
    yield equal("norm of the gradient", norms, predicted)
    yield equal("cosine of the parameter gradient and the input", cosines, 1.0)
    yield control("a radial function is no ridge", equal("value after the shift", radial[1], radial[0]))


@claim(rows=("B02.03",))
def affine_units(key, *, dim: Size = 5, points: Size = 100):
    r"""A map is affine exactly if it keeps combinations whose coefficients sum to one.

    $g(x)=x^\top\theta+b$ is the linear unit $(\theta,b)$ on $(x,1)$, has the value $b$ at 0, and
    $g(\alpha x+\beta y)=\alpha g(x)+\beta g(y)+(1-\alpha-\beta)\,b$: no defect if $\alpha+\beta=1$.
    """
    unit_key, x_key, y_key, a_key = jax.random.split(key, 4)
    unit = AffineUnit(dim, key=unit_key)
    x, y = jax.random.normal(x_key, (points, dim)), jax.random.normal(y_key, (points, dim))
    alpha, beta = 2 * jax.random.normal(a_key, (2, points))

    @jax.jit
    def defect(g, alpha, beta):
        g = jax.vmap(g)
        return g(alpha[:, None] * x + beta[:, None] * y) - alpha * g(x) - beta * g(y)

    lengthened = jnp.concatenate([x, jnp.ones((points, 1))], axis=1)
    yield equal("the unit on (x, 1)", jax.vmap(unit)(x), lengthened @ jnp.append(unit.weight, unit.bias))
    yield equal("value at 0", unit(jnp.zeros(dim)), unit.bias, rtol=0, atol=0)
    yield equal("defect for α + β = 1", defect(unit, alpha, 1 - alpha), 0.0)
    yield equal("defect for any α and β", defect(unit, alpha, beta), (1 - alpha - beta) * unit.bias)
    bent = RidgeUnit(dim, logistic, key=unit_key)
    yield control("a logistic unit is not affine", equal("defect for α + β = 1", defect(bent, alpha, 1 - alpha), 0.0))


@claim(
    rows=("B02.03",),
    erratum="The defect is (1 - α - β) b, not b: it depends on the coefficients and vanishes if they sum to one.",
)
def affine_by_constant_defect(key, *, dim: Size = 5, points: Size = 100):
    r"""An affine map satisfies f(αx + βy) = αf(x) + βf(y) + b for all α, β with one constant b.

    As printed in footnote 1 of section 2.2. With $\alpha=1$, $\beta=0$ it would say $b=0$. The constant tried here is
    the offset of the unit; no other does better, because the defect takes different values: it is $(1-\alpha-\beta)b$.
    """
    unit_key, x_key, a_key = jax.random.split(key, 3)
    unit = AffineUnit(dim, key=unit_key)
    x, y = jax.random.normal(x_key, (2, points, dim))
    alpha, beta = 2 * jax.random.normal(a_key, (2, points))
    g = jax.vmap(unit)
    defect = g(alpha[:, None] * x + beta[:, None] * y) - alpha * g(x) - beta * g(y)
    yield equal("defect, corrected", defect, (1 - alpha - beta) * unit.bias)
    yield printed(equal("defect, as printed", defect, unit.bias))
