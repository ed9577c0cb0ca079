"""An independent reference: cuts real arrays by repeated chunking, knows nothing of reshard's intervals or steps.

A layout here is plain data: for each mesh axis "R", ("S", dim, factor) or ("P", op), and for each dim the order of its
axes. Text for reshard is written from that, so that reshard's parser is not trusted either.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from dataclasses import dataclass

import numpy as np

COMBINE = {"sum": np.add, "avg": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply}


@dataclass(frozen=True)
class Spread:
    placements: tuple
    orders: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def order(self, dim: int) -> tuple[int, ...]:
        default = tuple(a for a, p in enumerate(self.placements) if p[0] == "S" and p[1] == dim)
        return dict(self.orders).get(dim, default)

    def partial(self) -> list[int]:
        return [a for a, p in enumerate(self.placements) if p[0] == "P"]

    def text(self, names: tuple[str, ...]) -> str:
        tokens = []
        for p in self.placements:
            if p[0] == "S":
                tokens.append(f"S{p[1]}" + (f"/{p[2]}" if p[2] > 1 else ""))
            else:
                tokens.append("R" if p == "R" else f"P{p[1]}")
        orders = [f"{d}:" + ">".join(names[a] for a in axes) for d, axes in self.orders]
        return ",".join(tokens) + (" | " + ", ".join(orders) if orders else "")


def chunks(array: np.ndarray, parts: int, dim: int) -> list[np.ndarray]:
    """torch.chunk with empty chunks at the end."""
    length = array.shape[dim]
    size = math.ceil(length / parts) if length else 0
    cuts = [min(size * i, length) for i in range(1, parts)]
    return np.split(array, cuts, axis=dim)


def local(whole: np.ndarray, spread: Spread, sizes: tuple[int, ...], coordinate: tuple[int, ...]) -> np.ndarray:
    array = whole
    for dim in range(whole.ndim):
        for axis in spread.order(dim):
            factor = spread.placements[axis][2]
            pieces = [chunks(piece, sizes[axis], dim)[coordinate[axis]] for piece in chunks(array, factor, dim)]
            array = np.concatenate(pieces, axis=dim)
    return array


def coordinates(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, sizes)))


def summands(shape: tuple[int, ...], spread: Spread, sizes: tuple[int, ...], seed: int) -> tuple[dict, np.ndarray]:
    """Whole contributions by the digits of the partial axes, and the value that they stand for."""
    rng = np.random.default_rng(seed)
    axes = spread.partial()
    ops = {spread.placements[a][1] for a in axes}
    divide = math.prod(sizes[a] for a in axes if spread.placements[a][1] == "avg")
    high = 3 if ops == {"product"} else 50
    parts = {c: rng.integers(1, high, shape).astype(np.float64) * divide for c in itertools.product(*(range(sizes[a]) for a in axes))}
    op = COMBINE[sorted(ops)[-1] if ops else "sum"]
    return parts, functools.reduce(op, parts.values()) / divide


def shards(shape: tuple[int, ...], spread: Spread, sizes: tuple[int, ...], seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    parts, value = summands(shape, spread, sizes, seed)
    axes = spread.partial()
    return [local(parts[tuple(c[a] for a in axes)], spread, sizes, c) for c in coordinates(sizes)], value


def wrong(result: list[np.ndarray], value: np.ndarray, spread: Spread, sizes: tuple[int, ...]) -> str:
    """What is wrong with the shards of a result that should stand for value; empty if nothing."""
    axes = spread.partial()
    ops = {spread.placements[a][1] for a in axes}
    divide = math.prod(sizes[a] for a in axes if spread.placements[a][1] == "avg")
    op = COMBINE[sorted(ops)[-1] if ops else "sum"]
    by = dict(zip(coordinates(sizes), result, strict=True))
    for c, mine in by.items():
        expected = local(value, spread, sizes, c)
        if mine.shape != expected.shape:
            return f"shape {mine.shape} instead of {expected.shape} at {c}"
        family = [by[tuple(dict(zip(axes, digits, strict=True)).get(a, c[a]) for a in range(len(sizes)))]
                  for digits in itertools.product(*(range(sizes[a]) for a in axes))]  # fmt: skip
        got = functools.reduce(op, family) / divide
        if not np.allclose(got, expected, rtol=1e-12, atol=0):
            return f"{got.tolist()} instead of {expected.tolist()} at {c}"
    return ""


@dataclass(frozen=True)
class Case:
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    source: Spread
    target: Spread

    def kwargs(self) -> dict:
        return {
            "source": self.source.text(self.names),
            "target": self.target.text(self.names),
            "mesh": ",".join(f"{n}={s}" for n, s in zip(self.names, self.sizes, strict=True)),
            "shape": self.shape,
        }


def random_spread(rng: random.Random, axes: int, ndim: int, ops: tuple[str, ...], plain: bool) -> Spread:
    placements = []
    for _ in range(axes):
        kind = rng.choice(["R", "S", "S", "P"] if ops else ["R", "S", "S"])
        if kind == "S" and ndim:
            factor = rng.choice([2, 3]) if not plain and rng.random() < 0.15 else 1
            placements.append(("S", rng.randrange(ndim), factor))
        elif kind == "P":
            placements.append(("P", rng.choice(ops)))
        else:
            placements.append("R")
    orders = []
    for dim in range(ndim):
        members = [a for a, p in enumerate(placements) if p[0] == "S" and p[1] == dim]
        if len(members) > 1 and rng.random() < 0.4:
            shuffled = rng.sample(members, len(members))
            if shuffled != members:
                orders.append((dim, tuple(shuffled)))
    return Spread(tuple(placements), tuple(orders))


def random_case(rng: random.Random, most_axes: int = 4, most_ranks: int = 24) -> Case:
    while True:
        axes = rng.randint(1, most_axes)
        sizes = tuple(rng.choice([1, 2, 2, 3, 4]) for _ in range(axes))
        if math.prod(sizes) <= most_ranks:
            break
    shape = tuple(rng.randint(0, 13) for _ in range(rng.choice([0, 1, 1, 2, 2, 3])))
    ops = rng.choice([(), ("sum",), ("sum",), ("sum", "avg"), ("max",), ("min",), ("product",)])
    plain = rng.random() < 0.7
    source = random_spread(rng, axes, len(shape), ops, plain)
    carried = tuple(p[1] if p[0] == "P" else None for p in source.placements)
    made = rng.choice([ops, ops, ("sum",), ("max",), ("product",)])
    target = random_spread(rng, axes, len(shape), made if rng.random() < 0.4 else (), plain)
    fixed = tuple(("P", carried[a]) if p[0] == "P" and carried[a] else p for a, p in enumerate(target.placements))
    mixed = {p[1] for p in fixed if p[0] == "P"}
    if len(mixed) > 1 and mixed != {"sum", "avg"}:  # not a layout: leave out what the target would make anew
        fixed = tuple("R" if p[0] == "P" and not carried[a] else p for a, p in enumerate(fixed))
    return Case(tuple("abcd"[:axes]), sizes, shape, source, Spread(fixed, target.orders))
