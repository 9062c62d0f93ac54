"""Shapley and Banzhaf values of games by shapiq; reads and writes `.npz` files."""

import sys
import time

import numpy as np
import shapiq


def main(inputs: str, outputs: str) -> None:
    tables = np.load(inputs)["tables"]
    players = int(np.log2(tables.shape[1]))
    found = {"SV": [], "BV": []}
    busy = time.process_time()
    for table in tables:
        # a coalition is numbered by the powers of two of its members
        computer = shapiq.ExactComputer(lambda masks, t=table: t[masks.astype(int) @ 2 ** np.arange(players)], players)
        for index, values in found.items():
            values.append(computer(index, 1).get_n_order_values(1))
    np.savez(outputs, seconds=time.process_time() - busy, **{name: np.array(v) for name, v in found.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
