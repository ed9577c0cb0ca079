"""Certificates: what a plan costs, each figure beside a lower bound that no plan can beat.

The bounds are about ownership alone (docs/algorithm.md has the arguments):

* a rank receives at least what it wants and does not hold;
* a group of ranks takes in at least what it wants together and does not hold together;
* an element with k contributions, wanted at a set X of ranks, takes (k - 1) + (|X| - 1) messages if some rank both wants
  it and holds a contribution, and one more if none does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from reshard.cost import ITEMSIZE, Topology
from reshard.layout import Layout
from reshard.ownership import box, intersection, volume
from reshard.pricing import Price, Pricer, level_blocks
from reshard.steps import Edge, Step, connect, is_repeated, touched
from reshard.traffic import Count, Space, State, canonical, peak


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value and the least that any plan could reach. ``gap`` is their difference, in the same unit."""

    value: float
    bound: float

    @property
    def gap(self) -> float:
        return self.value - self.bound

    @property
    def ratio(self) -> float:
        """value / bound; 1.0 where both are 0."""
        if self.value == self.bound:
            return 1.0
        return self.value / self.bound if self.bound else math.inf


class Certificate:
    """What a plan costs and how close that is to what is possible. Each figure is computed when it is asked for.

    Sizes are bytes, ``time`` is seconds in the model of the plan's topology. Nothing here enumerates elements, and
    ranks only as far as an uneven overlap makes them differ.
    """

    def __init__(
        self, source: Layout, target: Layout, shape: tuple[int, ...], steps: tuple[Step, ...], dtype: str, topology: Topology
    ) -> None:
        self._mesh = source.mesh
        self._sizes = source.mesh.sizes
        self._shape = shape
        self._itemsize = ITEMSIZE[dtype]
        self._topology = topology
        self._source, self._target = canonical(source, shape), canonical(target, shape)
        self._steps = steps
        self._edges = tuple(self._edge(step) for step in steps)

    def _edge(self, step: Step) -> tuple[Edge, State, State]:
        u, v = canonical(step.before, self._shape), canonical(step.after, self._shape)
        axes = tuple(self._mesh.index(a) for a in step.axes)
        reduced = step.reduced if step.communicates else ()
        return Edge(step.kind, axes, reduced), u, v

    @cached_property
    def _space(self) -> Space:
        keep = {axis for edge, _, _ in self._edges if edge.kind == "all_reduce" for axis in edge.axes}
        pairs = [(self._source, self._target), *((u, v) for _, u, v in self._edges)]
        return Space.folded(self._sizes, self._shape, pairs, keep)

    @cached_property
    def _levels(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        return tuple(level_blocks(self._mesh, level) for level in self._topology.levels)

    @cached_property
    def _pricer(self) -> Pricer:
        space = Space(self._sizes, self._shape) if self._levels else self._space
        return Pricer(space, self._source, self._itemsize, self._topology, self._levels)

    @cached_property
    def prices(self) -> tuple[Price, ...]:
        """The price of each step."""
        return tuple(self._pricer.price(*edge) for edge in self._edges)

    @cached_property
    def received(self) -> Figure:
        """Bytes received by all ranks together."""
        return Figure(sum(self._pricer.received(*edge)[0] for edge in self._edges) * self._itemsize, self._received_bound * self._itemsize)

    @cached_property
    def worst_rank(self) -> Figure:
        """Bytes received by the busiest rank."""
        counts: Count = 0
        for edge in self._edges:
            counts = counts + self._pricer.received_counts(*edge)
        return Figure(peak(counts) * self._itemsize, self._worst_bound * self._itemsize)

    @cached_property
    def collectives(self) -> Figure:
        """Calls that communicate."""
        calls = sum(edge.kind != "slice" for edge, _, _ in self._edges)
        return Figure(calls, 1 if self._received_bound else 0)

    @cached_property
    def rounds(self) -> Figure:
        """Latencies one after the other, in the cost model."""
        return Figure(sum(p.rounds for p in self.prices), self._rounds_bound)

    @cached_property
    def peak(self) -> Figure:
        """Bytes alive at once at the worst rank: source and target shards and all buffers."""
        bound = peak(self._space.held(self._source) + self._space.held(self._target)) * self._itemsize
        return Figure(max((self._pricer.peak(*edge) * self._itemsize for edge in self._edges), default=bound), bound)

    @cached_property
    def largest_local(self) -> Figure:
        """Bytes of the largest local tensor on the way, source and target included."""
        ends = [self._space.largest(self._source), self._space.largest(self._target)]
        way = [self._space.largest(v) for _, _, v in self._edges]
        return Figure(max(ends + way) * self._itemsize, max(ends) * self._itemsize)

    @cached_property
    def time(self) -> Figure:
        """Seconds in the cost model."""
        topology = self._topology
        bounds = [topology.alpha * self._rounds_bound, self.worst_rank.bound / topology.bandwidth]
        bounds += [cut.bound / level.bandwidth for cut, level in zip(self.cuts, topology.levels, strict=True)]
        return Figure(sum(p.time for p in self.prices), max(bounds))

    @cached_property
    def cuts(self) -> tuple[Figure, ...]:
        """For each level of the topology, bytes that the busiest group takes in from outside."""
        figures: list[Figure] = []
        for blocks in self._levels:
            entering: Count = 0
            for edge in self._edges:
                entering = entering + self._pricer.crossing(*edge, blocks)
            figures.append(Figure(peak(entering) * self._itemsize, self._cut_bound(blocks) * self._itemsize))
        return tuple(figures)

    @cached_property
    def one_reduction(self) -> bool:
        """Every element is summed at one place only, and copied from there: the promise "strict"."""
        return not any(is_repeated(*edge, self._sizes) for edge in self._edges)

    @cached_property
    def replica_consistent(self) -> bool:
        """Replicas are copies of one reduction, or of congruent ones: the promise "replicas".

        A left fold after an exchange is congruent everywhere; a backend's reduction only if no other went before it.
        """
        by_backend = [(edge, u, v) for edge, u, v in self._edges if edge.reduced and edge.kind != "exchange"]
        return len(by_backend) == 1 or not any(is_repeated(*edge, self._sizes) for edge in by_backend)

    def received_by_rank(self, rank: int) -> int:
        """Bytes that one rank receives."""
        coordinate = self._mesh.coordinate(rank)
        return sum(self._received_in_step(step, edge, coordinate) for step, (edge, _, _) in zip(self._steps, self._edges, strict=True))

    def _received_in_step(self, step: Step, edge: Edge, coordinate: tuple[int, ...]) -> int:
        before, after = (box(layout, self._shape, coordinate) for layout in (step.before, step.after))
        wanted, summands = volume(after), math.prod(self._sizes[a] for a in edge.reduced)
        if edge.kind == "slice":
            return 0
        if edge.kind != "all_reduce":
            return (summands * wanted - volume(intersection(before, after))) * self._itemsize
        position = 0
        for axis in edge.axes:
            position = position * self._sizes[axis] + coordinate[axis]
        size = -(-wanted // summands)
        part = min(wanted, (position + 1) * size) - min(wanted, position * size)
        return (wanted + (summands - 2) * part) * self._itemsize

    @cached_property
    def _summands(self) -> int:
        """Contributions that make up one element of the target."""
        return math.prod(self._sizes[a] for a in self._source.partial if a not in self._target.partial)

    @cached_property
    def _met(self) -> int:
        """Elements (times kept contributions) for which some rank both wants it and holds a contribution."""
        source, target, space = self._source, self._target, self._space
        apart = source.sharded() | target.sharded() | (set(source.partial) & set(target.partial))
        same = math.prod(n for axis, n in enumerate(self._sizes) if axis not in apart)
        return space.total(space.shared(source, target)) // same

    @cached_property
    def _received_bound(self) -> int:
        source, target, space = self._source, self._target, self._space
        if not space.numel:
            return 0
        if target.partial:
            return self._received_bound_partial()
        if self._summands == 1:
            return space.copies(target) - space.total(space.shared(source, target))
        return (self._summands - 1) * space.numel + space.copies(target) - self._met

    def _received_bound_partial(self) -> int:
        """A partial target leaves open which summand carries a contribution, so less is certain (docs/algorithm.md)."""
        source, target, space = self._source, self._target, self._space
        summands = math.prod(self._sizes[a] for a in source.partial)
        classes = math.prod(self._sizes[a] for a in target.partial)
        replicas = space.copies(target) // classes // space.numel
        missing = space.copies(target) - space.total(space.shared(source, target))
        if summands > classes:
            return (summands - classes + replicas - 1) * space.numel
        if summands == 1:
            alike = math.prod(self._sizes[a] for a in target.partial if a not in source.sharded())
            return space.copies(target) // classes - space.total(space.shared(source, target)) // alike
        if set(source.partial) != set(target.partial):
            return 0
        merged = missing * min(summands * replicas, summands + replicas - 2) // (summands * replicas)
        return max(merged, summands * space.numel - self._met)

    @cached_property
    def _worst_bound(self) -> int:
        source, target, space = self._source, self._target, self._space
        average = -(-self._received_bound // space.ranks)
        if target.partial:
            return average
        if self._summands > 1:
            return max(average, space.largest(target))
        return max(average, peak(space.held(target) - space.shared(source, target)))

    @cached_property
    def _rounds_bound(self) -> int:
        if not self._received_bound:
            return 0
        if self._target.partial or self._source.strides or self._target.strides:
            return 1
        ranks = self._summands
        for dim in range(len(self._shape)):
            ranks *= touched(self._space, self._source, self._target, dim)
        return max(1, (ranks - 1).bit_length())

    def _cut_bound(self, blocks: tuple[tuple[int, int], ...]) -> int:
        source, target, space = self._source, self._target, self._pricer.space
        if target.partial:
            return 0
        wanted = space.shared(target, target, union_u=blocks, union_v=blocks)
        inside = dict(blocks)
        if any(inside.get(a, 1) < self._sizes[a] for a in source.partial):
            return peak(wanted)
        return peak(wanted - space.shared(source, target, union_u=blocks, union_v=blocks))


def recheck(step: Step, shape: tuple[int, ...]) -> bool:
    """Whether a step's kind and axes are those that lead from its one layout to its other."""
    u, v = canonical(step.before, shape), canonical(step.after, shape)
    edge = connect(u, v)
    mesh = step.before.mesh
    axes = tuple(mesh.index(a) for a in step.axes)
    group = {mesh.index(a) for a in step.group if mesh.sizes[mesh.index(a)] > 1}
    ops = dict(step.before.partial)
    if any(ops.get(axis, op) != op for axis, op in step.after.partial) or len(set(step.group)) != len(step.group):
        return False
    if step.kind == "slice" and not math.prod(shape):
        return not axes and not group
    if edge is None or not group.issuperset(axes) or axes != tuple(sorted(axes)):
        return False
    if step.kind == "slice":
        return not axes and not group and (edge.kind == "slice" or not _moves(edge, u, v, step.before.mesh.sizes, shape))
    exact = (step.kind, axes) == edge[:2] and len(group) == len(axes)
    return exact or (step.kind == "exchange" and axes == edge.axes and edge.kind != "slice")


def _moves(edge: Edge, u: State, v: State, sizes: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    space = Space(sizes, shape)
    return math.prod(sizes[a] for a in edge.reduced) * space.copies(v) - space.total(space.shared(u, v)) > 0
