"""The empirical tangent kernel of a Flax model.

    pip install flax && python examples/kernels/flax_model.py --images 32

Asked for in neural-tangents' issue 99. Nothing of the model has to be written again: `Network.from_flax` reads it, and
stored statistics of batch normalisation stay out of the derivatives because they are buffers.
"""

import argparse
import time

import jax
import jax.numpy as jnp

from corollary import Network
from corollary.kernels import empirical_ntk

try:
    import flax.linen as nn
except ImportError:
    raise SystemExit("This example needs Flax: pip install flax.") from None


class Classifier(nn.Module):
    channels: int = 16
    classes: int = 10

    @nn.compact
    def __call__(self, x):
        for _ in range(2):
            x = nn.Conv(self.channels, (3, 3), strides=(2, 2))(x)
            x = nn.BatchNorm(use_running_average=True)(x)
            x = nn.relu(x)
        x = nn.LayerNorm()(x.reshape(len(x), -1))
        return nn.Dense(self.classes)(x)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--channels", type=int, default=16)
    given = parser.parse_args()
    model = Classifier(given.channels)
    x = jax.random.normal(jax.random.key(0), (given.images, 28, 28, 1))
    variables = model.init(jax.random.key(1), x)

    def apply(params, x):
        return model.apply({"params": params, "batch_stats": variables["batch_stats"]}, x)

    began = time.perf_counter()
    kernel = empirical_ntk(Network.from_flax(model, x[0], variables=variables), x).block_until_ready()
    print(f"kernel {kernel.shape} in {time.perf_counter() - began:.1f} s, compilation included")
    jacobian = jax.tree.leaves(jax.jacrev(apply)(variables["params"], x[:4]))
    direct = sum(jnp.einsum("ikp,jkp->ij", *[j.reshape(4, model.classes, -1)] * 2) for j in jacobian)
    print(f"differs from the full Jacobian by {jnp.abs(kernel[:4, :4] - direct).max() / direct.max():.0e}")
