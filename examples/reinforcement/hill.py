"""Drive up the hill, learned from transitions alone: how near to the quickest drive does fitted Q-iteration come?

    python examples/reinforcement/hill.py
    python examples/reinforcement/hill.py --transitions 10000 --grid 60

The values of the three actions are linear between the points of a grid of positions and velocities. Every sweep fits
them by least squares to 1 + the least value at the next state, which is one step of value iteration on the history;
neighbouring points are kept from bending away from each other. The map of the hill is not used, except for the curve
at which the best force changes its direction, which is printed beside the learned one.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import splu

from corollary.reinforcement import HillCar, hitting_time, optimal_steps

LOW, HIGH = np.array([-1.2, -0.07]), np.array([0.45, 0.07])
ENV = HillCar()
MOVES = jax.jit(jax.vmap(lambda x, a: (ENV.moved(x, a), ENV.reached(ENV.moved(x, a)))))


def corners(x, grid, np=np):
    """The four points of the grid around each state, and their weights."""
    place = (np.clip(x, LOW, HIGH) - LOW) / (HIGH - LOW) * (grid - 1)
    cell = np.minimum(place.astype(int), grid - 2)
    part = place - cell
    points = [(cell[..., 0] + i) * grid + cell[..., 1] + j for i in (0, 1) for j in (0, 1)]
    sides = [(1 - part[..., k], part[..., k]) for k in (0, 1)]
    return np.stack(points, -1), np.stack([sides[0][i] * sides[1][j] for i in (0, 1) for j in (0, 1)], -1)


def features(x, grid):
    points, weights = corners(x, grid)
    rows = np.repeat(np.arange(len(x)), 4)
    return sparse.csr_array((weights.ravel(), (rows, points.ravel())), (len(x), grid * grid))


def bending(grid, penalty):
    """The sum of the squares of second differences along both axes."""
    along = sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(grid - 2, grid))
    along, one = along.T @ along, sparse.eye_array(grid)
    return penalty * (sparse.kron(along, one) + sparse.kron(one, along)) + 1e-9 * sparse.eye_array(grid * grid)


def learn(x, action, z, there, grid, sweeps, penalty):
    """The values (grid points, actions): the expected number of steps to the goal."""
    here, after, smooth = features(x, grid), features(z, grid), bending(grid, penalty)
    parts = [here[action == a] for a in range(3)]
    solvers = [splu(sparse.csc_array(part.T @ part + smooth)) for part in parts]
    q = np.zeros((grid * grid, 3))
    for sweep in range(sweeps):
        y = 1 + np.where(there, 0.0, np.clip((after @ q).min(1), 0, sweep))
        q = np.stack([solvers[a].solve(parts[a].T @ y[action == a]) for a in range(3)], 1)
    return q


def known(grid, sweeps):
    """The same values from the map of the hill itself, on a fine grid."""
    axes = [np.linspace(low, high, grid) for low, high in zip(LOW, HIGH, strict=True)]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    moved = [MOVES(x, np.full(len(x), a)) for a in range(3)]
    rows = [(features(np.asarray(z, float), grid), np.asarray(there)) for z, there in moved]
    v = np.zeros(len(x))
    for _ in range(sweeps):
        q = np.stack([1 + np.where(there, 0.0, f @ v) for f, there in rows], 1)
        v = q.min(1)
    return q


def switching(q, grid, positions):
    """For each position the velocity above which the best force is forward."""
    velocities = np.linspace(LOW[1], HIGH[1], 281)
    states = np.stack(np.meshgrid(positions, velocities, indexing="ij"), -1)
    values = (features(states.reshape(-1, 2), grid) @ q).reshape(len(positions), len(velocities), 3)
    forward = values[..., 2] <= values[..., 0]
    # the changes of direction that leave the fewest velocities on the wrong side
    wrong = np.cumsum(forward, 1) + np.cumsum(~forward[:, ::-1], 1)[:, ::-1]
    return velocities[wrong.argmin(1)]


def main(transitions, grid, sweeps, penalty, fine, starts, seed):
    rng = np.random.default_rng(seed)
    x, action = LOW + (HIGH - LOW) * rng.random((transitions, 2)), rng.integers(3, size=transitions)
    z, there = (np.asarray(found) for found in MOVES(x, action))
    begin = time.perf_counter()
    q = learn(x, action, np.asarray(z, float), there, grid, sweeps, penalty)
    seconds = time.perf_counter() - begin
    print(f"{transitions:,} transitions, {sweeps} sweeps on {grid} by {grid} points: {seconds:.1f} s")
    table = jnp.asarray(q)

    def policy(x):
        points, weights = corners(x, grid, jnp)
        return (weights @ table[points]).argmin()

    print("start    learned   quickest   with the velocity")
    for start in starts:
        learned = int(hitting_time(ENV, policy, [start, 0.0]))
        third = int(hitting_time(ENV, lambda x: 1 + jnp.sign(x[1]).astype(int), [start, 0.0]))
        quickest = optimal_steps(ENV, [start, 0.0]).steps
        print(f"{start:6.3f}   {learned:7d}   {quickest:8d}   {third:17d}")
    positions = np.linspace(-1.1, 0.3, 8)
    curves = switching(q, grid, positions), switching(known(fine, sweeps), fine, positions)
    print("position   forward above the velocity, learned   of the known hill")
    for at, found, exact in zip(positions, *curves, strict=True):
        print(f"{at:8.2f}   {found:35.4f}   {exact:17.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transitions", type=int, default=20_000)
    parser.add_argument("--grid", type=int, default=80, help="points per axis")
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--penalty", type=float, default=0.1, help="of bending")
    parser.add_argument("--fine", type=int, default=300, help="points per axis for the known hill")
    parser.add_argument("--starts", type=float, nargs="+", default=[-0.5, -0.473, -0.6, -0.4], help="positions at rest")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.transitions, args.grid, args.sweeps, args.penalty, args.fine, args.starts, args.seed)
