"""What communication costs: an alpha-beta model over a topology of levels. An argument, never a global."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from reshard.errors import LayoutError


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
        if self.ranks < 1 or self.alpha < 0 or self.bandwidth <= 0:
            raise LayoutError(
                "a topology level has ranks >= 1, alpha >= 0 and bandwidth > 0", got=self, hint='for example Level("node", 8, 1e-5, 50e9)'
            )


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
        object.__setattr__(self, "levels", tuple(self.levels))
        if min(self.alpha, self.launch) < 0 or self.bandwidth <= 0:
            raise LayoutError("a link has alpha >= 0, launch >= 0 and bandwidth > 0", got=self, hint="seconds, and bytes per second")
        ranks = [level.ranks for level in self.levels]
        if any(b % a or b <= a for a, b in pairwise(ranks)):
            raise LayoutError(
                "each topology level holds several whole groups of the level inside", got=ranks, hint="for example 8, then 64"
            )
        if any(level.alpha < self.alpha for level in self.levels):
            raise LayoutError("leaving a group takes at least as long as the link itself", got=self, hint="raise the level's alpha")


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
    if name not in ITEMSIZE:
        raise LayoutError("a dtype is one that tensors have", got=repr(dtype), hint=f"one of {', '.join(ITEMSIZE)}")
    return name
