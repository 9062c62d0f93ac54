"""The price of both modes for a network whose every layer has weights of its own: counts, and who is cheaper when."""

from typing import Annotated

import jax
import numpy as np

from corollary.autodiff import ChainModel, chain_cost, forward_mode, multiplications, reverse_mode
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, printed, rate


def _counted(mode, depth, width, inputs, outputs):
    """Multiplications of a mode beyond those of the evaluation, which both need."""
    chain = jax.eval_shape(lambda key: ChainModel(depth, width, inputs, key=key), jax.random.key(0))
    x, loss = jax.ShapeDtypeStruct((inputs,), float), jax.ShapeDtypeStruct((outputs, width), float)
    both = multiplications({"reverse": reverse_mode, "forward": forward_mode}[mode], chain, x, loss)
    return both - multiplications(lambda chain, x: chain.states(x), chain, x)


def _parameters(depth, width, inputs):
    return depth * width * inputs + (depth - 1) * width**2


def _grid(key, instances):
    low, high = np.array([2, 2, 1, 1]), np.array([6, 6, 6, 9])
    return np.asarray(jax.random.randint(key, (instances, 4), low, high)).tolist()


@claim(rows=("M24.03",))
def reverse_cost(key, *, instances: Size = 20):
    r"""Reverse mode costs a multiple of the number of outputs, and never meets the number of parameters.

    For $z_\ell=\sigma(W_z^\ell z_{\ell-1}+W_x^\ell x)$ with $L$ layers of width $d$ and $d_O$ losses: $(L-1)d_Od^2$
    multiplications for the sensitivities and $d_O\{(L-1)d^2+Ldd_x\}$ for the parameters, in all
    $(L-1)\,2d_Od^2+L\,d_Odd_x$. Elementwise slopes, the evaluation and $\hat z_L$ are not counted.
    """
    grid = _grid(key, instances)
    counts = np.array([_counted("reverse", *row) for row in grid])
    depth, width, inputs, outputs = np.array(grid).T
    formula = (depth - 1) * 2 * outputs * width**2 + depth * outputs * width * inputs
    yield equal("multiplications", counts, formula, rtol=0, atol=0)
    many = np.array([1, 2, 4, 8, 16, 32])
    linear = [_counted("reverse", 4, 3, 2, int(o)) for o in many]
    yield equal("over the count for one loss", np.array(linear) / linear[0], many, rtol=1e-12, x=many, along="losses")
    forward = [_counted("forward", *row) for row in grid]
    yield control("the derivative is carried forwards", equal("multiplications", forward, formula, rtol=0, atol=0))


@claim(rows=("M24.05",))
def forward_cost(key, *, instances: Size = 12):
    r"""Forward mode costs a multiple of the number of parameters.

    For the same chain, all products dense: $Ldd_x+(L-1)d^2$ for the derivatives of the layers by their own
    parameters, $(L-1)d^2d_\theta$ for the tangents, and $d_O\,d\,d_\theta$ for the loss, with
    $d_\theta=Ldd_x+(L-1)d^2$. With one loss the total grows like $d^4$ in the width and like $L^2$ in the depth.
    The text gives "approximately" $L(dd_x+d^2+d^2d_\theta)$ for large $L$, (24.6), the cost of the loss left out: that
    is $d^2+d^2d_\theta$ more than the count without it, because the first layer has no state below it.
    """
    grid = _grid(key, instances)
    counts = [_counted("forward", *row) for row in grid]
    depth, width, inputs, outputs = np.array(grid).T
    theta = _parameters(depth, width, inputs)
    formula = depth * width * inputs + (depth - 1) * width**2 * (1 + theta) + outputs * width * theta
    yield equal("multiplications", counts, formula, rtol=0, atol=0)
    yield equal("the formula of the library", [chain_cost(*row, "forward") for row in grid], formula, rtol=0, atol=0)
    widths, depths = np.array([32, 64, 128, 256, 512]), np.array([32, 64, 128, 256, 512])
    # formulas from here on, checked above; terms of lower order bend the line by a few percent at these sizes
    wide = [chain_cost(3, int(d), 1, 1, "forward") for d in widths]
    deep = [chain_cost(int(n), 4, 1, 1, "forward") for n in depths]
    yield rate("growth with the width", widths, wide, 4.0, tolerance=0.1, along="width")
    yield rate("growth with the depth", depths, deep, 2.0, tolerance=0.1, along="depth")
    reverse = [chain_cost(3, int(d), 1, 1, "reverse") for d in widths]
    yield control(
        "the derivative is carried backwards",
        rate("growth with the width", widths, reverse, 4.0, tolerance=0.1, along="width"),
    )


