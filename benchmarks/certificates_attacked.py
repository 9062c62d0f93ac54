"""Certificates under attack: thousands of ascents inside each kind, which may not break more than it allows.

    python benchmarks/certificates_attacked.py           # a GPU: 10,000 attacks inside each kind of certificate
    python benchmarks/certificates_attacked.py --small   # two cores, a minute: 200 of each

- Smoothing: half-spaces, whose smoothed class is known exactly and whose certificates are as far as they can be, and a
  network for MNIST. Each certificate has votes of its own, each attack 5 ascents of the mean prediction under fresh
  noise. The share that is broken is at most α by an exact binomial test; with twice the scale in the formula the
  same attacks break more. At a tie one batch of votes for choice and estimate is wrong with 2α, and is caught.
- Margin over Lipschitz constant, of a network for MNIST and of linear ones, whose radius is exact: none is broken
  inside, those of linear ones all are at 1.01 times the radius.
- Theorem 75: none is broken inside its radius, nor inside the exact one, which is twice as large; beyond it examples
  of the class 1 are.
"""

import argparse
import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats

from corollary import Network
from corollary.data import mnist
from corollary.nets import MLP, fit, relu
from corollary.robustness import (
    Ball,
    NoisyInput,
    Smoothed,
    lipschitz_certificate,
    pgd,
    robust_network,
    sphere_points,
    vote_lower_bound,
)

RESTARTS = 5
#: How often an exact test may reject what is true.
LEVEL = 1e-6


def verdict(name, broken, trials, alpha, wanted=True):
    """Print and return how many were broken, and whether the test says what it should: at most alpha, or more."""
    p = stats.binomtest(broken, trials, alpha, alternative="greater").pvalue if alpha else float(broken == 0)
    good = (p >= LEVEL) == wanted
    allowed = f"at most {alpha:g}" if alpha else "none"
    print(f"{name:66} {broken:6} of {trials:6}, {allowed} is {'credible' if p >= LEVEL else 'refuted'}: "
          f"{'as it should be' if good else 'WRONG'}", flush=True)  # fmt: skip
    return {"name": name, "broken": int(broken), "trials": int(trials), "alpha": alpha, "good": bool(good)}


def worst(loss, x, radius, key, steps=20):
    """Within `radius` of one input the worst end of several ascents of `loss(z, key)`, each step with fresh noise."""
    ball = Ball(2, radius)
    ends_key, judge = jax.random.split(key)

    def ascent(key):
        start, noise = jax.random.split(key)

        def step(z, numbered):
            number, key = numbered
            length = radius / 2 * (1 - number / steps)
            return ball.project(Ball(2, length).steepest(jax.grad(loss)(z, key), z), x), None

        numbered = jnp.arange(steps), jax.random.split(noise, steps)
        return jax.lax.scan(step, ball.sample(x, key=start), numbered)[0]

    ends = jax.vmap(ascent)(jax.random.split(ends_key, RESTARTS))
    return ends[jnp.argmax(jax.vmap(lambda z: loss(z, judge))(ends))]


def half_spaces(trials, alpha=0.01, scale=0.5, dim=16, draws=16):
    """Certificates of half-spaces at random distances: the smoothed class is the side on which an input lies."""

    @jax.jit
    def run(keys):
        def one(key):
            normal_key, place, votes, first, second = jax.random.split(key, 5)
            normal = jax.random.normal(normal_key, (dim,))
            normal = normal / jnp.linalg.norm(normal)
            x = normal * scale * jax.random.uniform(place, minval=0.1, maxval=2.0)
            smoothed = Smoothed(Network(lambda w, z: w @ z, normal), scale)
            made = smoothed.certify(x[None], samples=1000, alpha=alpha, key=votes)
            side = 2.0 * made.label[0] - 1

            def loss(z, key):
                noisy = z + scale * jax.random.normal(key, (draws, dim))
                return -jnp.mean(jax.nn.sigmoid(side * noisy @ normal / scale))

            def broken(radius, key):
                return (side * normal @ worst(loss, x, radius, key) <= 0) & (radius > 0)

            return made.radius[0] > 0, broken(made.radius[0], first), broken(2 * made.radius[0], second)

        return jax.lax.map(one, keys, batch_size=500)

    certified, inside, doubled = map(np.asarray, run(jax.random.split(jax.random.key(0), trials)))
    # whether a certificate is given is no condition: each is wrong with at most alpha, given or not
    return [
        verdict("smoothing, half-spaces: inside the radius", int(inside.sum()), trials, alpha),
        verdict("  with twice the scale in the formula", int(doubled.sum()), int(certified.sum()), alpha, wanted=False),
    ]


