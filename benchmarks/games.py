"""Shapley and Banzhaf values of random games beside shapiq: the same values of all coalitions on both sides.

    pip install -e . && python benchmarks/games.py

20 games of 10 players, whose 1,024 values are normal numbers. The bar: both kinds of values agree to 1e-12. CPU time of
all games is printed for both, ours without the first call, which compiles. shapiq lives in an environment of its own
under benchmarks/.peers, installed when first needed.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from _environment import environment

from corollary.attribution import Game, banzhaf, shapley


def theirs(tables):
    python = environment("games", ["shapiq==1.4.1"])
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(files[0], tables=tables)
        subprocess.run([python, Path(__file__).parent / "_peer_games.py", *files], check=True)
        return dict(np.load(files[1]))


def main(games, players):
    tables = np.random.default_rng(0).normal(size=(games, 2**players))
    found = theirs(tables)
    with jax.enable_x64(True):
        both = jax.jit(jax.vmap(lambda t: (shapley(Game.of_values(t)).values, banzhaf(Game.of_values(t)).values)))
        jax.block_until_ready(both(tables))
        busy = time.process_time()
        ours = jax.block_until_ready(both(tables))
        busy = time.process_time() - busy
    off = [float(np.abs(np.asarray(a) - found[name]).max()) for a, name in zip(ours, ("SV", "BV"), strict=True)]
    print(f"{games} games of {players} players: Shapley values differ by at most {off[0]:.1e}, Banzhaf {off[1]:.1e}")
    print(f"CPU time: shapiq {found['seconds']:.3f} s, corollary {busy:.4f} s")
    raise SystemExit(max(off) > 1e-12)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--players", type=int, default=10)
    args = parser.parse_args()
    main(args.games, args.players)
