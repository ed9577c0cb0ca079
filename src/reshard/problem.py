"""Problem: all that a search may look at, and what steps and paths cost in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from reshard import waypoints
from reshard.cost import Objective, Topology
from reshard.mesh import Mesh
from reshard.pricing import EXACT_UP_TO, Pricer, level_blocks
from reshard.steps import Edge, connect, is_repeated, splits_fully
from reshard.traffic import Space, State

Groups = frozenset[frozenset[int]] | None
"""The axis sets for which a group exists; None where any group may be made."""

Key = tuple[int, ...]
"""A cost: the objective first, then what breaks ties."""

NOTHING: Key = (0, 0, 0, 0)
TICKS = 1e12  # times are compared in whole picoseconds, so that sums are exact and equal times are equal


@dataclass(frozen=True)
class Problem:
    """All that a strategy may look at."""

    mesh: Mesh
    shape: tuple[int, ...]
    itemsize: int
    source: State
    target: State
    ops: tuple[tuple[int, str], ...]
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

    @cached_property
    def avg(self) -> frozenset[int]:
        return frozenset(axis for axis, op in self.ops if op == "avg")

    @cached_property
    def made(self) -> str:
        """The op of partial axes that neither source nor target has."""
        return next((op for _, op in self.ops if op != "avg"), "sum")

    def op(self, axis: int) -> str:
        return dict(self.ops).get(axis, self.made)

    def agrees(self, state: State) -> bool:
        """Whether the ops of a state's partial axes get along, as those of any layout."""
        if len(self._kinds) < 2:
            return True
        kinds = {self.op(axis) for axis in state.partial}
        return len(kinds) < 2 or kinds == {"sum", "avg"}

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset({self.made, *(op for _, op in self.ops)})

    @cached_property
    def roomy(self) -> bool:
        """Whether every dim has an element for each rank. Where not, other orders of nesting can be the same, and moves free."""
        return all(n >= self.mesh.size for n in self.shape)

    def fits(self, state: State) -> bool:
        """Whether a path may pass through a state: its local tensor is no larger than allowed, and its ops get along."""
        return self.space.largest(state) <= self.ceiling and self.agrees(state)

    def pieces(self, u: State, v: State) -> int:
        """On so many ranks' data, at least, some rank's result depends."""
        summands = math.prod([self.space.sizes[a] for a in u.partial if a not in v.partial])
        return summands * -(-self.space.largest(v) // self.space.largest(u))

    def waypoints(self, wide: bool) -> list[State]:
        """The normal form's short list, or the wide one."""
        return waypoints.normal_form(self.space, self.source, self.target, self.avg, wide)

    @cached_property
    def ceiling(self) -> float:
        """The largest local tensor that a path may have: the larger of source and target, unless only time or the peak counts."""
        free = self.objective in ("time", "memory") or self.memory_limit is not None
        return math.inf if free else max(self.space.largest(self.source), self.space.largest(self.target))

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
        return self._ordered(round(price.time * TICKS), price.received, price.collectives, repeated)

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
        return self._ordered(max(0, int(time * TICKS) - 2), received * self.itemsize, 1, 0)

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


def cost_of(problem: Problem, path: Path) -> Key:
    cost, u = NOTHING, problem.source
    for edge, v in path:
        cost, u = add(cost, problem.key(edge, u, v)), v
    return cost


def add(*keys: Key) -> Key:
    return tuple(map(sum, zip(*keys, strict=True)))
