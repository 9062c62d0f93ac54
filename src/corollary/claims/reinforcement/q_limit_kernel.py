"""The kernel on pairs of state and action, and the law of the pairs that are visited (M, Lemma 21.10)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import distinct_directions, draw_shallow, limit_kernel, tangent_kernel
from corollary.evidence import Count, at_least, claim, control, equal, estimate
from corollary.reinforcement import FiniteMDP, irreducible, state_action_pairs, stationary_law

ACTIONS = np.array([[-1.0], [0.0], [1.0]])


def _smallest(k):
    values = np.linalg.eigvalsh(np.asarray(k))
    return values[0] / values.sum()


@claim(rows=("M21.31",))
def positive_definite_on_pairs(key):
    r"""The kernel on pairs of state and action is positive definite if no two pairs lie on one line.

    $A_{\xi,\xi'}=\langle\sigma(w\cdot\xi)\sigma(w\cdot\xi')+c^2\sigma'(w\cdot\xi)\sigma'(w\cdot\xi')\,\xi\cdot\xi',\mu_0
    \rangle$ with $\sigma$ = erf, normal $w$: positive definite if the pairs $\xi=(x,a)$ are in distinct directions. The
    usual encoding of three actions as -1, 0, 1 breaks this at a state that is encoded as 0, twice: $(0,0)$ has no
    direction, and $(0,1)=-(0,-1)$; the kernel is then singular, of the rank of the distinct directions. A constant
    coordinate in every state mends it.
    """
    states = 1.2 * jax.random.orthogonal(key, 2)
    usual = state_action_pairs(states, ACTIONS).reshape(6, 3)
    with_zero = state_action_pairs(np.concatenate([states, np.zeros((1, 2))]), ACTIONS).reshape(9, 3)
    mended = np.concatenate([np.ones((9, 1)), with_zero], 1)
    kernels = {name: limit_kernel(xi) for name, xi in (("usual", usual), ("zero", with_zero), ("mended", mended))}
    # far below these eigenvalues and far above the rounding of the kernel, 1e-16
    positive = 1e-8
    yield at_least("smallest eigenvalue over the trace", _smallest(kernels["usual"]), positive)
    yield at_least("with a constant coordinate: the same", _smallest(kernels["mended"]), positive)
    yield equal("rank with a state at 0", np.linalg.matrix_rank(np.asarray(kernels["zero"]), tol=1e-10), 7)
    null = np.asarray(kernels["zero"])[:, [6, 8]].sum(1)
    yield equal("opposite pairs: a null vector", null, 0.0, atol=1e-14)
    flags = [float(distinct_directions(xi)) for xi in (usual, with_zero, mended)]
    yield equal("distinct directions", flags, [1.0, 0.0, 1.0])
    yield control(
        "distinct directions: here a state at 0",
        at_least("smallest eigenvalue over the trace", _smallest(kernels["zero"]), positive),
    )
    opposite = np.concatenate([usual, -usual[:1]])
    yield control(
        "distinct directions: here two opposite pairs",
        at_least("smallest eigenvalue over the trace", _smallest(limit_kernel(opposite)), positive),
    )


@claim(rows=("M21.25",))
def kernel_and_visits(key, *, repetitions: Count = 2000):
    r"""The kernel of the limit is the mean of the kernels of networks, the weights are how often pairs are visited.

    $E\,K(\xi,\xi';\nu_0)=A_{\xi,\xi'}$ at every width, because units are independent; and along an irreducible chain
    with uniform actions the share of the steps that begin at $\xi$ tends to $\pi(\xi)=\pi(x)/|A|$.
    """

    @jax.jit
    def measure(key):
        pair_key, p_key, net_key, path_key = jax.random.split(key, 4)
        xi = state_action_pairs(1.5 * jax.random.orthogonal(pair_key, 3), 1.5 * jnp.eye(2)).reshape(6, 5)
        p = (jax.random.dirichlet(p_key, jnp.ones(3), (3, 2)) + 1 / 3) / 2
        mdp = FiniteMDP(p, jnp.zeros((3, 2)), 0.5)

        def kernel(key):
            found = tangent_kernel(draw_shallow(4, 5, key=key), xi)
            return found[jnp.triu_indices(6)]

        def shares(key):
            states, actions = mdp.simulate(jnp.full((3, 2), 0.5), 120, key=key)
            # the first twenty are forgotten: the chain begins at one state
            return jnp.mean(jax.nn.one_hot((2 * states[:-1] + actions)[20:], 6), 0)

        kernels = jax.vmap(kernel)(jax.random.split(net_key, repetitions))
        visits = jax.vmap(shares)(jax.random.split(path_key, repetitions))
        stuck = FiniteMDP(jnp.broadcast_to(jnp.eye(3)[:, None], (3, 2, 3)), jnp.zeros((3, 2)), 0.5)
        flags = jnp.stack([irreducible(mdp), irreducible(stuck)])
        return kernels, limit_kernel(xi)[jnp.triu_indices(6)], visits, stationary_law(mdp).ravel(), flags

    kernels, kernel, visits, law, flags = measure(key)
    yield estimate("entries of the kernel", kernels, kernel, wrong=1.2 * kernel + 0.1)
    yield estimate("shares of the visits", visits, law, wrong=law + 0.03)
    yield equal("irreducible", flags, [1.0, 0.0])
