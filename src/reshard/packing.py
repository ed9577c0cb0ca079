"""Packing descriptions: which part of its local tensor a rank sends to whom, and where what it receives belongs.

One description per step and rank. The simulator and real execution both follow it, so they cannot drift apart. It is
made of box intersections only; uneven, empty, nested and strided shards need no cases of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from reshard.layout import Layout
from reshard.ownership import Box, Interval, box, common, intersection, local_shape, volume
from reshard.steps import Step

Coordinate = tuple[int, ...]
Region = tuple[tuple[Interval, ...], ...]
"""For each dim, ranges of positions in a local tensor."""


@dataclass(frozen=True, slots=True)
class Message:
    """A block that one rank hands to another (or keeps): the same global box, seen from both ends."""

    peer: Coordinate
    block: Box
    region: Region
    summand: Coordinate
    """Which contribution it is: the sender's digits on the axes that the step adds up, in mesh order."""

    @property
    def elements(self) -> int:
        return volume(self.block)


@dataclass(frozen=True, slots=True)
class Packing:
    """One rank's part of one step. Members are in row-major order of the group's axes; so are the messages."""

    coordinate: Coordinate
    before: Box
    after: Box
    members: tuple[Coordinate, ...]
    sends: tuple[Message, ...]
    receives: tuple[Message, ...]

    @property
    def received(self) -> int:
        """Elements that come from other ranks."""
        return sum(m.elements for m in self.receives if m.peer != self.coordinate)


def locate(inner: Box, outer: Box) -> Region:
    """Where a box lies in the storage of a box around it."""
    return tuple(_locate(a, b) for a, b in zip(inner, outer, strict=True))


@lru_cache(maxsize=65536)
def _locate(inner: tuple[Interval, ...], outer: tuple[Interval, ...]) -> tuple[Interval, ...]:
    ranges: list[Interval] = []
    start = 0
    for lo, hi in outer:
        for a, b in common(inner, ((lo, hi),)):
            ranges.append((start + a - lo, start + b - lo))
        start += hi - lo
    return tuple(ranges)


@lru_cache(maxsize=65536)
def _box(layout: Layout, shape: tuple[int, ...], coordinate: Coordinate) -> Box:
    return box(layout, shape, coordinate)


def line(sizes: tuple[int, ...], coordinate: Coordinate, axes: frozenset[int]) -> tuple[Coordinate, ...]:
    """All coordinates that differ from one in the given axes only, row-major."""
    digits = [range(n) if a in axes else (coordinate[a],) for a, n in enumerate(sizes)]
    return tuple(product(*digits))


def pack(step: Step, shape: tuple[int, ...], coordinate: Coordinate) -> Packing:
    """The packing of one step at one rank."""
    mesh = step.before.mesh
    before, after = _box(step.before, shape, coordinate), _box(step.after, shape, coordinate)
    talking = line(mesh.sizes, coordinate, frozenset(map(mesh.index, step.axes)))
    members = line(mesh.sizes, coordinate, frozenset(map(mesh.index, step.group)))
    if step.kind == "all_reduce":
        whole = locate(after, after)
        everyone = tuple(Message(p, after, whole, _digits(coordinate, step.reduced)) for p in talking)
        contributions = tuple(Message(p, after, whole, _digits(p, step.reduced)) for p in talking)
        return Packing(coordinate, before, after, members, everyone, contributions)
    sends: list[Message] = []
    receives: list[Message] = []
    for peer in talking:
        if volume(block := intersection(before, _box(step.after, shape, peer))):
            sends.append(Message(peer, block, locate(block, before), _digits(coordinate, step.reduced)))
        if volume(block := intersection(_box(step.before, shape, peer), after)):
            receives.append(Message(peer, block, locate(block, after), _digits(peer, step.reduced)))
    return Packing(coordinate, before, after, members, tuple(sends), tuple(receives))


def _digits(coordinate: Coordinate, axes: tuple[int, ...]) -> Coordinate:
    return tuple(coordinate[a] for a in axes)


def scale(step: Step) -> int:
    """By what a step's sums are divided: the sizes of the averaged axes among those it adds up."""
    ops = dict(step.before.partial)
    return math.prod(step.before.mesh.sizes[a] for a in step.reduced if ops[a] == "avg")


def reduce_op(step: Step) -> str:
    """sum, max, min or product: how the contributions of a step are combined before `scale`."""
    ops = {op for axis, op in step.before.partial if axis in step.reduced}
    return "sum" if "avg" in ops else next(iter(ops), "sum")


@dataclass(frozen=True, slots=True)
class Local:
    """A local step at one rank: copy `source` into `target`; elsewhere, or where nothing is held, the neutral element."""

    region: Region
    target: Region
    holds: bool
    neutral: str
    factor: int


def localise(step: Step, shape: tuple[int, ...], coordinate: Coordinate) -> Local:
    """What a local step does at one rank.

    A replicated axis becomes partial by keeping the value at digit 0 only (sum, product) or everywhere (max, min,
    avg); a sharded one by padding with the neutral element (times the axis' size for avg).
    """
    before, after = _box(step.before, shape, coordinate), _box(step.after, shape, coordinate)
    block = intersection(before, after)
    was_partial = dict(step.before.partial)
    sharded = {axis for axes in step.before.dims for axis in axes}
    created = [(axis, op) for axis, op in step.after.partial if axis not in was_partial]
    padded = [axis for axis, _ in created if axis in sharded]
    ops = {op for _, op in created}
    holds = all(coordinate[a] == 0 for a, op in created if a not in padded and op in ("sum", "product"))
    factor = math.prod(step.before.mesh.sizes[a] for a, op in created if a in padded and op == "avg")
    neutral = "sum" if "avg" in ops else next(iter(ops), "sum")
    return Local(locate(block, before), locate(block, after), holds, neutral, factor)


def shape_of(layout: Layout, shape: tuple[int, ...], coordinate: Coordinate) -> tuple[int, ...]:
    """The local shape at a coordinate."""
    return local_shape(_box(layout, shape, coordinate))


def clear() -> None:
    """Empty this module's caches."""
    _box.cache_clear()
    _locate.cache_clear()
