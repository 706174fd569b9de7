"""Changes to a trained model's outputs, and what an estimated label distribution is good for."""

from __future__ import annotations

from advshift.posthoc.ball import ConfidenceBall, confidence_ball
from advshift.posthoc.correction import correct_logits, correct_probabilities, importance_weights
from advshift.posthoc.performance import Performance, expected_performance

__all__ = [
    "ConfidenceBall",
    "Performance",
    "confidence_ball",
    "correct_logits",
    "correct_probabilities",
    "expected_performance",
    "importance_weights",
]
