"""Performance curves: what the theorem of emergence says for each share of skills, and how it moves with scale."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, at_least, at_most, claim, control, equal, monotone, printed
from corollary.foundations import bernoulli_entropy
from corollary.language import (
    CHINCHILLA,
    SkillCluster,
    beta_min,
    chinchilla_loss,
    emergence_condition,
    error_set,
    performance_curve,
    recombine,
)

SHARES = np.array([0.1, 0.2, 0.3, 0.5])
GRID = np.linspace(0.01, 0.9, 90)


def _curves(ks, thetas):
    return np.stack([performance_curve(k, theta, GRID) for k, theta in zip(ks, thetas, strict=True)])


@claim(rows=("T15.35", "T15.36", "T15.37"))
def curves_go_down(key):
    r"""More skills a piece, or fewer mistakes, and more of the skills are mastered.

    The performance curve of $k$ and $\theta$ is the boundary of $H(\theta)<k\theta D(\alpha\beta\|\alpha)$, drawn as
    $\beta\theta$ against $1-\alpha$: on it the condition changes its sign. It ends at
    $\alpha=e^{-H(\theta)/(k\theta)}$. It goes down as $k$ grows, because $\frac{H(\theta)}{k\theta}$ does. It goes up
    with $\theta$ where both curves exist (that of fewer mistakes ends sooner, because $\frac{H(\theta)}\theta$
    decreases) and $\beta\theta\le1$; beyond, where it says nothing, that is not so.
    """
    ks, thetas = np.array([2, 4, 8, 16, 32]), np.linspace(0.02, 0.9, 45)
    values = np.asarray(beta_min(GRID[:, None, None], thetas[:, None], ks)) * thetas[:, None]  # α, θ, k
    there = np.isfinite(values)
    beta = np.where(there, values, 1.0) / thetas[:, None]
    near = [
        np.asarray(emergence_condition(a, b, t, int(k)))
        for a, t, k, b in [
            (GRID[:, None], thetas[None], k, np.clip(beta[..., i] * factor, 1.0, 1 / GRID[:, None]))
            for factor in (1 + 1e-6, 1 - 1e-6)
            for i, k in enumerate(ks)
        ]
    ]
    near = np.moveaxis(np.array(near).reshape(2, ks.size, GRID.size, thetas.size), 1, -1)
    yield at_most("condition just above the curve", near[0][there], 0.0)
    yield at_least("condition just below the curve", near[1][there], 0.0)
    ends = np.exp(-np.asarray(bernoulli_entropy(thetas))[:, None] / (ks * thetas[:, None]))
    yield equal("where there is a curve", there, GRID[:, None, None] < ends, rtol=0, atol=0)
    reference = [[0.623, 0.397, 0.302], [0.450, 0.307, 0.246], [0.335, 0.243, 0.203], [0.247, 0.165, 0.130]]
    found = [performance_curve(k, t, SHARES[:3]) for k, t in ((4, 0.1), (8, 0.1), (16, 0.1), (8, 0.05))]
    yield equal("curves at three shares of skills", found, reference, rtol=0, atol=5e-4)
    filled = np.where(there, values, 1e9)  # where there is none it lies above all others
    yield monotone("βθ as k grows", filled, "decreasing", along="k")
    steps, both = np.diff(filled, axis=1), there[:, :-1] & there[:, 1:]
    yield at_least("steps of βθ as θ grows, up to 1", steps[both & (filled[:, 1:] <= 1)], 0.0)
    yield monotone("H(θ)/θ", np.asarray(bernoulli_entropy(thetas)) / thetas, "decreasing", strict=True, x=thetas)
    beyond = steps[both & (filled[:, :-1] > 1)]
    yield control("βθ is at most 1: here it is more", at_least("steps of βθ as θ grows", beyond, 0.0))


@claim(
    rows=("T15.36",),
    erratum="Curves are compared by β in the definition; there the curve of fewer mistakes lies above, not below.",
)
def printed_order_in_beta(key):
    r"""Fewer mistakes lower the share of wrong pieces of a skill, but not its ratio to what is expected.

    A curve is the boundary of the pairs $(\alpha,\beta)$, and one is better than another if at every $\alpha$ its
    $\beta$ is smaller. Printed: for $\theta'<\theta$ the curve of $\theta'$ and $k$ lies below that of $\theta$ and
    $k$, because $H(\theta)/\theta$ decreases. That makes the smallest $\beta$ decrease with $\theta$:
    4.93, 4.50, 4.01 at $\alpha=.1$, $k=8$ for $\theta=.05,.1,.2$. The lemma holds for $\beta\theta$.
    """
    thetas = np.array([0.05, 0.1, 0.2])
    alphas = np.array([0.1, 0.2, 0.3])
    beta = np.asarray(beta_min(alphas[:, None], thetas, 8))
    yield equal("smallest β at α = 0.1", beta[0], [4.93, 4.50, 4.01], rtol=0, atol=0.005)
    share = np.stack([performance_curve(8, float(theta), alphas) for theta in thetas], 1)
    yield monotone("βθ as θ grows", share, "increasing", strict=True, x=thetas, along="θ")
    yield printed(monotone("smallest β as θ grows", beta, "increasing", x=thetas, along="θ"))


@claim(
    rows=("T15.37",),
    erratum="For k = 2 and θ = 0.1 the caption says that valid α and β do not exist; they do, up to α = 0.197.",
)
def printed_two_skills(key):
    r"""Two skills a text-piece are enough for the theorem to speak, of small sets of skills.

    Printed with the figure for $\theta=0.1$: for $k=2$ valid $\alpha,\beta$ did not exist, so that the left side of the
    condition is never negative with $\beta>1$ and $\alpha\beta<1$. It is for every
    $\alpha<e^{-H(\theta)/(2\theta)}=0.197$, with $\beta\theta<1$ from $\alpha=0.083$ on.
    """
    alphas = np.linspace(0.01, 0.6, 60)
    parts = np.linspace(0.005, 0.995, 199)  # of the way from β = 1 to αβ = 1
    beta = 1 + parts * (1 / alphas[:, None] - 1)
    left = np.asarray(emergence_condition(alphas[:, None], beta, 0.1, 2))
    end = np.exp(-float(bernoulli_entropy(0.1)) / 0.2)
    valid = left.min(1) < 0
    # within one step of the grid: at the end itself only αβ = 1 would do
    yield equal("largest α with a valid β", alphas[valid].max(), end, rtol=0, atol=0.011)
    useful = (left < 0) & (beta * 0.1 < 1)
    yield equal("least α with a valid β below 10", alphas[useful.any(1)].min(), 0.083, rtol=0, atol=0.011)
    yield equal(
        "βθ at α = 0.1, 0.15, 0.19", performance_curve(2, 0.1, [0.1, 0.15, 0.19]), [0.869, 0.635, 0.524], atol=5e-4
    )
    yield printed(at_least("left side of the condition, over all α and β", left.min(), 0.0))


@claim(rows=("T15.37", "T15.40"), no_control="an exercise: an identity of two curves")
def tuples_after_scaling(key, *, pieces: Count = 4000):
    r"""A model with a fraction of the loss does with tuples of skills what the old one does with single skills.

    With the loss $\delta/k'$ a text-piece, joined in groups of $k'$, pieces have the loss $\delta$ again, and need $k$
    tuples of $k'$ skills as a piece before needed $k$ skills: the bound $2\delta$ on the share of wrong pieces, $k$
    and so the performance curve are the same, and the wrong ones are within that bound. So the curves of
    $\theta=.05,.1,.2$ are those of single skills, pairs and 4-tuples at $\theta=.05$. By the scaling law ten times the
    data divide their part of the excess by 1.905, ten times the size theirs by 2.188: about 2, so that every factor
    ten doubles the tuples.
    """
    sizes = (1, 2, 4)
    delta = 0.05

    @jax.jit
    def measure(key):
        draw_key, loss_key, join_key = jax.random.split(key, 3)
        cluster = SkillCluster.draw(pieces, 6, 8, key=draw_key)
        raw = jax.random.exponential(loss_key, (pieces,)) ** 2
        joined = [recombine(cluster, raw * (delta / size / raw.mean()), size, key=join_key) for size in sizes]
        means = jnp.stack([j.cluster.weights @ j.losses for j in joined])
        return means, jnp.stack([jnp.mean(error_set(j.losses), dtype=float) for j in joined])

    means, wrong = measure(key)
    old = performance_curve(8, 2 * delta, GRID)
    there = np.isfinite(old)
    new = np.stack([performance_curve(8, 2 * float(m), GRID) for m in means])
    yield equal("curve of the scaled model for tuples, from its losses", new[:, there], np.stack([old[there]] * 3))
    yield at_most("share of wrong pieces after joining", wrong, 2 * delta)
    tuples = [np.asarray(performance_curve(8, 0.05, SHARES, size=size)) for size in sizes]
    figure = [[0.247, 0.165, 0.130, 0.095], [0.450, 0.307, 0.246, 0.183], [0.802, 0.560, 0.456, 0.349]]
    yield equal("curves of singles, pairs and 4-tuples at θ = 0.05", tuples, figure, rtol=0, atol=5e-4)
    scale = 10.0 ** np.arange(9, 13)
    excess = [np.asarray(chinchilla_loss(n, d)) - CHINCHILLA.constant for n, d in ((1e30, scale), (scale, 1e30))]
    falls = np.array([e[:-1] / e[1:] for e in excess])
    yield equal("fall of the excess by ten times the data or the size", falls, np.full((2, 3), 2.0), rtol=0.1)
