"""reshard: move sharded tensors between layouts with the least communication, and prove how close it came."""

from reshard.bounds import Certificate, Figure
from reshard.cost import Level, Topology
from reshard.errors import BrokenPlanError, LayoutError, ReshardError
from reshard.layout import Layout
from reshard.mesh import Mesh
from reshard.plan import Plan
from reshard.search import clear_caches, plan
from reshard.simulate import simulate
from reshard.steps import Step

__version__ = "0.1.0"

__all__ = [
    "BrokenPlanError",
    "Certificate",
    "Figure",
    "Layout",
    "LayoutError",
    "Level",
    "Mesh",
    "Plan",
    "ReshardError",
    "Step",
    "Topology",
    "clear_caches",
    "plan",
    "simulate",
]
