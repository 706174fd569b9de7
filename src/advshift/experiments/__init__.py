"""Experiments on real data, recorded so that every figure can be drawn again without a run."""
