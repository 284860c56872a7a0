"""Solutions whose first wrong step people have marked, from the shapes that such data sets have: ground truth from outside, for
auditors.
"""

from mentor_audit.audit.benchmarks.labelled import Imported, LabelledSolution
from mentor_audit.audit.benchmarks.shapes import SHAPES, load_benchmark

__all__ = ["SHAPES", "Imported", "LabelledSolution", "load_benchmark"]