def ties(trials, alpha=0.05, samples=1000):
    """At a tie every certificate is wrong: separate votes give one with α, one batch of votes with 2α."""

    @jax.jit
    def run(keys):
        smoothed = Smoothed(lambda z: z[0], 1.0)

        def one(key):
            separate = smoothed.certify(jnp.zeros((1, 1)), samples=samples, alpha=alpha, key=key).radius[0] > 0
            shares = smoothed.probabilities(jnp.zeros((1, 1)), samples=samples, key=key)
            most = jnp.round(jnp.max(shares) * samples).astype(int)
            return separate, vote_lower_bound(most, samples, alpha) > 0.5

        return jax.lax.map(one, keys, batch_size=500)

    separate, together = (int(np.asarray(a).sum()) for a in run(jax.random.split(jax.random.key(1), trials)))
    return [
        verdict("smoothing at a tie: separate votes for choice and estimate", separate, trials, alpha),
        verdict("  one batch of votes for both", together, trials, alpha, wanted=False),
    ]


def images(split, count):
    x, y = mnist(split)
    return jnp.asarray(np.asarray(x[:count], np.float32).reshape(-1, 784) / 255), jnp.asarray(y[:count])


def trained(network, data, steps, loss="cross_entropy"):
    options = {"steps": steps, "batch_size": 200, "key": jax.random.key(3), "progress": False}
    return fit(network, loss, data, optax.adam(1e-3), **options).network


def smoothed_digits(train, test, steps, alpha=1e-3, scale=0.5, draws=16):
    """Certificates of a network for MNIST; a broken one is one where 10,000 fresh votes name another class."""
    sizes = (784, 256, 256, 10)
    network = trained(NoisyInput(MLP(sizes, relu, key=jax.random.key(2)), scale), train, steps).network
    smoothed = Smoothed(network, scale)

    @jax.jit
    def run(x, keys):
        def one(given):
            x, key = given
            votes, first, second = jax.random.split(key, 3)
            made = smoothed.certify(x[None], samples=1000, alpha=alpha, key=votes)
            label, radius = made.label[0], made.radius[0]

            def loss(z, key):
                noisy = z + scale * jax.random.normal(key, (draws, z.size))
                return -jnp.log(jnp.mean(jax.nn.softmax(jax.vmap(network)(noisy))[:, label]) + 1e-20)

            return label, radius, worst(loss, x, radius, first), worst(loss, x, 2 * radius, second)

        return jax.lax.map(one, (x, keys), batch_size=100)

    x, _ = test
    label, radius, *ends = run(x, jax.random.split(jax.random.key(4), len(x)))
    certified = np.asarray(radius) > 0
    broken = []
    for number, z in enumerate(ends):
        # fresh votes call a class another one wrongly with at most the level
        said = smoothed.predict(z, samples=10_000, alpha=LEVEL, key=jax.random.key(5 + number), batch_size=65_536)
        broken.append(int((certified & ~np.asarray(said.abstained) & np.asarray(said.label != label)).sum()))
    print(f"  certified {certified.mean():.4f} of the images, median radius {np.median(np.asarray(radius)):.3f}")
    return [
        verdict("smoothing, MNIST: inside the radius", broken[0], len(x), alpha),
        verdict("  with twice the scale in the formula", broken[1], int(certified.sum()), alpha, wanted=False),
    ]


