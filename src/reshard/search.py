"""Find a plan: the cheapest path of single steps from source to target, over a strategy's waypoints.

    layouts -> Problem -> waypoints (a strategy) -> shortest path -> Plan

Merging is not a pass: a step over many axes is an edge like any other, so the cheapest path has it where it pays.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from reshard import waypoints
from reshard.cost import FLAT, ITEMSIZE, Topology, dtype_name
from reshard.errors import LayoutError
from reshard.layout import Layout
from reshard.mesh import Mesh
from reshard.plan import Options, Plan
from reshard.pricing import EXACT_UP_TO, Price, Pricer, level_blocks
from reshard.steps import Edge, Step, connect, is_repeated, splits_fully
from reshard.traffic import Space, State, canonical

Objective = Literal["time", "bytes", "collectives", "memory"]
OBJECTIVES: tuple[Objective, ...] = ("time", "bytes", "collectives", "memory")
REPRODUCIBILITY = ("replicas", "strict", "bitwise", "any")

Groups = frozenset[frozenset[int]] | None
"""The axis sets for which a group exists; None where any group may be made."""

Key = tuple[float, ...]
NOTHING: Key = (0, 0, 0)
SMALL_GRAPH = 3
"""Up to this many axes every layout is a waypoint where the short list is not known to be enough."""


@dataclass(frozen=True)
class Problem:
    """All that a strategy may look at."""

    mesh: Mesh
    shape: tuple[int, ...]
    itemsize: int
    source: State
    target: State
    avg: frozenset[int]
    topology: Topology
    objective: Objective
    groups: Groups
    reproducibility: str
    memory_limit: int | None

    @cached_property
    def space(self) -> Space:
        return Space(self.mesh.sizes, self.shape)

    @cached_property
    def pricer(self) -> Pricer:
        levels = tuple(level_blocks(self.mesh, level) for level in self.topology.levels)
        exact = self.mesh.size <= EXACT_UP_TO
        return Pricer(self.space, self.source, self.itemsize, self.topology, levels, exact)

    @cached_property
    def short_list(self) -> list[State]:
        return waypoints.normal_form(self.space, self.source, self.target, self.avg)

    @cached_property
    def largest_endpoint(self) -> int:
        return max(self.space.largest(self.source), self.space.largest(self.target))

    def key(self, price: Price) -> Key:
        return self._ordered(price.time, price.received, price.collectives)

    def _ordered(self, time: float, received: int, collectives: int) -> Key:
        """What a step adds to a path's cost: the objective first, then what breaks ties."""
        match self.objective:
            case "bytes" | "memory":
                return (received, collectives, time)
            case "collectives":
                return (collectives, time, received)
            case _:
                return (time, received, collectives)

    def floor(self, u: State, v: State) -> Key:
        """No path from u to v costs less than this; from chunk lengths alone, so that most edges are never priced."""
        found = self._floors.get((u, v))
        if found is None:
            found = self._floors[u, v] = self._floor(u, v)
        return found

    @cached_property
    def _floors(self) -> dict[tuple[State, State], Key]:
        return {}

    def _floor(self, u: State, v: State) -> Key:
        space = self.space
        reduced = [a for a in u.partial if a not in v.partial]
        if reduced and not v.partial:
            worst = space.largest(v)
            received = (math.prod(space.sizes[a] for a in reduced) - 2) * space.numel + space.copies(v)
        else:
            kept = 1
            for dim, (a, b) in enumerate(zip(u.dims, v.dims, strict=True)):
                kept *= min(space.longest(dim, a, u.strides), space.longest(dim, b, v.strides))
            worst = 0 if v.partial else max(0, space.largest(v) - kept)
            received = worst if v.partial else max(worst, space.copies(v) - space.copies(u))
        if worst <= 0:
            return NOTHING
        link = self.topology
        time = link.launch + link.alpha + worst * self.itemsize / link.bandwidth
        return self._ordered(time, received * self.itemsize, 1)

    def edge(self, u: State, v: State) -> Edge | None:
        """The step from u to v, if there is one that this problem allows."""
        edge = connect(u, v)
        if edge is None or edge.kind == "slice":
            return edge
        if edge.reduced and edge.kind == "exchange" and not self._may_exchange(edge, v):
            return None
        if self.reproducibility == "bitwise" and edge.reduced:
            if not splits_fully(v, edge.axes) or set(edge.reduced) != set(self.source.partial) - set(self.target.partial):
                return None
            edge = edge._replace(kind="exchange")
        if self.groups is None or frozenset(edge.axes) in self.groups:
            return edge
        if edge.kind == "all_reduce" or self.group(edge) is None:
            return None
        return edge._replace(kind="exchange") if self._may_exchange(edge, v) else None

    def _may_exchange(self, edge: Edge, v: State) -> bool:
        """Contributions are exchanged where each sum is made once; making it at every replica saves only collectives."""
        return not edge.reduced or splits_fully(v, edge.axes) or self.objective == "collectives"

    def group(self, edge: Edge) -> tuple[int, ...] | None:
        """The axes of the group to call: the step's own, or the smallest larger one that exists."""
        if self.groups is None or frozenset(edge.axes) in self.groups:
            return edge.axes
        larger = [tuple(sorted(g)) for g in self.groups if g.issuperset(edge.axes)]
        return min(larger, key=lambda g: (math.prod(self.mesh.sizes[a] for a in g), g), default=None)

    def reduces(self, edge: Edge, u: State, v: State, before: int) -> int | None:
        """How reduced a path is after an edge (0 not, 1 once each, 2 at several places), or None where that breaks the promise."""
        if not edge.reduced or self.reproducibility == "any":
            return before
        repeated = is_repeated(edge, u, v, self.mesh.sizes)
        if repeated and self.reproducibility in ("strict", "bitwise"):
            return None
        if before == 2 or (repeated and before):
            return None
        return 2 if repeated else 1


