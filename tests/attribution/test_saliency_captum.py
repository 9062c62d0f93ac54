"""Integrated gradients beside those of captum 0.9.0 on the same network: see tests/robustness/test_attacks_peers.py."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.attribution import integrated_gradients

GIVEN = dict(np.load(Path(__file__).parents[1] / "robustness" / "peers.npz"))


def apply(params, x):
    return params["v"] @ jax.nn.relu(params["w"] @ x + params["b"]) + params["c"]


def test_integrated_gradients_are_captums():
    theirs = GIVEN["captum"]
    few = len(theirs)
    with jax.enable_x64(True):
        network = Network(apply, {name: jnp.asarray(GIVEN[name], float) for name in "wbvc"})
        x = jnp.asarray(GIVEN["x"][:few], float)
        found = integrated_gradients(network, x, jnp.zeros(64), output=GIVEN["y"][:few], tolerance=1e-5)
    # they take 500 Gauss nodes across the kinks of a ReLU: the slope of one panel may be off by a jump over 500
    np.testing.assert_allclose(found.values, theirs, atol=5e-3 * np.abs(theirs).max())
