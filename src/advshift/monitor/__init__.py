"""Watch a stream of unlabelled predictions: a running label distribution, the error it means, and a change alarm.

>>> from advshift import monitor
>>> sorted(monitor.TRACKERS)
['atlas', 'exponential', 'fth', 'rogd', 'window']
"""

from __future__ import annotations

from advshift.monitor.alarm import Alarm, AlarmState, Raised, make_alarm
from advshift.monitor.engine import Monitor
from advshift.monitor.settings import Audited, Settings
from advshift.monitor.source import Batch, SourceModel, make_source
from advshift.monitor.trackers import TRACKERS, Tracker, TrackerOptions

__all__ = [
    "TRACKERS",
    "Alarm",
    "AlarmState",
    "Audited",
    "Batch",
    "Monitor",
    "Raised",
    "Settings",
    "SourceModel",
    "Tracker",
    "TrackerOptions",
    "make_alarm",
    "make_source",
]
