"""Networks with a state that is carried through time."""

from corollary.nets.recurrent.bidirectional import Bidirectional
from corollary.nets.recurrent.bptt import Streamed, ThroughTime, bptt, bptt_blocks, bptt_window, train_truncated
from corollary.nets.recurrent.cost import attention_token_cost, recurrent_token_cost
from corollary.nets.recurrent.dropout import LSTMDropout, StateDropout
from corollary.nets.recurrent.elman import Elman, ElmanCell, book_elman
from corollary.nets.recurrent.gated import GatedPlant, gate, gated_solution, half_life, memory_biases, retained
from corollary.nets.recurrent.gru import GRU
from corollary.nets.recurrent.highway import HighwayLayer, HighwayStack, RecurrentHighway
from corollary.nets.recurrent.hybrid import LSTMAttention
from corollary.nets.recurrent.jordan import Jordan, lagged_table
from corollary.nets.recurrent.linear import (
    DiagonalSystem,
    LinearSystem,
    diagonalise,
    impulse_response,
    input_map,
    recover_inputs,
    response,
    ring,
)
from corollary.nets.recurrent.lru import LRU, LRULayer, lru_eigenvalues, lru_initialisation, nu_from_radius
from corollary.nets.recurrent.lstm import LSTM, LSTMState, lstm_memory_weights
from corollary.nets.recurrent.maps import iterate_map
from corollary.nets.recurrent.mingru import MinGRU
from corollary.nets.recurrent.network import Plant, Recurrent, Trajectory, future_influence, run_untied, untie
from corollary.nets.recurrent.nonsaturating import NonSaturatingCell
from corollary.nets.recurrent.normalised import BatchNormalised, LayerNormCell
from corollary.nets.recurrent.online import OnlineStep, online_sgd, online_step
from corollary.nets.recurrent.rtrl import rtrl, sensitivities
from corollary.nets.recurrent.scan import compose, doubling_scan, linear_loop, linear_scan, linear_states, unroll_linear
from corollary.nets.recurrent.seq2seq import BahdanauAttention, Seq2Seq
from corollary.nets.recurrent.stability import (
    jacobian_bound,
    linear_sensitivity,
    linear_solution,
    memory_horizon,
    rescale_to_radius,
    spectral_radius,
    state_jacobians,
    step_jacobians,
    time_horizon,
)
from corollary.nets.recurrent.stacked import DeepTransitionCell, Stacked
from corollary.nets.recurrent.unroll import shown, unroll
from corollary.nets.recurrent.uses import autoregression_loss, classification_loss, labelling_loss, squared_error

__all__ = [
    "GRU",
    "LRU",
    "LSTM",
    "BahdanauAttention",
    "BatchNormalised",
    "Bidirectional",
    "DeepTransitionCell",
    "DiagonalSystem",
    "Elman",
    "ElmanCell",
    "GatedPlant",
    "HighwayLayer",
    "HighwayStack",
    "Jordan",
    "LRULayer",
    "LSTMAttention",
    "LSTMDropout",
    "LSTMState",
    "LayerNormCell",
    "LinearSystem",
    "MinGRU",
    "NonSaturatingCell",
    "OnlineStep",
    "Plant",
    "Recurrent",
    "RecurrentHighway",
    "Seq2Seq",
    "Stacked",
    "StateDropout",
    "Streamed",
    "ThroughTime",
    "Trajectory",
    "attention_token_cost",
    "autoregression_loss",
    "book_elman",
    "bptt",
    "bptt_blocks",
    "bptt_window",
    "classification_loss",
    "compose",
    "diagonalise",
    "doubling_scan",
    "future_influence",
    "gate",
    "gated_solution",
    "half_life",
    "impulse_response",
    "input_map",
    "iterate_map",
    "jacobian_bound",
    "labelling_loss",
    "lagged_table",
    "linear_loop",
    "linear_scan",
    "linear_sensitivity",
    "linear_solution",
    "linear_states",
    "lru_eigenvalues",
    "lru_initialisation",
    "lstm_memory_weights",
    "memory_biases",
    "memory_horizon",
    "nu_from_radius",
    "online_sgd",
    "online_step",
    "recover_inputs",
    "recurrent_token_cost",
    "rescale_to_radius",
    "response",
    "retained",
    "ring",
    "rtrl",
    "run_untied",
    "sensitivities",
    "shown",
    "spectral_radius",
    "squared_error",
    "state_jacobians",
    "step_jacobians",
    "time_horizon",
    "train_truncated",
    "unroll",
    "unroll_linear",
    "untie",
]
