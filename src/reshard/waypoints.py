"""Layouts worth passing through between a source and a target.

A search strategy is a choice of waypoints; the shortest path over them is found by `search`. Three ideas make
the short list (docs/algorithm.md):

* *halfway*: some axes are already as in the target, the others still as in the source;
* *split fully*: before contributions are added up, every axis that is free splits the tensor, so that each element
  is reduced once and at the smallest size;
* *stand-in*: a partial target is made locally, at the end, from a sharded layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product

from reshard.traffic import Dims, Space, State, agreement, is_prefix, unstride

THREE_WAYS, TWO_WAYS = 3, 6
"""Up to so many moving axes, halfway points take every combination of staying, gone and arrived; of staying and arrived."""

MOST_SPLITS = 64
"""Up to so many ways to place the free axes, all are tried."""


def normal_form(space: Space, source: State, target: State, avg: frozenset[int], wide: bool) -> list[State]:
    """The short list, in a fixed order without repeats.

    A `wide` one has more: detours that move more bytes to save latency, for small tensors; single moves towards a full
    split, for where not every group is to be had; every way to split.
    """
    found: dict[State, None] = {}
    every = wide
    for stand_in in (target, *stand_ins(space, source, target, avg)):
        wide = every and stand_in is target
        found[stand_in] = None
        found.update(dict.fromkeys(halfway(source, stand_in, wide)))
        if reduced := set(source.partial) - set(stand_in.partial):
            kept = tuple(a for a in source.partial if a not in reduced)
            found[source._replace(partial=kept)] = None
            first = split_fully(space, source, stand_in)
            found[first] = None
            found.update(dict.fromkeys(halfway(first, stand_in, wide)))
            if wide:
                found.update(dict.fromkeys([*all_splits(space, source, stand_in), *halfway(source, first, wide)]))
        if wide:
            found[padded(source, stand_in)] = None
            found.update(dict.fromkeys(all_splits(space, stand_in, stand_in)))
    found = {unstride(space, w) if w.strides else w: None for w in found}
    return [w for w in found if w not in (source, target)]


def halfway(source: State, target: State, wide: bool) -> Iterator[State]:
    """States in which some of the moving axes have moved; in a wide list others may be gathered, but not yet where they should be."""
    moving = sorted(_moving(source, target))
    nowhere: frozenset[int] = frozenset()
    if wide and len(moving) <= THREE_WAYS:
        for choice in product((0, 1, 2), repeat=len(moving)):
            moved = frozenset(a for a, c in zip(moving, choice, strict=True) if c == 1)
            gathered = frozenset(a for a, c in zip(moving, choice, strict=True) if c == 2)
            yield _mix(source, target, moved, gathered)
    elif len(moving) <= TWO_WAYS:
        for n in range(1, len(moving)):
            for subset in combinations(moving, n):
                yield _mix(source, target, frozenset(subset), nowhere)
    else:
        for n in range(1, len(moving)):
            yield _mix(source, target, frozenset(moving[:n]), nowhere)
            yield _mix(source, target, frozenset(moving[n:]), nowhere)
    yield gathered_first(source, target)


def sliced_early(source: State, target: State) -> State:
    """Source with the axes that it replicates and the target shards sharding already."""
    free = target.sharded() - source.sharded() - set(source.partial)
    dims = tuple(a + tuple(x for x in b if x in free) for a, b in zip(source.dims, target.dims, strict=True))
    return State(dims, source.partial, source.strides)


def gathered_first(source: State, target: State) -> State:
    """Every moving axis replicated: the target is a slice of that."""
    moving = frozenset(_moving(source, target))
    return _mix(source, target, frozenset(), moving)


def _moving(source: State, target: State) -> set[int]:
    moving = set(source.partial) ^ set(target.partial)
    for a, b in zip(source.dims, target.dims, strict=True):
        agreed = len(agreement(a, b))
        moving.update(a[agreed:], b[agreed:])
    return moving


def _mix(source: State, target: State, moved: frozenset[int], gathered: frozenset[int]) -> State:
    dims: list[tuple[int, ...]] = []
    for a, b in zip(source.dims, target.dims, strict=True):
        staying = tuple(x for x in a if x not in moved and x not in gathered)
        arrived = tuple(x for x in b if x in moved)
        mixed = (*staying, *arrived)
        dims.append(b if set(mixed) == set(b) and is_prefix(staying, b) else mixed)
    partial = tuple(sorted((set(source.partial) - moved - gathered) | (set(target.partial) & (moved | set(source.partial)))))
    used = {x for axes in dims for x in axes}
    factors = dict(source.strides)
    strides = tuple((a, f) for a, f in sorted(factors.items()) if a in used and a not in moved)
    return State(tuple(dims), tuple(a for a in partial if a not in used), strides)


def split_fully(space: Space, source: State, target: State) -> State:
    """Source with every free axis sharding: where the target shards it if it can, so that the sum is made in place.

    A scalar cannot be split; there every replicated axis becomes partial, so that one sum over all ranks is left.
    """
    reduced = set(source.partial) - set(target.partial)
    kept = tuple(a for a in source.partial if a not in reduced)
    free = set(range(len(space.sizes))) - source.sharded() - set(kept)
    if not source.dims:
        return State((), tuple(sorted(a for a in range(len(space.sizes)) if space.sizes[a] > 1)))
    dims = [axes + tuple(a for a in wanted if a in free) for axes, wanted in zip(source.dims, target.dims, strict=True)]
    for axis in sorted(a for a in free - target.sharded() if space.sizes[a] > 1):
        dim = _best_dim_for(space, axis, dims, target)
        dims[dim] += (axis,)
    return State(tuple(dims), kept, source.strides)


def all_splits(space: Space, source: State, target: State) -> Iterator[State]:
    """Where there are few, all ways to place the free axes; one that source replicates may also stay so."""
    first = split_fully(space, source, target)
    free = sorted(a for a in first.sharded() - source.sharded() if space.sizes[a] > 1)
    places = [range(-1 if a not in source.partial else 0, len(source.dims)) for a in free]
    if free and math.prod(map(len, places)) <= MOST_SPLITS:
        for where in product(*places):
            yield _placed(source, first.partial, target, dict(zip(free, where, strict=True)))


def padded(source: State, target: State) -> State:
    """Source with the moving axes partial, as far as they are innermost: one sum then does the moving too."""
    moving = _moving(source, target) - set(target.partial)
    dims: list[tuple[int, ...]] = []
    partial = set(source.partial)
    for axes in source.dims:
        while axes and axes[-1] in moving:
            partial.add(axes[-1])
            axes = axes[:-1]
        dims.append(axes)
    return State(tuple(dims), tuple(sorted(partial)))


def _placed(source: State, kept: tuple[int, ...], target: State, where: dict[int, int]) -> State:
    """Source with each free axis on a chosen dim, in the target's order, the target's own axes first."""
    dims: list[tuple[int, ...]] = []
    for d, axes in enumerate(source.dims):
        order = {a: i for i, a in enumerate(target.dims[d])}
        arriving = sorted((a for a, dim in where.items() if dim == d), key=lambda a: (order.get(a, len(order)), a))
        dims.append(axes + tuple(arriving))
    return State(tuple(dims), kept, source.strides)


def _best_dim_for(space: Space, axis: int, dims: Sequence[tuple[int, ...]], target: State) -> int:
    """The dim that one more innermost axis splits best: inside what the target wants there, evenly, where most is left."""

    def rank(d: int) -> tuple[bool, bool, int, int]:
        left = space.longest(d, dims[d])
        return not is_prefix(target.dims[d], dims[d]), left % space.sizes[axis] != 0, -left, d

    return min(range(len(dims)), key=rank)


def stand_ins(space: Space, source: State, target: State, avg: frozenset[int]) -> list[State]:
    """Targets without (some of) the partial axes, from which the target is made locally."""
    if not target.partial:
        return []
    ndim = len(target.dims)
    choices: list[list[int | str]] = []
    for axis in target.partial:
        keep: list[int | str] = ["keep"] if axis in source.partial else []
        padded: list[int | str] = [] if axis in avg else list(range(ndim))
        choices.append(keep + (padded or ["replicate"]))
    found: dict[State, None] = {}
    for choice in product(*choices):
        dims = list(target.dims)
        for axis, where in zip(target.partial, choice, strict=True):
            if isinstance(where, int):
                dims[where] += (axis,)
        kept = tuple(axis for axis, where in zip(target.partial, choice, strict=True) if where == "keep")
        found[State(tuple(dims), kept, target.strides)] = None
    return [s for s in found if s != target]


def everything(space: Space, source: State, target: State) -> list[State]:
    """Every layout without strides: any order, any axes partial."""
    axes = [a for a, n in enumerate(space.sizes) if n > 1]
    ndim = len(source.dims)
    found: dict[State, None] = {}
    for count in range(len(axes) + 1):
        for partial in combinations(axes, count):
            for dims in all_dims([a for a in axes if a not in partial], ndim):
                found[State(dims, partial)] = None
    return [w for w in found if w not in (source, target)]


def all_dims(axes: Sequence[int], ndim: int) -> Iterator[Dims]:
    """All ways to let some of the axes split dims, in any order."""
    for where in product(range(-1, ndim), repeat=len(axes)):
        members = [[a for a, dim in zip(axes, where, strict=True) if dim == d] for d in range(ndim)]
        yield from product(*(permutations(m) for m in members))


def by_axis(space: Space, source: State, target: State) -> list[State]:
    """The path that moves one mesh axis at a time, source and target included; what the target makes partial comes last."""
    in_order = _in_mesh_order(source) and _in_mesh_order(target)
    path = [source, *(_greedily(source, target) if in_order else _through_replicate(source, target)), target]
    distinct = [source]
    for state in (unstride(space, state) if state.strides else state for state in path):
        if state != distinct[-1]:
            distinct.append(state)
    return distinct


def _greedily(source: State, target: State) -> Iterator[State]:
    """As DTensor does by default: inner axes first, and where the target's nesting outside of an axis is not there yet,
    the axis is gathered; then outer axes first, everything that is left.
    """
    axes = sorted({*source.sharded(), *source.partial, *target.sharded(), *target.partial})
    goals = {a: "R" if a in target.partial and a not in source.partial else _placement(target, a) for a in axes}
    state = source
    for axis in reversed(axes if source.sharded() else []):
        goal = goals[axis]
        if isinstance(goal, int):
            now, then = ([_placement(s, a) == goal for a in range(axis)] for s in (state, target))
            goal = goal if now == then else "R"
        state = _put(state, axis, goal)
        yield state
    for axis in axes:
        state = _put(state, axis, goals[axis])
        yield state


def _in_mesh_order(state: State) -> bool:
    return not state.strides and all(list(axes) == sorted(axes) for axes in state.dims)


def _placement(state: State, axis: int) -> int | str:
    if axis in state.partial:
        return "P"
    return next((d for d, axes in enumerate(state.dims) if axis in axes), "R")


def _put(state: State, axis: int, goal: int | str) -> State:
    dims = [tuple(a for a in axes if a != axis) for axes in state.dims]
    if isinstance(goal, int):
        dims[goal] = tuple(sorted((*dims[goal], axis)))
    partial = set(state.partial) - {axis}
    if goal == "P":
        partial.add(axis)
    return State(tuple(dims), tuple(sorted(partial)))


def _through_replicate(source: State, target: State) -> list[State]:
    """Where orders differ from the mesh's: gather what differs, innermost first, then split again, outermost first."""
    path: list[State] = []
    state = source
    for axis in source.partial:
        if axis not in target.partial:
            state = state._replace(partial=tuple(a for a in state.partial if a != axis))
            path.append(state)
    for d, wanted in enumerate(target.dims):
        while not is_prefix(state.dims[d], wanted) or (state.strides != target.strides and state.dims[d]):
            axis = state.dims[d][-1]
            dims = tuple(axes[:-1] if i == d else axes for i, axes in enumerate(state.dims))
            state = State(dims, state.partial, tuple(pair for pair in state.strides if pair[0] != axis))
            path.append(state)
    for d, wanted in enumerate(target.dims):
        for axis in wanted[len(state.dims[d]) :]:
            dims = tuple((*axes, axis) if i == d else axes for i, axes in enumerate(state.dims))
            factor = tuple(pair for pair in target.strides if pair[0] == axis)
            state = State(dims, state.partial, tuple(sorted(state.strides + factor)))
            path.append(state)
    return path
