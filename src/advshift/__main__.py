"""`python -m advshift` is the `advshift` command; torchrun starts it so."""

from __future__ import annotations

from advshift.cli import main

if __name__ == "__main__":
    main()
