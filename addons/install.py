"""How an add-on gets into the cluster: its place in the stack, and its images' registry."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from addons import chart
from config.merge import merge
from config.models.addons import AddonsSettings

_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# Values of charts: where the pods of what the cluster itself needs may run.
ON_CONTROL_PLANES_ONLY = {_CONTROL_PLANE: ""}
ON_CONTROL_PLANES_TOO = [{"key": _CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}]


@dataclass(frozen=True, kw_only=True)
class Installer:
    """Installs objects and charts as children of one component, with one provider."""

    name: str
    parent: pulumi.Resource
    provider: kubernetes.Provider
    settings: AddonsSettings
    # Whether something in the add-ons' configuration is secret; the engine does not say what.
    with_secrets: bool

    def options(self, after: Sequence[pulumi.Resource] = ()) -> pulumi.ResourceOptions:
        """Options of an object that is made when the resources in `after` are there."""
        return pulumi.ResourceOptions(
            parent=self.parent, provider=self.provider, depends_on=list(after)
        )

    def namespace(self, name: str, *, security: str = "baseline") -> kubernetes.core.v1.Namespace:
        """A namespace with the Pod Security level that its pods need."""
        return kubernetes.core.v1.Namespace(
            f"{self.name}-{name}",
            metadata=ObjectMetaArgs(
                name=name, labels={"pod-security.kubernetes.io/enforce": security}
            ),
            opts=self.options(),
        )

    def secret(
        self,
        name: str,
        namespace: str,
        texts: pulumi.Output[dict[str, str]],
        after: Sequence[pulumi.Resource] = (),
        *,
        kind: str | None = None,
    ) -> kubernetes.core.v1.Secret:
        """A Secret with these texts, of type `kind`; secret in the state, too."""
        data = texts.apply(
            lambda known: {
                key: base64.b64encode(text.encode()).decode() for key, text in known.items()
            }
        )
        return kubernetes.core.v1.Secret(
            f"{self.name}-{name}",
            metadata=ObjectMetaArgs(name=name, namespace=namespace),
            type=kind,
            data=cast("pulumi.Output[Mapping[str, str]]", pulumi.Output.secret(data)),
            opts=self.options(after),
        )

    def config_map(
        self,
        name: str,
        namespace: str,
        files: Mapping[str, str],
        *,
        labels: Mapping[str, str] | None = None,
        after: Sequence[pulumi.Resource] = (),
    ) -> kubernetes.core.v1.ConfigMap:
        """A ConfigMap with these files."""
        return kubernetes.core.v1.ConfigMap(
            f"{self.name}-{name}",
            metadata=ObjectMetaArgs(name=name, namespace=namespace, labels=labels),
            data=files,
            opts=self.options(after),
        )

    def custom(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str,
        spec: Mapping[str, Any],
        *,
        after: Sequence[pulumi.Resource],
    ) -> kubernetes.apiextensions.CustomResource:
        """An object of a kind that one of `after` brings along."""
        return kubernetes.apiextensions.CustomResource(
            f"{self.name}-{name}",
            api_version=api_version,
            kind=kind,
            metadata=ObjectMetaArgs(name=name, namespace=namespace),
            spec=spec,
            opts=self.options(after),
        )

    def chart(
        self,
        source: chart.Chart,
        *,
        namespace: str,
        values: Mapping[str, Any],
        overrides: Mapping[str, Any],
        after: Sequence[pulumi.Resource] = (),
        transforms: Sequence[pulumi.ResourceTransform] = (),
    ) -> kubernetes.helm.v4.Chart:
        """A chart with the program's values, and the user's `overrides` laid on them.

        Where a secret may be among the `overrides`, all values are secret, and every object too.
        """
        conceal = self.with_secrets and bool(overrides)
        chosen: pulumi.Input[Mapping[str, Any]] = merge(values, overrides)
        options = self.options(after)
        # The last of them: the others read the objects.
        options.transforms = [*transforms, *([concealed] if conceal else [])]
        return kubernetes.helm.v4.Chart(
            f"{self.name}-{source.name}",
            name=source.name,
            namespace=namespace,
            values=pulumi.Output.secret(chosen) if conceal else chosen,
            **chart.inputs(source, self.settings),
            opts=options,
        )


def concealed(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Make secret what an object of a chart says: rendering forgets which values were secret."""
    # The provider itself does it for a Secret. A chart, unlike its objects, has no kind.
    if "kind" not in args.props or args.props["kind"] == "Secret":
        return None
    props: dict[str, Any] = {
        key: value if key in ("apiVersion", "kind", "metadata") else pulumi.Output.secret(value)
        for key, value in args.props.items()
    }
    metadata: Any = args.props["metadata"]
    if "annotations" in metadata:
        props["metadata"] = {
            **metadata,
            "annotations": pulumi.Output.secret(metadata["annotations"]),
        }
    return pulumi.ResourceTransformResult(props=props, opts=args.opts)


def mirrored(reference: str, registry: str | None) -> str:
    """The reference with `registry` in the place of the image's own registry host."""
    if registry is None or reference.startswith(f"{registry}/"):
        return reference
    host, separator, path = reference.partition("/")
    # As in Docker: only a first part with a dot or a port, or localhost, is a host.
    if not (separator and (host == "localhost" or any(mark in host for mark in ".:"))):
        host, path = "docker.io", reference
    # What Docker Hub itself calls an image without an owner.
    if host == "docker.io" and "/" not in path:
        path = f"library/{path}"
    return f"{registry}/{path}"


def mirror_images(registry: str) -> pulumi.ResourceTransform:
    """A transform that takes every image of every pod, whatever chart it is from, from a mirror."""

    def transform(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        props = {key: _with_images(value, registry) for key, value in args.props.items()}
        if props == args.props:
            return None
        return pulumi.ResourceTransformResult(props=props, opts=args.opts)

    return transform


def _with_images(value: object, registry: str) -> object:
    match value:
        case dict():
            return {
                key: [_container(each, registry) for each in part]
                if key in ("containers", "initContainers") and isinstance(part, list)
                else _with_images(part, registry)
                for key, part in value.items()
            }
        case list():
            return [_with_images(each, registry) for each in value]
        case pulumi.Output():
            # Concealed: the engine runs the transforms of a chart before those of its parent.
            return value.apply(lambda known: _with_images(known, registry))
        case _:
            return value


def _container(container: object, registry: str) -> object:
    if isinstance(container, dict) and isinstance(container.get("image"), str):
        return {**container, "image": mirrored(container["image"], registry)}
    return container
