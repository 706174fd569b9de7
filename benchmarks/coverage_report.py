"""Write the coverage study's page and picture from its results.

python benchmarks/coverage_report.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binom

from advshift.report.style import THEMES, Theme, figure, finish, percent_axis, series, write_svg

DOCS = Path(__file__).parent.parent / "docs"
NOMINAL = 0.95
KINDS = {
    ("errors", "kl"): "0/1 errors, KL ball",
    ("errors", "chi2"): "0/1 errors, chi-square ball",
    ("bounded", "kl"): "values in [0, 1] (beta), KL ball",
    ("losses", "kl"): "losses without bounds (exponential), KL ball",
    ("pairs", "kl"): "difference of two models on the same examples, KL ball",
}
DESIGNS = {"tail": "500 … 5, reference alike", "tail-uniform": "500 … 5, uniform reference"}
EQUAL = ("5", "20", "50", "500")


def load(name: str) -> list[dict[str, Any]]:
    """One row for each cell and radius."""
    lines = (DOCS / "results" / name).read_text().splitlines()
    cells = [json.loads(line) for line in lines]
    return [cell["cell"] | {"draws": cell["draws"]} | row for cell in cells for row in cell["radii"]]


def missed(row: dict[str, Any], name: str) -> int:
    """How often the interval missed, on either side."""
    return int(row.get(f"{name}_missed_low", 0) + row.get(f"{name}_missed_high", 0))


def pooled(rows: Iterable[dict[str, Any]], name: str) -> float:
    """The share of the shown intervals that held the truth."""
    rows = list(rows)
    shown = sum(row.get(f"{name}_shown", 0) for row in rows)
    return 1.0 - sum(missed(row, name) for row in rows) / shown if shown else float("nan")


def lowest(rows: Iterable[dict[str, Any]], name: str) -> float:
    """The lowest coverage of a radius of a cell, where the interval was shown often enough to tell."""
    found = [1.0 - missed(row, name) / row[f"{name}_shown"] for row in rows if row.get(f"{name}_shown", 0) >= 30]
    return min(found, default=float("nan"))


def share(value: float) -> str:
    """A share in per cent, or a dash."""
    return "–" if np.isnan(value) else f"{100 * value:.0f} %"


def median(rows: Iterable[dict[str, Any]], name: str) -> str:
    """The median of a number over rows that have it."""
    values = [row[name] for row in rows if name in row]
    return f"{np.median(values):.3f}" if values else "–"


def table(head: list[str], body: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def summary(rows: list[dict[str, Any]], values: str, kind: str) -> str:
    """Coverage and widths by classes and design."""
    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if (row["values"], row["set"]) == (values, kind):
            groups[row["classes"], row["design"]].append(row)
    body = []
    order = [*EQUAL, *DESIGNS]
    for (classes, design), group in sorted(groups.items(), key=lambda item: (item[0][0], order.index(item[0][1]))):
        shown = sum(row["debiased_shown"] for row in group) / sum(row["draws"] for row in group)
        both = [row for row in group if row.get("debiased_shown")]
        bound = [row["combined_coverage"] for row in group if "combined_coverage" in row]
        body.append(
            [
                str(classes),
                DESIGNS.get(design, design),
                share(shown),
                f"{share(pooled(group, 'debiased'))} ({share(lowest(group, 'debiased'))})",
                f"{share(pooled(group, 'delta'))} ({share(lowest(group, 'delta'))})",
                f"{share(pooled(group, 'bootstrap'))} ({share(lowest(group, 'bootstrap'))})",
                median(both, "debiased_half"),
                median(group, "delta_half"),
                median(group, "bootstrap_half"),
                median(group, "union_slack"),
                median(group, "combined_slack"),
                share(float(np.mean(bound))) if bound else "–",
            ]
        )
    head = ["classes", "a class", "shown", "de-biased: coverage", "delta: coverage", "bootstrap: coverage"]
    head += ["half-width: de-biased", "delta", "bootstrap", "slack: union", "guaranteed", "guaranteed: coverage"]
    return table(head, body)


def examples(rows: list[dict[str, Any]]) -> str:
    """Bias, error and width at one distribution of errors."""
    wanted = [(1000, "50"), (1000, "5"), (100, "50"), (100, "5"), (10, "500")]
    body = []
    for classes, design in wanted:
        for row in rows:
            same = (row["values"], row["set"], row["errors"]) == ("errors", "kl", "spread")
            if same and (row["classes"], row["design"]) == (classes, design) and row["debiased_shown"]:
                body.append(
                    [
                        f"{classes} × {design}",
                        f"{row['radius']:.2g}",
                        f"{row['truth']:.3f}",
                        f"{row['plug_in_bias']:+.4f}",
                    ]
                    + [f"{row['debiased_bias']:+.4f}", f"{row['debiased_rmse']:.4f}"]
                    + [f"{share(pooled([row], name))}" for name in ("debiased", "delta")]
                    + [f"{row['debiased_half']:.4f}", f"{row['delta_half']:.4f}"]
                    + [f"{row['union_slack']:.3f}", f"{row['combined_slack']:.3f}"]
                )
    head = ["classes × a class", "radius", "truth", "plug-in bias", "de-biased: bias", "rmse", "coverage"]
    head += ["delta: coverage", "de-biased: half-width", "delta", "union: slack", "guaranteed"]
    return table(head, body)


def failures(rows: list[dict[str, Any]]) -> str:
    """The radii of cells whose coverage is below nominal by more than the simulation explains."""
    kept = [row for row in rows if row.get("debiased_shown")]
    bad = [row for row in kept if binom.sf(missed(row, "debiased") - 1, row["debiased_shown"], 1 - NOMINAL) < 1e-3]
    text = f"Of {len(kept)} pairs of a cell and a radius at which the de-biased interval was shown at least once, "
    if not bad:
        return text + "none misses more often than a true 95 % would with probability 0.001.\n"
    text += f"{len(bad)} miss more often than a true 95 % would with probability 0.001:\n\n"
    body = []
    for row in bad:
        count = missed(row, "debiased")
        where = [str(row[name]) for name in ("values", "set", "classes", "design", "errors")]
        shown = f"{row['debiased_shown']} of {row['draws']}"
        body.append([*where, f"{row['radius']:.2g}", shown, str(count), f"{100 * count / row['draws']:.1f} %"])
    head = ["values", "set", "classes", "a class", "risks", "radius", "shown", "missed", "shown and missed"]
    return text + table(head, body)


def picture(rows: list[dict[str, Any]], theme: Theme) -> Figure:
    """Coverage and width against the number of examples, for a hundred and a thousand classes."""
    made, axes = figure(theme, panels=4)
    names = {"debiased": "de-biased", "delta": "delta", "bootstrap": "bootstrap"}
    for place, classes in enumerate((100, 1000)):
        chosen = {
            row["design"]: row
            for row in rows
            if (row["values"], row["set"], row["errors"], row["classes"]) == ("errors", "kl", "spread", classes)
            and abs(row["radius"] - 1.0) < 1e-9
        }
        sizes = [size for size in EQUAL if size in chosen]
        upper, lower = axes[place], axes[2 + place]
        for number, (name, label) in enumerate(names.items()):
            look = series(theme, number)
            style = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "label": label}
            at = [int(size) for size in sizes if chosen[size].get(f"{name}_shown")]
            upper.plot(at, [pooled([chosen[str(size)]], name) for size in at], **style)
            lower.plot(at, [chosen[str(size)][f"{name}_half"] for size in at], **style)
        for number, (name, label) in enumerate({"combined": "guaranteed", "union": "union over classes"}.items(), 3):
            look = series(theme, number)
            style = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "label": label}
            lower.plot([int(size) for size in sizes], [chosen[size][f"{name}_slack"] for size in sizes], **style)
        upper.axhline(NOMINAL, color=theme.faint, linewidth=1)
        upper.set_ylim(-0.03, 1.03)
        percent_axis(upper.yaxis)
        lower.set_yscale("log")
        lower.set_ylim(bottom=2e-4)
        for axis in (upper, lower):
            axis.set_xscale("log")
            axis.set_xticks([int(size) for size in sizes], sizes)
            axis.minorticks_off()
            axis.legend(
                frameon=False, labelcolor=theme.ink, fontsize=8, loc="lower right" if axis is upper else "lower left"
            )
        finish(upper, theme, x="examples a class", y="coverage", title=f"{classes} classes, radius 1")
        finish(lower, theme, x="examples a class", y="half-width, or slack of a bound")
    return made


def anew(rows: list[dict[str, Any]]) -> str:
    """What the same study says on class risks and samples that nothing was tuned on."""
    body = []
    for (values, kind), title in KINDS.items():
        some = [row for row in rows if (row["values"], row["set"]) == (values, kind) and row.get("debiased_shown")]
        if some:
            coverage = [share(pooled(some, "debiased")), share(lowest(some, "debiased"))]
            body.append([title, str(len(some)), *coverage, share(pooled(some, "delta"))])
    head = ["values and set", "rows", "de-biased: coverage", "lowest row", "delta: coverage"]
    return f"{failures(rows)}\n{table(head, body)}"


def page(rows: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> str:
    """The page."""
    parts = [INTRODUCTION]
    for (values, kind), title in KINDS.items():
        if any((row["values"], row["set"]) == (values, kind) for row in rows):
            parts.append(f"## {title[0].upper() + title[1:]}\n\n{summary(rows, values, kind)}")
    parts.append(f"## Bias, error and width at each radius\n\n{EXAMPLES}\n\n{examples(rows)}")
    parts.append(f"## Where it falls short\n\n{failures(rows)}\n## Drawn anew\n\n{ANEW}\n\n{anew(fresh)}\n{LIMITS}")
    return "\n".join(parts)


INTRODUCTION = """# How often the intervals hold