Strategy = Callable[[Problem], list[State]]
"""A strategy gives the path of states, source and target included."""


def shortest(problem: Problem, through: Iterable[State], memory_limit: int | None = None) -> list[State] | None:
    """A* over the waypoints: Dijkstra's shortest path, with a floor under what is left to pay."""
    source, target = problem.source, problem.target
    ceiling = problem.largest_endpoint
    nodes = [target, *(w for w in through if problem.space.largest(w) <= ceiling)]
    left = {v: problem.floor(v, target) for v in (source, *nodes)}
    start = (source, 0)
    best: dict[tuple[State, int], tuple[Key, int]] = {start: (NOTHING, 0)}
    came: dict[tuple[State, int], tuple[State, int]] = {}
    queue: list[tuple[Key, int, int, tuple[State, int]]] = [(left[source], 0, 0, start)]
    at_target: Key | None = None
    pushed = 0
    while queue:
        _, hops, _, node = heapq.heappop(queue)
        u, reduced = node
        if u == target:
            return _walk_back(came, node)
        cost = best[node][0]
        if best[node][1] != hops:
            continue
        for v in nodes:
            if v == u or at_target is not None and add(cost, problem.floor(u, v), left[v]) >= at_target:
                continue
            if (edge := problem.edge(u, v)) is None or (after := problem.reduces(edge, u, v, reduced)) is None:
                continue
            price = problem.pricer.price(edge, u, v)
            if memory_limit is not None and price.peak > memory_limit:
                continue
            reached = (add(cost, problem.key(price)), hops + 1)
            if (v, after) in best and best[v, after] <= reached:
                continue
            if v == target:
                at_target = reached[0] if at_target is None else min(at_target, reached[0])
            best[v, after], came[v, after] = reached, node
            pushed += 1
            heapq.heappush(queue, (add(reached[0], left[v]), hops + 1, pushed, (v, after)))
    return None


def add(*keys: Key) -> Key:
    return tuple(map(sum, zip(*keys, strict=True)))


def _walk_back(came: dict[tuple[State, int], tuple[State, int]], node: tuple[State, int]) -> list[State]:
    path = [node[0]]
    while node in came:
        node = came[node]
        path.append(node[0])
    return path[::-1]


def least_memory(problem: Problem, through: Sequence[State]) -> int | None:
    """The lowest peak with which the target can be reached over these waypoints."""
    states = {problem.source, problem.target, *through}
    peaks = {
        problem.pricer.price(edge, u, v).peak for u in states for v in states if u != v and (edge := problem.edge(u, v)) is not None
    }
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


def _over(problem: Problem, through: Sequence[State]) -> list[State] | None:
    """The best path over these waypoints for the problem's objective and limit."""
    if problem.objective != "memory" and problem.memory_limit is None:
        return shortest(problem, through)
    limit = problem.memory_limit
    if problem.objective == "memory" and limit is None:
        limit = least_memory(problem, through)
    path = None if limit is None else shortest(problem, through, limit)
    if path is None and problem.memory_limit is not None and (least := least_memory(problem, through)) is not None:
        raise LayoutError(
            "a plan keeps its peak within memory_limit, in bytes at the worst rank",
            got=f"memory_limit={problem.memory_limit}",
            hint=f"the least that can be done is {least}",
        )
    return path


