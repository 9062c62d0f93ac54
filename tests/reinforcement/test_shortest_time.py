import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from corollary.reinforcement import ShortestTime, all_policies, hitting_time_law

GRAPH = np.random.default_rng(0).integers(20, size=(20, 2))
GRAPH[5] = 5  # a dead end
LAW = np.random.default_rng(1).dirichlet(np.ones(4), (4, 2))


def shortest(graph, goal):
    """Distances to the goal by SciPy, along edges turned round."""
    rows = np.repeat(np.arange(len(graph)), graph.shape[1])
    back = csr_array((np.ones(graph.size), (graph.ravel(), rows)), (len(graph),) * 2)
    return dijkstra(back, indices=goal, unweighted=True)


def test_times_on_a_graph_against_scipy():
    expected = shortest(GRAPH, 3)
    problem = ShortestTime(GRAPH, 3)
    found, steps, lost = jax.jit(lambda p: (p.value_iteration(), p.distances(), p.lost()))(problem)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(steps, expected)
    np.testing.assert_array_equal(lost, np.isinf(expected))
    values = problem.evaluate(problem.greedy(found))
    np.testing.assert_allclose(values, expected)


def test_expected_costs_against_all_policies():
    cost, goal = 0.5 + np.random.default_rng(2).random((4, 2, 4)), [3]
    law = np.array([[0.3, 0.7]] * 4)

    @jax.jit
    def solved(beta):
        problem = ShortestTime(LAW, goal, cost=cost, beta=beta)
        listed = jax.vmap(problem.evaluate)(all_policies(4, 2))
        return problem.value_iteration(), listed, problem.evaluate(law)

    for beta in (1.0, 0.7):
        best, listed, mixed = solved(beta)
        np.testing.assert_allclose(best, listed.min(0), rtol=1e-12)
        costs = (LAW * cost).sum(2)
        for policy, found in ((np.array([[0.0, 1.0]] * 4), listed[-1]), (law, mixed)):
            inside = np.einsum("xa,xaz->xz", policy, LAW)[:3, :3]
            expected = np.linalg.inv(np.eye(3) - beta * inside) @ (policy * costs).sum(1)[:3]
            np.testing.assert_allclose(found, [*expected, 0.0])


def test_q_and_v_are_two_forms_of_one_solution():
    problem = ShortestTime(LAW, 3)
    v = problem.value_iteration()
    q = problem.q_from_v(v)
    np.testing.assert_allclose(problem.v_from_q(q), v, rtol=1e-12)
    np.testing.assert_allclose(problem.residual(q), 0.0, atol=1e-12)
    assert float(jnp.abs(problem.residual(q * 2)).max()) > 0.1


def test_a_gamble_that_may_end_nowhere():
    # at 0: stay for ever, or an even chance of the goal 1 and of the trap 2
    law = np.zeros((3, 2, 3))
    law[0, 0, 0] = 1.0
    law[0, 1, 1:] = 0.5
    law[1:, :] = np.eye(3)[1:, None]
    with pytest.raises(ValueError, match="No policy reaches the goal with certainty from states 0, 2"):
        ShortestTime(law, 1).value_iteration()
    np.testing.assert_array_equal(ShortestTime(law, 1).evaluate([1, 0, 0]), [np.inf, 0.0, np.inf])
    discounted = ShortestTime(law, 1, beta=0.5)
    np.testing.assert_allclose(discounted.value_iteration(), [1.5, 0.0, 2.0])  # 1 + ½·½·2


def test_the_law_of_a_hitting_time():
    # every step arrives with probability ¼
    chain = np.array([[0.75, 0.25], [0.0, 1.0]])
    law = hitting_time_law(chain, 1, 6)
    np.testing.assert_allclose(law[0], [0.0, *(0.25 * 0.75 ** np.arange(6))])
    np.testing.assert_array_equal(law[1], [1.0, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ShortestTime(GRAPH, 3).value_iteration(), "No policy reaches the goal with certainty from state 5:"),
        (lambda: ShortestTime(GRAPH, 20), "goal must hold labels from 0 to 19"),
        (lambda: ShortestTime(GRAPH, np.zeros(20, bool)), "at least one state"),
        (lambda: ShortestTime(GRAPH, np.ones(3, bool)), "one truth value for each of 20 states"),
        (lambda: ShortestTime(GRAPH + 1, 3), "graph must hold labels from 0 to 19"),
        (lambda: ShortestTime(LAW * 2, 3), "sum to one"),
        (lambda: ShortestTime(LAW, 3, cost=0.0), "cost must be positive"),
        (lambda: ShortestTime(LAW, 3, cost=np.ones(3)), "cost must be a number or have shape"),
        (lambda: ShortestTime(LAW, 3, beta=1.1), "beta must be in"),
        (lambda: hitting_time_law(LAW[:, 0] * 2, 1, 3), "sum to one"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
