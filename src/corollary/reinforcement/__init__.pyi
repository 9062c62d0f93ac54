from .stability import Stability as Stability
from .stability import td_stability as td_stability
from .transitions import Transitions as Transitions
