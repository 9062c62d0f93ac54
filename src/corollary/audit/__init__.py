"""The audit: a trained network and its data in, what the theory says about them out."""

from corollary.audit._errors import SubjectError
from corollary.audit.finding import Finding, Premise, Section
from corollary.audit.npz import read_npz
from corollary.audit.run import Report, audit
from corollary.audit.subject import Objective, Subject

__all__ = ["Finding", "Objective", "Premise", "Report", "Section", "Subject", "SubjectError", "audit", "read_npz"]
