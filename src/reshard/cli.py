"""The command line: reshard plan, reshard census, reshard demo."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from reshard import __version__
from reshard.cost import OBJECTIVES, REPRODUCIBILITY, Topology
from reshard.errors import LayoutError, ReshardError
from reshard.explain import as_bytes
from reshard.mesh import Mesh
from reshard.plan import Plan
from reshard.search import plan
from reshard.strategies import STRATEGIES

EXAMPLES = """examples:
  reshard plan --mesh dp=2,cp=2,tp=2 --shape 4096,4096 --dtype bfloat16 --from P,R,P --to R,R,R
  reshard plan --mesh dp=8,tp=8 --shape 8192,8192 --from S0,S1 --to S1,S0 --objective bytes --json
  reshard plan --mesh dp=2,tp=2 --shape 64 --from S0,S0 --to 'S0,S0 | 0:tp>dp'
  reshard plan --mesh dp=2,cp=2,tp=2 --shape 64,64 --from P,P,P --to R,R,R --groups explicit:dp+cp
  reshard census --mesh a=2,b=2,c=2 --ndim 3
  reshard demo
"""

DEMO_CASES: tuple[tuple[str, str, str, tuple[int, ...], str], ...] = (
    ("P,R,P", "R,R,R", "dp=2,cp=2,tp=2", (64, 64), "a gradient summed over dp and tp, and replicated over cp"),
    ("S0,S1", "S1,S0", "dp=2,tp=4", (64, 64), "a transpose of shards in one all_to_all"),
    ("S0,S0", "S0,S0 | 0:tp>dp", "dp=2,tp=2", (64,), "another order of nested shards"),
    ("S0,S0", "R,R", "dp=2,tp=2", (5, 3), "uneven: stock DTensor on a flattened mesh returns wrong data"),
    ("R,P,P", "S0,S0,S0", "a=2,b=2,c=2", (12,), "nested reduce_scatter: stock returns wrong data"),
    ("S0,S0,S0", "R,S0,R", "a=2,b=2,c=2", (9,), "uneven and nested: stock returns wrong data"),
    ("Pavg,P,R", "R,R,S0", "a=1,b=2,c=2", (6,), "sum with avg over an axis of size 1: stock returns wrong data"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; -> exit status."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except ReshardError as error:
        print(f"reshard: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 1


def build_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="reshard", description="Move sharded tensors with the least communication.", epilog=EXAMPLES, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"reshard {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    one = commands.add_parser("plan", help="plan one redistribution, beside the per-axis baseline", epilog=EXAMPLES, formatter_class=raw)
    one.add_argument("--from", dest="source", required=True, metavar="LAYOUT", help="source layout, for example P,R,P")
    one.add_argument("--to", dest="target", required=True, metavar="LAYOUT", help="target layout, for example R,R,R")
    one.add_argument("--compare", action="store_true", help="print the baseline's steps in full too")
    one.add_argument("--strategy", default="auto", choices=list(STRATEGIES))
    one.add_argument("--reproducibility", default="replicas", choices=REPRODUCIBILITY)
    one.add_argument("--memory-limit", type=int, metavar="BYTES", help="highest peak at any rank")
    one.add_argument("--groups", default="auto", metavar="POLICY", help="auto, explicit, or explicit:dp+cp,tp+cp to name flattened groups")
    one.set_defaults(run=run_plan)
    census = commands.add_parser(
        "census", help="plan all pairs of layouts and print how they are distributed", epilog=EXAMPLES, formatter_class=raw
    )
    census.add_argument("--ndim", type=int, help="dims of the tensor (default: those of --shape, or 3)")
    census.add_argument("--partial", action="store_true", help="sources that hold Psum, instead of sharded and replicated ones")
    census.set_defaults(run=run_census)
    for command in (one, census):
        command.add_argument("--mesh", required=True, help="named axes, for example dp=2,cp=2,tp=2")
        command.add_argument("--shape", type=_shape, help="global shape, for example 4096,4096", required=command is one)
        command.add_argument("--dtype", default="float32")
        command.add_argument("--objective", default="time" if command is one else "bytes", choices=OBJECTIVES)
        command.add_argument("--json", action="store_true", help="print JSON")
    demo = commands.add_parser("demo", help="plan and simulate telling cases, and check every result", formatter_class=raw)
    demo.add_argument("--json", action="store_true", help="print JSON")
    demo.set_defaults(run=run_demo)
    return parser


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in re.split("[,x]", text) if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not whole numbers separated by commas, such as 4096,4096") from None


def parse_groups(text: str, mesh: Mesh) -> str | frozenset[frozenset[str]]:
    """``explicit:dp+cp`` names flattened groups that exist besides each axis."""
    policy, colon, named = text.partition(":")
    if policy != "explicit" or not colon:
        return text
    groups = {frozenset([axis]) for axis in mesh.axes} | {frozenset(part.split("+")) for part in named.split(",") if part}
    return frozenset(groups)


def run_plan(options: argparse.Namespace) -> int:
    common: dict[str, Any] = {"mesh": Mesh.parse(options.mesh), "shape": options.shape, "dtype": options.dtype}
    ours = plan(
        options.source,
        options.target,
        **common,
        objective=options.objective,
        groups=parse_groups(options.groups, common["mesh"]),
        reproducibility=options.reproducibility,
        memory_limit=options.memory_limit,
        strategy=options.strategy,
    )
    baseline = plan(options.source, options.target, **common, strategy="per-axis")
    compared = compare(ours, baseline)
    if options.json:
        print(json.dumps({"plan": ours.to_dict(), "baseline": baseline.to_dict(), "ratio": {k: r for k, _, _, r in compared}}, indent=2))
        return 0
    print(ours, end="\n\n")
    if options.compare:
        print("the per-axis baseline:", baseline, sep="\n", end="\n\n")
    print_table(("", "reshard", "per-axis", "ratio"), [(k, _shown(k, a), _shown(k, b), _ratio(r)) for k, a, b, r in compared])
    return 0


def compare(ours: Plan, baseline: Plan) -> list[tuple[str, float, float, float | None]]:
    """(figure, ours, baseline's, baseline / ours) of what a user pays."""
    lines: list[tuple[str, float, float, float | None]] = []
    for name in ("collectives", "received", "worst_rank", "peak", "largest_local", "time"):
        a, b = getattr(ours.certificate, name).value, getattr(baseline.certificate, name).value
        lines.append((name, a, b, b / a if a else (1.0 if not b else None)))
    return lines


def _shown(name: str, value: float) -> str:
    if name == "time":
        return f"{value * 1e6:.4g} us"
    return f"{value:g}" if name == "collectives" else as_bytes(value)


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def print_table(header: Sequence[str], body: Iterable[Sequence[str]]) -> None:
    """A table with rich, which drops colours and boxes where there is no terminal."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in body:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(table)


def census_pairs(mesh: Mesh, ndim: int, partial: bool) -> list[tuple[str, str]]:
    """All ordered pairs of distinct layouts from R and S0… (targets) and, where asked, sources that hold P."""
    plain = ["R", *(f"S{d}" for d in range(ndim))]
    targets = [",".join(tokens) for tokens in itertools.product(plain, repeat=len(mesh.axes))]
    every = [",".join(tokens) for tokens in itertools.product([*plain, "P"], repeat=len(mesh.axes))]
    sources = [s for s in every if "P" in s] if partial else targets
    return [(s, t) for s in sources for t in targets if s != t]


def run_census(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.progress import track

    mesh = Mesh.parse(options.mesh)
    ndim = options.ndim if options.ndim is not None else len(options.shape or (8, 8, 8))
    shape = options.shape or (8,) * ndim
    pairs = census_pairs(mesh, ndim, options.partial) if ndim > 0 else []
    if not pairs:
        raise LayoutError("a census has pairs of different layouts", got=f"--ndim {ndim}", hint="use --ndim 1 or more")
    bar = track(pairs, "planning", console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    plans: dict[str, list[Plan]] = {"reshard": [], "per-axis": []}
    common: dict[str, Any] = {"mesh": mesh, "shape": shape, "dtype": options.dtype, "topology": Topology(), "objective": options.objective}
    for source, target in bar:
        plans["reshard"].append(plan(source, target, **common))
        plans["per-axis"].append(plan(source, target, **common, strategy="per-axis"))
    found = {name: census_figures(some) for name, some in plans.items()}
    if options.json:
        print(json.dumps({"mesh": str(mesh), "shape": shape, "pairs": len(pairs), "objective": options.objective, **found}, indent=2))
        return 0
    print(f"{len(pairs)} pairs on {mesh}, shape {'x'.join(map(str, shape))}, objective {options.objective}")
    keys = list(found["reshard"])
    print_table(("", *found), [(key.replace("_", " "), *(f"{found[name][key]:.4g}" for name in found)) for key in keys])
    return 0


def census_figures(plans: Sequence[Plan]) -> dict[str, float]:
    """How the figures of many plans are distributed."""
    counts = [p.certificate.collectives.value for p in plans]
    figures = [p.certificate.received for p in plans]
    ratios = [f.ratio for f in figures if f.bound] or [1.0]
    larger = [p.certificate.largest_local.gap > 0 for p in plans]
    return {
        "collectives_mean": statistics.fmean(counts),
        "collectives_max": max(counts),
        "without_communication": counts.count(0),
        "received_over_bound_geomean": statistics.geometric_mean(ratios),
        "received_over_bound_max": max(ratios),
        "received_over_bound_in_total": sum(f.value for f in figures) / (sum(f.bound for f in figures) or 1),
        "share_at_the_bound": statistics.fmean(f.gap == 0 for f in figures),
        "share_with_a_larger_local": statistics.fmean(larger),
        "share_replica_consistent": statistics.fmean(p.certificate.replica_consistent for p in plans),
        "share_one_reduction": statistics.fmean(p.certificate.one_reduction for p in plans),
    }


def run_demo(options: argparse.Namespace) -> int:
    import numpy as np

    from reshard.demo import check

    rows: list[tuple[str, ...]] = []
    report: list[dict[str, Any]] = []
    for source, target, mesh, shape, why in DEMO_CASES:
        ours = plan(source, target, mesh=mesh, shape=shape, dtype="float64")
        baseline = plan(source, target, mesh=mesh, shape=shape, dtype="float64", strategy="per-axis")
        correct = check(ours, np.random.default_rng(0)) and check(baseline, np.random.default_rng(0))
        line = {name: (a, b) for name, a, b, _ in compare(ours, baseline)}
        report.append({"from": source, "to": target, "mesh": mesh, "shape": shape, "why": why, "correct": correct, **line})
        (calls, calls2), (moved, moved2) = line["collectives"], line["received"]
        cells = (f"{calls:g} / {calls2:g}", f"{as_bytes(moved)} / {as_bytes(moved2)}", "correct" if correct else "WRONG")
        rows.append((f"{source} -> {target}", mesh, "x".join(map(str, shape)), *cells))
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        first = plan(*DEMO_CASES[0][:2], mesh=DEMO_CASES[0][2], shape=(4096, 4096), dtype="bfloat16")
        print(first, end="\n\n")
        print("simulated on every rank and checked, reshard / per-axis baseline:")
        print_table(("redistribution", "mesh", "shape", "collectives", "received", "result"), rows)
        for source, target, _, _, why in DEMO_CASES:
            print(f"  {source} -> {target}: {why}")
    return 0 if all(line["correct"] for line in report) else 1


if __name__ == "__main__":
    sys.exit(main())
