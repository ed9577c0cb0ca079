"""Verification: replay a plan's packing descriptions against ownership and contributions.

Independent of how a plan was found: it asks, rank by rank and box by box, whether each wanted element arrives exactly once
from each contribution that makes it up, from a rank that holds it.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from reshard.bounds import recheck
from reshard.errors import BrokenPlanError
from reshard.layout import Layout
from reshard.ownership import Box, intersection, volume
from reshard.packing import Coordinate, Message, Packing, localise, pack, shape_of
from reshard.steps import Step

EVERY_RANK_UP_TO = 256
"""Bigger meshes are verified at their corner ranks and at a fixed sample of others."""

MEMBERS_UP_TO = 4096
"""Steps over larger groups are verified by their layouts only."""


def verify(source: Layout, target: Layout, shape: tuple[int, ...], steps: tuple[Step, ...]) -> None:
    """Raise BrokenPlanError unless the steps lead from source to target and move the right data."""
    inputs = (str(source.mesh), str(source), str(target), shape, [str(s) for s in steps])
    chain = [source, *(step.after for step in steps)]
    if [step.before for step in steps] != chain[:-1] or (chain[-1] != target):
        raise BrokenPlanError("the steps do not lead from source to target", inputs=inputs)
    for step in steps:
        if not recheck(step, shape):
            raise BrokenPlanError(f"a step is not what its layouts say: {step}", inputs=inputs)
        members = math.prod(source.mesh.sizes[source.mesh.index(a)] for a in step.group)
        if members > MEMBERS_UP_TO:
            continue
        for coordinate in ranks_to_check(source.mesh.sizes):
            problem = check_rank(step, shape, coordinate)
            if problem:
                raise BrokenPlanError(f"{problem} at {coordinate} in {step}", inputs=inputs)


def ranks_to_check(sizes: tuple[int, ...]) -> list[Coordinate]:
    """All coordinates of a small mesh; the corners and a fixed sample of a big one."""
    if math.prod(sizes) <= EVERY_RANK_UP_TO:
        return list(product(*map(range, sizes)))
    corners = product(*([0, n - 1] if n > 1 else [0] for n in sizes))
    rng = np.random.default_rng(len(sizes))
    sample = (tuple(int(rng.integers(n)) for n in sizes) for _ in range(32))
    return list(dict.fromkeys([*(c for c, _ in zip(corners, range(64), strict=False)), *sample]))


def check_rank(step: Step, shape: tuple[int, ...], coordinate: Coordinate) -> str:
    """What is wrong with one step at one rank; empty if nothing is."""
    if not step.communicates:
        return _check_local(step, shape, coordinate)
    packing = pack(step, shape, coordinate)
    sizes = step.before.mesh.sizes
    wanted = set(product(*(range(sizes[a]) for a in step.reduced)))
    found: dict[Coordinate, list[Message]] = {summand: [] for summand in wanted}
    kept = [a for a, _ in step.before.partial if a not in step.reduced]
    for message in packing.receives:
        if message.summand not in found:
            return f"an unknown contribution {message.summand}"
        if any(message.peer[a] != coordinate[a] for a in kept):
            return f"a block of another contribution, from {message.peer}"
        if message.peer not in packing.members:
            return f"a block from {message.peer}, outside of the group"
        theirs = pack(step, shape, message.peer)
        if volume(intersection(message.block, theirs.before)) != volume(message.block):
            return f"a block that its sender {message.peer} does not hold"
        if (coordinate, message.block) not in [(m.peer, m.block) for m in theirs.sends]:
            return f"a block that {message.peer} does not send"
        found[message.summand].append(message)
    if wrong := _wrong_kind(step, shape, packing):
        return wrong
    for summand, messages in found.items():
        if not covers_once([m.block for m in messages], packing.after):
            return f"contribution {summand} does not arrive exactly once"
    return ""


def _wrong_kind(step: Step, shape: tuple[int, ...], packing: Packing) -> str:
    """Whether a backend's collective of this kind could do it: seen from the boxes, not from the layouts."""
    others = [pack(step, shape, m.peer) for m in packing.receives]
    match step.kind:
        case "all_gather" if any(p.after != packing.after or volume(intersection(p.before, p.after)) != volume(p.before) for p in others):
            return "members gather different things"
        case "reduce_scatter" if any(volume(intersection(p.before, packing.after)) != volume(packing.after) for p in others):
            return "a member holds no contribution"
        case "all_reduce" if any((p.before, p.after) != (packing.before, packing.before) for p in others):
            return "members reduce different things"
        case _:
            return ""


def covers_once(blocks: list[Box], whole: Box) -> bool:
    """Whether disjoint blocks make up a box: counted on the grid of all their edges."""
    if sum(map(volume, blocks)) != volume(whole) or any(volume(intersection(b, whole)) != volume(b) for b in blocks):
        return False
    if not blocks:
        return True
    edges = [np.array(sorted({e for b in (*blocks, whole) for interval in b[d] for e in interval})) for d in range(len(whole))]
    grid = np.zeros([max(0, len(e) - 1) for e in edges], np.int64)
    for block in blocks:
        for intervals in product(*block):
            place = tuple(
                slice(int(np.searchsorted(e, lo)), int(np.searchsorted(e, hi))) for e, (lo, hi) in zip(edges, intervals, strict=True)
            )
            grid[place] += 1
    return bool((grid <= 1).all())


def _check_local(step: Step, shape: tuple[int, ...], coordinate: Coordinate) -> str:
    """Locally, a rank keeps a part of what it holds; a new partial axis counts each element's value once."""
    local = localise(step, shape, coordinate)
    size = math.prod(sum(b - a for a, b in ranges) for ranges in local.target)
    created = {a for a, _ in step.after.partial} - {a for a, _ in step.before.partial}
    if not created:
        wanted = math.prod(shape_of(step.after, shape, coordinate))
        return "" if size == wanted else "a local step wants elements that the rank does not hold"
    mesh = step.before.mesh
    sharded = {a for axes in step.before.dims for a in axes} & created
    digits = [range(n) if a in sharded else (coordinate[a],) for a, n in enumerate(mesh.sizes)]
    peers = list(product(*digits))
    blocks = [math.prod(sum(b - a for a, b in ranges) for ranges in localise(step, shape, p).target) for p in peers]
    whole = math.prod(shape_of(step.after, shape, coordinate))
    return "" if sum(blocks) == whole else "padding does not count each element once"
