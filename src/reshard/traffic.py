"""How much ranks hold, share and must fetch, counted for all ranks at once.

The numbers of one tensor dim depend only on the mesh axes that split that dim, so they are NumPy arrays with one
array axis per mesh axis, broadcast against each other: nothing loops over ranks or elements. Where the axes of a
big mesh are regular, digits of an axis that cannot be told apart are counted once, with a weight (`Space.folded`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshard.layout import Layout

Ints = NDArray[np.signedinteger[Any]]
Count = Ints | int
"""A number for each rank: an array over mesh coordinates, or one int where all ranks agree."""

Blocks = tuple[tuple[int, int], ...]
"""(axis, block): ranks whose digits of that axis fall into one block of that many consecutive digits belong together."""


Dims = tuple[tuple[int, ...], ...]


class State(NamedTuple):
    """A layout as the search sees it: no names, no reduce ops, and one entry in ``dims`` for each tensor dim."""

    dims: Dims
    partial: tuple[int, ...] = ()
    strides: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(layout: Layout, ndim: int) -> State:
        dims = layout.dims + ((),) * (ndim - len(layout.dims))
        return State(dims, tuple(a for a, _ in layout.partial), layout.strides)

    def sharded(self) -> frozenset[int]:
        return frozenset(axis for axes in self.dims for axis in axes)


def is_prefix(short: Sequence[int], long: Sequence[int]) -> bool:
    return tuple(long[: len(short)]) == tuple(short)


def agreement(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The major axes that two orders have in common."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return tuple(a[:n])


def crosses(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two orders split the same chunk differently, so that some rank may keep nothing of it."""
    return len(agreement(a, b)) < min(len(a), len(b))


