"""The kinds that charts bring."""

from __future__ import annotations

from typing import Any

import pulumi

from addons import crds
from tests.unit.addons.install import install


def test_crds_stay_in_the_cluster_with_what_their_objects_stand_for() -> None:
    for kind, kept in (
        ("apiextensions.k8s.io/v1:CustomResourceDefinition", True),
        ("apps/v1:Deployment", None),
    ):
        args = pulumi.ResourceTransformArgs(
            custom=True,
            type_=f"kubernetes:{kind}",
            name="n",
            props={},
            opts=pulumi.ResourceOptions(),
        )
        result = crds.keep(args)
        assert (result and result.opts.retain_on_delete) == kept


def test_crds_of_charts_are_kept_and_lose_their_descriptions_but_no_field() -> None:
    names = ("snapshots", "monitoring", "ingress", "operator")
    made = install({each: {"enabled": True} for each in names})
    nginx = install({"ingress": {"enabled": True, "controller": "nginx"}})
    # All are retained, too; those of monitoring also lose rights.
    for run, name, transforms in (
        (made, "snapshot-controller", 2),
        (made, "pulumi-kubernetes-operator", 2),
        (made, "kube-prometheus-stack", 3),
        (made, "traefik", 2),
        (nginx, "nginx-ingress", 2),
    ):
        assert run.transforms[f"demo-addons-{name}"] == transforms

    def of(description: dict[str, str]) -> dict[str, Any]:
        field = {"type": "string", "default": {"description": "stays"}, **description}
        listed = {"type": "array", "items": {"properties": {"a": field}, **description}}
        more = {"type": "object", "additionalProperties": field, **description}
        # A field with this name is not a description.
        fields = {"description": field, "list": listed, "map": more}
        schema = {"openAPIV3Schema": {"properties": fields, **description}}
        versions = [{"name": "v1", "schema": schema}, {"name": "v1alpha1"}]
        return {"kind": "CustomResourceDefinition", "spec": {"group": "g", "versions": versions}}

    def transformed(type_: str) -> pulumi.ResourceTransformResult | None:
        return crds.without_descriptions(
            pulumi.ResourceTransformArgs(
                custom=True, type_=type_, name="n", props=of({"description": "Many words."}),
                opts=pulumi.ResourceOptions(),
            )
        )  # fmt: skip

    result = transformed(crds.TYPE)
    assert result
    assert result.props == of({})
    assert transformed("kubernetes:apps/v1:Deployment") is None
