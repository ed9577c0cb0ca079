"""Whether costs are a metric: triples a, b, c with cost(a, c) > cost(a, b) + cost(b, c)."""

from __future__ import annotations

import itertools
import random

import reshard
from reshard import Level, Mesh, Topology

NODE, RACK = Level("node", 2, 2e-5, 25e9), Level("rack", 4, 4e-5, 12e9)
TWO_LEVELS = {2: Topology(levels=(NODE,)), 3: Topology(levels=(NODE, RACK))}


def violations(axes: int, shape: tuple[int, ...], objective: str, levels: bool, sample: int | None, among: int | None = None) -> list[str]:
    """Over all triples, or a sample of them among some of the layouts; the seed is the setting itself."""
    mesh = Mesh.parse(",".join(f"{n}=2" for n in "abc"[:axes]))
    every = [",".join(tokens) for tokens in itertools.product(["R", "S0", "S1", "S2", "P"], repeat=axes)]
    rng = random.Random(f"{axes} {shape} {objective} {levels}")
    some = every if among is None else rng.sample(every, among)
    triples = itertools.product(some, repeat=3) if sample is None else (tuple(rng.choices(some, k=3)) for _ in range(sample))
    costs: dict[tuple[str, str], float] = {}

    def cost(a: str, b: str) -> float:
        if (a, b) not in costs:
            p = reshard.plan(a, b, mesh=mesh, shape=shape, objective=objective, topology=TWO_LEVELS[axes] if levels else None)
            costs[a, b] = p.certificate.received.value if objective == "bytes" else p.certificate.time.value
        return costs[a, b]

    slack = 5e-12 if objective == "time" else 0  # plans compare times in whole picoseconds, so each may be off by one or two
    return [f"{a} -> {b} -> {c}" for a, b, c in triples if cost(a, c) > cost(a, b) + cost(b, c) + slack]