def broken_within(network, loss, data, radii):
    """How many examples change their class under an attack with a radius of its own for each; 0 is left out."""

    @jax.jit
    def run(network, x, y, radii, keys):
        def one(given):
            x, y, radius, key = given
            found = pgd(network, loss, (x[None], y[None]), Ball(2, radius), steps=40, restarts=RESTARTS, key=key)
            return found.success[0] & (radius > 0)

        return jax.lax.map(one, (x, y, radii, keys), batch_size=500)

    return int(run(network, *data, radii, jax.random.split(jax.random.key(7), len(radii))).sum())


def lipschitz_digits(train, test, steps):
    """Margin over Lipschitz constant: of a dense network, and of a linear one with one output, where it is exact."""
    dense = trained(MLP((784, 64, 10), relu, key=jax.random.key(2)), train, steps)
    made = lipschitz_certificate(dense, test, key=jax.random.key(6))
    inside = broken_within(dense, "cross_entropy", test, 0.999 * made.radius)
    print(f"  median radius {float(jnp.median(made.radius)):.4f}")
    sides = [(x, jnp.where(y >= 5, 1.0, -1.0)) for x, y in (train, test)]
    linear = trained(Network(lambda w, x: w @ x, jnp.zeros(784)), sides[0], steps, "logistic")
    exact = lipschitz_certificate(linear, sides[1], key=jax.random.key(6)).radius
    right = int((exact > 0).sum())
    within, beyond = (broken_within(linear, "logistic", sides[1], part * exact) for part in (0.999, 1.01))
    return [
        verdict("Lipschitz, MNIST, a dense network: inside the radius", inside, int((made.radius > 0).sum()), 0.0),
        verdict("Lipschitz, MNIST, a linear network: inside the radius", within, right, 0.0),
        verdict("  intact at 1.01 times the radius", right - beyond, right, 0.0),
    ]


def theorem(networks, points=100, dim=200):
    """One ReLU unit per example on the sphere of radius √d."""

    @partial(jax.jit, static_argnums=1)
    def run(keys, part):
        def one(key):
            x_key, y_key, attack = jax.random.split(key, 3)
            x, y = sphere_points(points, dim, key=x_key), jax.random.rademacher(y_key, (points,), float)
            made = robust_network(x, y)
            ball = Ball(2, part * made.radius)
            found = pgd(made.network, "logistic", (x, y), ball, steps=40, restarts=RESTARTS, key=attack)
            return jnp.sum(found.success), jnp.sum(found.success & (y > 0)), jnp.sum(y > 0)

        return [a.sum() for a in jax.lax.map(one, keys)]

    keys, trials = jax.random.split(jax.random.key(8), networks), networks * points
    inside, exact, beyond = (tuple(map(int, run(keys, part))) for part in (0.999, 1.998, 2.02))
    return [
        verdict("Theorem 75: inside the radius", inside[0], trials, 0.0),
        verdict("  inside the exact radius, twice as large", exact[0], trials, 0.0),
        verdict("  of the class 1 intact at 1.01 times the exact radius", beyond[2] - beyond[1], beyond[2], 0.0),
    ]


def main(small):
    trials = 200 if small else 10_000
    train, test = images("train", 2000 if small else 60_000), images("test", trials)
    steps = 100 if small else 4000
    print(f"{jax.devices()[0].device_kind}: {trials:,} attacks of {RESTARTS} restarts inside each kind of certificate")
    table = [*half_spaces(max(trials, 1000)), *ties(max(trials, 2000))]
    table += [*smoothed_digits(train, test, steps), *lipschitz_digits(train, test, steps), *theorem(trials // 100)]
    print(json.dumps(table))
    good = all(row["good"] for row in table)
    print("all are as they should be" if good else "something is NOT as it should be")
    raise SystemExit(not good)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a size for two cores")
    # rough products would make radii a part in a thousand larger than they are
    with jax.default_matmul_precision("highest"):
        main(parser.parse_args().small)
