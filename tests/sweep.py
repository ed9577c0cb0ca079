"""Random redistributions against the oracle, as many as asked for: python tests/sweep.py --cases 50000 --seed 1"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import oracle
import reshard

OBJECTIVES = ("time", "bytes", "collectives", "memory")
POLICIES = ("auto", "explicit", "given")
STRATEGIES = ("auto", "exhaustive", "per-axis")
PROMISES = ("replicas", "strict", "bitwise", "any")


def given_groups(rng: random.Random, names: tuple[str, ...]) -> frozenset[frozenset[str]]:
    """Every axis alone, and a few larger sets."""
    singles = [frozenset([n]) for n in names]
    larger = [frozenset(rng.sample(names, rng.randint(1, len(names)))) for _ in range(rng.randint(0, 2))]
    return frozenset(singles + larger)


def run_one(rng: random.Random, counts: Counter) -> str:
    """One case; -> what was wrong, or nothing."""
    strategy = rng.choice(STRATEGIES)
    small = strategy == "exhaustive"
    case = oracle.random_case(rng, most_axes=3 if small else 4, most_ranks=12 if small else 24 if rng.random() < 0.97 else 256)
    policy = rng.choice(POLICIES)
    options = {
        "objective": rng.choice(OBJECTIVES),
        "groups": given_groups(rng, case.names) if policy == "given" else policy,
        "strategy": strategy,
        "reproducibility": rng.choice(PROMISES),
        "dtype": "float64",
    }
    text = f"{case} {options}"
    try:
        plan = reshard.plan(**case.kwargs(), **options)
        plan.verify()
        parts, value = oracle.shards(case.shape, case.source, case.sizes, seed=rng.randrange(2**32))
        problem = oracle.wrong(reshard.simulate(plan, parts), value, case.target, case.sizes)
        problem = problem or check_certificate(plan, options)
    except reshard.LayoutError as error:
        promised = options["reproducibility"] in ("bitwise", "strict")
        if "keeps its reproducibility" in str(error) and promised and (options["groups"] != "auto" or not case.shape):
            counts["refused"] += 1
            return ""
        return f"{error}\n{text}"
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{text}"
    counts.update([f"objective={options['objective']}", f"groups={policy}", f"strategy={strategy}", "cases"])
    counts["strided"] += bool(plan.source.strides or plan.target.strides)
    return f"{problem}\n{text}\n{plan}" if problem else ""


def check_certificate(plan: reshard.Plan, options: dict) -> str:
    """Bounds lie under values; per-rank figures add up to the total; promises are kept."""
    figures = plan.certificate
    for name in ("received", "worst_rank", "collectives", "rounds", "peak", "largest_local", "time"):
        figure = getattr(figures, name)
        if figure.bound > figure.value * (1 + 1e-12):
            return f"{name}: bound {figure.bound} above value {figure.value}"
    by_rank = [figures.received_by_rank(r) for r in plan.mesh.sorted_ranks()]
    if (sum(by_rank), max(by_rank)) != (figures.received.value, figures.worst_rank.value):
        return f"per rank {by_rank} against {figures.received.value} and {figures.worst_rank.value}"
    if options["strategy"] != "per-axis":
        if options["reproducibility"] == "replicas" and not figures.replica_consistent:
            return "not replica consistent"
        if options["reproducibility"] == "strict" and not figures.one_reduction:
            return "more than one reduction"
        reducing = [step for step in plan.collectives if step.reduced]
        if (
            options["reproducibility"] == "bitwise"
            and options["strategy"] != "per-axis"
            and [step.kind for step in reducing] not in ([], ["exchange"])
        ):
            return "not one left fold"
    return ""


def sweep(cases: int, seed: int, seconds: float = float("inf")) -> tuple[Counter, list[str]]:
    rng, counts, wrong = random.Random(seed), Counter(), []
    end = time.monotonic() + seconds
    while counts["cases"] < cases and time.monotonic() < end and len(wrong) < 5:
        if problem := run_one(rng, counts):
            wrong.append(problem)
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    start = time.monotonic()
    counts, wrong = sweep(args.cases, args.seed)
    print(f"seed {args.seed}: {dict(sorted(counts.items()))} in {time.monotonic() - start:.0f} s, {len(wrong)} wrong")
    for problem in wrong:
        print(problem, end="\n\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
