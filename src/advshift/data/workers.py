"""Work in other processes, with the results in order."""

from __future__ import annotations

import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

__all__ = ["mapped"]

T = TypeVar("T")
R = TypeVar("R")


def mapped(work: Callable[[T], R], items: Iterable[T], workers: int, *, pin: bool = False) -> Iterator[tuple[T, R]]:
    """Do the work for each item, in order; an item is taken up only shortly before its result is wanted.

    Parameters
    ----------
    work
        What is done; it is copied to each process.
    items
        What it is done to.
    workers
        The number of processes; with 0 it is done here.
    pin
        Put tensors where a GPU copies them from while other work goes on.
    """
    if not workers:
        for item in items:
            yield item, work(item)
        return
    pending: deque[T] = deque()
    with warnings.catch_warnings():
        # More workers than cores can be right for a slow disk; and a worker that was forked runs none of our threads.
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
        results = iter(
            DataLoader(
                _Work(work),
                batch_size=None,
                sampler=_noted(items, pending),
                num_workers=workers,
                collate_fn=_as_it_is,
                pin_memory=pin,
                worker_init_fn=_leave_signals,
                generator=torch.Generator(),  # else it would draw from torch's own, and a resumed run would differ
            )
        )
    for result in results:
        yield pending.popleft(), result


class _Work(Dataset[R], Generic[T, R]):
    """An item is an index, and its result the example."""

    def __init__(self, work: Callable[[T], R]) -> None:
        self.work = work

    def __getitem__(self, item: T) -> R:
        return self.work(item)


def _noted(items: Iterable[T], pending: deque[T]) -> Iterator[T]:
    """Hand items to the workers and remember them: results come back in this order."""
    for item in items:
        pending.append(item)
        yield item


def _as_it_is(value: T) -> T:
    return value


def _leave_signals(worker: int) -> None:
    """A worker ends with its parent, which alone decides what an interruption means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
