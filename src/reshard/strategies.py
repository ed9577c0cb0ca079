"""Strategies: which waypoints a search considers. One signature, one registry; the tests run over the registry."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from reshard import waypoints
from reshard.atlas import Region, draw
from reshard.paths import best_path, cheapest, short_ways, shortest
from reshard.problem import NOTHING, Hop, Key, Path, Problem, cost_of
from reshard.steps import connect, splits_fully
from reshard.traffic import is_prefix

Strategy = Callable[[Problem], Path]
"""A strategy gives the hops from the problem's source to its target."""


def auto(problem: Problem) -> Path:
    """Exact on small meshes: every layout through which a cheaper path could go. On larger ones the normal form's short list."""
    found = _provably_best(problem)
    if found is not None:
        return found
    atlas = draw(problem) if problem.pricer.exact else None
    if atlas is None:
        return _by_short_list(problem)
    strided = problem.source.strides or problem.target.strides
    if strided or problem.memory_limit is not None or problem.objective not in ("time", "bytes"):
        return best_path(problem, list(dict.fromkeys([*atlas.states, *problem.waypoints(wide=bool(strided))])))
    _, known = min(short_ways(problem), key=lambda way: way[0], default=(NOTHING, None))
    if known is None or problem.target.partial:
        known = best_path(problem, problem.waypoints(wide=False))
    region = Region(problem, atlas, cost_of(problem, known))
    cheaper = shortest(problem, region.left, known=known, region=region)
    return cheaper if cheaper and cost_of(problem, cheaper) < cost_of(problem, known) else known


def _by_short_list(problem: Problem) -> Path:
    """Where there are many layouts: the narrow list, and the wide one if groups are few or latency counts."""
    narrow = problem.groups is None and problem.memory_limit is None and problem.objective in ("time", "bytes")
    path = cheapest(problem, problem.waypoints(wide=False)) if narrow else None
    if path and (problem.objective == "bytes" or not problem.pricer.exact or _detours_cost_more(problem, path)):
        return path
    return best_path(problem, problem.waypoints(wide=True), known=path)


def _detours_cost_more(problem: Problem, path: Path) -> bool:
    """Whether the latency that could still be saved is less than the time of the bytes that a detour would add."""
    link, u, latency = problem.topology, problem.source, 0.0
    for edge, v in path:
        price, u = problem.pricer.price(edge, u, v), v
        latency += price.time - price.worst / link.bandwidth
    pieces = problem.pieces(problem.source, problem.target)
    saved = latency - link.launch - link.alpha * max(1, (pieces - 1).bit_length())
    local = min(problem.space.largest(problem.source), problem.space.largest(problem.target))
    return saved < local * problem.itemsize / link.bandwidth / 2


def _provably_best(problem: Problem) -> Path | None:
    """A short way that no other can beat: for these problems there is nothing to search for."""
    source, target = problem.source, problem.target
    if problem.memory_limit is not None or target.partial or problem.objective not in ("bytes", "time"):
        return None
    if problem.objective == "bytes" and not source.partial:
        edge = problem.edge(source, target)
        return None if edge is None else [Hop(edge, target)]
    best = min(short_ways(problem), key=lambda way: way[0], default=None)
    if best is None:
        return None
    if problem.objective == "bytes":
        return best[1] if _is_least(problem, best) else None
    return best[1] if problem.roomy and best[0] <= problem.floor_of_two(source, target) else None


def _is_least(problem: Problem, best: tuple[Key, Path]) -> bool:
    """Whether a way moves no byte too many: reduced into a full refinement of the target it never does; else, count."""
    split, target = best[1][0].state, problem.target
    axes = [a for a, n in enumerate(problem.mesh.sizes) if n > 1]
    if not split.partial and splits_fully(split, axes) and all(is_prefix(b, a) for a, b in zip(split.dims, target.dims, strict=True)):
        return True
    return problem.pricer.exact and best[0][0] <= _least_bytes(problem)


def _least_bytes(problem: Problem) -> int:
    """With partial sources: all contributions of an element meet once, at a rank that wants it where one holds a contribution."""
    space, source, target = problem.space, problem.source, problem.target
    summands = math.prod(space.sizes[a] for a in source.partial)
    apart = source.sharded() | target.sharded()
    met = space.total(space.shared(source, target)) // math.prod(n for a, n in enumerate(space.sizes) if a not in apart)
    return ((summands - 1) * space.numel + space.copies(target) - met) * problem.itemsize


def exhaustive(problem: Problem) -> Path:
    """The reference: every layout of the mesh is a waypoint, and none is ruled out beforehand."""
    every = waypoints.everything(problem.space, problem.source, problem.target)
    return best_path(problem, list(dict.fromkeys([*problem.waypoints(wide=True), *every])))


def per_axis(problem: Problem) -> Path:
    """The baseline: one collective per mesh axis, greedily, as DTensor's default planner. Ignores objective and options."""
    path = waypoints.by_axis(problem.space, problem.source, problem.target)
    return [Hop(edge, v) for u, v in pairwise(path) if (edge := connect(u, v)) is not None]


STRATEGIES: dict[str, Strategy] = {"auto": auto, "exhaustive": exhaustive, "per-axis": per_axis}
