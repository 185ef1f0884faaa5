"""Outputs that are made of several others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi


def together(values: Mapping[str, pulumi.Input[str]]) -> pulumi.Output[dict[str, str]]:
    """All values as one output, as `Output.all` gives them."""
    # `Output.all` makes three tasks for each value, plain or not; most of a folder is plain text.
    plain = {key: value for key, value in values.items() if isinstance(value, str)}
    later = {key: value for key, value in values.items() if key not in plain}
    found: pulumi.Output[dict[str, str]] = pulumi.Output.all(**later)
    return found.apply(lambda those: {**plain, **dict(those)})


def also(
    later: pulumi.Input[Sequence[pulumi.Resource]], *now: pulumi.Resource
) -> pulumi.Output[list[pulumi.Resource]]:
    """Both, for `depends_on`: resources that are known later, and these."""
    return pulumi.Output.from_input(later).apply(lambda resources: [*resources, *now])