@claim(rows=("M24.06",))
def which_mode(
    key, *, depth: Annotated[int, Range(2, 12)] = 4, width: Annotated[int, Range(2, 16)] = 3, inputs: Size = 2
):
    r"""With one loss reverse mode is cheaper, by a factor that grows with the number of parameters.

    For the chain with $d_O=1$, $L\ge2$ and $d_x\le d$ the quotient of the two counts is
    $\{Ldd_x+(L-1)d^2(1+d_\theta)+dd_\theta\}/\{2(L-1)d^2+Ldd_x\}\ge d_\theta/4$. If instead the parameters
    are few and the losses many, forward mode wins: with the one unit of a chain of width 1 and $d_O$ losses it does for
    all large $d_O$.
    """
    depths = np.arange(2, 2 + 2 * depth, 2)
    pairs = [
        (_counted("forward", int(n), width, inputs, 1), _counted("reverse", int(n), width, inputs, 1)) for n in depths
    ]
    ratio = np.array([f / r for f, r in pairs])
    theta = np.array([_parameters(int(n), width, inputs) for n in depths])
    yield at_least("forward over reverse, one loss", ratio, theta / 4, x=theta, along="parameters")
    losses = np.array([64, 128, 256])
    thin = [[_counted(mode, 4, 1, 1, int(o)) for o in losses] for mode in ("forward", "reverse")]
    yield at_most("forward over reverse, width 1 and many losses", np.divide(*thin), 1.0, x=losses, along="losses")
    yield control(
        "there are many losses, not one",
        at_least("forward over reverse", np.divide(*thin), _parameters(4, 1, 1) / 4, x=losses, along="losses"),
    )


@claim(
    rows=("M24.04",),
    erratum="The tangent of a state is printed as one column; it has one for every parameter.",
)
def printed_tangent(key, *, depth: Annotated[int, Range(2, 12)] = 3, width: Size = 4, inputs: Size = 2):
    r"""The tangent of a state is a matrix with one column.

    As printed in section 24.2.2: $\tilde z_{\ell-1}=\partial z_{\ell-1}/\partial\theta$ "is a $d_{\ell-1}\times1$
    matrix".
    """
    chain = ChainModel(depth, width, inputs, key=key)
    tangent = jax.eval_shape(jax.jacobian(lambda c: c(jax.numpy.ones(inputs))), chain)
    columns = sum(int(np.prod(leaf.shape[1:])) for leaf in jax.tree.leaves(tangent))
    yield equal("columns: the number of parameters", columns, _parameters(depth, width, inputs), rtol=0, atol=0)
    yield printed(equal("columns: one", columns, 1, rtol=0, atol=0))


@claim(
    rows=("M24.05", "M24.06"),
    erratum="The product of the loss with the tangents is neglected; with many losses it decides against forward mode.",
)
def printed_crossover(
    key, *, depth: Annotated[int, Range(3, 12)] = 12, width: Annotated[int, Range(2, 16)] = 2, inputs: Size = 1
):
    r"""With many losses and few parameters forward mode costs much less than reverse mode.

    As printed in section 24.2.3: "if $d_O$ is large and $d_\theta$ is small, then forward-mode differentiation will
    have a much lower cost", from (24.6), which leaves out the $d_Odd_\theta$ of $(\partial\rho/\partial
    z_L)\,\tilde z_L$ as small for large $L$. Solving (24.4) = (24.6) puts the crossover at
    $d_O=L(dd_x+d^2+d^2d_\theta)/\{2(L-1)d^2+Ldd_x\}$. But in this example $dd_\theta\ge2(L-1)d^2+Ldd_x$ as soon as
    $d\ge2$: the product left out alone costs more than all of reverse mode, for every $d_O$ and every $L$. Measured
    for ever more losses, on the network with the fewest parameters and $d\ge2$ ($L=2$, 8 parameters), and on a deep
    one.
    """
    for layers in (2, depth):
        theta = _parameters(layers, width, inputs)
        reverse_each = 2 * (layers - 1) * width**2 + layers * width * inputs
        crossover = layers * (width * inputs + width**2 + width**2 * theta) / reverse_each
        losses = np.round(crossover * 2.0 ** np.arange(1, 8)).astype(int)
        counts = [[_counted(mode, layers, width, inputs, int(o)) for o in losses] for mode in ("forward", "reverse")]
        ratio, neglecting = np.divide(*counts), (counts[0] - losses * width * theta) / counts[1]
        along = {"x": losses, "along": "losses"}
        yield at_most(f"L = {layers}: forward over reverse, without the last product", neglecting, 1.0, **along)
        yield at_least(f"L = {layers}: forward over reverse, all products", ratio, 1.0, **along)
        yield printed(at_most(f"L = {layers}: forward over reverse, less than one", ratio, 1.0, **along))
