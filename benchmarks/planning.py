"""How long planning takes: cold, warm, and certificates.  python benchmarks/planning.py [--write]

Medians over random pairs of layouts with a fixed seed, caches cleared before every cold call, one process.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import platform
import random
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import reshard

RESULTS = Path(__file__).parent / "results" / "planning.md"
SHAPES = {"even": (1024, 1024, 1024), "uneven": (1001, 999, 37)}
MESHES = ["a=2,b=2,c=2", "a=64,b=64,c=256", "a=2,b=2,c=2,d=2", "a=2,b=2,c=2,d=2,e=2"]


def layouts(axes: int, tokens: list[str]) -> list[str]:
    return [",".join(choice) for choice in itertools.product(tokens, repeat=axes)]


def cold(sources: list[str], targets: list[str], mesh: str, shape: tuple[int, ...], objective: str, count: int) -> list[float]:
    rng = random.Random(0)
    times = []
    while len(times) < count:
        source, target = rng.choice(sources), rng.choice(targets)
        if source == target:
            continue
        reshard.clear_caches()
        begin = time.perf_counter()
        reshard.plan(source, target, mesh=mesh, shape=shape, objective=objective)
        times.append(time.perf_counter() - begin)
    return times


def cold_rows(count: int) -> list[str]:
    rows = ["| mesh | shape | objective | S and R: median | 90% | with partial sources: median | 90% |", "|---|---|---|---|---|---|---|"]
    for mesh in MESHES:
        axes = mesh.count("=")
        plain, every = layouts(axes, ["R", "S0", "S1", "S2"]), layouts(axes, ["R", "S0", "S1", "S2", "P"])
        partial = [s for s in every if "P" in s]
        for kind, shape in SHAPES.items():
            for objective in ("time", "bytes"):
                cells = []
                for sources in (plain, partial):
                    times = cold(sources, plain, mesh, shape, objective, count)
                    cells += [f"{statistics.median(times) * 1e3:.2f} ms", f"{np.quantile(times, 0.9) * 1e3:.2f} ms"]
                rows.append(f"| {mesh} | {kind} | {objective} | {' | '.join(cells)} |")
    return rows


def warm() -> float:
    arguments = {"mesh": "a=2,b=2,c=2", "shape": (1024, 1024, 1024)}
    reshard.plan("P,R,P", "R,R,R", **arguments)
    times = []
    for _ in range(2000):
        begin = time.perf_counter()
        reshard.plan("P,R,P", "R,R,R", **arguments)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


CERTIFICATES = [
    ("S0,S0,S0", "S1,S1,S1"),
    ("P,S0,S0", "S0,R,S1"),
    ("S0,S0,S0", "R,R,S0"),
    ("P,P,P", "R,S0,R"),
    ("S0,S0,S1", "S1,S0,S2"),
    ("S0,S0,S0", "S0,S0,S0 | 0:c>a>b"),
]


def certificate_rows() -> list[str]:
    rows = ["| source | target | received and worst rank | all figures |", "|---|---|---|---|"]
    for source, target in CERTIFICATES:
        parts, wholes = [], []
        for _ in range(5):
            reshard.clear_caches()
            plan = reshard.plan(source, target, mesh="a=64,b=64,c=256", shape=(100_003, 4097, 3001), objective="bytes")
            begin = time.perf_counter()
            _ = plan.certificate.received, plan.certificate.worst_rank
            parts.append(time.perf_counter() - begin)
            _ = plan.certificate.rounds, plan.certificate.peak, plan.certificate.time, plan.certificate.largest_local
            wholes.append(time.perf_counter() - begin)
        shown = target.replace("|", "with")
        rows.append(f"| {source} | {shown} | {statistics.median(parts) * 1e3:.1f} ms | {statistics.median(wholes) * 1e3:.1f} ms |")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="pairs for each cold figure")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    versions = f"reshard {reshard.__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    lines = [
        "# Planning times",
        "",
        f"`python benchmarks/planning.py --write --count {options.count}`; {versions}; {platform.machine()}, {os.cpu_count()} shared cores;"
        f" {datetime.date.today()}. A noisy machine: compare within a table.",
        "",
        f"Cold, caches cleared, {options.count} random pairs each, tensors of rank 3:",
        "",
        *cold_rows(options.count),
        "",
        f"Warm (cached): {warm() * 1e6:.1f} us.",
        "",
        "Certificates at a million ranks (64,64,256), uneven and nested, shape (100003, 4097, 3001), median of 5:",
        "",
        *certificate_rows(),
        "",
    ]
    print("\n".join(lines))
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
