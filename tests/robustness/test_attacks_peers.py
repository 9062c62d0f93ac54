"""Attacks beside what torchattacks and foolbox found on the same network.

`peers.npz` was written by benchmarks/references.py with torchattacks 3.5.1 and foolbox 3.3.4: the weights, 64 digits,
and what each of them made of these. No attack begins at random: nothing depends on a generator.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.robustness import Ball, fgsm, pgd

GIVEN = dict(np.load(Path(__file__).parent / "peers.npz"))
X, Y, STEPS = GIVEN["x"], GIVEN["y"], int(GIVEN["steps"])
BALLS = {"inf": Ball(np.inf, float(GIVEN["cube"]), 0.0, 1.0), "2": Ball(2, float(GIVEN["ball"]), 0.0, 1.0)}


def apply(params, x):
    return params["v"] @ jax.nn.relu(params["w"] @ x + params["b"]) + params["c"]


NETWORK = Network(apply, {name: jnp.asarray(GIVEN[name]) for name in "wbvc"})


def flipped(x):
    return np.asarray(jax.vmap(NETWORK)(jnp.asarray(x)).argmax(1)) != Y


def loss(x):
    logits = np.asarray(jax.vmap(NETWORK)(jnp.asarray(x)), float)
    return np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1) - logits[np.arange(len(Y)), Y]


@pytest.mark.parametrize("peer", ["torchattacks_fgsm", "foolbox_fgsm"])
def test_one_sign_step_is_theirs(peer):
    found = fgsm(NETWORK, "cross_entropy", (X, Y), BALLS["inf"])
    # a slope that is exactly 0 in one may be a rounding in the other
    same = np.isclose(found.inputs, GIVEN[peer], atol=1e-6)
    assert same.mean() > 0.999
    np.testing.assert_array_equal(found.success, flipped(GIVEN[peer]))


@pytest.mark.parametrize("p", BALLS)
@pytest.mark.parametrize("peer", ["torchattacks", "foolbox"])
def test_ascent_succeeds_at_least_as_often(peer, p):
    ball, theirs = BALLS[p], GIVEN[f"{peer}_{p}"]
    shift = (theirs - X).astype(float)
    lengths = np.abs(shift).max(1) if p == "inf" else np.linalg.norm(shift, axis=1)
    assert lengths.max() <= float(ball.radius) * (1 + 1e-5)  # they kept to the same ball and box
    assert theirs.min() >= 0
    assert theirs.max() <= 1
    found = pgd(NETWORK, "cross_entropy", (X, Y), ball, steps=STEPS, key=jax.random.key(0))
    assert 0.1 < flipped(theirs).mean() < 1
    assert found.success.mean() >= flipped(theirs).mean()
    np.testing.assert_array_equal(found.success, flipped(found.inputs))
