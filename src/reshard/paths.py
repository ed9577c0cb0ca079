"""The cheapest path of single steps over a set of waypoints."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reshard import waypoints
from reshard.atlas import Region
from reshard.errors import LayoutError
from reshard.problem import NOTHING, Hop, Key, Path, Problem, add, cost_of
from reshard.steps import Edge
from reshard.traffic import State, unstride

Node = tuple[State, int]
"""A state, and how reduced the path to it is."""

Trail = dict[Node, tuple[Edge, Node]]


def shortest(
    problem: Problem,
    through: Iterable[State],
    memory_limit: int | None = None,
    known: Path | None = None,
    region: Region | None = None,
) -> Path | None:
    """A* over the waypoints: Dijkstra's shortest path, with a floor under what is left to pay.

    A path that is `known` already only saves work: nothing dearer is looked at. So does the `region` of cheaper paths.
    """
    source, target = problem.source, problem.target
    nodes = [target, *through]
    ahead = {v: problem.floor(v, target) for v in (source, *nodes) if region is None or v not in region.left}
    if region:
        ahead |= {v: (floor, 0, 0, 0) for v, floor in region.left.items()}
    start = (source, 0)
    best: dict[Node, tuple[Key, int]] = {start: (NOTHING, 0)}
    came: Trail = {}
    queue: list[tuple[Key, int, int, Node]] = [(ahead[source], 0, 0, start)]
    if known is None and memory_limit is None:
        _, known = min(short_ways(problem), key=lambda way: way[0], default=(NOTHING, None))
    at_target = None if known is None else cost_of(problem, known)
    pushed = 0
    while queue:
        _, hops, _, node = heapq.heappop(queue)
        u, reduced = node
        if u == target:
            return _walk_back(came, node)
        cost = best[node][0]
        if best[node][1] != hops:
            continue
        for v in region.onward(u) if region else nodes:
            if v == u or (at_target is not None and add(cost, problem.floor(u, v, one_step=True), ahead[v]) > at_target):
                continue
            if (edge := problem.edge(u, v)) is None or (after := problem.reduces(edge, u, v, reduced)) is None:
                continue
            if memory_limit is not None and problem.pricer.price(edge, u, v).peak > memory_limit:
                continue
            reached = (add(cost, problem.key(edge, u, v)), hops + 1)
            too_dear = at_target is not None and add(reached[0], ahead[v]) > at_target
            if too_dear or ((v, after) in best and best[v, after] <= reached):
                continue
            if v == target:
                at_target = reached[0] if at_target is None else min(at_target, reached[0])
            best[v, after], came[v, after] = reached, (edge, node)
            pushed += 1
            heapq.heappush(queue, (add(reached[0], ahead[v]), hops + 1, pushed, (v, after)))
    return known


def _walk_back(came: Trail, node: Node) -> Path:
    path: Path = []
    while node in came:
        edge, previous = came[node]
        path.append(Hop(edge, node[0]))
        node = previous
    return path[::-1]


def short_ways(problem: Problem) -> Iterator[tuple[Key, Path]]:
    """Ways with a single collective, and the normal form: reduce into a full split and move from there."""
    source, target = problem.source, problem.target
    if source.partial:
        sliced = State(
            tuple(tuple(a for a in axes if a not in source.partial) for axes in target.dims),
            source.partial,
            tuple(x for x in target.strides if x[0] not in source.partial),
        )
        padded = waypoints.padded(source, target)
        added = padded._replace(partial=tuple(a for a in target.partial if a in padded.partial))
        middles = [(), (sliced,), (padded,), (padded, added), (waypoints.split_fully(problem.space, source, target),)]
    else:
        early = waypoints.sliced_early(source, target)
        gathered = waypoints.gathered_first(source, target)
        middles = [(), (gathered,), (early, waypoints.gathered_first(early, target)), (waypoints.padded(source, target),)]
    for middle in middles:
        if way := _priced_way(problem, [*middle, target]):
            yield way


def _priced_way(problem: Problem, states: Sequence[State]) -> tuple[Key, Path] | None:
    """The way through these states, if every step of it is allowed."""
    path: Path = []
    cost, u, reduced = NOTHING, problem.source, 0
    for state in states:
        v = unstride(problem.space, state) if state.strides else state
        if v == u:
            continue
        edge = problem.edge(u, v)
        after = None if edge is None else problem.reduces(edge, u, v, reduced)
        if edge is None or after is None or not problem.fits(v):
            return None
        cost = add(cost, problem.key(edge, u, v))
        path.append(Hop(edge, v))
        u, reduced = v, after
    return cost, path


def least_memory(problem: Problem, through: Sequence[State]) -> int | None:
    """The lowest peak with which the target can be reached over these waypoints."""
    states = {problem.source, problem.target, *through}
    peaks = {problem.pricer.price(edge, u, v).peak for u in states for v in states if u != v and (edge := problem.edge(u, v)) is not None}
    limits = sorted(peaks)
    low, high = 0, len(limits) - 1
    if high < 0 or shortest(problem, through, limits[high]) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        if shortest(problem, through, limits[middle]) is None:
            low = middle + 1
        else:
            high = middle
    return limits[low]


def cheapest(problem: Problem, through: Sequence[State]) -> Path | None:
    """The best path over these waypoints for the problem's objective and limit."""
    if problem.objective != "memory" and problem.memory_limit is None:
        return shortest(problem, through)
    limit = problem.memory_limit
    least = least_memory(problem, through) if problem.objective == "memory" else None
    if least is not None and (limit is None or least <= limit):
        return shortest(problem, through, least)
    path = None if limit is None else shortest(problem, through, limit)
    if path is None and limit is not None and (least := least_memory(problem, through)) is not None:
        raise over_limit(limit, least)
    return path


def over_limit(limit: int, least: int) -> LayoutError:
    return LayoutError(
        "a plan keeps its peak within memory_limit, in bytes at the worst rank",
        got=f"memory_limit={limit}",
        hint=f"the least that can be done is {least}",
    )


def best_path(problem: Problem, through: Sequence[State], known: Path | None = None) -> Path:
    """The best path on which no local tensor outgrows source and target; where groups leave none, gather axis by axis."""
    modest = [w for w in through if problem.fits(w)]
    gathering = [w for w in waypoints.by_axis(problem.space, problem.source, problem.target)[1:-1] if problem.agrees(w)]
    path = shortest(problem, modest, known=known) if known else cheapest(problem, modest)
    path = path or cheapest(problem, [*modest, *gathering])
    if path is None and problem.reproducibility == "replicas":
        path = cheapest(replace(problem, fold=True), [*modest, *gathering])
    return path or _refuse(problem)


def _refuse(problem: Problem) -> Path:
    names = problem.mesh.axes
    existing = sorted("+".join(names[a] for a in sorted(g)) for g in problem.groups or ())
    raise LayoutError(
        "a plan uses only the groups it is given, and keeps its reproducibility",
        got=f"groups {existing or 'auto'} with reproducibility={problem.reproducibility!r}, which do not reach the target",
        hint="give a group for every mesh axis that communicates, or groups='auto', or promise less",
    )
