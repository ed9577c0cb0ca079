"""One family of exceptions.

``LayoutError`` is for mistakes in what reshard was given: it says the rule, what was got and what to do.
``BrokenPlanError`` is for mistakes of reshard itself: it prints every input, so that a report can be replayed.
"""


class ReshardError(Exception):
    """Base of every error that reshard raises."""


class LayoutError(ReshardError, ValueError):
    """The caller gave something that breaks a rule.

    >>> raise LayoutError("an axis is named once", got="dp=2,dp=4", hint="rename one of them")
    Traceback (most recent call last):
    reshard.errors.LayoutError: an axis is named once; got dp=2,dp=4 (hint: rename one of them)
    """

    def __init__(self, rule: str, *, got: object, hint: str) -> None:
        self.rule = rule
        self.got = str(got)
        self.hint = hint
        super().__init__(f"{rule}; got {self.got} (hint: {hint})")


class BrokenPlanError(ReshardError, AssertionError):
    """A plan that does not do what it promises. Always a defect of reshard, never of the caller."""

    def __init__(self, broken: str, *, inputs: object) -> None:
        super().__init__(f"{broken}\nThis is a defect of reshard: please report it with these inputs.\n{inputs}")
