from . import attribution as attribution
from . import audit as audit
from . import autodiff as autodiff
from . import catalog as catalog
from . import claims as claims
from . import data as data
from . import differential as differential
from . import dynamics as dynamics
from . import evidence as evidence
from . import foundations as foundations
from . import generalization as generalization
from . import generative as generative
from . import kernels as kernels
from . import landscape as landscape
from . import language as language
from . import linear as linear
from . import memory as memory
from . import nets as nets
from . import network as network
from . import onnx as onnx
from . import optimization as optimization
from . import reinforcement as reinforcement
from . import robustness as robustness
from . import testing as testing
from . import torch as torch
from .audit import Subject as Subject
from .audit import SubjectError as SubjectError
from .network import BatchLoss as BatchLoss
from .network import Network as Network

__version__: str
ROOMS: tuple[str, ...]
