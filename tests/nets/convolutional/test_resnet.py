import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from corollary.nets.convolutional.resnet import (
    IMAGENET_ERRORS,
    ResidualConvBlock,
    ResNet,
    ResNet9,
    resnet34,
    small_resnet,
)

KEY = jax.random.key(0)


def size_of(make):
    """Numbers in a module, without drawing them."""
    return sum(int(np.prod(a.shape)) for a in jax.tree.leaves(eqx.filter_eval_shape(make)))


def conv(x, layer, stride=1):
    """Convolution, bias and normalisation by the batch, in the other order of axes and from the formulas."""
    pad = layer.kernel.shape[0] // 2
    y = lax.conv_general_dilated(x, layer.kernel.transpose(3, 2, 0, 1), (stride, stride), [(pad, pad)] * 2)
    y = y if layer.bias is None else y + layer.bias[:, None, None]
    y = (y - y.mean((0, 2, 3), keepdims=True)) / jnp.sqrt(y.var((0, 2, 3), keepdims=True) + 1e-5)
    return layer.norm.scale[:, None, None] * y + layer.norm.shift[:, None, None]


def pool(x, size):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, size, size), (1, 1, size, size), "VALID")


@pytest.fixture(scope="module")
def resnet9():
    with jax.enable_x64(True):

        @jax.jit
        def everything(key):
            model = ResNet9(2, 3, key=key, widths=(2, 3, 4, 5))
            noisy = lambda a: a + 0.3 * jax.random.normal(jax.random.fold_in(key, a.size), a.shape)  # noqa: E731
            model = jax.tree.map(noisy, model)
            x = jax.random.normal(key, (3, 2, 32, 32))

            out, state = model.batch(x, model.state(), training=True)
            h = jax.nn.relu(conv(x, model.conv1))
            h = pool(jax.nn.relu(conv(h, model.conv2)), 2)
            h = h + jax.nn.relu(conv(jax.nn.relu(conv(h, model.res1[0])), model.res1[1]))
            h = pool(jax.nn.relu(conv(h, model.conv3)), 2)
            h = pool(jax.nn.relu(conv(h, model.conv4)), 2)
            h = h + jax.nn.relu(conv(jax.nn.relu(conv(h, model.res2[0])), model.res2[1]))
            expected = pool(h, 4)[..., 0, 0] @ model.head.weight.T + model.head.bias
            first = lax.conv_general_dilated(x, model.conv1.kernel.transpose(3, 2, 0, 1), (1, 1), [(1, 1)] * 2)
            first = first + model.conv1.bias[:, None, None]
            after = jax.vmap(lambda a: model(a, state))(x), model.batch(x, state)[0]
            low = model.batch(x, state, dtype=jnp.bfloat16)[0]
            return out, expected, state[0].mean, 0.1 * first.mean((0, 2, 3)), after, low

        return everything(KEY)


def test_resnet9_is_the_listing(resnet9):
    out, expected, mean, expected_mean, *_ = resnet9
    np.testing.assert_allclose(out, expected, rtol=1e-9)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-9)


def test_resnet9_in_batches_equals_one_by_one(resnet9):
    *_, (one_by_one, together), low = resnet9
    np.testing.assert_allclose(one_by_one, together, rtol=1e-10)
    assert low.dtype == together.dtype  # the logits keep the precision of the parameters
    # eight layers of relative rounding 2^-8 each
    np.testing.assert_allclose(low, together, atol=8 * 2**-8 * float(jnp.abs(together).max()))


def test_a_step_of_resnet9_is_one_convolution_a_layer_each_way():
    model = eqx.filter_eval_shape(lambda: ResNet9(3, 10, key=KEY))

    def loss(model, x):
        return model.batch(x, model.state(), training=True, dtype=jnp.bfloat16)[0].sum()

    program = str(jax.make_jaxpr(jax.grad(loss))(model, jax.ShapeDtypeStruct((512, 3, 32, 32), "float32")))
    lines = [line for line in program.splitlines() if "= conv_general_dilated" in line]
    assert all(":bf16[" in line for line in lines)
    assert len(lines) == 8 + 8 + 7  # forward, by the kernels, by the inputs but for the images themselves


def test_sizes_of_the_networks():
    assert size_of(lambda: ResNet9(3, 10, key=KEY)) == 6_575_370
    assert size_of(lambda: resnet34(key=KEY)) == 21_797_672
    assert size_of(lambda: ResNet(3, 1000, key=KEY, kind="bottleneck")) == 25_557_032  # 50 layers
    plain, residual = (size_of(lambda p=p: small_resnet(3, 10, key=KEY, plain=p)) for p in (True, False))
    assert residual - plain == 16 * 32 + 64 + 32 * 64 + 128  # two projections
    deep = eqx.filter_eval_shape(lambda: resnet34(key=KEY))
    assert deep.depth == 34
    assert eqx.filter_eval_shape(lambda: small_resnet(3, 10, key=KEY)).depth == 20
    shapes = jax.eval_shape(lambda m, x: m.batch(x, m.state())[0], deep, jax.ShapeDtypeStruct((2, 3, 224, 224), float))
    assert shapes.shape == (2, 1000)


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_residual_block_with_projection(kind):
    @jax.jit
    def both(key):
        block = ResidualConvBlock(2, 3, 2, key=key, kind=kind)
        x = jax.random.normal(key, (2, 2, 6, 6))
        out, _ = block(x.transpose(0, 2, 3, 1), block.state(), True)
        h = x
        for i, layer in enumerate(block.branch):
            h = conv(h if i == 0 else jax.nn.relu(h), layer, 2 if i == len(block.branch) - 2 else 1)
        return out.transpose(0, 3, 1, 2), jax.nn.relu(h + conv(x, block.projection, 2))

    with jax.enable_x64(True):
        if kind == "basic":
            out, expected = both(KEY)
            np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-12)
        else:
            assert jax.eval_shape(both, KEY)[0].shape == (2, 12, 3, 3)


def test_printed_table_falls_with_depth():
    depths = ("ResNet-34 C", "ResNet-50", "ResNet-101", "ResNet-152")
    assert np.all(np.diff([IMAGENET_ERRORS[name] for name in depths], axis=0) < 0)
