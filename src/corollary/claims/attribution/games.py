"""Shapley values: three forms of one definition, the axioms, and that nothing else satisfies them."""

from itertools import chain, combinations, permutations
from math import comb, factorial

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import Game, banzhaf, shapley, shapley_differences
from corollary.evidence import Count, Size, at_most, claim, control, equal, picture


def _values(table):
    return shapley(Game.of_values(table)).values


def _over_orders(table, players):
    """Increments averaged over all orders of the players, from the table of the values of all coalitions."""
    orders = np.array(list(permutations(range(players))))
    before = np.cumsum(1 << orders, 1) - (1 << orders)
    increments = table[before + (1 << orders)] - table[before]
    return jnp.zeros(players).at[orders].add(increments) / len(orders)


def _increments(table, players):
    """v(S + i) - v(S), (coalitions, players), and which of them have i outside S."""
    sets, players = np.arange(2**players)[:, None], np.arange(players)
    return table[sets | (1 << players)] - table[sets], (sets >> players) & 1 == 0


@claim(rows=("T10.09", "T10.10", "M12.12"))
def definition(key, *, players: Size = 6):
    r"""The mean increment over all orders is a weighted sum over coalitions, in which every size counts the same.

    $s_i=E_\pi[U(\pi_{\le i})-U(\pi_{<i})]=\sum_{S\not\ni i}\frac{|S|!\,(n-|S|-1)!}{n!}(U(S\cup i)-U(S))
    =\frac1n\sum_k\binom{n-1}k^{-1}\sum_{|S|=k}(U(S\cup i)-U(S))$: pick a size from 0 to $n-1$, then a coalition of that
    size without $i$. For $n=3$ the weights are $\frac13,\frac16,\frac16,\frac13$. Known games: an additive one gives
    each player their own; a unanimous one shares equally; of an airport, where a coalition costs what its largest
    member needs, those who need a piece of the runway share it; one left glove and two right ones give
    $\frac23,\frac16,\frac16$.
    """
    costs = np.arange(1, players + 1) ** 1.5
    sizes = np.bitwise_count(np.arange(2**players))
    weights = np.array([factorial(k) * factorial(players - k - 1) / factorial(players) for k in range(players)])

    @jax.jit
    def measure(key):
        table = jax.random.normal(key, (2**players,))
        increments, outside = _increments(table, players)
        increments = jnp.where(outside, increments, 0)
        by_size = jax.ops.segment_sum(increments, sizes, players + 1)[:-1]
        counts = jnp.array([comb(players - 1, k) for k in range(players)])
        game = Game.of_values(table)
        return {
            "values": shapley(game).values,
            "Banzhaf": banzhaf(game).values,
            "orders": _over_orders(table, players),
            "sets": jnp.append(weights, 0)[sizes] @ increments,
            "sizes": (by_size / counts[:, None]).mean(0),
            "three": jax.jacobian(_values)(table[:8])[0],
            "additive": shapley(Game(players, lambda inside: inside @ table[:players])).values - table[:players],
            "airport": shapley(Game(players, lambda inside: jnp.max(inside * costs))).values,
            "unanimous": shapley(Game(players, lambda inside: 1.0 * (inside[0] & inside[2] & inside[3]))).values,
            "gloves": shapley(Game(3, lambda inside: 1.0 * (inside[0] & (inside[1] | inside[2])))).values,
        }

    m = measure(key)
    # sums of some hundred terms of size 1
    yield equal("values against increments over all orders", m["values"], m["orders"], rtol=0, atol=1e-13)
    yield equal("sum over coalitions with factorials", m["sets"], m["orders"], rtol=0, atol=1e-13)
    yield equal("mean over sizes of means over coalitions", m["sizes"], m["orders"], rtol=0, atol=1e-13)
    # the coalitions without and with x: none, y, z, y and z
    printed = np.array([-2, 2, -1, 1, -1, 1, -2, 2]) / 6
    yield equal("weights for three players", m["three"], printed, atol=1e-15)
    yield equal("additive game: value less own worth", m["additive"], 0.0, atol=1e-13)
    shares = np.cumsum(np.diff(costs, prepend=0) / np.arange(players, 0, -1))
    yield equal("airport", m["airport"], shares, x=np.arange(1, players + 1), along="player")
    yield equal("unanimous game of three players", m["unanimous"], np.isin(range(players), [0, 2, 3]) / 3, atol=1e-14)
    yield equal("gloves", m["gloves"], [2 / 3, 1 / 6, 1 / 6], rtol=1e-14)
    yield control(
        "every size counts the same: here every coalition does",
        equal("mean increment over coalitions", m["Banzhaf"], m["orders"], rtol=0, atol=1e-13),
    )


def _first_player_first(table):
    """Increments over the orders that one player always begins."""
    return jnp.concatenate([table[1:2] - table[:1], _values(table[1::2])])


