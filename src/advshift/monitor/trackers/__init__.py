"""Ways of keeping a running estimate: one file per method, one contract.

>>> from advshift.monitor.trackers import TRACKERS
>>> list(TRACKERS)
['window', 'exponential', 'fth', 'rogd', 'atlas']
"""

from __future__ import annotations

from advshift.monitor.trackers.base import State, Tracker, TrackerOptions
from advshift.monitor.trackers.ensemble import OnlineEnsemble
from advshift.monitor.trackers.exponential import Exponential
from advshift.monitor.trackers.gradient import OnlineGradient
from advshift.monitor.trackers.history import FollowTheHistory
from advshift.monitor.trackers.window import Window
from advshift.registry import Registry

__all__ = [
    "TRACKERS",
    "Exponential",
    "FollowTheHistory",
    "OnlineEnsemble",
    "OnlineGradient",
    "State",
    "Tracker",
    "TrackerOptions",
    "Window",
]

TRACKERS: Registry[Tracker] = Registry(
    "method", {kind.name: kind for kind in (Window, Exponential, FollowTheHistory, OnlineGradient, OnlineEnsemble)}
)
