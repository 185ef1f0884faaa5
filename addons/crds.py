"""Smaller custom resource definitions: as charts have them, they fill most of a stack's state."""

from typing import Any

import pulumi

TYPE = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


def keep(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Leave the definitions in the cluster when their add-on goes.

    Every object would go with them, those of users too, and what it stands for: a snapshot in
    Cinder, a cluster. When the add-on comes again, it takes over the definitions that it finds.
    """
    if args.type_ != TYPE:
        return None
    args.opts.retain_on_delete = True
    return pulumi.ResourceTransformResult(props=args.props, opts=args.opts)


def without_descriptions(
    args: pulumi.ResourceTransformArgs,
) -> pulumi.ResourceTransformResult | None:
    """Leave out the descriptions, which only `kubectl explain` shows.

    They are three quarters of the definitions, and every preview logs them many times:
    docs/decisions/0010-terse-definitions.md.
    """
    if args.type_ != TYPE:
        return None
    spec: Any = args.props["spec"]
    versions = [
        {**version, "schema": {"openAPIV3Schema": _terse(version["schema"]["openAPIV3Schema"])}}
        if "schema" in version
        else version
        for version in spec["versions"]
    ]
    return pulumi.ResourceTransformResult(
        props={**args.props, "spec": {**spec, "versions": versions}}, opts=args.opts
    )


def _terse(schema: Any) -> Any:  # noqa: ANN401 - JSON
    # A field may be called `description`, and a default may contain one: only schemas lose theirs.
    if not isinstance(schema, dict):
        return schema
    terse = {key: value for key, value in schema.items() if key != "description"}
    for key in ("items", "additionalProperties"):
        if key in terse:
            terse[key] = _terse(terse[key])
    if "properties" in terse:
        terse["properties"] = {name: _terse(field) for name, field in terse["properties"].items()}
    return terse