SCHEMES = {
    "Shapley": _values,
    "Banzhaf": lambda table: banzhaf(Game.of_values(table)).values,
    "equal shares": lambda table: jnp.full(len(table).bit_length() - 1, table[-1] / (len(table).bit_length() - 1)),
    "one first": _first_player_first,
    "singletons": lambda table: table[-1] * (alone := table[2 ** np.arange(len(table).bit_length() - 1)]) / alone.sum(),
}
AXIOMS = ("efficiency", "null player", "symmetry", "linearity")


def _residuals(scheme, key, players, games):
    """By how much a scheme misses each axiom, at most, on random games that satisfy the axiom's premise."""

    def one(key):
        table, other = jax.random.uniform(key, (2, 2**players), minval=0.5, maxval=1.5).at[:, 0].set(0.0)
        sets = np.arange(2**players)
        swapped = (sets & ~3) | ((sets & 1) << 1) | ((sets >> 1) & 1)
        exchangeable = (table + table[swapped]) / 2
        payments = scheme(exchangeable)
        null = [jnp.abs(scheme(table[sets & ~(1 << player)])[player]) for player in (0, 2)]
        both = scheme(table + other) - scheme(table) - scheme(other)
        return jnp.stack(
            [
                jnp.abs(scheme(table).sum() - table[-1]),
                jnp.maximum(*null),
                jnp.abs(payments[0] - payments[1]),
                jnp.abs(both).max(),
            ]
        )

    return jax.lax.map(one, jax.random.split(key, games)).max(0)


@claim(rows=("T10.11",))
def axioms(key, *, players: Size = 5, games: Count = 20):
    r"""Shapley values are efficient, symmetric, linear, and give nothing to who adds nothing.

    For $U(\emptyset)=0$: $\sum_is_i=U([n])$; $s_i=s_j$ if $U(S\cup i)=U(S\cup j)$ for all $S\not\ni i,j$;
    $s(U_1+U_2)=s(U_1)+s(U_2)$; $s_i=0$ if $U(S\cup i)=U(S)$ for all $S$. Four other schemes miss one axiom each and
    satisfy the other three: Banzhaf's values efficiency, equal shares the null player, increments over orders that one
    player always begins symmetry, shares in proportion to what each is worth alone linearity.
    """
    measure = jax.jit(lambda key: {name: _residuals(f, key, players, games) for name, f in SCHEMES.items()})
    missed = {name: np.asarray(row) for name, row in measure(key).items()}
    # payments of size 1 from sums of some dozens of terms
    yield equal("residuals of the four axioms", missed["Shapley"], 0.0, atol=1e-13)
    others = np.stack([np.delete(missed[name], own) for own, name in enumerate([*SCHEMES][1:])])
    yield equal("residuals of the other three axioms, four other schemes", others, 0.0, atol=1e-13)
    premises = {
        "sizes count the same: here coalitions do": "Banzhaf",
        "payments by increments: here by heads": "equal shares",
        "all orders: here those that one player begins": "one first",
        "payments by increments: here by what each is worth alone": "singletons",
    }
    for own, (premise, name) in enumerate(premises.items()):
        yield control(premise, equal(f"residual of the axiom: {AXIOMS[own]}", missed[name][own], 0.0, atol=1e-13))
    cells = [
        {
            "scheme": name,
            "axiom": axiom,
            "residual": f"{value:.2g}" if value > 1e-9 else "0",
            "missed": bool(value > 1e-9),
        }
        for name, row in missed.items()
        for axiom, value in zip(AXIOMS, row, strict=True)
    ]
    base = alt.Chart(alt.Data(values=cells), width=300)
    base = base.encode(x=alt.X("axiom:N", sort=AXIOMS), y=alt.Y("scheme:N", sort=[*SCHEMES]))
    yield picture(
        "axioms and schemes",
        base.mark_rect().encode(color=alt.Color("missed:N")) + base.mark_text().encode(text="residual:N"),
    )


def _constraints(players):
    """The axioms but linearity as linear equations for the entries of a linear scheme, a row per player.

    A scheme pays every axiom's due on all games of a subspace, so on its basis: equations and right-hand sides.
    """
    sets = range(1, 2**players)
    size = 2**players - 1

    def equation(entries, due=0.0):
        row = np.zeros((players, size))
        for player, coalition, factor in entries:
            row[player, coalition - 1] += factor
        return row.ravel(), due

    efficiency = [equation([(i, s, 1.0) for i in range(players)], float(s == 2**players - 1)) for s in sets]
    null = [
        equation([(i, s, 1.0), (i, s | 1 << i, 1.0)]) for i in range(players) for s in sets if not s >> i & 1
    ]  # the player's joining changes nothing
    symmetry = []
    for i, j in combinations(range(players), 2):
        for s in [0, *sets]:
            if s >> i & 1 == s >> j & 1 and s:
                symmetry.append(equation([(i, s, 1.0), (j, s, -1.0)]))
            if not (s >> i | s >> j) & 1:
                pair = (s | 1 << i, s | 1 << j)
                symmetry.append(equation([(p, c, f) for p, f in ((i, 1.0), (j, -1.0)) for c in pair]))
    return {"efficiency": efficiency, "null player": null, "symmetry": symmetry}


