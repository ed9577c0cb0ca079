"""Random redistributions, simulated on every rank, against the oracle."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter

import numpy as np
import pytest

import reshard
import sweep
from reshard import LayoutError


@pytest.mark.parametrize("seed", [11, 12])
def test_random_redistributions(seed: int) -> None:
    counts, wrong = sweep.sweep(1000, seed)
    print(f"seed {seed}: {dict(counts)}")
    assert not wrong, "\n\n".join(wrong)
    assert counts["cases"] == 1000


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param([100, 104, 105], marks=pytest.mark.slow),
        pytest.param(list(range(100, 108)), marks=pytest.mark.long),
    ],
    ids=["19,500 cases", "52,000 cases"],
)
def test_many_random_redistributions(seeds: list[int]) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.starmap(sweep.sweep, [(6500, seed) for seed in seeds], chunksize=1)
    total = sum((counts for counts, _ in results), Counter())
    print(f"seeds {seeds}: {dict(sorted(total.items()))}")
    wrong = [problem for _, problems in results for problem in problems]
    assert not wrong, "\n\n".join(wrong[:5])
    assert total["cases"] == 6500 * len(seeds)
    for name in ("objective", "groups", "strategy"):
        assert min(n for key, n in total.items() if key.startswith(name + "=")) >= 600 * len(seeds)
    assert total["refused"] < total["cases"] / 100


def test_the_sweep_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that drops what it received is found out."""
    module = sys.modules["reshard.simulate"]
    real = module._unpack
    monkeypatch.setattr(module, "_unpack", lambda *a: real(*a) * 0)
    _, wrong = sweep.sweep(50, seed=1)
    assert wrong


def test_moves_change_no_bit() -> None:
    """Negative zeros and NaN payloads arrive as they left, whichever way is taken."""
    words = np.array([0x80000000, 0x7FC00001, 0xFFC12345, 0x00000001], np.uint32)
    whole = np.resize(words, 12).view(np.float32)
    for strategy in ("auto", "exhaustive", "per-axis"):
        for target in ("S0,S0 | 0:b>a", "R,R", "R,S0"):
            p = reshard.plan("S0,S0", target, mesh="a=2,b=2", shape=(12,), strategy=strategy)
            parts = [whole[3 * i : 3 * i + 3] for i in range(4)]
            out = reshard.simulate(p, parts)
            at = {"S0,S0 | 0:b>a": [(0, 3), (6, 9), (3, 6), (9, 12)], "R,R": [(0, 12)] * 4, "R,S0": [(0, 6), (6, 12)] * 2}[target]
            for got, (lo, hi) in zip(out, at, strict=True):
                np.testing.assert_array_equal(got.view(np.uint32), whole[lo:hi].view(np.uint32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128, np.float16])
def test_moves_keep_the_sign_of_zero(dtype) -> None:
    """Also where the cheapest way for a tiny tensor adds padded pieces up."""
    for mesh, source, target in (("a=2,b=2", "S1,S1", "S2,S2"), ("z=1,a=2,b=2", "P,S1,S1", "R,S2,S2")):
        p = reshard.plan(source, target, mesh=mesh, shape=(5, 3, 7))
        assert [step.kind for step in p.steps] == ["slice", "reduce_scatter"]
        zero = np.array(-0.0, dtype) if np.dtype(dtype).kind == "f" else np.array(complex(-0.0, -0.0), dtype)
        parts = [np.full((5, rows, 7), zero) for rows in (1, 1, 1, 0)]
        for out in reshard.simulate(p, parts):
            assert np.signbit(out.real).all()


def test_shards_have_one_dtype() -> None:
    p = reshard.plan("S0", "R", mesh="a=2", shape=(2,))
    with pytest.raises(LayoutError, match="one dtype"):
        reshard.simulate(p, [np.zeros(1, np.float32), np.zeros(1)])


def test_half_types_are_rounded_once() -> None:
    p = reshard.plan("P", "R", mesh="a=4", shape=(1,), dtype="float16", reproducibility="bitwise")
    parts = [np.array([v], np.float16) for v in (2048, 1, 1, 1)]
    assert [out[0] for out in reshard.simulate(p, parts)] == [np.float16(np.float32(2051))] * 4


def test_shards_of_the_wrong_shape_or_number() -> None:
    p = reshard.plan("S0", "R", mesh="a=2", shape=(3,))
    with pytest.raises(LayoutError, match="shape that the source layout gives it; got \\(2,\\) at rank 1"):
        reshard.simulate(p, [np.zeros(2), np.zeros(2)])
    with pytest.raises(LayoutError, match="one array for each rank; got 1 arrays"):
        reshard.simulate(p, [np.zeros(2)])


def test_explicit_ranks_are_simulated_in_rank_order() -> None:
    p = reshard.plan("S0,S0", "S0,R", mesh="a=2,b=2@3,1,0,2", shape=(4,))
    by_coordinate = {3: 0, 1: 1, 0: 2, 2: 3}
    out = reshard.simulate(p, [np.array([by_coordinate[r]]) for r in range(4)])
    assert [o.tolist() for o in out] == [[2, 3], [0, 1], [2, 3], [0, 1]]
