"""Mesh: named axes with sizes. A rank is a coordinate; no devices, no process group."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from reshard.errors import LayoutError

_AXIS = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(-?\d{1,15})\s*")
MOST_RANKS = 2**40


@dataclass(frozen=True, slots=True)
class Mesh:
    """An n-dimensional grid of ranks with a name and a size for each axis.

    Ranks count row-major through the coordinates (the last axis moves fastest), unless ``ranks`` lists them
    explicitly, one per coordinate in that same order.

    >>> mesh = Mesh.parse("dp=2,tp=4")
    >>> mesh.coordinate(5)
    (1, 1)
    >>> str(mesh), mesh.size
    ('dp=2,tp=4', 8)
    >>> Mesh(("dp", "tp"), (1, 2), ranks=(7, 3)).coordinate(3)
    (0, 1)
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))
        object.__setattr__(self, "sizes", _whole(self.sizes, "sizes"))
        if len(self.axes) != len(self.sizes) or not self.axes:
            raise LayoutError(
                "a mesh has one size for each axis, and at least one axis",
                got=f"axes {self.axes} with sizes {self.sizes}",
                hint="write it as dp=2,tp=4",
            )
        for name in self.axes:
            if not isinstance(name, str) or not _AXIS.fullmatch(f"{name}=1"):
                raise LayoutError(
                    "an axis name is a letter or underscore followed by letters, digits and underscores",
                    got=repr(name),
                    hint="rename the axis",
                )
        if len(set(self.axes)) != len(self.axes):
            raise LayoutError("a mesh names each axis once", got=",".join(self.axes), hint="rename the repeated axis")
        if any(n < 1 for n in self.sizes):
            raise LayoutError("an axis has a size of at least 1", got=self._grid(), hint="leave out an axis that has no ranks")
        if self.size > MOST_RANKS:
            raise LayoutError("a mesh has at most 2**40 ranks", got=self._grid(), hint="divide it into several meshes")
        self._canonicalise_ranks()

    def _canonicalise_ranks(self) -> None:
        if self.ranks is None:
            return
        ranks = _whole(self.ranks, "ranks")
        if len(ranks) != self.size:
            raise LayoutError(
                "a mesh has exactly one rank for each coordinate",
                got=f"{self._grid()}, which has {self.size} coordinates, with {len(ranks)} ranks",
                hint="make the axis sizes multiply to the number of ranks",
            )
        if len(set(ranks)) != len(ranks) or min(ranks) < 0:
            raise LayoutError("ranks are distinct and not negative", got=ranks, hint="list each rank of the mesh once")
        in_order = all(rank == i for i, rank in enumerate(ranks))
        object.__setattr__(self, "ranks", None if in_order else ranks)

    def _grid(self) -> str:
        return ",".join(f"{name}={n}" for name, n in zip(self.axes, self.sizes, strict=True))

    def __str__(self) -> str:
        return self._grid() + ("" if self.ranks is None else "@" + ",".join(map(str, self.ranks)))

    @staticmethod
    def parse(text: str | Mesh) -> Mesh:
        """``"dp=2,tp=4"``, or ``"dp=2,tp=2@0,2,1,3"`` with explicit ranks, row-major. A Mesh stays as it is."""
        if not isinstance(text, (str, Mesh)):
            raise LayoutError("a mesh is a reshard.Mesh, or text", got=repr(text), hint="for example dp=2,cp=2,tp=2")
        return text if isinstance(text, Mesh) else _parse(text)

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    def index(self, axis: str) -> int:
        """Position of a named axis."""
        if axis not in self.axes:
            raise LayoutError(
                "an axis is one of the mesh's", got=f"unknown axis {axis!r}", hint=f"the mesh {self._grid()} has {', '.join(self.axes)}"
            )
        return self.axes.index(axis)

    def sorted_ranks(self) -> tuple[int, ...]:
        """All ranks in ascending order: the order in which `simulate` takes and returns shards."""
        return tuple(range(self.size)) if self.ranks is None else tuple(sorted(self.ranks))

    def coordinate(self, rank: int) -> tuple[int, ...]:
        """Where a rank sits on the mesh."""
        if type(rank) is not int or rank not in (range(self.size) if self.ranks is None else self.ranks):
            raise LayoutError("a rank is one of the mesh's", got=f"rank {rank}", hint=f"the mesh {self} has {self.size} ranks")
        position = rank if self.ranks is None else self.ranks.index(rank)
        coordinate: list[int] = []
        for n in reversed(self.sizes):
            position, digit = divmod(position, n)
            coordinate.append(digit)
        return tuple(reversed(coordinate))

    def rank(self, coordinate: tuple[int, ...]) -> int:
        """The rank at a coordinate; the inverse of `coordinate`."""
        if len(coordinate) != len(self.sizes) or any(not 0 <= digit < n for digit, n in zip(coordinate, self.sizes, strict=False)):
            raise LayoutError("a coordinate has one digit for each axis, below its size", got=coordinate, hint=f"the mesh is {self}")
        position = 0
        for digit, n in zip(coordinate, self.sizes, strict=True):
            position = position * n + digit
        return position if self.ranks is None else self.ranks[position]


def _whole(numbers: Iterable[object], what: str) -> tuple[int, ...]:
    try:
        return tuple(operator.index(n) for n in numbers)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise LayoutError(f"a mesh's {what} are whole numbers", got=numbers, hint="for example sizes (2, 4)") from None


@lru_cache(maxsize=256)
def _parse(text: str) -> Mesh:
    grid, at, numbering = text.partition("@")
    matches = [_AXIS.fullmatch(part) for part in grid.split(",")]
    if not all(matches):
        raise LayoutError("a mesh is written as name=size, separated by commas", got=repr(text), hint="for example dp=2,cp=2,tp=2")
    pairs = [(m.group(1), int(m.group(2))) for m in matches if m]
    names, sizes = tuple(name for name, _ in pairs), tuple(size for _, size in pairs)
    if not at:
        return Mesh(names, sizes)
    if not re.fullmatch(r"\s*\d{1,15}(\s*,\s*\d{1,15})*\s*", numbering):
        raise LayoutError("ranks after @ are whole numbers separated by commas", got=repr(text), hint="for example dp=2,tp=2@0,2,1,3")
    return Mesh(names, sizes, tuple(int(r) for r in numbering.split(",")))


def clear() -> None:
    """Forget every text parsed."""
    _parse.cache_clear()
