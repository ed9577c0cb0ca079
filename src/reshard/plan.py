"""Plan: a verified path of steps from one layout to another, with its certificate."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reshard.bounds import Certificate
from reshard.checks import STRATEGY_NAMES, checked_choice, checked_groups, checked_layouts, checked_limit, checked_shape, existing_groups
from reshard.cost import FLAT, ITEMSIZE, OBJECTIVES, REPRODUCIBILITY, Level, Objective, Topology
from reshard.errors import BrokenPlanError, LayoutError
from reshard.layout import Layout
from reshard.mesh import Mesh
from reshard.steps import KINDS, Step
from reshard.verify import verify

FORMAT = "reshard-plan-1"


@dataclass(frozen=True, slots=True)
class Options:
    """How a plan was asked for."""

    dtype: str = "float32"
    topology: Topology = FLAT
    objective: Objective = "time"
    groups: str | frozenset[frozenset[str]] = "auto"
    reproducibility: str = "replicas"
    memory_limit: int | None = None
    strategy: str = "auto"


@dataclass(frozen=True, repr=False)
class Plan:
    """Steps that lead from source to target. ``print(plan)`` explains it; ``certificate`` says how good it is."""

    source: Layout
    target: Layout
    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    options: Options = Options()

    @property
    def mesh(self) -> Mesh:
        return self.source.mesh

    @property
    def dtype(self) -> str:
        return self.options.dtype

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.options.dtype]

    @property
    def collectives(self) -> tuple[Step, ...]:
        """The steps that communicate."""
        return tuple(step for step in self.steps if step.communicates)

    @cached_property
    def certificate(self) -> Certificate:
        return Certificate(self.source, self.target, self.shape, self.steps, self.dtype, self.options.topology)

    def verify(self) -> Plan:
        """Replay ownership and contributions; raise BrokenPlanError if anything is wrong. Returns the plan."""
        verify(self.source, self.target, self.shape, self.steps)
        return self

    def __str__(self) -> str:
        from reshard.explain import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from reshard.explain import as_html

        return as_html(self)

    def __repr__(self) -> str:
        from reshard.explain import title

        return f"<Plan {title(self)}: {', '.join(step.kind for step in self.steps) or 'nothing to do'}>"

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, totals included."""
        figures = self.certificate
        return {
            "format": FORMAT,
            "mesh": str(self.mesh),
            "shape": list(self.shape),
            "source": str(self.source),
            "target": str(self.target),
            "options": _options_to_dict(self.options),
            "steps": [
                {
                    "kind": s.kind,
                    "axes": list(s.axes),
                    "group": list(s.group),
                    "after": str(s.after),
                    "received": p.received,
                    "peak": p.peak,
                }
                for s, p in zip(self.steps, figures.prices, strict=True)
            ],
            "totals": {
                "received": figures.received.value,
                "worst_rank": figures.worst_rank.value,
                "collectives": figures.collectives.value,
                "peak": figures.peak.value,
            },
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    @staticmethod
    def from_json(text: str) -> Plan:
        """Read a plan back. It is checked as if a stranger had written it: layouts, steps, data and totals."""
        if not isinstance(text, str):
            raise LayoutError("a plan's JSON is text", got=type(text).__name__, hint="use what Plan.to_json wrote")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LayoutError("a plan's JSON is well formed", got=str(error), hint="use what Plan.to_json wrote") from None
        try:
            plan = _from_dict(data)
            plan.verify()
            _check_promises(plan)
            same = json.dumps(plan.to_dict(), sort_keys=True) == json.dumps(data, sort_keys=True)
        except BrokenPlanError as error:
            raise _tampered(str(error).splitlines()[0]) from None
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, MemoryError, RecursionError) as error:
            if isinstance(error, LayoutError):
                raise
            raise _tampered(f"{type(error).__name__}: {error}") from None
        if not same:
            raise _tampered("figures that its steps do not have")
        return plan


def _tampered(got: str) -> LayoutError:
    return LayoutError("a plan's JSON holds together: fields, steps and totals", got=got, hint="use what Plan.to_json wrote, unchanged")


def _from_dict(data: dict[str, Any]) -> Plan:
    if data["format"] != FORMAT:
        raise _tampered(f"format {data['format']!r} instead of {FORMAT!r}")
    mesh = Mesh.parse(str(data["mesh"]))
    shape = checked_shape(data["shape"])
    options = _options_from_dict(data["options"])
    source, target = Layout.parse(str(data["source"]), mesh), Layout.parse(str(data["target"]), mesh)
    checked_layouts(source, target, shape, options.dtype)
    steps: list[Step] = []
    before = source
    for item in data["steps"]:
        after = Layout.parse(str(item["after"]), mesh)
        after.check_shape(shape)
        if item["kind"] not in KINDS:
            raise _tampered(f"a step of kind {item['kind']!r}")
        steps.append(Step(item["kind"], before, after, tuple(item["axes"]), tuple(item["group"])))
        before = after
    return Plan(source, target, shape, tuple(steps), options)


def _options_to_dict(options: Options) -> dict[str, Any]:
    groups = options.groups if isinstance(options.groups, str) else sorted(sorted(g) for g in options.groups)
    link = options.topology
    topology = {
        "alpha": link.alpha,
        "bandwidth": link.bandwidth,
        "launch": link.launch,
        "levels": [[level.name, level.ranks, level.alpha, level.bandwidth] for level in link.levels],
    }
    return {
        "dtype": options.dtype,
        "topology": topology,
        "objective": options.objective,
        "groups": groups,
        "reproducibility": options.reproducibility,
        "memory_limit": options.memory_limit,
        "strategy": options.strategy,
    }


def _options_from_dict(data: dict[str, Any]) -> Options:
    link = data["topology"]
    topology = Topology(link["alpha"], link["bandwidth"], link["launch"], tuple(Level(*level) for level in link["levels"]))
    if data["dtype"] not in ITEMSIZE:
        raise _tampered(f"dtype {data['dtype']!r}")
    checked_choice("strategy", data["strategy"], STRATEGY_NAMES)
    checked_choice("objective", data["objective"], OBJECTIVES)
    checked_choice("reproducibility", data["reproducibility"], REPRODUCIBILITY)
    return Options(
        data["dtype"], topology, data["objective"], checked_groups(data["groups"]), data["reproducibility"],
        checked_limit(data["memory_limit"]), data["strategy"],
    )  # fmt: skip


def _check_promises(plan: Plan) -> None:
    """The options that a plan says it keeps: groups, memory limit, reproducibility."""
    options, figures = plan.options, plan.certificate
    _ = figures.cuts  # the topology fits the mesh
    existing = existing_groups(plan.mesh, options.groups)
    if existing is not None and any(step.group not in existing.values() for step in plan.collectives):
        raise _tampered("a step on a group that does not exist")
    if options.memory_limit is not None and figures.peak.value > options.memory_limit:
        raise _tampered("a peak above memory_limit")
    reducing = [step.kind for step in plan.collectives if step.reduced]
    kept = {
        "any": True,
        "replicas": figures.replica_consistent,
        "strict": figures.one_reduction,
        "bitwise": reducing in ([], ["exchange"]),
    }
    if not kept[options.reproducibility]:
        raise _tampered(f"steps that do not keep reproducibility={options.reproducibility!r}")
