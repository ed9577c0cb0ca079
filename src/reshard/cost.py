"""What communication costs: an alpha-beta model over a topology of levels. An argument, never a global."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from reshard.errors import LayoutError

Objective = Literal["time", "bytes", "collectives", "memory"]
OBJECTIVES: tuple[Objective, ...] = ("time", "bytes", "collectives", "memory")
REPRODUCIBILITY = ("replicas", "strict", "bitwise", "any")


@dataclass(frozen=True, slots=True)
class Level:
    """Groups of consecutive ranks (a node, a rack) that share one way out.

    ``alpha`` is the latency of a message that leaves the group, in seconds; ``bandwidth`` is how many bytes a second
    the whole group can take in from outside.
    """

    name: str
    ranks: int
    alpha: float
    bandwidth: float

    def __post_init__(self) -> None:
        figures = _finite(self.alpha, self.bandwidth)
        if type(self.ranks) is not int or self.ranks < 1 or not isinstance(self.name, str) or figures is None:
            raise LayoutError(
                "a topology level has a name, ranks >= 1, alpha >= 0 and bandwidth >= 1",
                got=self,
                hint='for example Level("node", 8, 1e-5, 50e9)',
            )
        object.__setattr__(self, "alpha", figures[0])
        object.__setattr__(self, "bandwidth", figures[1])


@dataclass(frozen=True, slots=True)
class Topology:
    """A rank's own link, then the levels around it, innermost first. No levels is a flat network.

    A step takes ``launch + alpha * rounds + the slowest of its byte streams``: what the busiest rank receives over its link,
    and what the busiest group of each level takes in over the group's bandwidth.

    >>> flat = Topology()
    >>> nodes = Topology(levels=(Level("node", ranks=8, alpha=2e-5, bandwidth=50e9),))
    """

    alpha: float = 1e-5
    bandwidth: float = 100e9
    launch: float = 1e-5
    levels: tuple[Level, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.levels, Sequence) or not all(isinstance(level, Level) for level in self.levels):
            raise LayoutError("a topology's levels are reshard.Level objects", got=self.levels, hint="levels=(Level(…),)")
        object.__setattr__(self, "levels", tuple(self.levels))
        figures = _finite(self.alpha, self.bandwidth), _finite(self.launch, self.bandwidth)
        if figures[0] is None or figures[1] is None:
            raise LayoutError("a link has alpha >= 0, launch >= 0 and bandwidth >= 1", got=self, hint="seconds, and bytes per second")
        object.__setattr__(self, "alpha", figures[0][0])
        object.__setattr__(self, "bandwidth", figures[0][1])
        object.__setattr__(self, "launch", figures[1][0])
        ranks = [level.ranks for level in self.levels]
        if any(b % a or b <= a for a, b in pairwise(ranks)):
            raise LayoutError(
                "each topology level holds several whole groups of the level inside", got=ranks, hint="for example 8, then 64"
            )
        if any(level.alpha < self.alpha for level in self.levels):
            raise LayoutError("leaving a group takes at least as long as the link itself", got=self, hint="raise the level's alpha")


def _finite(latency: object, bandwidth: object) -> tuple[float, float] | None:
    """Both as floats, if they are plain numbers that times can be computed with."""
    for figure in (latency, bandwidth):
        if isinstance(figure, bool) or not isinstance(figure, (int, float)) or not 0 <= figure < 1e30:
            return None
    found = float(latency), float(bandwidth)  # pyright: ignore[reportArgumentType]
    return found if found[1] >= 1 else None


FLAT = Topology()

ITEMSIZE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "complex128": 16, "complex64": 8, "complex32": 4,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
}  # fmt: skip


def dtype_name(dtype: object) -> str:
    """The plain name of a dtype given as text, a NumPy dtype or a torch dtype."""
    name = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    if isinstance(dtype, type):
        name = dtype.__name__
    if name not in ITEMSIZE:  # whatever was given, its name is text here
        raise LayoutError("a dtype is one that tensors have", got=repr(dtype), hint=f"one of {', '.join(ITEMSIZE)}")
    return name