def auto(problem: Problem) -> list[State]:
    """The normal form's short list; every layout where groups or levels make longer ways worth it and the mesh is small."""
    found = _direct(problem)
    if found is not None:
        return found
    short = problem.short_list
    if problem.groups is None and not problem.topology.levels:
        path = _over(problem, short)
    else:
        path = _over(problem, [*short, *_longer(problem)])
    if path is None:
        path = _over(problem, [*short, *waypoints.by_axis(problem.source, problem.target)[1:-1]])
    return path or _refuse(problem)


def _direct(problem: Problem) -> list[State] | None:
    """One step between sharded and replicated layouts is provably best for bytes: each rank receives what it lacks, once."""
    source, target = problem.source, problem.target
    if source.partial or target.partial or problem.objective != "bytes" or problem.memory_limit is not None:
        return None
    return [source, target] if problem.edge(source, target) is not None else None


def _longer(problem: Problem) -> list[State]:
    if sum(n > 1 for n in problem.mesh.sizes) <= SMALL_GRAPH:
        return waypoints.everything(problem.space, problem.source, problem.target)
    return waypoints.by_axis(problem.source, problem.target)[1:-1]


def exhaustive(problem: Problem) -> list[State]:
    """The reference: every layout of the mesh is a waypoint. Slow beyond three axes."""
    short = problem.short_list
    every = waypoints.everything(problem.space, problem.source, problem.target)
    return _over(problem, list(dict.fromkeys([*short, *every]))) or _refuse(problem)


def per_axis(problem: Problem) -> list[State]:
    """The baseline: one collective per mesh axis, greedily, as DTensor's default planner. Ignores objective and options."""
    return waypoints.by_axis(problem.source, problem.target)


def _refuse(problem: Problem) -> list[State]:
    names = problem.mesh.axes
    existing = sorted("+".join(names[a] for a in sorted(g)) for g in problem.groups or ())
    raise LayoutError(
        "a plan uses only the groups it is given, and keeps its reproducibility",
        got=f"groups {existing or 'auto'} with reproducibility={problem.reproducibility!r}, which do not reach the target",
        hint="give a group for every mesh axis that communicates, or groups='auto'",
    )


STRATEGIES: dict[str, Strategy] = {"auto": auto, "exhaustive": exhaustive, "per-axis": per_axis}


def plan(
    source: str | Layout | Sequence[object],
    target: str | Layout | Sequence[object],
    *,
    mesh: Mesh | str,
    shape: Sequence[int],
    dtype: object = "float32",
    topology: Topology | None = None,
    objective: Objective = "time",
    groups: str | Collection[Collection[str]] = "auto",
    reproducibility: str = "replicas",
    memory_limit: int | None = None,
    strategy: str = "auto",
) -> Plan:
    """Plan a redistribution.

    >>> p = plan("P,R,P", "R,R,R", mesh="dp=2,cp=2,tp=2", shape=(64, 64), objective="collectives")
    >>> [step.kind for step in p.steps], p.steps[0].axes
    (['all_reduce'], ('dp', 'tp'))
    """
    named = groups if isinstance(groups, str) else frozenset(frozenset([g] if isinstance(g, str) else g) for g in groups)
    source = source if isinstance(source, (str, Layout)) else tuple(str(p) for p in source)
    target = target if isinstance(target, (str, Layout)) else tuple(str(p) for p in target)
    return _plan(source, target, mesh, tuple(shape), dtype, topology or FLAT, objective, named, reproducibility, memory_limit, strategy)


@lru_cache(maxsize=4096)
def _plan(
    source: str | Layout | tuple[str, ...],
    target: str | Layout | tuple[str, ...],
    mesh: Mesh | str,
    shape: tuple[int, ...],
    dtype: object,
    topology: Topology,
    objective: Objective,
    groups: str | frozenset[frozenset[str]],
    reproducibility: str,
    memory_limit: int | None,
    strategy: str,
) -> Plan:
    mesh = Mesh.parse(mesh)
    begin, end = Layout.parse(source, mesh), Layout.parse(target, mesh)
    name = dtype_name(dtype)
    _check_choice("objective", objective, OBJECTIVES)
    _check_choice("reproducibility", reproducibility, REPRODUCIBILITY)
    _check_choice("strategy", strategy, tuple(STRATEGIES))
    _check(begin, end, shape, name)
    problem = Problem(
        mesh, shape, ITEMSIZE[name], canonical(begin, shape), canonical(end, shape),
        frozenset(a for a, op in (*begin.partial, *end.partial) if op == "avg"),
        topology, objective, existing_groups(mesh, groups), reproducibility, memory_limit,
    )  # fmt: skip
    path = _trivial(problem) or STRATEGIES[strategy](problem)
    options = Options(name, topology, objective, groups, reproducibility, memory_limit, strategy)
    return Plan(begin, end, shape, _steps(problem, begin, end, path), options)


