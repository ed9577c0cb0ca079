"""Plans in words: text for terminals and logs, HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshard.bounds import Figure
    from reshard.plan import Plan

HEADER = ("step", "over", "layout after", "received", "peak")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def as_bytes(count: float) -> str:
    """
    >>> as_bytes(1536), as_bytes(3), as_bytes(2**30)
    ('1.5 KiB', '3 B', '1 GiB')
    """
    unit = 0
    while abs(count) >= 1024 and unit + 1 < len(_UNITS):
        count, unit = count / 1024, unit + 1
    return f"{count:.4g} {_UNITS[unit]}"


def as_seconds(seconds: float) -> str:
    """
    >>> as_seconds(0.00125), as_seconds(2e-05)
    ('1.25 ms', '20 us')
    """
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """One row per step: kind, axes, layout after, bytes received by all ranks, peak at the worst rank."""
    lines: list[tuple[str, ...]] = []
    for step, price in zip(plan.steps, plan.certificate.prices, strict=True):
        over = "+".join(step.axes) or "-"
        if set(step.group) != set(step.axes):
            over += f" (in {'+'.join(step.group)})"
        lines.append((step.kind, over, str(step.after), as_bytes(price.received) if step.communicates else "-", as_bytes(price.peak)))
    return lines


def summary(plan: Plan) -> list[tuple[str, str]]:
    """Totals beside their lower bounds."""
    figures = plan.certificate
    lines = [
        ("received", _beside(figures.received)),
        ("busiest rank", _beside(figures.worst_rank)),
        ("collectives", f"{figures.collectives.value:g} (bound {figures.collectives.bound:g})"),
        ("peak memory", _beside(figures.peak)),
        ("modelled time", f"{as_seconds(figures.time.value)} (bound {as_seconds(figures.time.bound)})"),
    ]
    for level, cut in zip(plan.options.topology.levels, figures.cuts, strict=True):
        lines.append((f"into a {level.name}", _beside(cut)))
    if plan.source.partial:
        lines.append(("replicas", promise(plan)))
    return lines


def promise(plan: Plan) -> str:
    """What holds for the bits of replicas."""
    if plan.certificate.one_reduction:
        return "bit-identical: each element is reduced once"
    if plan.certificate.replica_consistent:
        return "bit-identical where the backend is deterministic: congruent reductions"
    return "may differ in their last bits: ranks add in different orders"


def _beside(figure: Figure) -> str:
    return f"{as_bytes(figure.value)} (bound {as_bytes(figure.bound)}{'' if figure.gap else ', reached'})"


def title(plan: Plan) -> str:
    shape = "x".join(map(str, plan.shape)) or "scalar"
    return f"{plan.source} -> {plan.target} on {plan.mesh}, {shape} {plan.dtype}"


def as_text(plan: Plan) -> str:
    """The printout of a plan."""
    body = rows(plan) or [("nothing to do", "-", str(plan.target), "-", "-")]
    pairs = summary(plan)
    width = max(len(name) for name, _ in pairs)
    return "\n".join([title(plan), table(HEADER, body), *(f"{name:<{width}}  {value}" for name, value in pairs)])


def table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Plain aligned columns; the last two are numbers and lean right."""
    widths = [max(len(row[i]) for row in (header, *body)) for i in range(len(header))]
    lines = [header, ["-" * w for w in widths], *body]
    numbers = len(header) - 2
    return "\n".join(
        "  ".join(cell.rjust(w) if i >= numbers else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in lines
    )


def as_html(plan: Plan) -> str:
    """The same as a table for notebooks: no scripts, no styles from elsewhere."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in HEADER)
    cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows(plan))
    steps = "".join(f"<tr>{row}</tr>" for row in cells)
    totals = "".join(f"<tr><th scope='row'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in summary(plan))
    return (
        f"<div class='reshard-plan'><p><code>{html.escape(title(plan))}</code></p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{steps}</tbody></table><table><tbody>{totals}</tbody></table></div>"
    )
