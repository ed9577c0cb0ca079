"""The price of one step, under a topology: bytes, rounds, seconds, peak memory."""

from __future__ import annotations

import math
from typing import NamedTuple

from reshard.cost import Level, Topology
from reshard.errors import LayoutError
from reshard.mesh import Mesh
from reshard.steps import LOCAL, Edge, contributions, touched
from reshard.traffic import Blocks, Count, Space, State, agreement, crosses, peak

EXACT_UP_TO = 4096
"""Meshes with more ranks than this are priced by their chunk sizes while searching; certificates are always exact."""


class Price(NamedTuple):
    """What a step costs. Sizes are bytes; `received` is over all ranks, `worst` at the busiest."""

    received: int
    worst: int
    collectives: int
    rounds: int
    time: float
    peak: int
    cuts: tuple[int, ...]


def level_blocks(mesh: Mesh, level: Level) -> Blocks:
    """A level's groups as blocks of mesh digits, one entry for each axis that a group reaches into."""
    if len({rank // level.ranks for rank in (mesh.ranks or (0, mesh.size - 1))}) == 1:
        return tuple(enumerate(mesh.sizes))
    blocks: list[tuple[int, int]] = []
    left = level.ranks
    for axis in reversed(range(len(mesh.sizes))):
        block = math.gcd(left, mesh.sizes[axis])
        if block > 1:
            blocks.append((axis, block))
        left //= block
        if block < mesh.sizes[axis]:
            break
    if left > 1 or not _groups_match(mesh, level, tuple(reversed(blocks))):
        raise LayoutError(
            "a topology level's groups are blocks of the mesh: consecutive ranks along its innermost axes",
            got=f"groups of {level.ranks} ranks on {mesh}",
            hint="choose a size that divides the inner axes, and number the ranks so that a group is a block",
        )
    return tuple(reversed(blocks))


def _groups_match(mesh: Mesh, level: Level, blocks: Blocks) -> bool:
    """With ranks in row-major order a block is always a group; with explicit ranks, look."""
    if mesh.ranks is None:
        return True
    inside = dict(blocks)
    groups: dict[tuple[int, ...], set[int]] = {}
    for rank in mesh.ranks:
        coordinate = mesh.coordinate(rank)
        key = tuple(digit // inside.get(axis, 1) for axis, digit in enumerate(coordinate))
        groups.setdefault(key, set()).add(rank // level.ranks)
    return all(len(found) == 1 for found in groups.values()) and len({next(iter(f)) for f in groups.values()}) == len(groups)


class Pricer:
    """Prices edges for one tensor on one mesh; remembers what it priced."""

    def __init__(
        self, space: Space, source: State, itemsize: int, topology: Topology, levels: tuple[Blocks, ...], exact: bool = True
    ) -> None:
        self.space = space
        self.source = source
        self.itemsize = itemsize
        self.topology = topology
        self.levels = levels
        self.exact = exact
        self._prices: dict[tuple[Edge, State, State], Price] = {}

    def price(self, edge: Edge, u: State, v: State) -> Price:
        key = (edge, u, v)
        if key not in self._prices:
            self._prices[key] = self._price(edge, u, v)
        return self._prices[key]

    def _price(self, edge: Edge, u: State, v: State) -> Price:
        memory = self.peak(edge, u, v) * self.itemsize
        nothing = tuple(0 for _ in self.levels)
        if edge.kind == "slice":
            return Price(0, 0, 0, 0, 0.0, memory, nothing)
        received, worst = self.received(edge, u, v)
        if not received:  # some chunks are short or empty, and it turns out to be local
            return Price(0, 0, 0, 0, 0.0, self.peak(LOCAL, u, v) * self.itemsize, nothing)
        cuts = tuple(self.cut(edge, u, v, blocks) * self.itemsize for blocks in self.levels)
        received, worst = received * self.itemsize, worst * self.itemsize
        rounds = self.rounds(edge, u, v)
        return Price(received, worst, 1, rounds, self.seconds(edge, u, v, worst, cuts), memory, cuts)

    def seconds(self, edge: Edge, u: State, v: State, worst: int, cuts: tuple[int, ...]) -> float:
        """launch + the latency of every round at the level that it crosses + the slowest stream of bytes."""
        topology = self.topology
        latency = sum(alpha * rounds for alpha, rounds in self._rounds(edge, u, v))
        streams = [crossing / level.bandwidth for level, crossing in zip(topology.levels, cuts, strict=True)]
        return topology.launch + latency + max([worst / topology.bandwidth, *streams])

    def rounds(self, edge: Edge, u: State, v: State) -> int:
        """Messages one after the other."""
        return sum(rounds for _, rounds in self._rounds(edge, u, v))

    def _rounds(self, edge: Edge, u: State, v: State) -> list[tuple[float, int]]:
        """(alpha, rounds) for each level: the logarithm of the group for a tree or ring, one for each peer of an exchange."""
        sizes = self.space.sizes
        ranks = math.prod(sizes[a] for a in edge.axes)
        near, alpha = 1, self.topology.alpha
        crossed: list[tuple[float, int]] = []
        for level, blocks in zip(self.topology.levels, self.levels, strict=True):
            inside = math.prod(block for axis, block in blocks if axis in edge.axes)
            crossed.append((alpha, inside // near))
            near, alpha = inside, level.alpha
        crossed.append((alpha, ranks // near))
        if edge.kind in ("all_to_all", "exchange"):
            pieces = math.prod(touched(self.space, u, v, dim, self.exact) for dim in range(len(u.dims)))
            keeps = all(
                not crosses(a, b) and length % math.prod(sizes[x] for x in a) == 0
                for a, b, length in zip(u.dims, v.dims, self.space.shape, strict=True)
            )
            peers = min(ranks - 1, max(1, contributions(edge, sizes) * pieces - keeps))
            return [(max(a for a, parts in crossed if parts > 1), peers)]
        both_ways = 2 if edge.kind == "all_reduce" else 1
        return [(a, both_ways * (parts - 1).bit_length()) for a, parts in crossed]

    def received_counts(self, edge: Edge, u: State, v: State) -> Count:
        """Elements that each rank receives in a step."""
        space = self.space
        if edge.kind == "slice":
            return 0
        if edge.kind == "all_reduce":
            return self._all_reduce_counts(edge, v)
        return contributions(edge, space.sizes) * space.held(v) - space.shared(u, v)

    def _all_reduce_counts(self, edge: Edge, v: State) -> Count:
        """A reduce_scatter and an all_gather of flat chunks of the local tensor."""
        space = self.space
        parts = contributions(edge, space.sizes)
        position: Count = 0
        for axis in edge.axes:
            position = position * space.sizes[axis] + space.coordinate(axis)
        local = space.held(v)
        size = -(-local // parts)
        start = space.minimum(position * size, local)
        return local + (parts - 2) * (space.minimum(start + size, local) - start)

    def received(self, edge: Edge, u: State, v: State) -> tuple[int, int]:
        """Elements received by all ranks together, and by the busiest."""
        space = self.space
        summands = contributions(edge, space.sizes)
        if edge.kind == "slice":
            return 0, 0
        if edge.kind == "all_reduce":
            local = space.largest(v)
            total = 2 * (summands - 1) * (space.total(space.held(v)) // summands if self.exact else local * space.ranks // summands)
            return total, local + (summands - 2) * -(-local // summands)
        if not self.exact:
            return self._estimate(summands, u, v)
        counts = self.received_counts(edge, u, v)
        return space.total(counts), peak(counts)

    def _estimate(self, summands: int, u: State, v: State) -> tuple[int, int]:
        """From chunk sizes alone: what ranks keep is at most their smaller chunk, and on average their share of it."""
        space, kept, usual = self.space, 1, 1.0
        for dim, (a, b) in enumerate(zip(u.dims, v.dims, strict=True)):
            smaller = min(space.longest(dim, a, u.strides), space.longest(dim, b, v.strides))
            crossed = crosses(a, b)
            outer = max(1, space.longest(dim, agreement(a, b)))
            kept *= 0 if crossed else smaller
            usual *= space.longest(dim, a) * space.longest(dim, b) / outer if crossed else smaller
        wanted = summands * space.largest(v)
        worst = max(0, wanted - kept)
        return max(round((wanted - usual) * space.ranks), space.copies(v) - space.copies(u), worst), worst

    def peak(self, edge: Edge, u: State, v: State) -> int:
        """Elements alive at once at the worst rank: the source, what the step reads and writes, and its buffers."""
        space = self.space
        before, after = space.largest(u), space.largest(v)
        source = 0 if u == self.source else space.largest(self.source)
        match edge.kind:
            case "slice" | "all_reduce":
                buffers = 0
            case "all_gather":
                buffers = after
            case "reduce_scatter":
                buffers = before
            case _:
                copies = math.prod(space.sizes[a] for a in edge.axes if a not in v.sharded())
                ranks = math.prod(space.sizes[a] for a in edge.axes)
                buffers = min(before * copies, after * ranks) + contributions(edge, space.sizes) * after
        return source + before + after + buffers

    def cut(self, edge: Edge, u: State, v: State, blocks: Blocks) -> int:
        """Elements that the busiest group of a level takes in from outside."""
        return peak(self.crossing(edge, u, v, blocks))

    def crossing(self, edge: Edge, u: State, v: State, blocks: Blocks) -> Count:
        """Elements that each group of a level takes in from outside.

        A ring or tree brings what a line of ranks wants into a group once; an exchange brings each rank its own copy.
        """
        space = self.space
        if edge.kind == "slice":
            return 0
        inside = tuple((axis, block) for axis, block in blocks if axis in edge.axes)
        summands = contributions(edge, space.sizes)
        near = math.prod(block for axis, block in inside if axis in edge.reduced)
        if edge.kind in ("all_to_all", "exchange"):
            return space.block_sum(summands * space.held(v) - near * space.shared(u, v, union_u=inside), blocks)
        far = summands // near
        if edge.kind == "all_gather":
            entering = space.held(v) - space.shared(u, v, union_u=inside)
        elif edge.kind == "reduce_scatter":
            entering = (far - 1) * space.shared(v, v, union_u=inside, union_v=inside)
        else:
            entering = -(-2 * (far - 1) * space.held(v) // far)
        outside = tuple(pair for pair in blocks if pair[0] not in edge.axes)
        return space.block_first(space.block_sum(entering, outside), inside)
