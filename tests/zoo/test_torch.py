"""Networks that others designed, read from PyTorch: outputs and gradients are PyTorch's.

`make zoo` prints one line of the table in docs/results.md per network. Parameters are moved by 0.02 N(0, 1) first, so
that nothing agrees because it is zero.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_models import MODELS, made

from corollary import Network

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[zoo]'")
pytestmark = pytest.mark.zoo


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.timeout(1800)
def test_outputs_and_gradients(name, capsys):
    module, example, output = made(name)
    with jax.enable_x64(False):
        start = time.perf_counter()
        network = Network.from_torch(module, example, output=output)
        seconds = time.perf_counter() - start
    module = module.double()
    with jax.enable_x64(True):
        ours, gradient, weights = in_double_precision(network, example)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.register_forward_hook(with_contiguous_gradient)
    given = {key: torch.tensor(a[None]) for key, a in (example if isinstance(example, dict) else {0: example}).items()}
    given = {key: a.double() if a.is_floating_point() else a for key, a in given.items()}
    out = module(**given) if isinstance(example, dict) else module(given[0])
    out = out if isinstance(out, torch.Tensor) else out[output or "logits"]
    held = {key: p for key, p in module.named_parameters() if key in network.params}
    assert set(held) == set(network.params)
    slopes = torch.autograd.grad((out[0] * torch.tensor(weights)).sum(), tuple(held.values()))
    theirs = {key: slope.numpy() for key, slope in zip(held, slopes, strict=True)}
    outputs = relative({"": ours}, {"": out[0].detach().numpy()})
    gradients = relative(gradient, theirs)
    size, operators = sum(p.numel() for p in module.parameters()), len(operators_of(network))
    with capsys.disabled():
        print(f"\n| {name} | {size:,} | {operators} | {outputs:.0e} | {gradients:.0e} | {seconds:.1f} |")
    assert outputs <= 1e-4
    assert gradients <= 1e-3


def with_contiguous_gradient(module, inputs, out):
    """PyTorch 2.13 on a CPU has wrong derivatives of batch normalisation in inference mode where the gradient of its
    output is a transposed array, as behind `flatten(2).transpose(1, 2)`: a copy in order goes around it."""
    out.register_hook(lambda gradient: gradient.contiguous())


def in_double_precision(network, example):
    """Outputs, and the gradient of a random sum of them."""
    params = {name: np.asarray(p, float) for name, p in network.params.items()}
    x = jax.tree.map(jnp.asarray, example)

    @jax.jit
    def both(params, buffers):
        def total(params):
            out = network.apply(params, buffers, x)
            weights = jax.random.normal(jax.random.key(0), out.shape, float)
            return jnp.sum(out * weights), (out, weights)

        return jax.grad(total, has_aux=True)(params)

    gradient, (out, weights) = both(params, network.buffers)
    return np.asarray(out), jax.tree.map(np.asarray, gradient), np.asarray(weights)


def relative(ours, theirs):
    """The largest difference over the largest number, of all arrays together."""
    largest = max(float(np.abs(a).max(initial=0)) for a in theirs.values())
    assert largest > 0
    return max(float(np.abs(ours[name] - a).max(initial=0)) for name, a in theirs.items()) / largest


def operators_of(network) -> set[str]:
    """The operators of the graph that the network's function encloses."""
    cells = [cell.cell_contents for cell in network.apply.function.__closure__]
    graph = next(value for value in cells if type(value).__name__ == "Graph")
    return {node.operator for node in graph.nodes}
