"""Check a plan on made-up data: cut a whole tensor up, simulate, and compare with cutting up the result directly."""

from __future__ import annotations

import functools
import math
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshard.layout import Layout
from reshard.ownership import box
from reshard.packing import Coordinate
from reshard.plan import Plan
from reshard.simulate import index, simulate

Array = NDArray[Any]


def check(plan: Plan, rng: np.random.Generator) -> bool:
    """Whether every rank ends with its part of the tensor that the source stands for."""
    partial = [axis for axis, _ in plan.source.partial]
    ops = {op for _, op in plan.source.partial}
    sizes = plan.mesh.sizes
    divisor = math.prod(sizes[axis] for axis, op in plan.source.partial if op == "avg")
    summands = {c: rng.integers(0, 100, plan.shape) * float(divisor) for c in product(*(range(sizes[a]) for a in partial))}
    combine = {"max": np.maximum, "min": np.minimum, "product": np.multiply}.get(next(iter(ops), "sum"), np.add)
    whole = functools.reduce(combine, summands.values()) / divisor
    shards = [part(plan.source, plan.shape, c, summands[tuple(c[a] for a in partial)]) for c in coordinates(plan)]
    results = simulate(plan, shards)
    return all(np.array_equal(got, part(plan.target, plan.shape, c, whole)) for got, c in zip(results, coordinates(plan), strict=True))


def coordinates(plan: Plan) -> list[Coordinate]:
    return [plan.mesh.coordinate(rank) for rank in plan.mesh.sorted_ranks()]


def part(layout: Layout, shape: tuple[int, ...], coordinate: Coordinate, whole: Array) -> Array:
    return whole[index(box(layout, shape, coordinate))]
