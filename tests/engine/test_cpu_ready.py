"""Programs rewritten for a CPU: the same numbers, in every layout, through derivatives, calls and loops."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import ClosedJaxpr

from corollary._engine.cpu_ready import cpu_ready
from corollary._engine.jaxpr import PART

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


LAYOUTS = [
    (("NCHW", "OIHW", "NCHW"), (2, 4, 7, 6), (6, 2, 3, 2)),
    (("NHWC", "HWIO", "NHWC"), (2, 7, 6, 4), (3, 2, 2, 6)),
    (("CNHW", "IHWO", "HWNC"), (4, 2, 7, 6), (2, 3, 2, 6)),
]


@pytest.mark.parametrize(("numbers", "x_shape", "kernel_shape"), LAYOUTS)
def test_same_numbers_in_every_layout(numbers, x_shape, kernel_shape):
    x, kernel = jnp.asarray(RNG.normal(size=x_shape)), jnp.asarray(RNG.normal(size=kernel_shape))

    def convolve(x, kernel):
        return lax.conv_general_dilated(
            x, kernel, (2, 1), ((1, 0), (2, 1)), rhs_dilation=(1, 2), dimension_numbers=numbers, feature_group_count=2
        )

    np.testing.assert_allclose(cpu_ready(convolve)(x, kernel), convolve(x, kernel), rtol=1e-5, atol=1e-5)


def test_derivatives_of_both_orders_in_a_loop():
    x, kernel = jnp.asarray(RNG.normal(size=(3, 2, 9))), jnp.asarray(RNG.normal(size=(4, 2, 3)))
    offset = jnp.asarray(RNG.normal(size=7))

    def loss(kernel):
        out = jax.jit(lambda k: lax.conv_general_dilated(x, k, (1,), "VALID"))(kernel) + offset
        return jnp.mean(jax.checkpoint(jnp.tanh)(out) ** 2)

    def product(v):
        return {"hessian": jax.jvp(jax.grad(loss), (kernel,), (v["hessian"],))[1]}

    v = {"hessian": jnp.asarray(RNG.normal(size=kernel.shape))}
    found = lax.scan(lambda c, _: (cpu_ready(product)(c), None), v, None, length=2)[0]
    np.testing.assert_allclose(found["hessian"], product(product(v))["hessian"], rtol=1e-4, atol=1e-6)


def test_every_convolution_is_rewritten():
    x, kernel = jnp.zeros((3, 2, 9)), jnp.zeros((4, 2, 3))

    def slope(kernel):
        return jax.grad(lambda k: jnp.sum(lax.conv_general_dilated(x, k, (1,), "VALID") ** 2))(kernel)

    def layouts(function):
        return [
            eqn.params["dimension_numbers"]
            for eqn in jax.make_jaxpr(function)(kernel).eqns
            if eqn.primitive.name == "conv_general_dilated"
        ]

    wanted = lax.ConvDimensionNumbers((0, 2, 1), (2, 1, 0), (0, 2, 1))
    assert layouts(cpu_ready(slope)) == [wanted] * len(layouts(slope))
    assert wanted not in layouts(slope)


def test_no_function_is_refused():
    with pytest.raises(TypeError, match="function must be a function, got int"):
        cpu_ready(3)


def _dots(function, *args):
    """The products of a traced program, those inside loops too: (shapes of the factors, over which axes)."""

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "dot_general":
                yield tuple(v.aval.shape for v in eqn.invars), eqn.params["dimension_numbers"][0]
            for inner in eqn.params.values():
                if isinstance(inner, ClosedJaxpr):
                    yield from (("loop", *found) for found in walk(inner.jaxpr))

    return list(walk(jax.make_jaxpr(function)(*args).jaxpr))


def test_sums_over_several_axes_become_one_with_the_wide_factor_second():
    x, w = jnp.asarray(RNG.normal(size=(8, 20, 3))), jnp.asarray(RNG.normal(size=(5, 3)))

    def slope(w, x):
        return jax.grad(lambda w: jnp.sum(jnp.tanh(jax.vmap(jax.vmap(lambda x: x @ w.T))(x))))(w)

    assert ((8, 20, 5), (8, 20, 3)) in [shapes for shapes, _ in _dots(slope, w, x)]
    assert (((160, 3), (160, 5)), ((0,), (0,))) in _dots(cpu_ready(slope), w, x)
    np.testing.assert_allclose(cpu_ready(slope)(w, x), slope(w, x), rtol=1e-12)
    # a short sum stays as it is
    assert (((40, 5), (40, 3)), ((0,), (0,))) in _dots(cpu_ready(slope), w, x[:2])


@pytest.mark.parametrize(
    "formula",
    ["bthd,bshd->bhts", "bhts,bshe->bthe", "tsa,tsb->ab", "sta,tsb->ab", "tas,tsb->ab", "bta,btc->bac", "t,ta->a"],
)
@pytest.mark.parametrize("widths", [(2, 7), (7, 2)])
def test_products_of_every_form(formula, widths):
    names, sizes = formula.split("->")[0].split(","), {"t": 130, "s": 4, "b": 3, "h": 2, "d": 2, "e": 5}
    sizes |= dict(zip("ac", widths, strict=True), b=widths[1] if formula.endswith("ab") else 3)
    factors = [jnp.asarray(RNG.normal(size=[sizes[n] for n in name])) for name in names]
    for arguments in (0, 1, (0, 1)):
        slope = jax.grad(lambda *f: jnp.sum(jnp.einsum(formula, *f, precision=("highest", "default")) ** 2), arguments)
        for found, wanted in zip(
            jax.tree.leaves(cpu_ready(slope)(*factors)), jax.tree.leaves(slope(*factors)), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


def _recurrent(w, v, xs):
    """The sum of squares along a recurrence with two matrices, one of them used twice in a step."""

    def step(h, x):
        h = jnp.tanh(h @ w.T + x)
        return jnp.tanh(h @ v) @ v.T, h

    return jnp.sum(jax.lax.scan(step, xs[0], xs)[1] ** 2)


def test_sums_over_time_come_after_the_loop():
    w, v = jnp.asarray(RNG.normal(size=(2, 6, 6)))
    xs = jnp.asarray(RNG.normal(size=(40, 4, 6)))
    slope = jax.grad(_recurrent, (0, 1))
    for found, wanted in zip(cpu_ready(slope)(w, v, xs), slope(w, v, xs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    summed = ((160, 6), (160, 6))
    assert summed not in [d[0] for d in _dots(slope, w, v, xs)]
    assert summed in [d[0] for d in _dots(cpu_ready(slope), w, v, xs)]
    # derivatives of what was made ready, and many at once
    twice = jax.jvp(lambda w: cpu_ready(slope)(w, v, xs)[0], (w,), (v,))[1]
    np.testing.assert_allclose(twice, jax.jvp(lambda w: slope(w, v, xs)[0], (w,), (v,))[1], rtol=1e-8, atol=1e-10)
    many = jax.vmap(lambda xs: cpu_ready(slope)(w, v, xs)[1])(jnp.stack([xs, 2 * xs]))
    np.testing.assert_allclose(many[1], slope(w, v, 2 * xs)[1], rtol=1e-9, atol=1e-12)


def test_no_memory_is_taken_that_the_loop_was_to_save():
    # the loss of one piece after the other, recomputed on the way back: the loop keeps nothing but the pieces
    w, xs = jnp.asarray(RNG.normal(size=(50, 2))), jnp.asarray(RNG.normal(size=(30, 10, 2)))

    def loss(w):
        piece = jax.checkpoint(lambda x: jnp.sum(jnp.tanh(x @ w.T) ** 2))
        return jax.lax.scan(lambda total, x: (total + piece(x), None), 0.0, xs)[0]

    found = _dots(cpu_ready(jax.grad(loss)), w)
    assert not any(300 in shape for d in found for shape in (d[1] if d[0] == "loop" else d[0]))
    np.testing.assert_allclose(cpu_ready(jax.grad(loss))(w), jax.grad(loss)(w), rtol=1e-10)


def test_what_is_recomputed_is_not_merged_with_the_first_time():
    x, key = jnp.asarray(RNG.normal(size=(4, 6))), jax.random.key(0)

    def loss(w, x):
        noisy = jax.checkpoint(lambda w, x, key: jnp.tanh(jnp.tanh(x @ w) @ w + jax.random.normal(key, x.shape)))
        return jnp.sum(noisy(w, x, key) ** 2)

    w, plain = jnp.asarray(RNG.normal(size=(6, 6))), jax.grad(loss)
    ready = cpu_ready(plain)
    np.testing.assert_allclose(ready(w, x), plain(w, x), rtol=1e-10)
    hyperbolic = [jax.jit(f).lower(w, x).compile().as_text().count(" tanh(") for f in (ready, plain)]
    assert hyperbolic[0] == hyperbolic[1] > 2  # two, and again on the way back


def test_modules_keys_and_names():
    layer, key = eqx.nn.MLP(3, 2, 5, 1, key=jax.random.key(0)), jax.random.key(1)

    def loss(layer, x, *, key):
        return jnp.sum(jax.vmap(layer)(x + jax.random.normal(key, x.shape)) ** 2)

    slope, x = eqx.filter_value_and_grad(loss), jnp.asarray(RNG.normal(size=(4, 3)))
    (found, ours), (wanted, plain) = eqx.filter_jit(cpu_ready(slope))(layer, x, key=key), slope(layer, x, key=key)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert jax.tree.structure(ours) == jax.tree.structure(plain)
    np.testing.assert_allclose(ours.layers[0].weight, plain.layers[0].weight, rtol=1e-10)


def test_parts_of_a_long_program_stay_calls_and_are_made_ready_once():
    @jax.jit
    def part_of_program(w, x):
        return jnp.tanh(jnp.einsum("ijk,ijl->kl", w, x))

    def function(w, x):
        return sum(part_of_program(w, s * x) for s in (1.0, 2.0))

    assert part_of_program.__name__ == PART
    w, x = RNG.normal(size=(2, 3, 4, 5))
    calls = [e for e in jax.make_jaxpr(cpu_ready(function))(w, x).jaxpr.eqns if e.params.get("name") == PART]
    assert len(calls) == 2
    assert calls[0].params["jaxpr"].jaxpr is calls[1].params["jaxpr"].jaxpr
    products = [e for e in calls[0].params["jaxpr"].jaxpr.eqns if e.primitive.name == "dot_general"]
    assert [len(e.params["dimension_numbers"][0][0]) for e in products] == [1]  # the two axes were made one
    np.testing.assert_allclose(cpu_ready(function)(w, x), function(w, x), rtol=1e-5)


@pytest.mark.parametrize("width", [8, 7])
@pytest.mark.parametrize("sides", [(2, 2), (0, 0), (1, 2), (3, 0)])
@pytest.mark.parametrize(("length", "inputs", "outputs"), [(5, 1, 6), (2, 6, 1), (1, 3, 5)])
def test_few_channels_go_in_blocks_of_pixels(width, sides, length, inputs, outputs):
    x, kernel = jnp.asarray(RNG.normal(size=(2, inputs, 4, width))), RNG.normal(size=(outputs, inputs, 3, length))

    def convolve(x):
        return lax.conv_general_dilated(x, jnp.asarray(kernel), (1, 1), ((1, 1), sides))

    np.testing.assert_allclose(cpu_ready(convolve)(x), convolve(x), rtol=1e-10, atol=1e-12)
    rewritten = jax.make_jaxpr(cpu_ready(convolve))(x).eqns
    (found,) = [e for e in rewritten if e.primitive.name == "conv_general_dilated"]
    assert found.invars[1].aval.shape[2:] == (4 * inputs, 4 * outputs)


@pytest.mark.parametrize(("shape", "blocks"), [((2, 3, 4, 6), (2, 3, 2, 2, 3, 2)), ((2, 3, 9, 4), (2, 3, 3, 3, 4))])
def test_images_are_cut_into_blocks_with_their_channels_last(shape, blocks):
    x = jnp.asarray(RNG.normal(size=shape))
    axes = tuple(k for k in (3, 5) if k < len(blocks))

    def pooled(x):
        return jnp.sum(x.reshape(blocks).max(axes) ** 2)

    for function in (pooled, jax.grad(pooled)):
        np.testing.assert_allclose(cpu_ready(function)(x), function(x), rtol=1e-12)
    rewritten = [e for e in jax.make_jaxpr(cpu_ready(pooled))(x).eqns if e.primitive.name == "reshape"]
    cut = [e.outvars[0].aval.shape for e in rewritten if e.outvars[0].aval.ndim == len(blocks)]
    # one axis alone is left as it is: heads of attention and pairs of rotations look the same
    assert cut[0] == ((2, 2, 2, 3, 2, 3) if len(axes) == 2 else blocks)
