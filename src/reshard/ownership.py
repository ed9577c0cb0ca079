"""What one rank holds under a layout: a product of index intervals, one list of intervals per tensor dim.

The rule is torch.chunk's, nested: a length L over n ranks gives chunks of ceil(L/n), the last ones short or empty.
A second axis on the same dim splits each chunk again. A strided axis with factor f first cuts what there is into f
pieces and takes its chunk of every piece; that is the only way to own several intervals of one dim.

Everything else in reshard is checked against these few lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from reshard.layout import Layout

Interval = tuple[int, int]
"""Half open: (start, stop)."""

Box = tuple[tuple[Interval, ...], ...]
"""For each tensor dim the intervals held, in the order in which they are stored."""


def chunk(length: int, parts: int, index: int) -> Interval:
    """Piece `index` of torch.chunk(length, parts), empty ones included.

    >>> [chunk(5, 4, i) for i in range(4)]
    [(0, 2), (2, 4), (4, 5), (5, 5)]
    """
    size = -(-length // parts)
    return min(index * size, length), min((index + 1) * size, length)


def take(intervals: Sequence[Interval], start: int, stop: int) -> tuple[Interval, ...]:
    """Positions [start, stop) of the concatenation of intervals, as intervals."""
    taken: list[Interval] = []
    for lo, hi in intervals:
        length = hi - lo
        a, b = max(start, 0), min(stop, length)
        if a < b:
            taken.append((lo + a, lo + b))
        start, stop = start - length, stop - length
    return tuple(taken)


def held(length: int, splits: Sequence[tuple[int, int, int]]) -> tuple[Interval, ...]:
    """The intervals of one dim that are left after splits (parts, index, factor), major first."""
    intervals: tuple[Interval, ...] = ((0, length),) if length else ()
    for parts, index, factor in splits:
        total = sum(hi - lo for lo, hi in intervals)
        pieces: list[Interval] = []
        for piece in range(factor):
            lo, hi = chunk(total, factor, piece)
            a, b = chunk(hi - lo, parts, index)
            pieces.extend(take(intervals, lo + a, lo + b))
        intervals = _join(pieces)
    return intervals


def _join(pieces: Sequence[Interval]) -> tuple[Interval, ...]:
    """Merge neighbours, so that equal ownership is equal data."""
    joined: list[Interval] = []
    for lo, hi in pieces:
        if joined and joined[-1][1] == lo:
            joined[-1] = (joined[-1][0], hi)
        else:
            joined.append((lo, hi))
    return tuple(joined)


def box(layout: Layout, shape: tuple[int, ...], coordinate: tuple[int, ...]) -> Box:
    """What the rank at a mesh coordinate holds.

    >>> from reshard import Mesh
    >>> mesh = Mesh.parse("a=2,b=2")
    >>> box(Layout.parse("S0,S0", mesh), (5, 3), (1, 0))
    (((3, 4),), ((0, 3),))
    """
    factors = dict(layout.strides)
    sizes = layout.mesh.sizes
    result: list[tuple[Interval, ...]] = []
    for dim, length in enumerate(shape):
        axes = layout.dims[dim] if dim < len(layout.dims) else ()
        result.append(held(length, [(sizes[a], coordinate[a], factors.get(a, 1)) for a in axes]))
    return tuple(result)


def extent(intervals: Sequence[Interval]) -> int:
    """How many indices a list of intervals has."""
    return sum(hi - lo for lo, hi in intervals)


def local_shape(held_box: Box) -> tuple[int, ...]:
    """The shape in which a box is stored."""
    return tuple(extent(intervals) for intervals in held_box)


def volume(held_box: Box) -> int:
    """How many elements a box has."""
    return math.prod(extent(intervals) for intervals in held_box)


def common(one: Sequence[Interval], other: Sequence[Interval]) -> tuple[Interval, ...]:
    """The indices in both lists, in ascending order."""
    both = sorted((max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) < min(b, d))
    return _join(both)


def intersection(one: Box, other: Box) -> Box:
    """The box that two boxes share."""
    return tuple(common(a, b) for a, b in zip(one, other, strict=True))
