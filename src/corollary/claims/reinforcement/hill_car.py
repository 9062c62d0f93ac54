"""The car on the hill: its forces, its steps, three ways to drive it, and that a drive can be restarted."""

import jax
import jax.numpy as jnp

from corollary.differential import solve
from corollary.evidence import Positive, Size, at_least, claim, control, equal, printed, rate
from corollary.reinforcement import HillCar, hill, hitting_time, horizontal_force, optimal_steps, slope

BOTTOM = -jnp.pi / 6


def _from_the_left(x):
    """Strategy 1: forward while rolling forward on the left of the bottom."""
    return jnp.where((x[1] > 0) & (x[0] < BOTTOM), 2, 1)


def _forward(x):
    """Strategy 2: forward while rolling forward."""
    return jnp.where(x[1] > 0, 2, 1)


def _with_the_velocity(x):
    """Strategy 3: always with the velocity."""
    return 1 + jnp.sign(x[1]).astype(int)


STRATEGIES = (_from_the_left, _forward, _with_the_velocity)


@claim(rows=("M21.03", "M21.04"))
def three_strategies(key, *, starts: Size = 8, rivals: Size = 4096):
    """374, 161 and 81 steps as in the figures, all above the 66 of the quickest drive.

    With the constants and the step of MountainCarContinuous-v0 and a start at rest anywhere between -0.47325 and
    -0.47049, pushing forward when rolling forward on the left takes 374 steps to 0.45, pushing forward when rolling
    forward 161, and pushing with the velocity 81. From the -0.5 of the text they are 362, 159 and 80. Breadth-first
    search finds a drive of 66 steps from -0.5; it arrives when it says, and none of its variations arrives earlier.
    """
    place, mutation, which = jax.random.split(key, 3)
    plan = optimal_steps(HillCar(), [-0.5, 0.0])

    @jax.jit
    def measure(q, actions, mutation, which):
        def times(env, q):
            return jnp.stack([hitting_time(env, policy, jnp.stack([q, 0.0 * q])) for policy in STRATEGIES])

        def arrival(actions):
            def onward(x, action):
                x = env.moved(x, action)
                return x, env.reached(x)

            there = jax.lax.scan(onward, jnp.array([-0.5, 0.0]), actions)[1]
            return jnp.where(there.any(), there.argmax() + 1, len(actions) + 1)

        env = HillCar()
        changed = jnp.where(
            jax.random.bernoulli(which, 0.05, (rivals, len(actions))),
            jax.random.randint(mutation, (rivals, len(actions)), 0, 3),
            actions,
        )
        here = jax.vmap(lambda q: times(env, q))(q)
        return (
            here,
            times(env, jnp.asarray(-0.5)),
            times(HillCar("text"), q[0]),
            arrival(actions),
            jax.vmap(arrival)(changed),
        )

    q = jax.random.uniform(place, (starts,), minval=-0.47325, maxval=-0.47049)
    here, at_half, explicit, arrived, others = measure(q, plan.actions, mutation, which)
    figures = [374, 161, 81]
    yield equal("steps of the three strategies", here, jnp.broadcast_to(jnp.array(figures), here.shape), atol=0, rtol=0)
    yield equal("steps from -0.5", at_half, [362, 159, 80], atol=0, rtol=0)
    yield equal("steps of the quickest drive", arrived, 66, atol=0, rtol=0)
    yield at_least("steps of variations of the quickest drive", others, plan.steps)
    yield at_least("steps from -0.5 against the quickest drive", at_half, plan.steps)
    yield control(
        "the step of MountainCarContinuous-v0: here that of the text",
        equal("steps of the three strategies", explicit, figures, atol=0, rtol=0),
    )


@claim(rows=("M21.05",))
def restart(key, *, cases: Size = 64, steps: Size = 60):
    r"""A drive from x is the first step and then the drive from where it led to.

    For a policy $\lambda$ that looks at the state alone $R_n(x;\lambda)=R_{n-1}(\Phi_{\lambda(x)}(x);\lambda)$, and the
    time to the goal is $T_\lambda(x)=\delta+T_\lambda(\Phi_{\lambda(x)}(x))$ off the goal. A policy that looks at the
    clock has neither.
    """
    env = HillCar("text", power=0.01, limit=400)

    @jax.jit
    def measure(key):
        def one(key):
            place, weights = jax.random.split(key)
            x = jax.random.uniform(place, (2,), minval=jnp.array([-1.2, -0.07]), maxval=jnp.array([0.4, 0.07]))
            w = jax.random.normal(weights, (2,)) * jnp.array([1.0, 10.0])

            def policy(x):
                return 1 + jnp.sign(w @ x + 0.3 * w[0]).astype(int)

            def driven(x, turning):
                """The states of a drive; with `turning` the force is turned round in every other step."""

                def onward(x, n):
                    action = policy(x)
                    x = env.moved(x, jnp.where(turning & (n % 2 == 1), 2 - action, action))
                    return x, x

                return jnp.concatenate([x[None], jax.lax.scan(onward, x, jnp.arange(steps))[1]])

            first = env.moved(x, policy(x))
            times = hitting_time(env, policy, x), hitting_time(env, policy, first)
            return driven(x, False)[1:], driven(first, False)[:-1], driven(x, True)[1:], driven(first, True)[:-1], times

        return jax.vmap(one)(jax.random.split(key, cases))

    whole, again, turned, turned_again, (time, later) = measure(key)
    arrives = (time < env.limit) & (later < env.limit)  # of the others nothing is known but that they take longer
    # the first step is compiled apart from the others and may be rounded otherwise: 60 steps enlarge that 200-fold
    yield equal("states of a drive", whole, again, rtol=0, atol=1e-10)
    yield at_least("drives that arrive", arrives.sum(), cases / 8)
    yield equal("time to the goal", time[arrives], 1 + later[arrives], rtol=0, atol=0)
    yield control(
        "a policy of the state alone: here of the clock too",
        equal("states of a drive", turned, turned_again, rtol=0, atol=1e-10),
    )