def _trivial(problem: Problem) -> list[State] | None:
    if problem.source == problem.target:
        return [problem.source]
    return [problem.source, problem.target] if math.prod(problem.shape) == 0 else None


def _steps(problem: Problem, begin: Layout, end: Layout, path: list[State]) -> tuple[Step, ...]:
    """The path as steps between layouts, endpoints spelled as they were given."""
    names = problem.mesh.axes
    ops = {**dict(end.partial), **dict(begin.partial)}
    layouts = [begin]
    for state in path[1:-1]:
        layouts.append(Layout(problem.mesh, state.dims, tuple((a, ops[a]) for a in state.partial), state.strides))
    if len(path) > 1:
        layouts.append(end)
    steps: list[Step] = []
    for (u, v), (before, after) in zip(zip(path, path[1:], strict=False), zip(layouts, layouts[1:], strict=False), strict=True):
        edge = problem.edge(u, v) or connect(u, v)
        if edge is None or edge.kind == "slice" or not problem.pricer.price(edge, u, v).collectives:
            steps.append(Step("slice", before, after, (), ()))
            continue
        group = problem.group(edge) or edge.axes
        steps.append(Step(edge.kind, before, after, tuple(names[a] for a in edge.axes), tuple(names[a] for a in group)))
    if not steps and begin != end:
        steps.append(Step("slice", begin, end, (), ()))
    return tuple(steps)


def existing_groups(mesh: Mesh, groups: str | frozenset[frozenset[str]]) -> Groups:
    """Axis positions of the groups that exist, without axes of size 1. ``"explicit"``: each axis, and the whole mesh."""
    if groups == "auto":
        return None
    if isinstance(groups, str):
        if groups != "explicit":
            raise LayoutError('groups is "auto", "explicit" or a set of axis sets', got=repr(groups), hint='for example {("dp", "cp")}')
        groups = frozenset(frozenset([axis]) for axis in mesh.axes) | {frozenset(mesh.axes)}
    positions = (frozenset(a for a in map(mesh.index, group) if mesh.sizes[a] > 1) for group in groups)
    return frozenset(g for g in positions if g)


def _check_choice(name: str, got: object, choices: Sequence[str]) -> None:
    if got not in choices:
        raise LayoutError(f"{name} is one of {', '.join(choices)}", got=repr(got), hint=f"for example {choices[0]!r}")


def _check(source: Layout, target: Layout, shape: tuple[int, ...], dtype: str) -> None:
    if any(not isinstance(n, int) or n < 0 for n in shape):
        raise LayoutError("a tensor's dims are whole numbers, 0 or more", got=f"shape {shape}", hint="pass the global shape")
    source.check_shape(shape)
    target.check_shape(shape)
    for axis, op in target.partial:
        wanted = dict(source.partial).get(axis, op)
        if wanted != op:
            raise LayoutError(
                "a partial axis keeps its reduce op: another one cannot be made of it",
                got=f"{source.mesh.axes[axis]}: P{wanted} -> P{op}",
                hint="reduce it first, by redistributing to R or S",
            )
    _mixed_ops(source, target)
    whole = dtype.startswith(("int", "uint", "bool"))
    if whole and any(op == "avg" for _, op in (*source.partial, *target.partial)):
        raise LayoutError("an average needs a floating point dtype", got=f"Pavg with {dtype}", hint="reduce by sum, or cast first")


def _mixed_ops(source: Layout, target: Layout) -> None:
    """Ops made by the target have to get along with those that the source still carries."""
    kept = [op for axis, op in source.partial if axis in dict(target.partial)]
    kinds = {op for _, op in target.partial} | set(kept)
    if len(kinds) > 1 and kinds != {"sum", "avg"}:
        raise LayoutError(
            "partial axes share one reduce op, or mix sum with avg", got=", ".join(sorted(kinds)), hint="make one of them in a second step"
        )


def clear_caches() -> None:
    """Forget every plan and every parsed text. All caches are bounded; this is for measurements and tests."""
    from reshard import layout, mesh

    _plan.cache_clear()
    mesh._parse.cache_clear()
    layout._parse.cache_clear()
