"""Random streams by name: a stream is the hash of a seed and of words, so that a new draw never disturbs an old one."""

from __future__ import annotations

import hashlib

import torch

__all__ = ["generator", "hashed"]


def hashed(seed: int, *words: str | int) -> int:
    """Return a seed of 63 bits for one purpose.

    >>> hashed(0, "order", 1) == hashed(0, "order", 1), hashed(0, "order", 1) == hashed(0, "order", 2)
    (True, False)
    """
    text = "\0".join(map(str, (seed, *words)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *words: str | int) -> torch.Generator:
    """Return a generator of torch, on the CPU, for one purpose."""
    return torch.Generator().manual_seed(hashed(seed, *words))
