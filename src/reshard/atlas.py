"""Every layout of a small mesh, and a floor under each path that passes through it.

On meshes of up to three axes the search is exact, strides aside: all their layouts are waypoints. For three axes and three dims there are
176, too many to price one by one. So floors under the ways through them are computed for all at once, rank by rank, and few are
left. The atlas itself depends on the numbers of axes and dims only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from reshard.problem import TICKS, Key, Problem
from reshard.traffic import State
from reshard.waypoints import all_dims

Numbers = NDArray[np.float64]
Masks = NDArray[np.int64]

MOST_LAYOUTS, MOST_RANKS = 1000, 64
"""Bigger atlases are not drawn: there the normal form's short list has to do."""


@dataclass(frozen=True)
class Atlas:
    """All layouts of some axes over some dims. `order[i, d]` says which of `orders` splits dim d in layout i."""

    states: list[State]
    orders: list[tuple[int, ...]]
    order: Masks
    sharded: Masks
    partial: Masks


@lru_cache(maxsize=32)
def atlas_of(axes: tuple[int, ...], ndim: int) -> Atlas | None:
    """The atlas, or None where there would be too many layouts. Masks count axes from the mesh's first."""
    if _size(len(axes), ndim) > MOST_LAYOUTS:
        return None
    orders = [order for n in range(len(axes) + 1) for order in permutations(axes, n)]
    states = [State(dims, partial) for dims in all_dims(axes, ndim) for partial in _subsets(set(axes) - {a for d in dims for a in d})]
    position = {order: i for i, order in enumerate(orders)}
    order = np.array([[position[d] for d in s.dims] for s in states], np.int64).reshape(len(states), ndim)
    return Atlas(states, orders, order, _masks([s.sharded() for s in states]), _masks([frozenset(s.partial) for s in states]))


def _size(axes: int, ndim: int) -> int:
    """How many layouts there are: each axis replicates, is partial, or has a place in the order of a dim."""
    places = (math.comb(axes, n) * math.prod(range(ndim, ndim + n)) * 2 ** (axes - n) for n in range(axes + 1))
    return sum(places)


def _subsets(axes: set[int]) -> Iterator[tuple[int, ...]]:
    for n in range(len(axes) + 1):
        yield from combinations(sorted(axes), n)


def _masks(sets: list[frozenset[int]]) -> Masks:
    return np.array([sum(1 << a for a in axes) for axes in sets], np.int64)


def draw(problem: Problem) -> Atlas | None:
    """The atlas of a problem's mesh, without axes of size 1, if it is small."""
    if problem.mesh.size > MOST_RANKS:
        return None
    axes = tuple(a for a, n in enumerate(problem.mesh.sizes) if n > 1)
    return atlas_of(axes, len(problem.shape))


class Region:
    """The layouts and edges that a path cheaper than `cost` could use, with floors under what then is left to pay.

    The ways with a single collective are known already, so a path has two.
    """

    def __init__(self, problem: Problem, atlas: Atlas, cost: Key) -> None:
        self._charts = charts = _Charts(problem, atlas)
        self._target = problem.target
        self._limit = cost[0] * (1 - 1e-9)
        every = charts.everywhere
        there, left = charts.floor(charts.point(problem.source), every), charts.floor(every, charts.point(problem.target))
        second = problem.topology.launch * TICKS if problem.objective == "time" and problem.roomy else 0.0
        through = there + left + np.where((there > 0) & (left > 0), 0.0, second)
        near = np.flatnonzero((through < self._limit) & (every.held.max(axis=1) <= problem.ceiling))
        rows = [i for i in map(int, near) if problem.agrees(atlas.states[i]) and atlas.states[i] != problem.source]
        near = np.array(rows, np.int64)
        self._states = [atlas.states[i] for i in rows]
        self._row = {state: row for row, state in enumerate(self._states)}
        self._points, self._there, self._left = every.pick(near), there[near], left[near]
        self.left = {state: max(0, int(x * (1 - 1e-9)) - 2) for state, x in zip(self._states, map(float, self._left), strict=True)}

    def onward(self, u: State) -> list[State]:
        """Where an edge from u could lead to on such a path."""
        row = self._row.get(u)
        if row is None or not self._states:
            return [*self._states, self._target]
        between = self._charts.floor(self._points.pick(np.array([row])), self._points)
        open_to = np.flatnonzero(self._there[row] + between + self._left < self._limit)
        return [*(self._states[j] for j in map(int, open_to)), self._target]


@dataclass(frozen=True)
class _Points:
    """Some layouts in numbers: the interval of every dim at every rank, and masks of the axes that shard and that are partial."""

    start: Numbers
    stop: Numbers
    held: Numbers
    sharded: Masks
    partial: Masks

    def pick(self, rows: Masks) -> _Points:
        return _Points(self.start[rows], self.stop[rows], self.held[rows], self.sharded[rows], self.partial[rows])


