"""Kernels: functions of two points, their Gram matrices and features, and the methods that need no more than that."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