@claim(
    rows=("M21.01",),
    erratum="The horizontal force of gravity is printed with one factor 1/√(1 + U'²) too few.",
)
def gravity_as_printed(key, *, places: Size = 50, gravity: Positive = 9.81):
    r"""Gravity pulls a car on a slope horizontally by the slope over one plus its square.

    The force along the curve is $\alpha-gU'/\sqrt{1+U'^2}$, and its horizontal part that over $\sqrt{1+U'^2}$. Printed:
    $\alpha/\sqrt{1+U'^2}-gU'/\sqrt{1+U'^2}$. It is held against Lagrange's equation for a point of mass 1 on the
    curve, at rest.
    """

    @jax.jit
    def measure(key):
        q = jax.random.uniform(key, (places,), minval=-1.2, maxval=0.6)
        push = jnp.arange(places) % 3 - 1.0

        def lagrangian(q, speed):
            _, velocity = jax.jvp(lambda q: jnp.stack([q, hill(q)]), (q,), (speed,))
            return velocity @ velocity / 2 - gravity * hill(q)

        def acceleration(q, push):
            mass = jax.grad(jax.grad(lagrangian, 1), 1)(q, 0.0)
            # a push along the curve does work at the rate of the push times the speed along the curve
            along = jnp.linalg.norm(jax.jvp(lambda q: jnp.stack([q, hill(q)]), (q,), (jnp.ones(()),))[1])
            return (jax.grad(lagrangian)(q, 0.0) + push * along) / mass

        root = jnp.sqrt(1 + slope(q) ** 2)
        return jax.vmap(acceleration)(q, push), horizontal_force(q, push, gravity), (push - gravity * slope(q)) / root

    found, corrected, as_printed = measure(key)
    yield equal("acceleration at rest", found, corrected, rtol=1e-10)
    yield printed(equal("acceleration at rest, as printed", found, as_printed, rtol=1e-10))


@claim(rows=("M21.01", "M21.02"))
def energy_and_steps(key, *, gravity: Positive = 9.81, mass: Positive = 2.0):
    r"""Without a push the hill conserves an energy; the text's step follows the equation to second order.

    Along $\dot q=v$, $m\dot v=\alpha-gU'(q)$ with $\alpha=0$ the energy $\frac m2v^2+gU(q)$ stays what it was. One step
    of length $\delta$, $q+v\delta+\frac\alpha{2m}\delta^2$ and $v+\frac\delta m(\alpha-gU'(q))$, misses the solution by
    $O(\delta^2)$ in both: gravity is left out of the second-order term of the position. With the exact projection of
    the forces, which the text replaces for small slopes, this energy is not conserved.
    """
    lengths = 2.0 ** -jnp.arange(6, 12)

    @jax.jit
    def measure(key):
        # between the bottom and the inflection, where neither error vanishes
        x = jax.random.uniform(key, (2,), minval=jnp.array([-0.45, 0.2]), maxval=jnp.array([-0.2, 0.6]))

        def field(push, exact):
            return lambda x: jnp.stack([x[1], horizontal_force(x[0], push, gravity, exact=exact) / mass])

        def energies(exact):
            path = solve(field(0.0, exact), x, jnp.linspace(0.0, 2.0, 21), substeps=200)
            return mass * path[:, 1] ** 2 / 2 + gravity * hill(path[:, 0])

        def miss(length):
            env = HillCar("text", power=length**2 / mass, gravity=1.35 * gravity * length**2 / mass)
            q, per_step = env.moved(jnp.stack([x[0], x[1] * length]), 2)
            there = solve(field(1.0, False), x, jnp.stack([0.0 * length, length]), substeps=50)[-1]
            return jnp.abs(jnp.stack([q, per_step / length]) - there)

        return energies(False), energies(True), jax.vmap(miss)(lengths)

    kept, lost, misses = measure(key)
    # Runge and Kutta with steps of 1/2000 leave errors of the order 1e-11
    yield equal("energy", kept, jnp.full_like(kept, kept[0]), rtol=1e-9, along="time")
    yield control(
        "the force for small slopes: here the exact one",
        equal("energy", lost, jnp.full_like(lost, lost[0]), rtol=1e-9),
    )
    yield rate("error of the position in one step", lengths, misses[:, 0], 2.0, tolerance=0.2, along="step")
    yield rate("error of the velocity in one step", lengths, misses[:, 1], 2.0, tolerance=0.2, along="step")