class _Charts:
    """Floors under the objective's first figure, for all layouts at once."""

    def __init__(self, problem: Problem, atlas: Atlas) -> None:
        self.problem = problem
        sizes = problem.mesh.sizes
        self._span = _products(sizes)
        self._digits = np.indices(sizes).reshape(len(sizes), -1).astype(np.float64)
        spans: dict[tuple[int, ...], tuple[Numbers, Numbers]] = {(): self._whole()}
        for order in atlas.orders[1:]:
            spans[order] = self._split(*spans[order[:-1]], order[-1])
        starts, stops = (np.stack([spans[order][i] for order in atlas.orders]) for i in (0, 1))
        dims = np.arange(len(problem.shape))
        self.everywhere = self._points(starts[atlas.order, dims], stops[atlas.order, dims], atlas.sharded, atlas.partial)

    def _whole(self) -> tuple[Numbers, Numbers]:
        shape = np.array(self.problem.shape, np.float64)[:, None]
        return np.zeros((len(self.problem.shape), self.problem.mesh.size)), np.broadcast_to(shape, (len(shape), self.problem.mesh.size))

    def _split(self, start: Numbers, stop: Numbers, axis: int) -> tuple[Numbers, Numbers]:
        size = np.ceil((stop - start) / self.problem.mesh.sizes[axis])
        begin = np.minimum(start + self._digits[axis] * size, stop)
        return begin, np.minimum(begin + size, stop)

    def _points(self, start: Numbers, stop: Numbers, sharded: Masks, partial: Masks) -> _Points:
        return _Points(start, stop, (stop - start).prod(axis=1), sharded, partial)

    def point(self, state: State) -> _Points:
        """One layout; of a strided one only the hull of what a rank holds, which keeps floors low enough."""
        starts: list[Numbers] = []
        stops: list[Numbers] = []
        for dim, axes in enumerate(state.dims):
            start, stop = (x[dim : dim + 1] for x in self._whole())
            if not state.strides:
                for axis in axes:
                    start, stop = self._split(start, stop, axis)
            starts.append(start)
            stops.append(stop)
        shape = (1, len(state.dims), self.problem.mesh.size)
        start, stop = (np.array(x, np.float64).reshape(shape) for x in (starts, stops))
        return self._points(start, stop, _masks([state.sharded()]), _masks([frozenset(state.partial)]))

    def floor(self, u: _Points, v: _Points) -> Numbers:
        """Under every path from u to v."""
        problem, space = self.problem, self.problem.space
        ranks, largest = space.ranks, v.held.max(axis=1)
        shared: Numbers = np.maximum(np.minimum(u.stop, v.stop) - np.maximum(u.start, v.start), 0).prod(axis=1)
        lacking = v.held - shared
        summands: Numbers = self._span[u.partial & ~v.partial]
        # Contributions meet once; the sum is made where it is wanted and held, if there is such a rank.
        met: Numbers = shared.sum(axis=1) * self._span[u.sharded | v.sharded] / ranks
        together: Numbers = (summands - 1) * space.numel + v.held.sum(axis=1) - met
        received: Numbers = np.where(summands > 1, together, lacking.sum(axis=1))
        worst: Numbers = np.where(summands > 1, np.maximum(largest, np.ceil(together / ranks - 1e-6)), lacking.max(axis=1))
        if np.any(v.partial):
            received = np.where(v.partial != 0, self._floor_of_partial(u, v, shared), received)
            worst = np.where(v.partial != 0, np.ceil(received / ranks - 1e-6), worst)
        free = worst <= 0
        if problem.objective == "bytes":
            return np.where(free, 0.0, received * problem.itemsize)
        link = problem.topology
        pieces = np.where(v.partial != 0, 1, summands * np.ceil(largest / np.maximum(1, u.held.max(axis=1))))
        rounds = np.maximum(1, np.ceil(np.log2(np.maximum(1, pieces)) - 1e-9))
        return np.where(free, 0.0, (link.launch + link.alpha * rounds + worst * problem.itemsize / link.bandwidth) * TICKS)

    def _floor_of_partial(self, u: _Points, v: _Points, shared: Numbers) -> Numbers:
        """Elements received at least on the way to a partial layout: any of its summands may carry a contribution."""
        numel = self.problem.space.numel
        summands, classes = self._span[u.partial], self._span[v.partial]
        copies, both = v.held.sum(axis=1), shared.sum(axis=1)
        replicas = copies / classes / numel
        # More contributions than summands: some meet. None at all: each element goes to the summand nearest to it.
        meeting = (summands - classes + replicas - 1) * numel
        replicated = v.partial & ~u.partial & ~u.sharded
        nearest = copies / classes - both / self._span[replicated]
        # The same partial axes: summand by summand, or all in one.
        same = (copies - both) * np.minimum(1, (summands + replicas - 2) / (summands * replicas))
        kept = np.where(u.partial == v.partial, same, 0.0)
        return np.where(summands > classes, meeting, np.where(u.partial == 0, nearest, kept))


def _products(sizes: tuple[int, ...]) -> Numbers:
    """By mask of axes, how many ranks they span."""
    found = np.ones(1)
    for n in sizes:
        found = np.concatenate([found, found * n])
    return found