class Space:
    """A tensor's shape on a mesh's sizes, with the spans of every (dim, axes) seen so far."""

    def __init__(self, sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.shape = shape
        self.ranks = math.prod(sizes)
        self.numel = math.prod(shape)
        self.digits: list[Ints] = [np.arange(n, dtype=np.int64) for n in sizes]
        self.weights: list[Ints | None] = [None] * len(sizes)
        self._spans: dict[object, tuple[Ints, Ints]] = {}
        self._largest: dict[tuple[int, tuple[int, ...]], int] = {}
        self._largest_of: dict[State, int] = {}
        self._copies: dict[Dims, int] = {}
        self._shared: dict[object, Count] = {}
        self.memo: dict[object, int] = {}

    @staticmethod
    def folded(sizes: tuple[int, ...], shape: tuple[int, ...], pairs: Iterable[tuple[State, State]], keep: Collection[int] = ()) -> Space:
        """A space for these pairs of states in which digits that behave alike are one digit with a weight.

        Digits of the axes to `keep` stay apart.
        """
        space = Space(sizes, shape)
        cuts: list[set[int] | None] = [None if axis in keep else {0} for axis in range(len(sizes))]
        for u, v in pairs:
            for dim, length in enumerate(shape):
                a, b = u.dims[dim], v.dims[dim]
                nested = not u.strides and not v.strides and (is_prefix(a, b) or is_prefix(b, a))
                if nested:
                    _cut_where_chunks_change(length, max(a, b, key=len), sizes, cuts)
                else:
                    for axis in (*a, *b):
                        cuts[axis] = None
        for axis, n in enumerate(sizes):
            found = cuts[axis]
            if found is not None and len(found) < n:
                starts = np.array(sorted(c for c in found if c < n))
                space.digits[axis] = starts
                space.weights[axis] = np.diff(np.append(starts, n))
        return space

    def spans(self, dim: int, axes: tuple[int, ...], strides: tuple[tuple[int, int], ...], union: Blocks) -> tuple[Ints, Ints]:
        """(start, stop) of the intervals of one dim: an array axis per mesh axis, and a last one for several intervals.

        Ranks in one block of `union` are not kept apart: their intervals are listed together on the last axis.
        """
        key = (dim, axes, strides, union)
        if key in self._spans:
            return self._spans[key]
        one, kind = (1,) * (len(self.sizes) + 1), _narrow(self.shape[dim], self.sizes)
        lo, hi = np.zeros(one, kind), np.full(one, self.shape[dim], kind)
        factors = dict(strides)
        if any(axis in factors for axis in axes):
            lo, hi = self._listed_spans(dim, axes, factors)
        else:
            for axis in axes:
                n = self.sizes[axis]
                size = (hi - lo + (n - 1)) // n
                lo = np.minimum(lo + self._digit(axis).astype(kind) * size, hi)
                hi = np.minimum(lo + size, hi)
        for axis, block in union:
            if lo.shape[axis] > 1:
                lo, hi = (_list_blocks(x, axis, block) for x in (lo, hi))
        self._spans[key] = lo, hi
        return lo, hi

    def _digit(self, axis: int) -> Ints:
        shape = [1] * (len(self.sizes) + 1)
        shape[axis] = -1
        return self.digits[axis].reshape(shape)

    def _listed_spans(self, dim: int, axes: tuple[int, ...], factors: dict[int, int]) -> tuple[Ints, Ints]:
        """Strided axes own several intervals: list them coordinate by coordinate."""
        from reshard.ownership import held

        counts = [len(self.digits[axis]) for axis in axes]
        lists = [
            held(self.shape[dim], [(self.sizes[a], int(self.digits[a][i]), factors.get(a, 1)) for a, i in zip(axes, index, strict=True)])
            for index in np.ndindex(*counts)
        ]
        most = max(map(len, lists), default=1) or 1
        table = np.zeros((len(lists), most, 2), np.int64)
        for row, intervals in enumerate(lists):
            for column, (start, stop) in enumerate(intervals):
                table[row, column] = start, stop
        table = table.reshape(*counts, most, 2)
        table = np.transpose(table, (*np.argsort(axes), len(axes), len(axes) + 1))
        full = [len(self.digits[a]) if a in axes else 1 for a in range(len(self.sizes))]
        table = table.reshape(*full, most, 2)
        return table[..., 0], table[..., 1]

    def lengths(self, dim: int, axes: tuple[int, ...], strides: tuple[tuple[int, int], ...] = ()) -> Count:
        """How many indices of one dim each rank holds."""
        length = self.shape[dim]
        parts = math.prod(self.sizes[a] for a in axes)
        if length % parts == 0 and not strides:
            return length // parts
        lo, hi = self.spans(dim, axes, strides, ())
        return (hi - lo).sum(axis=-1, dtype=np.int64)

    def held(self, u: State) -> Count:
        """|u_r| for every rank r."""
        return math.prod((self.lengths(d, axes, _of(u, axes)) for d, axes in enumerate(u.dims)), start=1)

    def shared(self, u: State, v: State, union_u: Blocks = (), union_v: Blocks = ()) -> Count:
        """|u_r ∩ v_r| for every rank r; with `union_u` (`union_v`), of what the whole block of r holds under u (v)."""
        key = (u, v, union_u, union_v)
        if key not in self._shared:
            self._shared[key] = self._count_shared(u, v, union_u, union_v)
        return self._shared[key]

    def _count_shared(self, u: State, v: State, union_u: Blocks, union_v: Blocks) -> Count:
        product: Count = 1
        for dim, (a, b) in enumerate(zip(u.dims, v.dims, strict=True)):
            if not (u.strides or v.strides or union_u or union_v) and (is_prefix(a, b) or is_prefix(b, a)):
                product = product * self.lengths(dim, a if len(a) > len(b) else b)
                continue
            lo, hi = self.spans(dim, a, _of(u, a), _of_axes(union_u, a))
            lo2, hi2 = self.spans(dim, b, _of(v, b), _of_axes(union_v, b))
            if lo.shape[-1] * lo2.shape[-1] > 1:
                lo, hi, lo2, hi2 = lo[..., :, None], hi[..., :, None], lo2[..., None, :], hi2[..., None, :]
            overlap = np.minimum(hi, hi2) - np.maximum(lo, lo2)
            np.maximum(overlap, 0, out=overlap)
            inner = overlap.ndim - len(self.sizes)
            flat = inner == 1 and overlap.shape[-1] == 1
            product = product * (overlap[..., 0].astype(np.int64) if flat else overlap.sum(axis=tuple(range(-inner, 0)), dtype=np.int64))
        return product

    def total(self, count: Count) -> int:
        """The sum of a count over all ranks."""
        if isinstance(count, int) or count.ndim == 0:
            return int(count) * self.ranks
        spread = self.ranks
        if int(count.max()) >= 2**62 // self.ranks:
            count = count.astype(object)  # whole numbers of any size: slow, but the sum could overflow
        for axis, weight in enumerate(self.weights):
            if count.shape[axis] == 1:
                continue
            spread //= self.sizes[axis]
            if weight is not None:
                count = count * weight.reshape([-1 if i == axis else 1 for i in range(count.ndim)])
        return int(count.sum()) * spread

    def count_overlaps(self, dim: int, a: tuple[int, ...], b: tuple[int, ...]) -> int:
        """The most nonempty chunks under axes a that one chunk under axes b meets; all a's chunks and b's, no digits shared."""
        agreed = len(agreement(a, b))
        lengths = {self.shape[dim]}
        for axis in a[:agreed]:
            lengths = {stop - start for whole in lengths for start, stop in _kinds_of_chunk(whole, self.sizes[axis])}
        most = 1
        for length in lengths:
            if not length:
                continue
            edges = _edges(length, [self.sizes[axis] for axis in a[agreed:]])
            wanted = _edges(length, [self.sizes[axis] for axis in b[agreed:]])
            within = np.searchsorted(wanted, edges, side="right") - 1
            inside = within[wanted[within] != edges]
            most = max(most, 1 + int(np.bincount(inside).max()) if len(inside) else 1)
        return most

    def same(self, u: State, v: State) -> bool:
        """Whether every rank holds the same under both."""
        for dim, (a, b) in enumerate(zip(u.dims, v.dims, strict=True)):
            lo, hi = self.spans(dim, a, _of(u, a), ())
            lo2, hi2 = self.spans(dim, b, _of(v, b), ())
            lengths, lengths2 = (hi - lo).sum(axis=-1), (hi2 - lo2).sum(axis=-1)
            shared = np.minimum(hi[..., :, None], hi2[..., None, :]) - np.maximum(lo[..., :, None], lo2[..., None, :])
            if not ((np.maximum(shared, 0).sum(axis=(-1, -2)) == lengths).all() and (lengths == lengths2).all()):
                return False
        return True

    def coordinate(self, axis: int) -> Ints:
        """Each rank's digit of one axis."""
        return self._digit(axis)[..., 0]

    @staticmethod
    def minimum(a: Count, b: Count) -> Count:
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)

    def block_sum(self, count: Count, blocks: Blocks) -> Count:
        """The sum of a count over the ranks of each block."""
        factor = 1
        for axis, block in blocks:
            if isinstance(count, int) or count.ndim == 0 or count.shape[axis] == 1:
                factor *= block
                continue
            n = count.shape[axis]
            count = count.reshape(*count.shape[:axis], n // block, block, *count.shape[axis + 1 :]).sum(axis=axis + 1)
        return count * factor

    @staticmethod
    def block_first(count: Count, blocks: Blocks) -> Count:
        """A count that is the same all over each block, once per block."""
        for axis, block in blocks:
            if not isinstance(count, int) and count.ndim and count.shape[axis] > 1:
                count = np.take(count, range(0, count.shape[axis], block), axis=axis)
        return count

    def largest(self, u: State) -> int:
        """The most elements that any rank holds: rank 0's, since chunks never grow along an axis; with strides, no rank holds more."""
        if u not in self._largest_of:
            self._largest_of[u] = math.prod([self.longest(d, axes, u.strides) for d, axes in enumerate(u.dims)])
        return self._largest_of[u]

    def overlap_ceiling(self, u: State, v: State) -> int:
        """No rank holds more than this under both."""
        kept = 1
        for dim, (a, b) in enumerate(zip(u.dims, v.dims, strict=True)):
            kept *= self.longest(dim, a, u.strides) if a == b else min(self.longest(dim, a, u.strides), self.longest(dim, b, v.strides))
        return kept

    def copies(self, u: State) -> int:
        """How many elements all ranks hold together."""
        if u.dims not in self._copies:
            self._copies[u.dims] = self.numel * self.ranks // math.prod([self.sizes[a] for axes in u.dims for a in axes])
        return self._copies[u.dims]

    def longest(self, dim: int, axes: tuple[int, ...], strides: tuple[tuple[int, int], ...] = ()) -> int:
        """The most indices of one dim that any rank holds."""
        if strides and _of_axes(strides, axes):
            return int(np.max(self.lengths(dim, axes, _of_axes(strides, axes))))
        key = (dim, axes)
        if key not in self._largest:
            length = self.shape[dim]
            for axis in axes:
                length = -(-length // self.sizes[axis])
            self._largest[key] = length
        return self._largest[key]


def canonical(layout: Layout, shape: tuple[int, ...]) -> State:
    """The layout's state without axes of size 1, and with strides written as orders where that is the same ownership."""
    state = State.of(layout, len(shape))
    sizes = layout.mesh.sizes
    if 1 in sizes:
        dims = tuple(tuple(a for a in axes if sizes[a] > 1) for axes in state.dims)
        strides = tuple((a, f) for a, f in state.strides if sizes[a] > 1)
        state = State(dims, tuple(a for a in state.partial if sizes[a] > 1), strides)
    return unstride(Space(sizes, shape), state) if state.strides else state


def unstride(space: Space, state: State) -> State:
    """Replace strided axes of a dim by an order of its axes, exactly where every rank then holds the same."""
    for dim, axes in enumerate(state.dims):
        strides = tuple(pair for pair in state.strides if pair[0] in axes)
        if not strides:
            continue
        for order in permutations(axes):
            plain = State(tuple(order if d == dim else () for d in range(len(state.dims))))
            strided = State(tuple(axes if d == dim else () for d in range(len(state.dims))), (), strides)
            if space.same(plain, strided):
                dims = tuple(order if d == dim else kept for d, kept in enumerate(state.dims))
                state = State(dims, state.partial, tuple(p for p in state.strides if p not in strides))
                break
    return state


def peak(count: Count) -> int:
    """The largest entry of a count."""
    return count if isinstance(count, int) else int(count.max())


def _kinds_of_chunk(length: int, parts: int) -> list[tuple[int, int]]:
    """The first chunk, and the one short chunk if there is one."""
    size = -(-length // parts)
    full = length // size if size else 0
    return [(0, size)] + ([(full * size, length)] if 0 < full * size < length else [])


def _narrow(length: int, sizes: Sequence[int]) -> type[np.int32] | type[np.int64]:
    """The narrower integers are twice as fast on big meshes, where they suffice for positions in one dim."""
    return np.int32 if length + max(sizes) < 2**31 else np.int64


def _edges(length: int, parts: Sequence[int]) -> Ints:
    """Where the nonempty nested chunks of one length begin, in order."""
    kind = _narrow(length, parts or (1,))
    starts, stops = np.zeros(1, kind), np.full(1, length, kind)
    for n in parts:
        size = -(-(stops - starts) // n)
        begin = starts[:, None] + np.arange(n, dtype=kind) * size[:, None]
        keep = begin < stops[:, None]
        ends = np.minimum(begin + size[:, None], stops[:, None])
        starts, stops = begin[keep], ends[keep]
    return starts


def _of(u: State, axes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return _of_axes(u.strides, axes) if u.strides else ()


def _of_axes(strides: tuple[tuple[int, int], ...], axes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((axis, factor) for axis, factor in strides if axis in axes)


def _list_blocks(x: Ints, axis: int, block: int) -> Ints:
    """Move the digits of one axis within each block to the last axis; every digit of the block sees the whole list."""
    x = np.moveaxis(x, axis, -1)
    x = x.reshape(*x.shape[:-1], -1, block)
    x = np.moveaxis(x, -2, axis)
    if x.shape[axis] > 1:
        x = np.repeat(x, block, axis=axis)
    return x.reshape(*x.shape[:-2], -1)


def _cut_where_chunks_change(length: int, axes: tuple[int, ...], sizes: tuple[int, ...], cuts: list[set[int] | None]) -> None:
    """Chunks of one length are full, then one is short, then they are empty: three kinds of digits at most."""
    lengths = {length}
    for axis in axes:
        after: set[int] = set()
        for whole in lengths:
            size = -(-whole // sizes[axis])
            full = whole // size if size else 0
            marks = {full, full + 1}
            if (found := cuts[axis]) is not None:
                found |= marks
            after |= {size, whole - full * size if size else 0, 0}
        lengths = after
