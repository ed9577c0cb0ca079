"""Meshes, layouts and ownership."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reshard import Layout, LayoutError, Mesh
from reshard.ownership import box, chunk, local_shape
from reshard.simulate import index

MESHES = ("a=2,b=3,c=2", "a=1,b=2", "x=4", "a=2,b=2,c=2,d=2")


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    mesh = Mesh.parse(draw(st.sampled_from(MESHES)))
    ops = draw(st.sampled_from([("sum",), ("sum", "avg"), ("max",), ("min",), ("product",)]))
    dims: list[list[int]] = [[], [], []]
    partial, strides = [], []
    for axis in range(len(mesh.axes)):
        where = draw(st.integers(-2, 2))
        if where >= 0:
            dims[where].append(axis)
            strides.append((axis, draw(st.sampled_from([1, 1, 2, 3]))))
        elif where == -2:
            partial.append((axis, draw(st.sampled_from(ops))))
    shuffled = tuple(tuple(draw(st.permutations(axes))) for axes in dims)
    return Layout(mesh, shuffled, tuple(partial), tuple(strides))


@given(layouts())
def test_text_and_layout_are_the_same(layout: Layout) -> None:
    assert Layout.parse(str(layout), layout.mesh) == layout
    assert hash(Layout.parse(str(layout), layout.mesh)) == hash(layout)


@pytest.mark.parametrize(
    "spelling",
    [
        "Replicate(),Shard(0),_StridedShard(dim=1, sf=2),Partial(sum)",
        "R, S(0), _S(1, 2), P(sum)",
        "(Replicate(), Shard(dim=0), _StridedShard(dim=1, split_factor=2), Partial('sum'))",
        "[R, S0, S1/2, Psum]",
        "R,S0,S1/2,P",
    ],
)
def test_dtensors_spelling_is_read(spelling: str) -> None:
    assert str(Layout.parse(spelling, "a=2,b=2,c=2,d=2")) == "R,S0,S1/2,P"


def test_a_sequence_of_placements_is_read() -> None:
    assert str(Layout.parse(["R", "S1"], Mesh.parse("a=2,b=2"))) == "R,S1"


def test_trailing_unsharded_dims_do_not_matter() -> None:
    mesh = Mesh.parse("a=2")
    assert Layout(mesh, ((0,), (), ())) == Layout(mesh, ((0,),))


def test_explicit_ranks_in_order_are_no_ranks() -> None:
    assert Mesh(("a",), (3,), ranks=(0, 1, 2)) == Mesh(("a",), (3,))
    mesh = Mesh.parse("a=2,b=2@5,1,9,3")
    assert str(mesh) == "a=2,b=2@5,1,9,3"
    assert [mesh.coordinate(r) for r in (5, 1, 9, 3)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [mesh.rank(mesh.coordinate(r)) for r in mesh.sorted_ranks()] == [1, 3, 5, 9]


def test_chunks_are_those_of_array_splitting() -> None:
    for length in range(14):
        for parts in range(1, 6):
            expected = [c.tolist() for c in oracle.chunks(np.arange(length), parts, 0)]
            assert [list(range(*chunk(length, parts, i))) for i in range(parts)] == expected


@given(layouts(), st.tuples(*[st.integers(0, 13)] * 3))
def test_boxes_are_what_repeated_chunking_leaves(layout: Layout, shape: tuple[int, int, int]) -> None:
    factors = dict(layout.strides)
    placements = ["R"] * len(layout.mesh.axes)
    for dim, axes in enumerate(layout.dims):
        for axis in axes:
            placements[axis] = ("S", dim, factors.get(axis, 1))
    spread = oracle.Spread(tuple(placements), tuple(enumerate(layout.dims)))
    whole = np.arange(np.prod(shape)).reshape(shape)
    for coordinate in oracle.coordinates(layout.mesh.sizes):
        held = box(layout, shape, coordinate)
        expected = oracle.local(whole, spread, layout.mesh.sizes, coordinate)
        assert local_shape(held) == expected.shape
        np.testing.assert_array_equal(whole[index(held)], expected)


BAD_MESHES = [
    ("a=2,a=2", "names each axis once", "a,a", "rename"),
    ("a=0", "size of at least 1", "a=0", "leave out"),
    ("a", "name=size", "'a'", "dp=2"),
    ("a=2@0", "exactly one rank for each coordinate", "2 coordinates, with 1 ranks", "multiply"),
    ("a=2,b=4@0,1,2,3", "exactly one rank for each coordinate", "8 coordinates, with 4 ranks", "multiply"),
    ("a=2@1,1", "distinct", "(1, 1)", "once"),
    ("a=2@x", "whole numbers", "'a=2@x'", "0,2,1,3"),
]


@pytest.mark.parametrize(("text", "rule", "got", "hint"), BAD_MESHES)
def test_bad_meshes(text: str, rule: str, got: str, hint: str) -> None:
    expect(lambda: Mesh.parse(text), rule, got, hint)


BAD_LAYOUTS = [
    ("S0,S0 | 0:x>a", "one of the mesh's", "unknown axis 'x'", "has a, b"),
    ("S0,S0 | 0:a>a", "exactly the axes that shard its dim", "['a', 'b']", "0:tp>dp"),
    ("S0,R | 0:a>b", "exactly the axes that shard its dim", "['a']", "0:tp>dp"),
    ("S0", "one token for each mesh axis", "1 tokens for 2 axes", "R,R"),
    ("S0,Q", "a placement is", "'Q'", "R,S0,P"),
    ("S-1,R", "counts from 0", "'S-1'", "0, 1, 2"),
    ("S0/0,R", "split factor is at least 1", "0", "S0/2"),
    ("Pmean,R", "sum, avg, max, min or product", "'mean'", "Psum"),
    ("Pmax,P", "share one reduce op", "max, sum", "reduce one of them first"),
    ("Pavg,Pmin", "share one reduce op", "avg, min", "reduce one of them first"),
    ("S0,S0 | b>a", "dim:axis>axis", "'b>a'", "0:tp>dp"),
    ("", "one token for each mesh axis", "0 tokens", "R,R"),
]


@pytest.mark.parametrize(("text", "rule", "got", "hint"), BAD_LAYOUTS)
def test_bad_layouts(text: str, rule: str, got: str, hint: str) -> None:
    expect(lambda: Layout.parse(text, "a=2,b=2"), rule, got, hint)


def test_a_repeated_axis() -> None:
    mesh = Mesh.parse("a=2,b=2")
    expect(lambda: Layout(mesh, ((0,), (0,))), "once", "axis a repeated", "each axis once")
    expect(lambda: Layout(mesh, ((0,),), ((0, "sum"),)), "once", "axis a repeated", "each axis once")


def expect(call, rule: str, got: str, hint: str) -> None:
    """The call raises a LayoutError whose parts say this."""
    with pytest.raises(LayoutError) as caught:
        call()
    error = caught.value
    assert rule in error.rule
    assert got in error.got
    assert hint in error.hint
    assert str(error) == f"{error.rule}; got {error.got} (hint: {error.hint})"
