"""Certificates against element sets: every rank's elements listed one by one, no intervals, no formulas for boxes."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

import oracle
import reshard
from reshard import Level, Topology
from reshard.bounds import Figure
from reshard.packing import pack
from reshard.pricing import Pricer
from reshard.steps import Edge
from reshard.traffic import Space, State


def elements(case: oracle.Case, spread: oracle.Spread) -> dict[tuple[int, ...], set[int]]:
    whole = np.arange(math.prod(case.shape)).reshape(case.shape)
    return {c: set(oracle.local(whole, spread, case.sizes, c).ravel().tolist()) for c in oracle.coordinates(case.sizes)}


def cases(seed: int, count: int, partial_targets: bool):
    rng = random.Random(seed)
    while count:
        case = oracle.random_case(rng, most_axes=3, most_ranks=12)
        sizes = dict(enumerate(case.sizes))
        if bool([a for a in case.target.partial() if sizes[a] > 1]) == partial_targets:
            count -= 1
            yield case


def least_messages(case: oracle.Case) -> int:
    """The receive bound by listing elements; for targets without partial axes."""
    have, want = elements(case, case.source), elements(case, case.target)
    summands = math.prod(case.sizes[a] for a in case.source.partial())
    if summands == 1:
        return sum(len(want[c] - have[c]) for c in have)
    total = 0
    for e in range(math.prod(case.shape)):
        wanting = [c for c in want if e in want[c]]
        met = any(e in have[c] for c in wanting)
        total += (summands - 1) + len(wanting) - met
    return total


@pytest.mark.parametrize("seed", range(4))
def test_receive_bounds_are_those_of_element_sets(seed: int) -> None:
    for case in cases(seed, 100, partial_targets=False):
        plan = reshard.plan(**case.kwargs(), objective="bytes")
        figures = plan.certificate
        assert figures.received.bound == least_messages(case) * 4, case
        have, want = elements(case, case.source), elements(case, case.target)
        if not case.source.partial():
            assert figures.worst_rank.bound == max(len(want[c] - have[c]) for c in have) * 4
        assert figures.largest_local.bound == max(len(s) for s in (*have.values(), *want.values())) * 4
        assert figures.peak.bound == max(len(have[c]) + len(want[c]) for c in have) * 4


@pytest.mark.parametrize("seed", range(2))
def test_no_plan_beats_a_bound(seed: int) -> None:
    """Over the reference strategy, the cheapest in each figure, partial targets included."""
    objectives = {"bytes": "received", "collectives": "collectives", "memory": "peak", "time": "time"}
    for partial_targets in (False, True):
        for case in cases(seed, 60, partial_targets):
            bounds = reshard.plan(**case.kwargs()).certificate
            for objective, name in objectives.items():
                best = reshard.plan(**case.kwargs(), objective=objective, strategy="exhaustive", reproducibility="any").certificate
                assert getattr(best, name).value >= getattr(bounds, name).bound, (case, name)
                assert best.rounds.value >= bounds.rounds.bound
                assert best.worst_rank.value >= bounds.worst_rank.bound


@pytest.mark.parametrize("seed", range(3))
def test_values_are_what_the_packings_say(seed: int) -> None:
    for case in cases(seed, 60, partial_targets=bool(seed % 2)):
        plan = reshard.plan(**case.kwargs(), objective="bytes")
        figures = plan.certificate
        by_rank = dict.fromkeys(oracle.coordinates(case.sizes), 0)
        for step in plan.collectives:
            for c in by_rank:
                if step.kind == "all_reduce":  # a reduce_scatter and an all_gather of flat chunks
                    packing = pack(step, case.shape, c)
                    n, local = len(packing.receives), packing.receives[0].elements if packing.receives else 0
                    place = [m.peer for m in packing.receives].index(c) if packing.receives else 0
                    pieces = [len(x) for x in oracle.chunks(np.arange(local), max(n, 1), 0)]
                    mine = pieces[place]
                    by_rank[c] += (n - 1) * mine + local - mine
                else:
                    by_rank[c] += pack(step, case.shape, c).received
        assert figures.received.value == sum(by_rank.values()) * 4, case
        assert figures.worst_rank.value == max(by_rank.values()) * 4, case
        for c, count in by_rank.items():
            assert figures.received_by_rank(plan.mesh.rank(c)) == count * 4


LEVELS = [((2,), "a=2,b=2,c=2"), ((4,), "a=2,b=2,c=2"), ((2, 4), "a=2,b=4"), ((2,), "a=3,b=2"), ((2, 4), "a=3,b=4")]


@pytest.mark.parametrize(("ranks", "mesh"), LEVELS)
def test_cuts_are_those_of_element_sets(ranks, mesh) -> None:
    topology = Topology(levels=tuple(Level(f"l{n}", n, 2e-5, 25e9) for n in ranks))
    sizes = tuple(int(part.split("=")[1]) for part in mesh.split(","))
    tokens = [("R"), ("S", 0, 1), ("S", 1, 1), ("P", "sum")]
    rng = random.Random(0)
    for _ in range(40):
        source = oracle.Spread(tuple(rng.choice(tokens) for _ in sizes))
        target = oracle.Spread(tuple(rng.choice(tokens[:3]) for _ in sizes))
        case = oracle.Case(tuple("abc"[: len(sizes)]), sizes, (rng.randint(1, 9), rng.randint(1, 9)), source, target)
        figures = reshard.plan(**case.kwargs(), topology=topology).certificate
        have, want = elements(case, source), elements(case, target)
        order = oracle.coordinates(sizes)
        for level, cut in zip(topology.levels, figures.cuts, strict=True):
            worst = 0
            for first in range(0, len(order), level.ranks):
                group = order[first : first + level.ranks]
                held = set().union(*(have[c] for c in group))
                wanted = set().union(*(want[c] for c in group))
                digits = {tuple(c[a] for a in source.partial()) for c in group}
                outside = len(digits) < math.prod(sizes[a] for a in source.partial())
                worst = max(worst, len(wanted) if outside else len(wanted - held))
            assert cut.bound == worst * 4, (case, level)
            assert cut.value >= cut.bound


def test_exchanges_into_a_group_are_counted_rank_by_rank() -> None:
    topology = Topology(levels=(Level("node", 2, 2e-5, 25e9),))
    rng = random.Random(1)
    tokens = ["R", ("S", 0, 1), ("S", 1, 1)]
    for _ in range(60):
        source, target = (oracle.Spread(tuple(rng.choice(tokens) for _ in range(3))) for _ in range(2))
        case = oracle.Case(("a", "b", "c"), (2, 2, 2), (rng.randint(1, 9), rng.randint(1, 9)), source, target)
        plan = reshard.plan(**case.kwargs(), topology=topology, objective="collectives")
        if [s.kind for s in plan.steps] not in (["exchange"], ["all_to_all"]):
            continue
        inflow = []
        for a, b in itertools.product(range(2), repeat=2):
            messages = [m for c in range(2) for m in pack(plan.steps[0], case.shape, (a, b, c)).receives]
            inflow.append(sum(m.elements for m in messages if m.peer[:2] != (a, b)))
        assert plan.certificate.cuts[0].value == max(inflow) * 4


@pytest.mark.parametrize("seed", range(3))
def test_folding_digits_changes_no_count(seed: int) -> None:
    """The weights of folded digits against the same counts over all ranks."""
    rng = random.Random(seed)
    for _ in range(60):
        sizes = tuple(rng.choice([2, 3, 5, 8]) for _ in range(3))
        shape = tuple(rng.randint(1, 60) for _ in range(2))
        states = []
        for _ in range(2):
            dims: list[list[int]] = [[], []]
            for axis in rng.sample(range(3), 3):
                if (d := rng.randint(-1, 1)) >= 0:
                    dims[d].append(axis)
            states.append(State(tuple(map(tuple, dims))))
        u, v = states
        plain, folded = Space(sizes, shape), Space.folded(sizes, shape, [(u, v)])
        for one, other in zip(_counts(plain, u, v), _counts(folded, u, v), strict=True):
            assert plain.total(one) == folded.total(other)
            assert np.max(one) == np.max(other)


def _counts(space: Space, u: State, v: State) -> list:
    return [space.held(u), space.held(v), space.shared(u, v), space.held(v) - space.shared(u, v)]


def test_folding_folds() -> None:
    u, v = State(((0, 1, 2), ())), State(((), (2, 1, 0)))
    folded = Space.folded((64, 64, 256), (10**6 + 3, 10**6 + 7), [(u, v)])
    assert math.prod(len(d) for d in folded.digits) < 2000
    assert folded.total(folded.held(u)) == (10**6 + 3) * (10**6 + 7)


@pytest.mark.parametrize("seed", range(2))
def test_peers_are_the_ranks_that_send(seed: int) -> None:
    """Rounds of an exchange: the most ranks that one rank receives from; never less than there are."""
    rng = random.Random(seed)
    tokens = ["R", ("S", 0, 1), ("S", 1, 1)]
    for _ in range(100):
        sizes = tuple(rng.choice([2, 3, 4]) for _ in range(2))
        source, target = (oracle.Spread(tuple(rng.choice(tokens) for _ in range(2))) for _ in range(2))
        case = oracle.Case(("a", "b"), sizes, (rng.randint(1, 20), rng.randint(1, 20)), source, target)
        plan = reshard.plan(**case.kwargs(), objective="collectives")
        for step, price in zip(plan.steps, plan.certificate.prices, strict=True):
            if step.kind in ("exchange", "all_to_all"):
                packings = [pack(step, case.shape, c) for c in oracle.coordinates(sizes)]
                peers = max(sum(m.peer != p.coordinate for m in p.receives) for p in packings)
                assert peers <= price.rounds <= max(1, math.prod(sizes) - 1)


def test_rounds_of_trees() -> None:
    pricer = Pricer(Space((8, 4), (64,)), State(((),)), 4, Topology(), ())
    one, both = State(((0,),)), State(((0, 1),))
    empty = State(((),))
    assert pricer.rounds(Edge("all_gather", (0,)), one, empty) == 3
    assert pricer.rounds(Edge("all_gather", (0, 1)), both, empty) == 5
    assert pricer.rounds(Edge("all_reduce", (0, 1), (0, 1)), State(((),), (0, 1)), empty) == 10


def test_figures() -> None:
    assert (Figure(3, 2).gap, Figure(3, 2).ratio) == (1, 1.5)
    assert Figure(0, 0).ratio == 1.0
    assert Figure(1, 0).ratio == math.inf
