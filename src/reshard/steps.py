"""Steps: the single moves of which plans are made.

A step is an edge between two layouts over a set of mesh axes. Its kind and its axes follow from the two layouts
alone, so `connect` is all there is to know about what one collective can do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from reshard.layout import Layout
from reshard.traffic import Space, State, is_prefix

Kind = Literal["slice", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "exchange"]
KINDS: tuple[Kind, ...] = ("slice", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "exchange")


class Edge(NamedTuple):
    """How one step gets from one state to another: ranks that differ in `axes` only talk to each other."""

    kind: Kind
    axes: tuple[int, ...]
    reduced: tuple[int, ...] = ()


LOCAL = Edge("slice", ())


@dataclass(frozen=True, slots=True)
class Step:
    """One collective, or a local step (kind ``slice``), from one layout to the next.

    ``axes`` span the groups that talk. ``group`` spans the groups it is called on: the same, or a larger one that
    exists already, whose other members send and receive nothing.
    """

    kind: Kind
    before: Layout
    after: Layout
    axes: tuple[str, ...]
    group: tuple[str, ...]

    @property
    def communicates(self) -> bool:
        return self.kind != "slice"

    @property
    def reduced(self) -> tuple[int, ...]:
        """The mesh axes (positions) whose contributions this step adds up; an axis of size 1 has nothing to add."""
        still = {axis for axis, _ in self.after.partial}
        sizes = self.before.mesh.sizes
        return tuple(axis for axis, _ in self.before.partial if axis not in still and sizes[axis] > 1)

    def __str__(self) -> str:
        over = f" over {'+'.join(self.axes)}" if self.axes else ""
        return f"{self.kind}{over}: {self.before} -> {self.after}"


def connect(u: State, v: State) -> Edge | None:
    """The one step that leads from u to v, or None where it takes more than one.

    `need` are the axes along which ranks hold different parts of what somebody wants: per dim, everything that is
    nested inside the part of the order that u and v agree on.
    """
    reduced = tuple(a for a in u.partial if a not in v.partial)
    created = tuple(a for a in v.partial if a not in u.partial)
    if created:
        return LOCAL if not reduced and _is_padding(u, v, created) else None
    need = {a for d, axes in enumerate(u.dims) for a in axes[_agreement(u, v, d) :]}
    if reduced:
        return _reducing_edge(u, v, reduced, need)
    if not need:
        return LOCAL
    axes = tuple(sorted(need))
    if all(_agreement(u, v, d) == len(b) for d, b in enumerate(v.dims)):
        return Edge("all_gather", axes)
    return Edge("all_to_all" if u.sharded() == v.sharded() else "exchange", axes)


def _agreement(u: State, v: State, dim: int) -> int:
    """How many major axes of one dim are the same in both, split factors included."""
    factors, factors2 = dict(u.strides), dict(v.strides)
    n = 0
    for a, b in zip(u.dims[dim], v.dims[dim], strict=False):
        if a != b or factors.get(a, 1) != factors2.get(b, 1):
            break
        n += 1
    return n


def _reducing_edge(u: State, v: State, reduced: tuple[int, ...], need: set[int]) -> Edge:
    if u.dims == v.dims and u.strides == v.strides:
        return Edge("all_reduce", reduced, reduced)
    if not need and v.sharded().issuperset(reduced):
        return Edge("reduce_scatter", reduced, reduced)
    return Edge("exchange", tuple(sorted(need.union(reduced))), reduced)


def _is_padding(u: State, v: State, created: Sequence[int]) -> bool:
    """A partial axis is made locally from a replicated one, or from one that was innermost on its dim.

    What then is left of every dim's order has to be refined only: a rank keeps a part of what it holds.
    """
    if u.strides or v.strides:
        return u.strides == v.strides and u.dims == v.dims
    for a, b in zip(u.dims, v.dims, strict=True):
        while a and a[-1] in created:
            a = a[:-1]
        if not is_prefix(a, b):
            return False
    return True


def splits_fully(v: State, axes: Sequence[int]) -> bool:
    """Whether ranks that differ in `axes` all hold different elements under v."""
    return v.sharded().issuperset(axes)


def is_repeated(edge: Edge, u: State, v: State, sizes: Sequence[int]) -> bool:
    """Whether a reducing edge adds up one element at several places: each of those sums could differ in its last bits."""
    if not edge.reduced:
        return False
    outside = set(range(len(sizes))) - set(edge.axes) - u.sharded() - set(u.partial) - v.sharded()
    if any(sizes[a] > 1 for a in outside):
        return True
    return edge.kind == "exchange" and not splits_fully(v, edge.axes)


def contributions(edge: Edge, sizes: Sequence[int]) -> int:
    """How many summands make one element in this step."""
    return math.prod(sizes[a] for a in edge.reduced)


def touched(space: Space, u: State, v: State, dim: int, exact: bool = True) -> int:
    """The most pieces of one dim under u in which one rank's part under v lies; if not exact, at most two more."""
    a, b = u.dims[dim], v.dims[dim]
    if is_prefix(a, b) and not (u.strides or v.strides):
        return 1
    key = ("touched", dim, a, b, u.strides, v.strides)
    if key not in space.memo:
        space.memo[key] = _count_touched(space, u, v, dim, exact)
    return space.memo[key]


def _count_touched(space: Space, u: State, v: State, dim: int, exact: bool) -> int:
    a, b = u.dims[dim], v.dims[dim]
    parts = math.prod(space.sizes[axis] for axis in a)
    if u.strides or v.strides:
        return parts
    pieces, wanted = space.longest(dim, a), space.longest(dim, b)
    length = space.shape[dim]
    parts_wanted = math.prod(space.sizes[axis] for axis in b)
    if not wanted:
        return 1
    if length % parts == 0 and length % parts_wanted == 0 and (wanted % pieces == 0 or pieces % wanted == 0):
        return max(1, wanted // pieces)
    if not exact:
        return min(parts, -(-wanted // max(1, pieces)) + 1)
    return space.count_overlaps(dim, a, b)
