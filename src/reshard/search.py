"""plan(): from two layouts to a verified path of steps.

    layouts -> Problem -> waypoints (a strategy) -> shortest path -> Plan

Merging is not a pass: a step over many axes is an edge like any other, so the cheapest path has it where it pays.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache

from reshard import layout as layouts
from reshard import mesh as meshes
from reshard import packing
from reshard.checks import checked_choice, checked_groups, checked_layouts, checked_limit, checked_shape, checked_topology, existing_groups
from reshard.cost import ITEMSIZE, OBJECTIVES, REPRODUCIBILITY, Objective, Topology, dtype_name
from reshard.errors import LayoutError
from reshard.layout import Layout
from reshard.mesh import Mesh
from reshard.paths import over_limit
from reshard.plan import Options, Plan
from reshard.problem import Hop, Path, Problem
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
    _check_all(mesh, objective, reproducibility, strategy)
    return _plan(
        source if isinstance(source, (str, Layout)) else _spelled(source),
        target if isinstance(target, (str, Layout)) else _spelled(target),
        mesh,
        checked_shape(shape),
        Options(
            dtype_name(dtype), checked_topology(topology), objective, checked_groups(groups), reproducibility,
            checked_limit(memory_limit), strategy,
        ),
    )  # fmt: skip


def _check_all(mesh: object, objective: object, reproducibility: object, strategy: object) -> None:
    if not isinstance(mesh, (str, Mesh)):
        raise LayoutError("a mesh is a reshard.Mesh, or text", got=repr(mesh), hint="for example dp=2,cp=2,tp=2")
    checked_choice("objective", objective, OBJECTIVES)
    checked_choice("reproducibility", reproducibility, REPRODUCIBILITY)
    checked_choice("strategy", strategy, tuple(STRATEGIES))


def _spelled(placements: object) -> tuple[str, ...]:
    if not isinstance(placements, Sequence):
        raise LayoutError("a layout is text, a Layout, or a sequence of placements", got=repr(placements), hint="for example S0,R")
    return tuple(str(p) for p in placements)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


@lru_cache(maxsize=4096)
def _plan(
    source: str | Layout | tuple[str, ...],
    target: str | Layout | tuple[str, ...],
    mesh: Mesh | str,
    shape: tuple[int, ...],
    options: Options,
) -> Plan:
    mesh = Mesh.parse(mesh)
    begin, end = Layout.parse(source, mesh), Layout.parse(target, mesh)
    checked_layouts(begin, end, shape, options.dtype)
    existing = existing_groups(mesh, options.groups)
    if options.strategy == "per-axis":  # the baseline knows no options
        existing, options = None, replace(options, groups="auto", reproducibility="any", memory_limit=None)
    problem = Problem(
        mesh=mesh,
        shape=shape,
        itemsize=ITEMSIZE[options.dtype],
        source=canonical(begin, shape),
        target=canonical(end, shape),
        ops=tuple(sorted({**dict(end.partial), **dict(begin.partial)}.items())),
        topology=options.topology,
        objective=options.objective,
        groups=None if existing is None else frozenset(existing),
        reproducibility=options.reproducibility,
        memory_limit=options.memory_limit,
    )
    _ = problem.pricer  # a topology that does not fit the mesh is refused, whatever the way
    path = _trivial(problem)
    path = STRATEGIES[options.strategy](problem) if path is None else path
    return Plan(begin, end, shape, _steps(problem, begin, end, path, existing or {}), options)


def _trivial(problem: Problem) -> Path | None:
    least = (problem.space.largest(problem.source) + problem.space.largest(problem.target)) * problem.itemsize
    if problem.source == problem.target:
        if problem.memory_limit is not None and problem.memory_limit < least:
            raise over_limit(problem.memory_limit, least)
        return []
    return [Hop(LOCAL, problem.target)] if math.prod(problem.shape) == 0 else None


def _steps(problem: Problem, begin: Layout, end: Layout, path: Path, named: dict[frozenset[int], tuple[str, ...]]) -> tuple[Step, ...]:
    """The path as steps between layouts, endpoints spelled as they were given."""
    names = problem.mesh.axes
    steps: list[Step] = []
    u, before = problem.source, begin
    for i, (edge, v) in enumerate(path):
        last = i + 1 == len(path)
        after = end if last else Layout(problem.mesh, v.dims, tuple((a, problem.op(a)) for a in v.partial), v.strides)
        if edge.kind == "slice" or nothing_moves(problem, edge, u, v):
            edge = LOCAL
        axes = tuple(names[a] for a in edge.axes)
        group = problem.group(edge) or edge.axes
        steps.append(Step(edge.kind, before, after, axes, named.get(frozenset(group), tuple(names[a] for a in group))))
        u, before = v, after
    if not steps and begin != end:
        steps.append(Step("slice", begin, end, (), ()))
    return tuple(steps)


def nothing_moves(problem: Problem, edge: Edge, u: State, v: State) -> bool:
    """Whether a step turns out to be local: possible only where some chunks are short or empty."""
    space = problem.space
    divisor = space.ranks
    if edge.reduced or not problem.pricer.exact or all(n and n % divisor == 0 for n in problem.shape):
        return False
    return problem.pricer.received(edge, u, v)[0] == 0


def clear_caches() -> None:
    """Forget every plan and every parsed text. All caches are bounded; this is for measurements and tests."""
    _plan.cache_clear()
    meshes.clear()
    layouts.clear()
    packing.clear()
