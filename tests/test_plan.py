"""plan(): named cases, options, errors, text and JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import reshard
from reshard import BrokenPlanError, LayoutError, Level, Mesh, Plan, Topology
from reshard.checks import STRATEGY_NAMES
from reshard.strategies import STRATEGIES
from test_values import expect

CUBE = "a=2,b=2,c=2"


def kinds(p: Plan) -> list[str]:
    return [step.kind for step in p.steps]


def per_rank(p: Plan) -> float:
    """Bytes received per rank, in tensors."""
    size = p.itemsize
    for n in p.shape:
        size *= n
    return p.certificate.received.value / p.mesh.size / size


# (source, target, mesh, shape, objective, collectives, tensors received per rank or None)
NAMED = [
    ("P,R,P", "R,R,R", CUBE, (64, 64), "collectives", 1, None),
    ("P,R,P", "R,R,R", CUBE, (64, 64), "time", 1, None),
    ("P,R,P", "R,R,R", CUBE, (64, 64), "bytes", 2, 10 / 8),
    ("P,P", "S0,S1", "a=2,b=2", (8, 8), "bytes", 1, 3 / 4),
    ("S0,S1", "R,R", "a=2,b=2", (8, 8), "bytes", 1, 3 / 4),
    ("S0,S1", "S1,S0", "a=2,b=2", (8, 8), "bytes", 1, None),
    ("S0,S0,R", "S1,S1,R", CUBE, (8, 8), "bytes", 1, None),
    ("P,P,P", "R,S0,R", CUBE, (8, 8), "bytes", 2, None),
    ("P,R", "R,R", "a=4,b=2", (8, 8), "bytes", 2, 10 / 8),
    ("S0,S0", "S0,S0 | 0:b>a", "a=2,b=2", (8, 8), "bytes", 1, None),
    ("S0,S0", "R,R", "a=2,b=2", (5, 3), "bytes", 1, None),
    ("R,P,P", "S0,S0,S0", CUBE, (12,), "bytes", 1, None),
    ("S0,S0,S0", "R,S0,R", CUBE, (9,), "bytes", 1, None),
    ("Pavg,P,R", "R,R,S0", "a=1,b=2,c=2", (6,), "bytes", 1, None),
]


@pytest.mark.parametrize(("source", "target", "mesh", "shape", "objective", "collectives", "received"), NAMED)
def test_named_cases(source, target, mesh, shape, objective, collectives, received) -> None:
    p = reshard.plan(source, target, mesh=mesh, shape=shape, objective=objective).verify()
    assert len(p.collectives) == p.certificate.collectives.value == collectives
    if received is not None:
        assert per_rank(p) == received
    if "P" in source and objective == "bytes":
        assert p.certificate.one_reduction


def test_stock_moves_more_for_a_replicated_axis() -> None:
    assert per_rank(reshard.plan("P,R", "R,R", mesh="a=4,b=2", shape=(8, 8), strategy="per-axis")) == 12 / 8


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [("R", "S0", ["slice"]), ("R", "P", ["slice"]), ("S0", "P", ["slice"]), ("R", "Pmax", ["slice"]), ("S0", "S0", []), ("P", "P", [])],
)
def test_local_targets_are_local_steps(source, target, expected) -> None:
    p = reshard.plan(source, target, mesh="a=4", shape=(10, 3)).verify()
    assert kinds(p) == expected
    assert p.certificate.received.value == 0


def test_the_merge_is_partial_where_groups_are() -> None:
    groups = {("a",), ("b",), ("c",), ("a", "b")}
    for objective in ("time", "bytes"):
        ours = reshard.plan("P,P,P", "R,R,R", mesh=CUBE, shape=(64, 64), groups=groups, objective=objective).verify()
        assert all(frozenset(step.group) in map(frozenset, groups) for step in ours.collectives)
        assert ours.certificate.replica_consistent
        assert kinds(ours).count("all_reduce") <= 1
    two = reshard.plan("P,P,P", "R,R,R", mesh=CUBE, shape=(64, 64), groups=groups, objective="collectives", reproducibility="any")
    assert kinds(two.verify()) == ["all_reduce", "all_reduce"]
    assert ours.certificate.received.value < two.certificate.received.value


def test_single_axes_give_strict_at_the_flattened_bytes() -> None:
    alone = {("a",), ("b",)}
    nested = reshard.plan("P,P", "R,R", mesh="a=2,b=4", shape=(64,), groups=alone, objective="bytes", reproducibility="strict").verify()
    merged = reshard.plan("P,P", "R,R", mesh="a=2,b=4", shape=(64,), objective="bytes").verify()
    assert nested.certificate.one_reduction
    assert nested.certificate.received.value == merged.certificate.received.value


def test_an_exchange_may_use_a_larger_group() -> None:
    p = reshard.plan("S0,R", "S1,R", mesh="a=2,b=2", shape=(4, 4), groups={("a", "b")}).verify()
    assert [(s.kind, s.axes, s.group) for s in p.steps] == [("exchange", ("a",), ("a", "b"))]


def test_groups_that_do_not_suffice() -> None:
    expect(
        lambda: reshard.plan("P,R", "R,R", mesh="a=2,b=2", shape=(4,), groups={("b",)}),
        "only the groups it is given",
        "['b']",
        "give a group for every mesh axis",
    )


def test_bitwise_is_one_exchange_and_a_fold() -> None:
    p = reshard.plan("P,R,P", "R,R,R", mesh=CUBE, shape=(64, 64), reproducibility="bitwise").verify()
    assert [s.kind for s in p.collectives if s.reduced] == ["exchange"]


def test_a_second_all_reduce_is_not_replica_consistent() -> None:
    stock = reshard.plan("P,R,P", "R,R,R", mesh=CUBE, shape=(64, 64), strategy="per-axis")
    assert kinds(stock) == ["all_reduce", "all_reduce"]
    assert not stock.certificate.replica_consistent
    assert not stock.certificate.one_reduction
    congruent = reshard.plan("P,R,P", "R,R,R", mesh=CUBE, shape=(64, 64), objective="collectives")
    assert (congruent.certificate.replica_consistent, congruent.certificate.one_reduction) == (True, False)


def test_memory_limit_says_the_least() -> None:
    arguments = {"mesh": CUBE, "shape": (64, 64), "objective": "bytes"}
    least = reshard.plan("P,R,P", "R,R,R", **arguments | {"objective": "memory"}).certificate.peak.value
    expect(
        lambda: reshard.plan("P,R,P", "R,R,R", **arguments, memory_limit=int(least) - 1),
        "within memory_limit",
        f"memory_limit={least - 1}",
        f"the least that can be done is {least}",
    )
    limited = reshard.plan("P,R,P", "R,R,R", **arguments, memory_limit=int(least)).verify()
    assert limited.certificate.peak.value <= least


def test_a_strided_shard_becomes_an_order_where_it_is_one() -> None:
    even = reshard.plan("S0/2,S0", "S0,S0 | 0:b>a", mesh="a=2,b=2", shape=(8,))
    assert kinds(even) == ["slice"]
    assert even.certificate.received.value == 0
    uneven = reshard.plan("S0/2,S0", "S0,S0 | 0:b>a", mesh="a=3,b=2", shape=(7,)).verify()
    assert uneven.certificate.received.value > 0


def test_bad_input() -> None:
    on = {"mesh": "a=2,b=2", "shape": (4, 4)}
    expect(lambda: reshard.plan("S2,R", "R,R", **on), "dims that the tensor has", "dim 2 of a tensor with 2 dims", "count from 0")
    expect(lambda: reshard.plan("S0,R", "R,R", mesh="a=2,b=2", shape=(4, -1)), "0 or more", "(4, -1)", "global shape")
    expect(lambda: reshard.plan("S0,R", "R,R", mesh="a=2,b=2", shape=(4.0,)), "whole numbers", "(4.0,)", "global shape")
    expect(lambda: reshard.plan("P,R", "Pmax,R", **on), "keeps its reduce op", "a: Psum -> Pmax", "reduce it first")
    expect(lambda: reshard.plan("P,R", "P,Pmax", **on), "share one reduce op", "max, sum", "reduce one of them first")
    expect(lambda: reshard.plan("Pavg,R", "R,R", **on, dtype="int32"), "floating point", "Pavg with int32", "sum")
    expect(lambda: reshard.plan("R,R", "S0,R", **on, dtype="float33"), "dtype", "float33", "bfloat16")
    expect(lambda: reshard.plan("R,R", "S0,R", **on, objective="speed"), "objective is one of", "'speed'", "time")
    expect(lambda: reshard.plan("R,R", "S0,R", **on, strategy="best"), "strategy is one of", "'best'", "auto")
    expect(lambda: reshard.plan("R,R", "S0,R", **on, reproducibility="no"), "reproducibility is one of", "'no'", "replicas")
    expect(lambda: reshard.plan("R,R", "S0,R", **on, groups="some"), "groups is", "'some'", "dp")
    expect(lambda: reshard.plan("R,R", "S0,R", **on, groups={("a", "x")}), "one of the mesh's", "unknown axis 'x'", "a, b")
    other = reshard.Layout.parse("R,R", "x=2,y=2")
    expect(lambda: reshard.plan(other, "S0,R", **on), "belongs to the mesh", "x=2,y=2", "a=2,b=2")


BAD_TYPES = {
    "shape": [5, None, ([1], 2), (4.0,), (True,), "4"],
    "mesh": [None, 4, {}, ["a=2"], "a=" + "9" * 5000 + ",b=2"],
    "dtype": [[], "float33"],
    "objective": [[]],
    "strategy": [[]],
    "reproducibility": [[], None],
    "groups": [None, 3, [[["a"]]]],
    "memory_limit": ["1GB", [1], True],
    "topology": ["x", []],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD_TYPES.items() for value in values])
def test_wrong_types_are_layout_errors(name, value) -> None:
    with pytest.raises(LayoutError):
        reshard.plan("S0,R", "R,R", **{"mesh": "a=2,b=2", "shape": (8, 8), name: value})


@pytest.mark.parametrize("layout", [None, 3, "S3000000000,R", "S" + "9" * 5000 + ",R", "S0,,R", "S64,R"])
def test_wrong_layouts_are_layout_errors(layout) -> None:
    with pytest.raises(LayoutError):
        reshard.plan(layout, "R,R", mesh="a=2,b=2", shape=(8, 8))


def test_an_answer_does_not_depend_on_what_was_asked_before() -> None:
    reshard.plan("S0", "R", mesh="a=2", shape=(10,))
    expect(lambda: reshard.plan("S0", "R", mesh="a=2", shape=(10.0,)), "whole numbers", "(10.0,)", "global shape")
    assert reshard.plan("S0", "R", mesh="a=2", shape=(np.int64(10),)).shape == (10,)
    assert Topology(alpha=0, launch=0) == Topology(alpha=0.0, launch=0.0)
    assert type(Topology(alpha=0).alpha) is float


def test_counts_that_would_overflow_are_refused() -> None:
    expect(lambda: reshard.plan("S1/2", "S1/3", mesh="a=4", shape=(0, 10**30)), "below 2**53", "10000", "part of the tensor")
    expect(lambda: reshard.plan("P,S0", "S1,R", mesh="a=3,b=2", shape=(2**40, 2**40)), "2**62", "3 summands", "part of the tensor")


def test_strided_to_plain_is_no_all_gather() -> None:
    p = reshard.plan("S0/3", "S0", mesh="b=4", shape=(8,), objective="bytes").verify()
    assert kinds(p) == ["all_to_all"]
    for source, target in (("S0/2,P", "R,S0/2"), ("S0/2,R", "Pavg,R")):
        reshard.plan(source, target, mesh="a=2,b=2", shape=(8,)).verify()


def test_memory_is_least_with_or_without_a_limit() -> None:
    arguments = {"mesh": CUBE, "shape": (64, 64), "objective": "memory"}
    free = reshard.plan("P,R,P", "R,R,R", **arguments).certificate.peak.value
    assert reshard.plan("P,R,P", "R,R,R", **arguments, memory_limit=10**12).certificate.peak.value == free


def test_a_plans_own_peak_is_a_limit_that_it_keeps() -> None:
    """Also where a step turns out to be local, and where a larger tensor on the way needs less memory."""
    for source, target, mesh, shape in (
        ("S1", "S0", "a=4", (1, 1)),
        ("S0,S0", "S0,S0 | 0:b>a", "a=2,b=2", (1,)),
        ("S1,R", "S0,S1", "a=3,b=2", (5, 3)),
        ("S0,R", "S0,R", "a=2,b=2", (4,)),
    ):
        peaks = []
        for objective in ("time", "bytes", "collectives", "memory"):
            arguments = {"mesh": mesh, "shape": shape, "objective": objective}
            peak = reshard.plan(source, target, **arguments).certificate.peak.value
            assert reshard.plan(source, target, **arguments, memory_limit=int(peak)).certificate.peak.value <= peak
            peaks.append(peak)
        assert peaks[-1] == min(peaks)
        least = peaks[-1]
        for objective in ("time", "bytes", "memory"):
            assert reshard.plan(source, target, mesh=mesh, shape=shape, objective=objective, memory_limit=int(least)).verify()
    expect(
        lambda: reshard.plan("S0", "S0", mesh="a=2", shape=(8,), memory_limit=1),
        "within memory_limit",
        "memory_limit=1",
        "the least that can be done is 32",
    )


def test_tiny_tensors_are_planned_as_well_as_by_the_reference() -> None:
    for mesh, shape in (("a=2,b=3", (1,)), ("a=2,b=4", (1, 8)), ("a=4,b=4", (2,))):
        for source, target in (("S0,S0", "S0,R"), ("S0,R", "R,S0"), ("S0,S0", "R,S0")):
            ours, reference = (
                reshard.plan(source, target, mesh=mesh, shape=shape, strategy=s).certificate.time.value for s in ("auto", "exhaustive")
            )
            assert ours <= reference + 5e-12


def test_a_misfit_topology_is_refused_whatever_the_way() -> None:
    odd = Topology(levels=(Level("l", 2, 1e-4, 1e9),))
    for source, shape in (("R", (9,)), ("S0", (0,)), ("S0", (9,))):
        expect(
            lambda s=source, n=shape: reshard.plan(s, "R", mesh="a=3", shape=n, topology=odd), "blocks of the mesh", "2 ranks", "divides"
        )


def test_a_group_keeps_its_name() -> None:
    p = reshard.plan("R,S0", "R,R", mesh="a=1,b=2", shape=(4,), groups={("a", "b")}).verify()
    assert [(s.axes, s.group) for s in p.steps] == [(("b",), ("a", "b"))]
    assert Plan.from_json(p.to_json()) == p


def test_levels_have_to_fit_the_mesh() -> None:
    odd = Topology(levels=(Level("node", 3, 1e-5, 1e9),))
    expect(lambda: reshard.plan("S0,R", "R,R", mesh="a=2,b=4", shape=(8,), topology=odd), "blocks of the mesh", "3 ranks", "divides")
    shuffled = Topology(levels=(Level("node", 2, 1e-5, 1e9),))
    mesh = Mesh.parse("a=2,b=2@0,2,1,3")
    expect(
        lambda: reshard.plan("S0,R", "R,R", mesh=mesh, shape=(8,), topology=shuffled), "blocks of the mesh", "2 ranks", "number the ranks"
    )
    expect(lambda: Topology(levels=(Level("a", 4, 1e-5, 1), Level("b", 6, 1e-5, 1))), "several whole groups", "[4, 6]", "8, then 64")
    expect(lambda: Level("node", 0, 1, 1), "ranks >= 1", "ranks=0", "Level(")
    expect(lambda: Topology(bandwidth=0), "bandwidth >= 1", "bandwidth=0", "bytes per second")


def test_slow_outer_links_make_hierarchical_plans() -> None:
    nodes = Topology(levels=(Level("node", 4, 2e-5, 10e9),))
    p = reshard.plan("S0,R", "R,R", mesh="dp=2,tp=4", shape=(4096, 4096), topology=nodes).verify()
    flat = reshard.plan("S0,R", "R,R", mesh="dp=2,tp=4", shape=(4096, 4096)).verify()
    (into_node,) = p.certificate.cuts
    assert into_node.gap == 0
    assert p.certificate.received.value > flat.certificate.received.value
    again = replace(flat, options=replace(flat.options, topology=nodes))
    assert again.certificate.cuts[0].value == 4 * into_node.value


def test_plans_survive_json() -> None:
    topology = Topology(levels=(Level("node", 2, 2e-5, 1e9),))
    for options in ({}, {"groups": {("a",), ("b",), ("c",)}}, {"topology": topology, "objective": "bytes"}, {"reproducibility": "bitwise"}):
        p = reshard.plan("P,S0,R", "S1,R,S0 | 0:c", mesh=CUBE, shape=(5, 3), dtype="bfloat16", **options)
        assert Plan.from_json(p.to_json()) == p


def tampered(change) -> str:
    data = json.loads(reshard.plan("P,S0,R", "S1,R,S0", mesh=CUBE, shape=(5, 3), objective="bytes").to_json())
    change(data)
    return json.dumps(data)


def _set(*path_and_value):
    *path, key, value = path_and_value

    def change(data):
        for part in path:
            data = data[part]
        data[key] = value

    return change


TAMPERING = {
    "reduce op": _set("target", "Pmax,R,R"),
    "strategy": _set("options", "strategy", "banana"),
    "levels": _set("options", "topology", "levels", [["l", 3, 1e-4, 1e9]]),
    "objective": _set("options", "objective", "speed"),
    "groups": _set("options", "groups", [["a"]]),
    "promise": _set("options", "reproducibility", "bitwise"),
    "memory limit": _set("options", "memory_limit", 1),
    "alpha": _set("options", "topology", "alpha", float("nan")),
    "repeated group": _set("steps", 0, "group", ["a", "a"]),
    "true for one": _set("totals", "collectives", True),
    "huge shape": _set("shape", [10**30]),
    "huge mesh": _set("mesh", "a=99999999999999,b=2,c=2"),
    "format": _set("format", "reshard-plan-0"),
    "target": _set("target", "S1,R,S1"),
    "shape": _set("shape", [5, 4]),
    "negative shape": _set("shape", [5, -3]),
    "kind": _set("steps", 0, "kind", "all_gather"),
    "unknown kind": _set("steps", 0, "kind", "broadcast"),
    "slice instead of moving": lambda d: d["steps"][0].update(kind="slice", axes=[], group=[]),
    "axes": _set("steps", 0, "axes", ["c"]),
    "group": _set("steps", 0, "group", ["c"]),
    "layout after": _set("steps", 0, "after", "S1,S0,S1"),
    "dropped step": lambda d: d["steps"].pop(),
    "repeated step": lambda d: d["steps"].append(d["steps"][-1]),
    "received": _set("totals", "received", 0),
    "step's received": _set("steps", 0, "received", 1),
    "peak": _set("totals", "peak", 1),
    "missing": lambda d: d.pop("mesh"),
    "extra": _set("note", "hello"),
    "dtype": _set("options", "dtype", "float33"),
    "steps are no list": _set("steps", 3),
    "options are no dict": _set("options", None),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampered_json_is_refused(name: str) -> None:
    text = tampered(TAMPERING[name])
    with pytest.raises(LayoutError) as caught:
        Plan.from_json(text)
    assert caught.value.hint


def test_a_changed_reduce_op_is_refused() -> None:
    """A sum that turns into a maximum on the way would be wrong data."""
    mesh = Mesh.parse("a=2,b=2")
    source, other, target = (reshard.Layout.parse(text, mesh) for text in ("P,R", "Pmax,R", "R,R"))
    p = reshard.plan(source, target, mesh=mesh, shape=(4,), objective="collectives")
    steps = (reshard.Step("slice", source, other, (), ()), reshard.Step("all_reduce", other, target, ("a",), ("a",)))
    with pytest.raises(LayoutError, match="not what its layouts say"):
        Plan.from_json(replace(p, steps=steps).to_json())


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"plan"', "[" * 100_000, None, 5])
def test_malformed_json_is_refused(text) -> None:
    with pytest.raises(LayoutError, match="JSON"):
        Plan.from_json(text)


def test_a_broken_plan_does_not_verify() -> None:
    p = reshard.plan("S0,S1", "R,R", mesh="a=2,b=2", shape=(5, 3), objective="bytes")
    (step,) = p.steps
    for broken in (
        replace(p, steps=()),
        replace(p, steps=(step, step)),
        replace(p, steps=(replace(step, kind="slice", axes=(), group=()),)),
        replace(p, steps=(replace(step, axes=("a",), group=("a",)),)),
        replace(p, steps=(replace(step, kind="all_to_all"),)),
        replace(p, steps=(replace(step, group=("a",)),)),
    ):
        with pytest.raises(BrokenPlanError, match="please report it"):
            broken.verify()


def test_blocks_cover_a_box_once_or_not() -> None:
    from reshard.verify import covers_once

    whole = (((0, 4),), ((0, 2),))
    left, right = (((0, 2),), ((0, 2),)), (((2, 4),), ((0, 2),))
    assert covers_once([left, right], whole)
    assert not covers_once([left], whole)
    assert not covers_once([left, left], whole)
    assert not covers_once([left, (((1, 3),), ((0, 2),))], whole)
    assert not covers_once([left, (((4, 6),), ((0, 2),))], whole)


def test_a_lost_message_does_not_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["reshard.verify"]
    real = module.pack

    def forgetful(step, shape, coordinate):
        packing = real(step, shape, coordinate)
        return replace(packing, receives=packing.receives[1:])

    p = reshard.plan("S0,S1", "S1,S0", mesh="a=2,b=2", shape=(5, 3), objective="bytes").verify()
    monkeypatch.setattr(module, "pack", forgetful)
    with pytest.raises(BrokenPlanError, match="does not arrive exactly once"):
        p.verify()


def test_reprs_are_short() -> None:
    layout = reshard.Layout.parse("S0,S0 | 0:b>a", "a=2,b=2")
    assert repr(layout) == "Layout.parse('S0,S0 | 0:b>a', 'a=2,b=2')"
    p = reshard.plan("R", "S0", mesh="a=2", shape=(4,))
    assert repr(p) == "<Plan R -> S0 on a=2, 4 float32: slice>"


def test_the_printout_explains_itself() -> None:
    p = reshard.plan("P,R,P", "R,R,R", mesh="dp=2,cp=2,tp=2", shape=(4096, 4096), dtype="bfloat16")
    text = str(p)
    for part in (
        "P,R,P -> R,R,R on dp=2,cp=2,tp=2, 4096x4096 bfloat16",
        "reduce_scatter",
        "dp+cp+tp",
        "320 MiB",
        "reached",
        "each element is reduced once",
    ):
        assert part in text
    assert len(text.splitlines()) == 1 + 2 + len(p.steps) + 6
    page = p._repr_html_()
    assert page.count("<tr>") == 1 + len(p.steps) + 6
    assert "-&gt;" in page
    assert "nothing to do" in str(reshard.plan("R", "R", mesh="a=2", shape=(4,)))


def test_plans_are_the_same_in_every_process() -> None:
    code = (
        "import itertools, reshard\n"
        "L = [','.join(t) for t in itertools.product(['R', 'S0', 'S1', 'P'], repeat=2)]\n"
        "for o in ('time', 'bytes', 'collectives', 'memory'):\n"
        "    for g in ('auto', 'explicit'):\n"
        "        for s, t in itertools.product(L, L):\n"
        "            print(reshard.plan(s, t, mesh='a=2,b=3', shape=(5, 7), objective=o, groups=g).to_json())\n"
    )
    outputs: set[bytes] = set()
    for seed in ("0", "1", "77"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        outputs.add(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout)
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 4 * 2 * 16 * 16


def test_caches_are_bounded_and_clear() -> None:
    from reshard import layout, mesh, packing, search

    for cached in (search._plan, layout._parse, mesh._parse, packing._box, packing._locate):
        assert cached.cache_info().maxsize
    one = reshard.plan("S0", "R", mesh="a=2", shape=(4,))
    assert reshard.plan("S0", "R", mesh="a=2", shape=(4,)) is one
    reshard.clear_caches()
    assert reshard.plan("S0", "R", mesh="a=2", shape=(4,)) is not one


def test_a_million_ranks_are_a_number() -> None:
    begin = time.perf_counter()
    p = reshard.plan("S0,S0,S0", "S1,R,S2", mesh="a=64,b=64,c=256", shape=(100_003, 4097, 300), objective="bytes")
    figures = p.certificate
    assert figures.received.gap == 0
    assert figures.received_by_rank(2**20 - 1) <= figures.worst_rank.value
    assert time.perf_counter() - begin < 30, "this looks like a loop over ranks"


def test_every_strategy_has_a_name_and_works() -> None:
    assert set(STRATEGIES) == set(STRATEGY_NAMES)
    for strategy in STRATEGIES:
        reshard.plan("P,S0", "S0,R", mesh="a=2,b=2", shape=(5, 3), strategy=strategy).verify()
