"""From files of predictions to what they say of a target's label distribution: the `estimate` and `correct` commands.

>>> from advshift.estimation import EstimateRecord
>>> EstimateRecord.model_fields["schema_name"].default
'advshift.estimate/1'
"""

from __future__ import annotations

from advshift.estimation.assembly import Question, assemble
from advshift.estimation.correcting import correct_file, corrected_probabilities
from advshift.estimation.record import EstimateRecord
from advshift.estimation.request import Estimated, Request, estimate_files

__all__ = [
    "EstimateRecord",
    "Estimated",
    "Question",
    "Request",
    "assemble",
    "correct_file",
    "corrected_probabilities",
    "estimate_files",
]
