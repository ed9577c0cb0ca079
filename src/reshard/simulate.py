"""Run a plan on all ranks in one process, with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshard.errors import BrokenPlanError, LayoutError
from reshard.ownership import local_shape
from reshard.packing import Coordinate, Message, Packing, Region, localise, pack, reduce_op, scale, shape_of
from reshard.plan import Plan
from reshard.steps import Step
from reshard.traffic import canonical

Array = NDArray[Any]
Shards = dict[Coordinate, Array]


def simulate(plan: Plan, shards: Sequence[Array]) -> list[Array]:
    """Local tensors before, in ascending order of ranks, to local tensors after.

    >>> import numpy as np, reshard
    >>> p = reshard.plan("S0,S0", "R,R", mesh="a=2,b=2", shape=(5,))
    >>> parts = [np.array([0, 1]), np.array([2]), np.array([3]), np.array([4])]
    >>> reshard.simulate(p, parts)[3]
    array([0, 1, 2, 3, 4])
    """
    mesh, shape = plan.mesh, plan.shape
    coordinates = [mesh.coordinate(rank) for rank in mesh.sorted_ranks()]
    if len(shards) != len(coordinates):
        raise LayoutError("simulate takes one array for each rank", got=f"{len(shards)} arrays for {mesh}", hint="list them in rank order")
    local: Shards = {}
    for coordinate, shard in zip(coordinates, shards, strict=True):
        wanted = shape_of(plan.source, shape, coordinate)
        array = np.asarray(shard)
        if array.shape != wanted:
            raise LayoutError(
                "a shard has the shape that the source layout gives it",
                got=f"{array.shape} at rank {mesh.rank(coordinate)}",
                hint=f"expected {wanted} under {plan.source}",
            )
        local[coordinate] = array
    dtype = local[coordinates[0]].dtype
    if any(array.dtype != dtype for array in local.values()):
        raise LayoutError("all shards have one dtype", got=sorted({str(a.dtype) for a in local.values()}), hint="cast them first")
    ends = (canonical(plan.source, shape), canonical(plan.target, shape))
    moves = not any(end.partial for end in ends)
    if moves and dtype.itemsize == 16:
        halves = [simulate(plan, [half(local[c]).copy() for c in coordinates]) for half in (np.real, np.imag)]
        return [_joined(real, imag, dtype) for real, imag in zip(*halves, strict=True)]
    words = _WORDS.get(dtype.itemsize) if moves else None
    if words:
        # Nothing is added up, so nothing may change a bit: move words. Padding adds zeros to words, which is exact.
        local = {c: array.view(words) for c, array in local.items()}
    for step in plan.steps:
        local = _run(step, shape, local)
    return [local[c].view(dtype) if words else local[c] for c in coordinates]


_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _joined(real: Array, imag: Array, dtype: Any) -> Array:
    whole = np.empty(real.shape, dtype)
    whole.real, whole.imag = real, imag
    return whole


def _run(step: Step, shape: tuple[int, ...], local: Shards) -> Shards:
    if not step.communicates:
        return {c: _run_locally(step, shape, c, array) for c, array in local.items()}
    packings = {c: pack(step, shape, c) for c in local}
    sent = {(c, m.peer): (m, local[c][index(m.region)]) for c, p in packings.items() for m in p.sends}
    return {c: _unpack(step, p, sent, local[c].dtype) for c, p in packings.items()}


def _unpack(step: Step, packing: Packing, sent: dict[tuple[Coordinate, Coordinate], tuple[Message, Array]], dtype: Any) -> Array:
    """Put the received blocks into place, adding up contributions in row-major order of their coordinates."""
    summed = bool(step.reduced)
    # A half type accumulates in float32 and is rounded once.
    wide = np.float32 if summed and dtype == np.float16 else dtype
    after = np.empty(local_shape(packing.after), wide)
    combine = _COMBINE[reduce_op(step)]
    first: Coordinate | None = None
    for message in sorted(packing.receives, key=lambda m: m.summand):
        their, block = sent[message.peer, packing.coordinate]
        if their.block != message.block:
            raise BrokenPlanError("two ends of a message disagree about its block", inputs=(step, message, their))
        first = message.summand if first is None else first
        place = index(message.region)
        after[place] = block if message.summand == first else combine(after[place], block)
    if summed and scale(step) > 1:
        after = after / scale(step)
    return after.astype(dtype, copy=False)


def _run_locally(step: Step, shape: tuple[int, ...], coordinate: Coordinate, array: Array) -> Array:
    what = localise(step, shape, coordinate)
    after = np.full(shape_of(step.after, shape, coordinate), neutral(what.neutral, array.dtype), array.dtype)
    if what.holds:
        after[index(what.target)] = array[index(what.region)] * what.factor if what.factor > 1 else array[index(what.region)]
    return after


def index(region: Region) -> tuple[Any, ...]:
    """A region as a NumPy index: slices where every dim has one range, else the open mesh of positions."""
    if all(len(ranges) == 1 for ranges in region):
        return tuple(slice(*ranges[0]) for ranges in region)
    return np.ix_(*(np.concatenate([np.arange(a, b) for a, b in ranges] or [np.arange(0)]) for ranges in region))


def neutral(op: str, dtype: Any) -> Any:
    """The value that changes nothing when it is combined by op."""
    if op in ("sum", "product"):
        return 0 if op == "sum" else 1
    if dtype == np.bool_:
        return op == "min"
    if np.issubdtype(dtype, np.inexact):
        return -np.inf if op == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if op == "max" else limits.max


_COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply}
