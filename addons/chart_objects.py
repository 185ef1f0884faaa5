"""The objects of a chart as resources that others can depend on."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi.resource import DependencyResource


def is_object(args: pulumi.ResourceTransformArgs) -> bool:
    """True if the transform of a chart is asked about an object: the chart itself has no kind."""
    return "kind" in args.props


class ChartObjects:
    """Every object that the engine registers for a chart.

    The chart's own output `resources` is of no use for that: the SDK has no class for the kinds of
    CRDs, and gives the ID of such an object in its place.
    """

    def __init__(self) -> None:
        self._registered: list[tuple[str, str]] = []

    def transform(self, args: pulumi.ResourceTransformArgs) -> None:
        """Remember an object; a transform of the chart that changes nothing."""
        if is_object(args):
            self._registered.append((args.name, args.type_))

    def of(self, chart: kubernetes.helm.v4.Chart) -> pulumi.Output[Sequence[pulumi.Resource]]:
        """Return the objects of the chart, which are known when all are registered."""
        registered = chart.resources.apply(lambda _: list(self._registered))
        urns: pulumi.Output[list[str]] = registered.apply(
            lambda each: pulumi.Output.all(
                *(pulumi.create_urn(name, kind, parent=chart) for name, kind in each)
            )
        )
        return urns.apply(lambda known: [DependencyResource(urn) for urn in known])
