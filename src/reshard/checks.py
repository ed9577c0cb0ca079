"""What plan() and from_json are given, checked before anything is looked up or planned."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from reshard.cost import FLAT, Topology
from reshard.errors import LayoutError
from reshard.layout import Layout
from reshard.mesh import Mesh

Named = str | frozenset[frozenset[str]]
MOST_ELEMENTS, MOST_INDICES = 2**62, 2**53
STRATEGY_NAMES = ("auto", "exhaustive", "per-axis")


def checked_choice(name: str, got: object, choices: Sequence[str]) -> None:
    if not isinstance(got, str) or got not in choices:
        raise LayoutError(f"{name} is one of {', '.join(choices)}", got=repr(got), hint=f"for example {choices[0]!r}")


def checked_shape(shape: object) -> tuple[int, ...]:
    """Whole numbers of any integer type, but no bools."""
    wrong = LayoutError("a tensor's dims are whole numbers, 0 or more", got=f"shape {shape!r}", hint="pass the global shape")
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise wrong
    try:
        dims = tuple(operator.index(n) for n in shape if not isinstance(n, bool) or _fail())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    except TypeError:
        raise wrong from None
    if any(n < 0 for n in dims):
        raise wrong
    if any(n >= MOST_INDICES for n in dims):
        raise LayoutError(
            "a tensor's dims are below 2**53, so that counts are exact", got=f"shape {dims}", hint="plan for a part of the tensor"
        )
    return dims


def _fail() -> bool:
    raise TypeError


def checked_limit(limit: object) -> int | None:
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool)):
        return limit
    raise LayoutError("memory_limit is a whole number of bytes, or None", got=repr(limit), hint="for example memory_limit=2**30")


def checked_topology(topology: object) -> Topology:
    if topology is None:
        return FLAT
    if not isinstance(topology, Topology):
        raise LayoutError(
            "topology is a reshard.Topology, or None for a flat network", got=repr(topology), hint="reshard.Topology(levels=…)"
        )
    return topology


def checked_groups(groups: object) -> Named:
    """A policy's name, or axis sets; one axis may be written alone."""
    if isinstance(groups, str):
        return groups
    wrong = LayoutError('groups is "auto", "explicit" or a set of axis sets', got=repr(groups), hint='for example {("dp", "cp")}')
    if not isinstance(groups, Collection):
        raise wrong
    found: set[frozenset[str]] = set()
    for group in groups:  # pyright: ignore[reportUnknownVariableType]
        names: list[Any] = [group] if isinstance(group, str) else list(group) if isinstance(group, Collection) else [None]  # pyright: ignore[reportUnknownArgumentType]
        if not all(isinstance(name, str) for name in names):
            raise wrong
        found.add(frozenset(names))
    return frozenset(found)


def checked_layouts(source: Layout, target: Layout, shape: tuple[int, ...], dtype: str) -> None:
    """The two layouts belong together and suit the tensor."""
    source.check_shape(shape)
    target.check_shape(shape)
    for axis, op in target.partial:
        wanted = dict(source.partial).get(axis, op)
        if wanted != op:
            raise LayoutError(
                "a partial axis keeps its reduce op: another one cannot be made of it",
                got=f"{source.mesh.axes[axis]}: P{wanted} -> P{op}",
                hint="reduce it first, by redistributing to R or S",
            )
    whole = dtype.startswith(("int", "uint", "bool"))
    if whole and any(op == "avg" for _, op in (*source.partial, *target.partial)):
        raise LayoutError("an average needs a floating point dtype", got=f"Pavg with {dtype}", hint="reduce by sum, or cast first")
    summands = math.prod(source.mesh.sizes[axis] for axis, _ in source.partial)
    if math.prod(shape) * summands >= MOST_ELEMENTS:
        raise LayoutError(
            "a tensor times the number of its summands stays below 2**62 elements, so that counts are exact",
            got=f"shape {shape} with {summands} summands",
            hint="plan for a part of the tensor",
        )


def existing_groups(mesh: Mesh, groups: Named) -> dict[frozenset[int], tuple[str, ...]] | None:
    """The groups that exist: positions of their axes without those of size 1, and the names under which they exist.

    None where any group may be made. ``"explicit"``: each axis, and the whole mesh.
    """
    if groups == "auto":
        return None
    if isinstance(groups, str):
        if groups != "explicit":
            raise LayoutError('groups is "auto", "explicit" or a set of axis sets', got=repr(groups), hint='for example {("dp", "cp")}')
        groups = frozenset(frozenset([axis]) for axis in mesh.axes) | {frozenset(mesh.axes)}
    found: dict[frozenset[int], tuple[str, ...]] = {}
    for names in sorted(sorted(mesh.index(name) for name in group) for group in groups):
        positions = frozenset(a for a in names if mesh.sizes[a] > 1)
        if positions:
            found.setdefault(positions, tuple(mesh.axes[a] for a in names))
    return found