An audit's estimand is the worst case of the *true* class risks. This study draws true risks, then samples, and counts
how often each interval holds the truth. Nominal coverage is 95 %, two-sided. The script that makes this page is
`benchmarks/coverage_report.py`, from the results of

    python benchmarks/coverage.py --full

```{image} images/coverage-light.svg
:class: only-light
:alt: Coverage and half-widths of the intervals against the number of examples a class
```

```{image} images/coverage-dark.svg
:class: only-dark
:alt: Coverage and half-widths of the intervals against the number of examples a class
```

- **de-biased**: the bias is taken out through the dual, and where its own diagnostics say that a normal approximation
  cannot be trusted no such interval is shown. The column *shown* says how often it was, of all samples and radii.
- **delta** and **bootstrap** (basic form, fewer samples, radii 0.1 and 1): the usual ones.
- **union**: the worst case of Clopper-Pearson limits that hold for all classes at once, one-sided.
- **guaranteed**: the smaller of that and the bound through the dual, half of the level each ([proof](audit-bounds.md)).

Each row pools six distributions of class risks (spread: Beta(1.5, 4); u-shaped: Beta(.4, .4); near zero: Beta(.5, 20);
a few terrible classes; all equal; half of the classes perfect) and six radii from 0.01 to 95 % of the largest that is
not slack. In brackets stands the lowest coverage of a single distribution and radius. Only shown intervals count.
Half-widths and slacks are medians. The audit goes further than the study in one respect: it does not show a de-biased
interval that reaches beyond the guaranteed bound.

