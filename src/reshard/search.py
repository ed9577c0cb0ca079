"""Find a plan: the cheapest path of single steps from source to target, over a strategy's waypoints.

    layouts -> Problem -> waypoints (a strategy) -> shortest path -> Plan

Merging is not a pass: a step over many axes is an edge like any other, so the cheapest path has it where it pays.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from reshard import waypoints
from reshard.cost import FLAT, ITEMSIZE, Topology, dtype_name
from reshard.errors import LayoutError
from reshard.layout import Layout
from reshard.mesh import Mesh
from reshard.plan import Options, Plan
from reshard.pricing import EXACT_UP_TO, Price, Pricer, level_blocks
from reshard.steps import LOCAL, Edge, Step, connect, is_repeated, splits_fully
from reshard.traffic import Space, State, canonical, is_prefix

Objective = Literal["time", "bytes", "collectives", "memory"]
OBJECTIVES: tuple[Objective, ...] = ("time", "bytes", "collectives", "memory")
REPRODUCIBILITY = ("replicas", "strict", "bitwise", "any")

Groups = frozenset[frozenset[int]] | None
"""The axis sets for which a group exists; None where any group may be made."""

Key = tuple[int, ...]
Node = tuple[State, int]
Trail = dict[Node, tuple[Edge, Node]]
NOTHING: Key = (0, 0, 0, 0)
TICKS = 1e15  # times are compared in whole femtoseconds: a step's is rounded up, a floor's down
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
    fold: bool = False
    """Add up by exchange and a left fold only: every replica that does so gets the same bits."""

    @cached_property
    def space(self) -> Space:
        return Space(self.mesh.sizes, self.shape)

    @cached_property
    def pricer(self) -> Pricer:
        levels = tuple(level_blocks(self.mesh, level) for level in self.topology.levels)
        exact = self.mesh.size <= EXACT_UP_TO
        return Pricer(self.space, self.source, self.itemsize, self.topology, levels, exact)

    def pieces(self, u: State, v: State) -> int:
        """On so many ranks' data, at least, some rank's result depends."""
        summands = math.prod([self.space.sizes[a] for a in u.partial if a not in v.partial])
        return summands * -(-self.space.largest(v) // self.space.largest(u))

    def waypoints(self, wide: bool) -> list[State]:
        """The normal form's short list, or the wide one."""
        return waypoints.normal_form(self.space, self.source, self.target, self.avg, wide)

    @cached_property
    def every_layout(self) -> list[State]:
        every = waypoints.everything(self.space, self.source, self.target)
        return list(dict.fromkeys([*self.waypoints(wide=True), *every]))

    @cached_property
    def ceiling(self) -> float:
        """The largest local tensor that a path may have: the larger of source and target, unless only time counts."""
        return math.inf if self.objective == "time" else max(self.space.largest(self.source), self.space.largest(self.target))

    def floor_of_two(self, u: State, v: State) -> Key:
        """No path from u to v with two collectives costs less than this."""
        link = self.topology
        rounds = 0 if self.pieces(u, v) > 2 else 1
        return (self.least_time + int((link.launch + rounds * link.alpha) * TICKS), 0, 0, 0)

    @cached_property
    def least_time(self) -> int:
        """A floor under the time from source to target; the direct step, if there is one, receives no byte too many."""
        time = self.floor(self.source, self.target)[0] if self.objective == "time" else 0
        edge = None if self.source.partial else self.edge(self.source, self.target)
        if edge is None or not time:
            return time
        worst = self.pricer.price(edge, self.source, self.target).worst
        rounds = max(1, (self.pieces(self.source, self.target) - 1).bit_length())
        link = self.topology
        return max(time, int((link.launch + rounds * link.alpha + worst / link.bandwidth) * TICKS))

    def key(self, edge: Edge, u: State, v: State) -> Key:
        """What a step adds to a path's cost."""
        price = self.pricer.price(edge, u, v)
        repeated = int(is_repeated(edge, u, v, self.mesh.sizes))
        return self._ordered(math.ceil(price.time * TICKS), price.received, price.collectives, repeated)

    def _ordered(self, time: int, received: int, collectives: int, repeated: int) -> Key:
        """The objective first, then what breaks ties. Whole numbers, so that sums are exact."""
        match self.objective:
            case "bytes" | "memory":
                return (received, repeated, collectives, time)
            case "collectives":
                return (collectives, time, received, repeated)
            case _:
                return (time, received, repeated, collectives)

    def floor(self, u: State, v: State, one_step: bool = False) -> Key:
        """No path from u to v (or no single step) costs less than this; from chunk lengths alone, so that most edges are never priced."""
        key = (u, v, one_step and bool(v.partial))
        found = self._floors.get(key)
        if found is None:
            found = self._floors[key] = self._floor(u, v, one_step)
        return found

    @cached_property
    def _floors(self) -> dict[tuple[State, State, bool], Key]:
        return {}

    def _floor(self, u: State, v: State, one_step: bool) -> Key:
        space = self.space
        if v.partial and not (one_step and set(v.partial) <= set(u.partial)):
            return NOTHING  # a partial axis may be made anew, locally, so that little is certain
        summands = math.prod([space.sizes[a] for a in u.partial if a not in v.partial])
        after = space.largest(v)
        if summands == 1:
            worst = after - space.overlap_ceiling(u, v)
            received = max(worst, space.copies(v) - space.copies(u))
        elif v.partial:
            worst = received = after
        else:
            received = (summands - 2) * space.numel + space.copies(v)
            worst = max(after, -(-received // space.ranks))
        if worst <= 0:
            return NOTHING
        link = self.topology
        time = link.launch + link.alpha * max(1, (self.pieces(u, v) - 1).bit_length()) + worst * self.itemsize / link.bandwidth
        return self._ordered(int(time * TICKS), received * self.itemsize, 1, 0)

    def edge(self, u: State, v: State) -> Edge | None:
        """The step from u to v, if there is one that this problem allows."""
        edge = connect(u, v)
        if edge is None or edge.kind == "slice":
            return edge
        if edge.reduced and edge.kind == "exchange" and not self._may_exchange(edge, v):
            return None
        if self.reproducibility == "bitwise" and set(edge.reduced) not in (set(), set(self.source.partial) - set(self.target.partial)):
            return None
        if edge.reduced and (self.fold or self.reproducibility == "bitwise"):
            edge = edge._replace(kind="exchange")
        if self.groups is None or frozenset(edge.axes) in self.groups:
            return edge
        if edge.kind == "all_reduce" or self.group(edge) is None:
            return None
        return edge._replace(kind="exchange") if self._may_exchange(edge, v) else None

    def _may_exchange(self, edge: Edge, v: State) -> bool:
        """Contributions are exchanged where each sum is made once; making it at every replica saves only collectives.

        A left fold comes out the same at every replica, so "bitwise" may make it there too.
        """
        anywhere = self.fold or self.objective == "collectives" or self.reproducibility == "bitwise"
        return anywhere or not edge.reduced or splits_fully(v, edge.axes)

    def group(self, edge: Edge) -> tuple[int, ...] | None:
        """The axes of the group to call: the step's own, or the smallest larger one that exists."""
        if not edge.axes or self.groups is None or frozenset(edge.axes) in self.groups:
            return edge.axes
        larger = [tuple(sorted(g)) for g in self.groups if g.issuperset(edge.axes)]
        return min(larger, key=lambda g: (math.prod(self.mesh.sizes[a] for a in g), g), default=None)

    def reduces(self, edge: Edge, u: State, v: State, before: int) -> int | None:
        """How reduced a path is after an edge (0 not, 1 once each, 2 at several places), or None where that breaks the promise."""
        if not edge.reduced or self.reproducibility == "any":
            return before
        repeated = is_repeated(edge, u, v, self.mesh.sizes)
        if repeated and self.reproducibility == "strict":
            return None
        if edge.kind == "exchange":
            return before
        if before == 2 or (repeated and before):
            return None
        return 2 if repeated else 1


class Hop(NamedTuple):
    """One edge of a path, and where it leads."""

    edge: Edge
    state: State


Path = list[Hop]
Strategy = Callable[[Problem], Path]
"""A strategy gives the hops from the problem's source to its target."""


def shortest(problem: Problem, through: Iterable[State], memory_limit: int | None = None, known: Path | None = None) -> Path | None:
    """A* over the waypoints: Dijkstra's shortest path, with a floor under what is left to pay.

    A path that is `known` already only saves work: nothing dearer is looked at.
    """
    source, target = problem.source, problem.target
    nodes = [target, *through]
    left = {v: problem.floor(v, target) for v in (source, *nodes)}
    start = (source, 0)
    best: dict[Node, tuple[Key, int]] = {start: (NOTHING, 0)}
    came: Trail = {}
    queue: list[tuple[Key, int, int, Node]] = [(left[source], 0, 0, start)]
    at_target = None
    if known is not None:
        at_target = cost_of(problem, known)
    elif memory_limit is None:
        at_target = min((cost for cost, _ in _short_ways(problem)), default=None)
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
            if v == u or at_target is not None and add(cost, problem.floor(u, v, one_step=True), left[v]) > at_target:
                continue
            if (edge := problem.edge(u, v)) is None or (after := problem.reduces(edge, u, v, reduced)) is None:
                continue
            if memory_limit is not None and problem.pricer.price(edge, u, v).peak > memory_limit:
                continue
            reached = (add(cost, problem.key(edge, u, v)), hops + 1)
            if (v, after) in best and best[v, after] <= reached:
                continue
            if v == target:
                at_target = reached[0] if at_target is None else min(at_target, reached[0])
            best[v, after], came[v, after] = reached, (edge, node)
            pushed += 1
            heapq.heappush(queue, (add(reached[0], left[v]), hops + 1, pushed, (v, after)))
    return None


def cost_of(problem: Problem, path: Path) -> Key:
    cost, u = NOTHING, problem.source
    for edge, v in path:
        cost, u = add(cost, problem.key(edge, u, v)), v
    return cost


def add(*keys: Key) -> Key:
    return tuple(map(sum, zip(*keys, strict=True)))


def _walk_back(came: Trail, node: Node) -> Path:
    path: Path = []
    while node in came:
        edge, previous = came[node]
        path.append(Hop(edge, node[0]))
        node = previous
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


def _over(problem: Problem, through: Sequence[State]) -> Path | None:
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


def auto(problem: Problem) -> Path:
    """The normal form's short list; every layout where groups or levels make longer ways worth it and the mesh is small."""
    found = _provably_best(problem)
    if found is not None:
        return found
    axes = sum(n > 1 for n in problem.mesh.sizes)
    if problem.groups is None and not problem.topology.levels:
        path = _over(problem, problem.waypoints(wide=False)) if _narrow_first(problem, axes) else None
        if path and (problem.objective == "bytes" or not problem.pricer.exact or _detours_cost_more(problem, path)):
            return path
        return _best(problem, problem.waypoints(wide=True), known=path)
    return _best(problem, problem.every_layout if axes <= SMALL_GRAPH else problem.waypoints(wide=True))


def _narrow_first(problem: Problem, axes: int) -> bool:
    """Few bytes are found on the short list, except where small meshes split unevenly; little time often is."""
    if problem.objective == "bytes":
        return axes > SMALL_GRAPH or not problem.pricer.exact
    return problem.objective == "time"


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
    best = min(_short_ways(problem), key=lambda way: way[0], default=None)
    if best is None:
        return None
    if problem.objective == "bytes":
        return best[1] if _is_least(problem, best) else None
    return best[1] if best[0] <= problem.floor_of_two(source, target) else None


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


def _short_ways(problem: Problem) -> Iterator[tuple[Key, Path]]:
    """The normal form: at once, or slice and all_reduce, or reduce into a full split and move from there."""
    source, target = problem.source, problem.target
    sliced = State(tuple(tuple(a for a in axes if a not in source.partial) for axes in target.dims), source.partial, target.strides)
    split = waypoints.split_fully(problem.space, source, target) if source.partial else None
    gathered, padded = waypoints.gathered_first(source, target), waypoints.padded(source, target)
    for middle in (None, sliced, split) if source.partial else (None, gathered, padded):
        states = [s for s in (middle, target) if s is not None and s != source]
        cost, path, u, reduced = NOTHING, [], source, 0
        for v in dict.fromkeys(states):
            edge = problem.edge(u, v)
            after = None if edge is None else problem.reduces(edge, u, v, reduced)
            if edge is None or after is None or problem.space.largest(v) > problem.ceiling:
                break
            cost = add(cost, problem.key(edge, u, v))
            path, u, reduced = [*path, Hop(edge, v)], v, after
        else:
            yield cost, path


def exhaustive(problem: Problem) -> Path:
    """The reference: every layout of the mesh is a waypoint. Slow beyond three axes."""
    return _best(problem, problem.every_layout)


def _best(problem: Problem, through: Sequence[State], known: Path | None = None) -> Path:
    """The best path on which no local tensor outgrows source and target; where groups leave none, gather axis by axis."""
    modest = [w for w in through if problem.space.largest(w) <= problem.ceiling]
    gathering = waypoints.by_axis(problem.space, problem.source, problem.target)[1:-1]
    path = (shortest(problem, modest, known=known) if known else None) or _over(problem, modest) or _over(problem, [*modest, *gathering])
    if path is None and problem.reproducibility == "replicas":
        path = _over(replace(problem, fold=True), [*modest, *gathering])
    return path or _refuse(problem)


def per_axis(problem: Problem) -> Path:
    """The baseline: one collective per mesh axis, greedily, as DTensor's default planner. Ignores objective and options."""
    path = waypoints.by_axis(problem.space, problem.source, problem.target)
    return [Hop(edge, v) for u, v in pairwise(path) if (edge := connect(u, v)) is not None]


def _refuse(problem: Problem) -> Path:
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
    free = strategy == "per-axis"  # the baseline knows no options
    problem = Problem(
        mesh, shape, ITEMSIZE[name], canonical(begin, shape), canonical(end, shape),
        frozenset(a for a, op in (*begin.partial, *end.partial) if op == "avg"),
        topology, objective, None if free else existing_groups(mesh, groups), "any" if free else reproducibility, memory_limit,
    )  # fmt: skip
    path = _trivial(problem)
    path = STRATEGIES[strategy](problem) if path is None else path
    options = Options(name, topology, objective, groups, reproducibility, memory_limit, strategy)
    return Plan(begin, end, shape, _steps(problem, begin, end, path), options)


def _trivial(problem: Problem) -> Path | None:
    if problem.source == problem.target:
        return []
    return [Hop(LOCAL, problem.target)] if math.prod(problem.shape) == 0 else None


def _steps(problem: Problem, begin: Layout, end: Layout, path: Path) -> tuple[Step, ...]:
    """The path as steps between layouts, endpoints spelled as they were given."""
    names = problem.mesh.axes
    ops = {**dict(end.partial), **dict(begin.partial)}
    made = next((op for op in ops.values() if op != "avg"), "sum")
    steps: list[Step] = []
    u, before = problem.source, begin
    for i, (edge, v) in enumerate(path):
        last = i + 1 == len(path)
        after = end if last else Layout(problem.mesh, v.dims, tuple((a, ops.get(a, made)) for a in v.partial), v.strides)
        if edge.kind == "slice" or nothing_moves(problem, edge, u, v):
            edge = LOCAL
        group = problem.group(edge) or edge.axes
        steps.append(Step(edge.kind, before, after, tuple(names[a] for a in edge.axes), tuple(names[a] for a in group)))
        u, before = v, after
    if not steps and begin != end:
        steps.append(Step("slice", begin, end, (), ()))
    return tuple(steps)


def nothing_moves(problem: Problem, edge: Edge, u: State, v: State) -> bool:
    """Whether a step turns out to be local: possible only where some chunks are short or empty."""
    space = problem.space
    divisor = space.ranks
    if not problem.pricer.exact or all(n and n % divisor == 0 for n in problem.shape):
        return False
    return problem.pricer.received(edge, u, v)[0] == 0


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