def _solved(axioms):
    """Dimension of the solutions of a system, and the smallest of them."""
    rows, due = map(np.array, zip(*axioms, strict=True))
    return rows.shape[1] - np.linalg.matrix_rank(rows), np.linalg.lstsq(rows, due, rcond=None)[0]


@claim(rows=("T10.12",))
def uniqueness(key):
    r"""Shapley's payments are the only ones that satisfy the four axioms.

    A linear scheme for $n$ players with $U(\emptyset)=0$ is an $n\times(2^n-1)$ matrix. Efficiency, symmetry and the
    null player are linear equations for its entries, stated on bases of the games to which they apply. For $n=2,3,4$
    their solution is unique and is Shapley's; with any of them left out there are others. Without linearity there are
    others too, such as shares in proportion to what each is worth alone.
    """
    sizes = (2, 3, 4)
    systems = {n: _constraints(n) for n in sizes}
    solved = {n: _solved([*chain(*s.values())]) for n, s in systems.items()}
    yield equal("dimension of the schemes that satisfy all", [solved[n][0] for n in sizes], 0)
    for n in sizes:
        matrix = jax.jacobian(_values)(jnp.zeros(2**n))[:, 1:]
        # a well-conditioned system of at most 60 unknowns
        yield equal(f"the scheme for {n} players", solved[n][1].reshape(n, -1), matrix, rtol=0, atol=1e-12)
    for left_out in ("efficiency", "null player", "symmetry"):
        free = [_solved([*chain(*(e for a, e in systems[n].items() if a != left_out))])[0] for n in sizes]
        yield control(f"{left_out}: here left out", equal("dimension of the schemes", free, 0))
    measure = jax.jit(
        lambda key: (_residuals(SCHEMES["singletons"], key, 4, 5), *(f(_game(key)) for f in _two_schemes()))
    )
    missed, alone, exact = measure(key)
    yield equal("in proportion to singletons: residuals but linearity", missed[:3], 0.0, atol=1e-13)
    yield control("linearity: here proportional shares", equal("payments", alone, exact, rtol=0, atol=1e-12))


def _game(key):
    return jax.random.uniform(key, (16,), minval=0.5, maxval=1.5).at[0].set(0.0)


def _two_schemes():
    return SCHEMES["singletons"], SCHEMES["Shapley"]


@claim(rows=("T10.15",))
def differences(key, *, players: Size = 8):
    r"""The difference of two Shapley values is a sum over the coalitions without both players.

    $s_i-s_j=\frac1{n-1}\sum_{S\not\ni i,j}\binom{n-2}{|S|}^{-1}(U(S\cup i)-U(S\cup j))$, for every game. It is a
    property of these payments, not of differences of Banzhaf's values.
    """

    @jax.jit
    def measure(key):
        game = Game.of_values(jax.random.normal(key, (2**players,)))
        s, b = shapley(game).values, banzhaf(game).values
        return s[:, None] - s, shapley_differences(game), b[:, None] - b

    measured, predicted, other = measure(key)
    # means of numbers of size 1
    yield equal("all differences", measured, predicted, rtol=0, atol=2e-15)
    yield control("Shapley's payments: here Banzhaf's", equal("all differences", other, predicted, rtol=0, atol=2e-15))


@claim(rows=("M12.13",))
def bounded(key, *, players: Size = 4, games: Size = 10_000):
    r"""A Shapley value is at most the largest accuracy, if no accuracy is negative.

    If $0\le\alpha(F)\le\bar\alpha$ for all sets of features then $|S_f|\le\bar\alpha$, and always
    $|S_f|\le\max\alpha-\min\alpha$. A feature that alone decides attains both.
    """
    decides = (np.arange(2**players) & 1).astype(float)

    @jax.jit
    def measure(key):
        # 0 or 1 for every set: the extreme accuracies
        tables = jax.random.bernoulli(key, shape=(games, 2**players)) * 1.0
        shifted = 3 * tables - 5
        # a coalition is right or wrong as a whole: the extreme accuracies
        return (
            jax.vmap(_values)(tables),
            jax.vmap(_values)(shifted),
            shifted,
            _values(decides),
            _values(2 * decides - 1),
        )

    values, shifted, tables, alone, negative = measure(key)
    yield at_most("modulus of the values, accuracies 0 and 1", jnp.abs(values).max(), 1.0)
    spread = (tables.max(1) - tables.min(1)).max()
    yield at_most("modulus of the values, accuracies -5 and -2", jnp.abs(shifted).max(), spread)
    yield equal("value of a feature that alone decides", alone[0], 1.0, rtol=1e-14)
    yield control("α is not negative: here it is -1 or 1", at_most("value", negative.max(), 1.0))