## What is trusted, and what is done elsewhere

The dual is a function of one variable, the tilt. Its estimate is trusted up to the tilt at which

- the sum inside has a relative standard deviation of 0.2,
- or a term that decides has one of 0.7; for 0/1 errors more, in proportion to the root of a quarter of the effective
  number of classes that decide; for values without bounds 0.5, and there at least 4 classes must decide, with 40
  degrees of freedom.

Beyond that tilt the upper limit stops falling, and the lower limit follows from convexity; so the interval becomes
wide rather than wrong, and the de-biased value stays near the plug-in's. The interval is not shown, and the guaranteed
one is, with a reason: if no tilt can be trusted, if it would reach beyond the guaranteed bound, if a class of the
reference has no examples, or if the set's dual has a kink (all sets but the KL and the chi-square ball).

A lower limit that is far out is no mistake: near the slack radius the data cannot tell how far the worst mix goes on,
and the interval says so. That is why the half-widths of the rows with few examples are large.
"""

EXAMPLES = """Class risks from Beta(1.5, 4), 0/1 errors, KL ball. The radii are 0.01, 0.1, 0.3, 1, and 60 % and 95 % of
the largest."""

ANEW = """The limits of trust above were set by looking at simulations of these kinds, earlier runs of this study among
them, so the tables above are partly a fit. Afterwards the whole study was drawn once more with another seed, for the
class risks and for the samples, and nothing was changed:

    python benchmarks/coverage.py --full --seed 1 --output docs/results/coverage-fresh.jsonl"""

LIMITS = """
What the numbers do not cover: class risks other than these six kinds, losses with heavier tails than the exponential,
dependent examples, and a reference that was estimated (the interval can count its error; a test checks one case). For
losses without bounds there is no guaranteed bound to fall back to: nothing is shown where the diagnostics say no.
"""


def main() -> None:
    """Write the page and both pictures."""
    rows = load("coverage.jsonl")
    (DOCS / "coverage.md").write_text(page(rows, load("coverage-fresh.jsonl")))
    for name, theme in THEMES.items():
        write_svg(picture(rows, theme), DOCS / "images" / f"coverage-{name}.svg")
    print(f"wrote {DOCS / 'coverage.md'} from {len(rows)} rows")


if __name__ == "__main__":
    main()
