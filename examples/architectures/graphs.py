"""Graph networks on hidden communities near the limit of what can be known, on a karate club, and where they are blind.

    python examples/architectures/graphs.py             # a GPU: 2,000 vertices; two CPU cores: 400, two minutes
    python examples/architectures/graphs.py --quick     # seconds, too short to learn anything

Communities: two blocks with c_in/n and c_out/n, five percent of the labels shown. Below (c_in - c_out)^2 = 2 (c_in +
c_out) nothing can be told beyond what the shown labels say nearby, above it can. A network sees a new graph in every
step and is tested on graphs it never saw, beside belief propagation, which knows c_in and c_out and is optimal on large
sparse graphs. Karate club: the two leaders' sides are given, the other 32 members' are to be found. Twins: a cycle of
six and two triangles, which no message passing tells apart unless a vertex is marked.
"""

import argparse

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import karate_club, two_blocks, two_blocks_signal, wl_twins
from corollary.nets import fit, train
from corollary.nets.graphs import GAT, GCN, wl_distinguishes
from corollary.network import BatchLoss

SIZES = {
    "quick": dict(nodes=60, steps=2, tests=2, runs=2, depth=1, signals=(2.0,)),
    "cpu": dict(nodes=400, steps=600, tests=20, runs=10, depth=6, signals=(0.4, 2.0, 4.0)),
    "gpu": dict(nodes=2000, steps=2000, tests=50, runs=50, depth=6, signals=(0.4, 0.8, 1.5, 2.0, 4.0)),
}
DEGREE, SHOWN = 4.0, 0.05
NETWORKS = {
    "GCN": lambda key, inputs, depth: GCN((inputs, *[32] * depth, 2), bias=True, key=key),
    "GAT": lambda key, inputs, depth: GAT((inputs, *[32] * depth, 2), heads=4, key=key),
}


def community(key, nodes, c_in, c_out):
    """A graph, its blocks in random order, and features: the label where it is shown, and one."""
    graph_key, order_key, shown_key = jax.random.split(key, 3)
    graph, y = two_blocks(nodes, c_in, c_out, key=graph_key)
    order = jax.random.permutation(order_key, nodes)
    y, shown = y[order], jax.random.bernoulli(shown_key, SHOWN, (nodes,))
    return graph[order][:, order], y, shown, jnp.stack([shown * (2.0 * y - 1), jnp.ones(nodes)], 1)


def belief_propagation(graph, x, c_in, c_out, rounds=30):
    """The sign of the log-odds of every vertex: what a neighbour says about itself, not counting what it was told."""

    def says(h):
        return jnp.logaddexp(jnp.log(c_in) + h, jnp.log(c_out)) - jnp.logaddexp(jnp.log(c_out) + h, jnp.log(c_in))

    def exchange(state, _):
        messages, field = state
        heard = graph * says(messages)  # from the row to the column
        total = 20 * x[:, 0] + heard.sum(0) + field
        # vertices that are not joined are a little less likely to be alike
        field = -(c_in - c_out) * jnp.mean(jnp.tanh(total / 2))
        return (total[:, None] - heard.T, field), total

    return jax.lax.scan(exchange, (jnp.zeros_like(graph), 0.0), None, length=rounds)[1][-1] > 0


def communities(nodes, steps, tests, depth, signals, key):
    print(f"{'signal':>8} {'chance':>8} {'GCN':>8} {'GAT':>8} {'optimal':>8}   accuracy on the labels not shown")
    for signal in signals:
        half = np.sqrt(DEGREE * signal)  # two_blocks_signal is half^2 / DEGREE
        c_in, c_out = DEGREE + half, DEGREE - half
        assert np.isclose(two_blocks_signal(c_in, c_out), signal)

        @BatchLoss
        def loss(model, _, *, key, c_in=c_in, c_out=c_out):
            graph, y, shown, x = community(key, nodes, c_in, c_out)
            return -jnp.mean(jax.nn.log_softmax(model(x, graph))[jnp.arange(nodes), y] * ~shown)

        def score(answer, key, c_in=c_in, c_out=c_out):
            graph, y, shown, x = community(key, nodes, c_in, c_out)
            return jnp.sum((answer(x, graph) == y) * ~shown) / jnp.sum(~shown)

        def optimal(x, graph, c_in=c_in, c_out=c_out):
            return belief_propagation(graph, x, c_in, c_out)

        answers, optimiser = [], optax.adam(optax.cosine_decay_schedule(5e-3, steps))
        for make in NETWORKS.values():
            model = fit(eqx.filter_jit(make)(key, 2, depth), loss, (), optimiser, steps=steps, key=key).network
            answers.append(lambda x, graph, model=model: model(x, graph).argmax(1))
        answers.append(optimal)
        keys = jax.random.split(jax.random.key(1), tests)
        found = jax.jit(lambda keys, a=answers: jax.lax.map(lambda k: jnp.stack([score(f, k) for f in a]), keys))(keys)
        print(f"{signal:8.2f} {0.5:8.3f} " + " ".join(f"{float(f):8.3f}" for f in found.mean(0)))


def karate(runs, steps, key):
    graph, side = karate_club()
    leaders, x = np.array([0, 33]), jnp.eye(34)

    @BatchLoss
    def loss(model, _):
        return -jnp.mean(jax.nn.log_softmax(model(x, graph))[leaders, side[leaders]])

    for name, make in NETWORKS.items():

        @jax.jit
        def right(key, make=make):
            model = train(make(key, 34, 1), loss, (), optax.adam(1e-2), steps=steps).network
            return jnp.sum(model(x, graph).argmax(1) == side) - 2

        found = jax.vmap(right)(jax.random.split(key, runs))
        print(f"karate club, {name}: {float(found.mean()):.1f} of 32 members on their side, mean of {runs} runs")


def twins(steps, runs, key):
    pair = wl_twins("hexagon")
    graphs = jnp.stack([jnp.asarray(g) for g in pair])
    refined = bool(jax.jit(wl_distinguishes)(*pair))
    print(f"a cycle of six and two triangles: colour refinement tells them apart: {refined} (ln 2 = 0.6931)")

    @BatchLoss
    def loss(model, x):
        logits = jax.vmap(lambda g: model(x, g).sum(0))(graphs)
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(2), jnp.arange(2)])

    for name, make in NETWORKS.items():
        for features, marked in (("equal features", 0.0), ("one vertex marked", 1.0)):
            x = jnp.ones((6, 2)).at[0, 1].add(marked)

            @jax.jit
            def last(key, make=make, x=x):
                return train(make(key, 2, 4), loss, x, optax.adam(3e-3), steps=steps).losses[-1]

            losses = jnp.abs(jax.vmap(last)(jax.random.split(key, runs)))
            told = f"told apart in {int(jnp.sum(losses < 0.01))} of {runs} runs"
            print(f"  {name}, {features}: {told}, the least loss {float(losses.min()):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    size = SIZES["quick" if parser.parse_args().quick else "cpu" if jax.default_backend() == "cpu" else "gpu"]
    key = jax.random.key(0)
    communities(size["nodes"], size["steps"], size["tests"], size["depth"], size["signals"], key)
    karate(size["runs"], min(size["steps"], 200), key)
    twins(min(size["steps"], 600), size["runs"], key)
