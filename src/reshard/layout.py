"""Layout: how a tensor is spread over a mesh, and the one notation for it (docs/notation.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from reshard.errors import LayoutError
from reshard.mesh import Mesh

MOST_DIMS = 64
REDUCE_OPS = ("sum", "avg", "max", "min", "product")

_TOKENS = (
    ("replicate", re.compile(r"R|Replicate\(\)")),
    ("shard", re.compile(r"(?:S|Shard)\(\s*(?:dim\s*=\s*)?(?P<dim>-?\d{1,9})\s*\)|S(?P<short>-?\d{1,9})")),
    (
        "strided",
        re.compile(
            r"(?:_S|_StridedShard)\(\s*(?:dim\s*=\s*)?(?P<dim>-?\d{1,9})\s*,\s*(?:(?:sf|split_factor)\s*=\s*)?(?P<factor>-?\d{1,9})\s*\)"
            r"|S(?P<short>-?\d{1,9})/(?P<factor_short>-?\d{1,9})"
        ),
    ),
    ("partial", re.compile(r"P(?:artial)?\(\s*(?:reduce_op\s*=\s*)?['\"]?(?P<op>[a-z]*)['\"]?\s*\)|P(?P<short>[a-z]*)")),
)
_ORDER = re.compile(r"(\d+)\s*:\s*([A-Za-z_]\w*(?:\s*>\s*[A-Za-z_]\w*)*)")


@dataclass(frozen=True, slots=True, repr=False)
class Layout:
    """For each tensor dim the mesh axes that split it (major first); the partial axes with their reduce op.

    Every other axis replicates. Axes are positions in the mesh. ``strides`` holds the split factor of the axes
    that shard in strides, as DTensor's ``_StridedShard`` does. Equal meaning is ``==`` as far as a layout can
    know without a tensor's shape.

    >>> mesh = Mesh.parse("dp=2,tp=2")
    >>> layout = Layout.parse("S0,S0 | 0:tp>dp", mesh)
    >>> layout.dims, str(layout)
    (((1, 0),), 'S0,S0 | 0:tp>dp')
    >>> str(Layout.parse("Shard(1),Partial(sum)", mesh))
    'S1,P'
    """

    mesh: Mesh
    dims: tuple[tuple[int, ...], ...] = ()
    partial: tuple[tuple[int, str], ...] = ()
    strides: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        dims = [tuple(axes) for axes in self.dims]
        while dims and not dims[-1]:
            dims.pop()
        object.__setattr__(self, "dims", tuple(dims))
        object.__setattr__(self, "partial", tuple(sorted(self.partial)))
        object.__setattr__(self, "strides", tuple(sorted((a, f) for a, f in self.strides if f != 1)))
        used = [axis for axes in dims for axis in axes] + [axis for axis, _ in self.partial]
        if any(type(axis) is not int or not 0 <= axis < len(self.mesh.axes) for axis in used):
            raise LayoutError("an axis is one of the mesh's", got=f"axis positions {used}", hint=f"the mesh is {self.mesh}")
        if len(set(used)) != len(used):
            repeated = sorted({self.mesh.axes[a] for a in used if used.count(a) > 1})
            raise LayoutError(
                "an axis shards one tensor dim or is partial, once", got=f"axis {', '.join(repeated)} repeated", hint="name each axis once"
            )
        if {axis for axis, _ in self.strides} - {axis for axes in dims for axis in axes}:
            raise LayoutError("only a sharding axis has a split factor", got=self.strides, hint="drop the factor or shard the axis")
        if len({axis for axis, _ in self.strides}) != len(self.strides):
            raise LayoutError("an axis has one split factor", got=self.strides, hint="drop one of them")
        if len(dims) > MOST_DIMS:
            raise LayoutError(f"a tensor has at most {MOST_DIMS} dims", got=f"a sharded dim {len(dims) - 1}", hint="dims count from 0")
        if any(factor < 1 for _, factor in self.strides):
            raise LayoutError("a split factor is at least 1", got=self.strides, hint="S0/2 splits dim 0 in strides of factor 2")
        _check_ops([op for _, op in self.partial])

    @staticmethod
    def parse(text: str | Layout | Sequence[object], mesh: Mesh | str) -> Layout:
        """Read the notation, DTensor's own spelling, or a sequence of placements (objects or text), one per mesh axis."""
        mesh = Mesh.parse(mesh)
        if isinstance(text, Layout):
            if text.mesh != mesh:
                raise LayoutError("a layout belongs to the mesh it is used on", got=f"{text} on {text.mesh}", hint=f"parse it on {mesh}")
            return text
        if isinstance(text, str):
            return _parse(text, mesh)
        if not isinstance(text, Iterable):
            raise LayoutError("a layout is text, a Layout, or a sequence of placements", got=repr(text), hint="for example S0,R")
        return _parse(",".join(str(token) for token in text), mesh)

    def tokens(self) -> tuple[str, ...]:
        """One token for each mesh axis, in mesh order, without the nesting order."""
        tokens = ["R"] * len(self.mesh.axes)
        factors = dict(self.strides)
        for dim, axes in enumerate(self.dims):
            for axis in axes:
                tokens[axis] = f"S{dim}/{factors[axis]}" if axis in factors else f"S{dim}"
        for axis, op in self.partial:
            tokens[axis] = "P" if op == "sum" else f"P{op}"
        return tuple(tokens)

    def __str__(self) -> str:
        names = self.mesh.axes
        orders = [f"{d}:" + ">".join(names[a] for a in axes) for d, axes in enumerate(self.dims) if list(axes) != sorted(axes)]
        return ",".join(self.tokens()) + (" | " + ", ".join(orders) if orders else "")

    def __repr__(self) -> str:
        return f"Layout.parse({str(self)!r}, {str(self.mesh)!r})"

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise unless every sharded dim exists in a tensor of this shape."""
        if len(self.dims) > len(shape):
            raise LayoutError(
                "a layout shards dims that the tensor has",
                got=f"{self} shards dim {len(self.dims) - 1} of a tensor with {len(shape)} dims",
                hint="dims count from 0",
            )


def _check_ops(ops: Sequence[str]) -> None:
    for op in ops:
        if op not in REDUCE_OPS:
            raise LayoutError("a partial axis reduces by sum, avg, max, min or product", got=repr(op), hint="P alone is Psum")
    kinds = set(ops)
    if len(kinds) > 1 and kinds != {"sum", "avg"}:
        raise LayoutError(
            "partial axes share one reduce op, or mix sum with avg: other reductions do not commute with each other",
            got=", ".join(sorted(kinds)),
            hint="reduce one of them first, in a redistribution of its own",
        )


@lru_cache(maxsize=1024)
def _parse(text: str, mesh: Mesh) -> Layout:
    body, _, order_text = text.partition("|")
    tokens = _split_tokens(body)
    if len(tokens) != len(mesh.axes):
        raise LayoutError(
            "a layout has one token for each mesh axis, in mesh order",
            got=f"{text!r}: {len(tokens)} tokens for {len(mesh.axes)} axes",
            hint=f"the mesh is {mesh}; write for example {','.join(['R'] * len(mesh.axes))}",
        )
    dims: dict[int, list[int]] = {}
    partial: list[tuple[int, str]] = []
    strides: list[tuple[int, int]] = []
    for axis, token in enumerate(tokens):
        kind, dim, detail = _read_token(token, text)
        if kind == "partial":
            partial.append((axis, str(detail)))
        elif kind != "replicate":
            dims.setdefault(dim, []).append(axis)
            strides.append((axis, int(detail)))
    for dim, axes in _read_orders(order_text, mesh, text):
        if sorted(axes) != dims.get(dim, []):
            raise LayoutError(
                "an order lists exactly the axes that shard its dim, major first",
                got=f"{text!r}: dim {dim} is sharded by {[mesh.axes[a] for a in dims.get(dim, [])]}",
                hint="for example S0,S0 | 0:tp>dp",
            )
        dims[dim] = axes
    ordered = tuple(tuple(dims.get(d, ())) for d in range(max(dims, default=-1) + 1))
    return Layout(mesh, ordered, tuple(partial), tuple(strides))


def _split_tokens(body: str) -> list[str]:
    """Split at the commas that are outside of parentheses; one pair of brackets around it all is dropped."""
    body = body.strip()
    if body[:1] + body[-1:] in ("()", "[]"):
        body = body[1:-1]
    return [token.strip() for token in re.split(r",(?![^(]*\))", body)] if body.strip() else []


def _read_token(token: str, text: str) -> tuple[str, int, str | int]:
    """-> (kind, tensor dim, reduce op or split factor)"""
    for kind, pattern in _TOKENS:
        match = pattern.fullmatch(token)
        if not match:
            continue
        got = match.groupdict()
        if kind == "replicate":
            return kind, 0, ""
        if kind == "partial":
            op = got["op"] or got["short"] or "sum"
            return kind, 0, op
        dim = int(got["dim"] or got["short"])
        if dim >= MOST_DIMS:
            raise LayoutError(f"a tensor has at most {MOST_DIMS} dims", got=f"{token!r} in {text[:40]!r}", hint="dims count from 0")
        if dim < 0:
            raise LayoutError("a tensor dim counts from 0", got=f"{token!r} in {text!r}", hint="write the dim as 0, 1, 2, …")
        return kind, dim, int(got.get("factor") or got.get("factor_short") or 1)
    raise LayoutError(
        "a placement is R, S<dim>, S<dim>/<factor> or P<op>, or DTensor's own spelling",
        got=f"{token!r} in {text!r}",
        hint="for example R,S0,P or Replicate(),Shard(0),Partial(sum)",
    )


def _read_orders(order_text: str, mesh: Mesh, text: str) -> Iterable[tuple[int, list[int]]]:
    for part in filter(None, (p.strip() for p in order_text.split(","))):
        match = _ORDER.fullmatch(part)
        if not match:
            raise LayoutError(
                "an order is written as dim:axis>axis, major first", got=f"{part!r} in {text!r}", hint="for example S0,S0 | 0:tp>dp"
            )
        yield int(match.group(1)), [mesh.index(name.strip()) for name in match.group(2).split(">")]


def clear() -> None:
    """Forget every text parsed."""
    _parse.cache_clear()
