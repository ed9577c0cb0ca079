"""plan(): from two layouts to a verified path of steps.

    layouts -> Problem -> waypoints (a strategy) -> shortest path -> Plan

Merging is not a pass: a step over many axes is an edge like any other, so the cheapest path has it where it pays.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import lru_cache

from reshard import layout as layouts
from reshard import mesh as meshes
from reshard import packing
from reshard.cost import FLAT, ITEMSIZE, Topology, dtype_name
from reshard.errors import LayoutError
from reshard.layout import Layout
from reshard.mesh import Mesh
from reshard.plan import Options, Plan
from reshard.problem import OBJECTIVES, REPRODUCIBILITY, Hop, Objective, Path, Problem, existing_groups
from reshard.steps import LOCAL, Edge, Step
from reshard.strategies import STRATEGIES
from reshard.traffic import State, canonical


def plan(
    source: str | Layout | Sequence[object],
    target: str | Layout | Sequence[object],
    *,
    mesh: Mesh | str,
    shape: Sequence[int],
    dtype: object = "float32",
    topology: Topology | None = None,
    objective: Objective = "time",
    groups: str | Collection[Collection[str]] = "auto",
    reproducibility: str = "replicas",
    memory_limit: int | None = None,
    strategy: str = "auto",
) -> Plan:
    """Plan a redistribution.

    >>> p = plan("P,R,P", "R,R,R", mesh="dp=2,cp=2,tp=2", shape=(64, 64), objective="collectives")
    >>> [step.kind for step in p.steps], p.steps[0].axes
    (['all_reduce'], ('dp', 'tp'))
    """
    named = groups if isinstance(groups, str) else frozenset(frozenset([g] if isinstance(g, str) else g) for g in groups)
    source = source if isinstance(source, (str, Layout)) else tuple(str(p) for p in source)
    target = target if isinstance(target, (str, Layout)) else tuple(str(p) for p in target)
    return _plan(source, target, mesh, tuple(shape), dtype, topology or FLAT, objective, named, reproducibility, memory_limit, strategy)


@lru_cache(maxsize=4096)
def _plan(
    source: str | Layout | tuple[str, ...],
    target: str | Layout | tuple[str, ...],
    mesh: Mesh | str,
    shape: tuple[int, ...],
    dtype: object,
    topology: Topology,
    objective: Objective,
    groups: str | frozenset[frozenset[str]],
    reproducibility: str,
    memory_limit: int | None,
    strategy: str,
) -> Plan:
    mesh = Mesh.parse(mesh)
    begin, end = Layout.parse(source, mesh), Layout.parse(target, mesh)
    name = dtype_name(dtype)
    _check_choice("objective", objective, OBJECTIVES)
    _check_choice("reproducibility", reproducibility, REPRODUCIBILITY)
    _check_choice("strategy", strategy, tuple(STRATEGIES))
    _check(begin, end, shape, name)
    free = strategy == "per-axis"  # the baseline knows no options
    problem = Problem(
        mesh, shape, ITEMSIZE[name], canonical(begin, shape), canonical(end, shape),
        tuple(sorted({**dict(end.partial), **dict(begin.partial)}.items())),
        topology, objective, None if free else existing_groups(mesh, groups), "any" if free else reproducibility, memory_limit,
    )  # fmt: skip
    path = _trivial(problem)
    path = STRATEGIES[strategy](problem) if path is None else path
    options = Options(name, topology, objective, groups, reproducibility, memory_limit, strategy)
    return Plan(begin, end, shape, _steps(problem, begin, end, path), options)


def _trivial(problem: Problem) -> Path | None:
    if problem.source == problem.target:
        return []
    return [Hop(LOCAL, problem.target)] if math.prod(problem.shape) == 0 else None


def _steps(problem: Problem, begin: Layout, end: Layout, path: Path) -> tuple[Step, ...]:
    """The path as steps between layouts, endpoints spelled as they were given."""
    names = problem.mesh.axes
    steps: list[Step] = []
    u, before = problem.source, begin
    for i, (edge, v) in enumerate(path):
        last = i + 1 == len(path)
        after = end if last else Layout(problem.mesh, v.dims, tuple((a, problem.op(a)) for a in v.partial), v.strides)
        if edge.kind == "slice" or nothing_moves(problem, edge, u, v):
            edge = LOCAL
        group = problem.group(edge) or edge.axes
        steps.append(Step(edge.kind, before, after, tuple(names[a] for a in edge.axes), tuple(names[a] for a in group)))
        u, before = v, after
    if not steps and begin != end:
        steps.append(Step("slice", begin, end, (), ()))
    return tuple(steps)


def nothing_moves(problem: Problem, edge: Edge, u: State, v: State) -> bool:
    """Whether a step turns out to be local: possible only where some chunks are short or empty."""
    space = problem.space
    divisor = space.ranks
    if not problem.pricer.exact or all(n and n % divisor == 0 for n in problem.shape):
        return False
    return problem.pricer.received(edge, u, v)[0] == 0


def _check_choice(name: str, got: object, choices: Sequence[str]) -> None:
    if got not in choices:
        raise LayoutError(f"{name} is one of {', '.join(choices)}", got=repr(got), hint=f"for example {choices[0]!r}")


def _check(source: Layout, target: Layout, shape: tuple[int, ...], dtype: str) -> None:
    if any(type(n) is not int or n < 0 for n in shape):
        raise LayoutError("a tensor's dims are whole numbers, 0 or more", got=f"shape {shape}", hint="pass the global shape")
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


def clear_caches() -> None:
    """Forget every plan and every parsed text. All caches are bounded; this is for measurements and tests."""
    _plan.cache_clear()
    meshes.clear()
    layouts.clear()
    packing.clear()
