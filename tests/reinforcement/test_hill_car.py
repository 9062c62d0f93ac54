import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.reinforcement import HillCar, Timed, hill, hitting_time, horizontal_force, optimal_steps, slope

gymnasium = pytest.importorskip("gymnasium")
STRATEGIES = (
    lambda x: jnp.where((x[1] > 0) & (x[0] < -jnp.pi / 6), 2, 1),
    lambda x: jnp.where(x[1] > 0, 2, 1),
    lambda x: 1 + jnp.sign(x[1]).astype(int),
)


def test_the_slope_is_the_derivative_of_the_hill():
    q = jnp.linspace(-1.2, 0.6, 7)
    np.testing.assert_allclose(slope(q), (hill(q + 1e-6) - hill(q - 1e-6)) / 2e-6, rtol=1e-8)


def test_the_force_by_projection_of_vectors():
    for q, push in ((-1.0, 1.0), (0.2, 0.0), (0.4, -1.0)):
        tangent = np.array([1.0, float(slope(q))])
        tangent /= np.linalg.norm(tangent)
        force = tangent * (push + np.array([0.0, -9.81]) @ tangent)
        np.testing.assert_allclose(horizontal_force(q, push, 9.81), force[0], rtol=1e-12)
    np.testing.assert_allclose(horizontal_force(0.2, 1.0, 9.81, exact=False), 1 - 9.81 * slope(0.2))


def test_the_same_states_as_gymnasium_over_10000_random_steps():
    theirs = gymnasium.make("MountainCarContinuous-v0")
    # runs of the same action, so that walls and the goal are met
    actions = np.repeat(np.random.default_rng(0).integers(3, size=500), 20)
    starts, seen, ends = np.zeros((10_000, 2)), np.zeros((10_000, 2)), np.zeros((10_000, 2), bool)
    times, ended, time = np.zeros(10_000, int), True, 0
    for n, action in enumerate(actions):
        if ended:
            theirs.reset(seed=n)
            time = 0
        starts[n], times[n] = theirs.unwrapped.state, time
        seen[n], _, *flags, _ = theirs.step(np.array([action - 1.0], np.float32))
        ends[n], ended, time = flags, any(flags), time + 1
    outcomes = jax.jit(jax.vmap(HillCar().step))(Timed(starts, times), actions)
    # gymnasium rounds its state to single precision after every step
    np.testing.assert_allclose(outcomes.state.observation, seen, atol=1e-6)
    np.testing.assert_array_equal(np.stack([outcomes.terminated, outcomes.truncated], 1), ends)
    assert ends[:, 0].sum() > 5
    assert (seen[:, 0] == np.float32(-1.2)).any()


@pytest.mark.parametrize(("q", "printed"), [(-0.473, (374, 161, 81)), (-0.5, (362, 159, 80))])
def test_the_strategies_here_and_in_gymnasium(q, printed):
    for strategy, steps in zip(STRATEGIES, printed, strict=True):
        assert int(hitting_time(HillCar(), strategy, [q, 0.0])) == steps
    env = gymnasium.make("MountainCarContinuous-v0").unwrapped
    env.reset(seed=0)
    env.state, count, there = np.array([q, 0.0]), 0, False
    while not there:
        _, _, there, _, _ = env.step(np.array([np.sign(env.state[1])]))
        count += 1
    assert count == printed[2]


def test_the_schemes_step_as_they_say():
    q, v, push = -0.3, 0.02, 0.0015
    rise = 1.35 * np.cos(3 * q)
    g = 0.0025 / 1.35
    np.testing.assert_allclose(HillCar("text").moved([q, v], 2), [q + v + push / 2, v + push - g * rise])
    root = np.sqrt(1 + rise**2)
    exact = [q + v + push / root / 2, v + push / root - g * rise / root**2]
    np.testing.assert_allclose(HillCar("exact").moved([q, v], 2), exact)
    np.testing.assert_allclose(HillCar("text").moved([q, v], 1, 0.01)[1], v + 0.01 - g * rise)


def test_the_kicks_have_their_law():
    env = HillCar("text", noise=([-0.01, 0.0, 0.02], [0.2, 0.5, 0.3]))
    state = env.reset(key=jax.random.key(1))
    still = float(HillCar("text").moved(state.observation, 1)[1])
    step = jax.jit(jax.vmap(lambda key: env.step(state, 1, key=key).state.observation[1]))
    kicks = np.asarray(step(jax.random.split(jax.random.key(0), 4000))) - still
    for kick, chance in ((-0.01, 0.2), (0.0, 0.5), (0.02, 0.3)):
        assert abs((np.abs(kicks - kick) < 1e-9).mean() - chance) < 5 * 0.5 / np.sqrt(4000)


def test_the_search_against_all_sequences_of_actions():
    env, start = HillCar(), jnp.array([0.25, 0.03])
    plan = optimal_steps(env, start, cells=(1e-6, 1e-7))
    assert plan.steps > 5

    @jax.jit
    def arrivals(sequences):
        def one(actions):
            def onward(x, action):
                x = env.moved(x, action)
                return x, env.reached(x)

            there = jax.lax.scan(onward, start, actions)[1]
            return jnp.where(there.any(), there.argmax() + 1, len(actions) + 1)

        return jax.vmap(one)(sequences)

    every = np.indices((3,) * plan.steps).reshape(plan.steps, -1).T
    times = np.asarray(arrivals(every))
    assert times.min() == plan.steps
    assert times[(every == np.asarray(plan.actions)).all(1)] == plan.steps
    assert optimal_steps(env, [0.5, 0.01]).steps == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: HillCar("leapfrog"), "scheme must be one of"),
        (lambda: HillCar(noise=([0.1], [0.9])), "law of noise must sum to one, got 0.9"),
        (lambda: HillCar(power=0.0), "power must be positive"),
        (lambda: HillCar().moved([0.0, 0.0], 3), "action must hold labels from 0 to 2, got 3"),
        (lambda: HillCar(noise=([0.1], [1.0])).step(HillCar().reset(key=jax.random.key(0)), 1), "needs a key"),
        (lambda: hitting_time(HillCar(noise=([0.1], [1.0])), STRATEGIES[0], [0.0, 0.0]), "needs a key"),
        (lambda: optimal_steps(HillCar(noise=([0.1], [1.0])), [0.0, 0.0]), "without noise"),
        (lambda: optimal_steps(HillCar(limit=3), [-0.5, 0.0]), "No way to the goal was found in 3 steps"),
        (lambda: optimal_steps(None, [-0.5, 0.0]), "env must be a HillCar"),
        (lambda: hitting_time(None, STRATEGIES[0], [-0.5, 0.0]), "env must be a HillCar"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
