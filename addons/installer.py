"""Installs charts and objects, each in its place in the stack."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from addons import chart, network_policies
from addons.chart_objects import ChartObjects, is_object
from config.merge import merge
from config.models.addons import AddonsSettings


@dataclass(frozen=True, kw_only=True)
class Installer:
    """Installs objects and charts as children of one component, with one provider."""

    name: str
    parent: pulumi.Resource
    provider: kubernetes.Provider
    settings: AddonsSettings
    # Whether anything in the add-ons' configuration is secret; the engine does not say what.
    with_secrets: bool
    # Of every chart that was installed.
    chart_objects: list[pulumi.Output[Sequence[pulumi.Resource]]] = field(default_factory=list)

    @property
    def monitored(self) -> bool:
        """True if Prometheus runs: add-ons then have it scrape them."""
        return self.settings.monitoring.enabled

    def options(self, after: Sequence[pulumi.Resource] = ()) -> pulumi.ResourceOptions:
        """Return options of an object that is created after the resources in `after`."""
        return pulumi.ResourceOptions(
            parent=self.parent, provider=self.provider, depends_on=list(after)
        )

    def namespace(
        self,
        name: str,
        *,
        after: Sequence[pulumi.Resource],
        security: str = "baseline",
        public: bool = False,
        admitted: Sequence[str] = (),
        protect: bool = False,
        keep: bool = False,
        node_port_target: int | None = None,
    ) -> kubernetes.core.v1.Namespace:
        """Create a namespace with the Pod Security level that its pods need.

        Unless it is public, only its own pods, those of the `admitted` namespaces, and nodes may
        reach its pods. Another pod network than the program's own might not recognize nodes: there,
        everyone may. With `protect`, it is not deleted with what is in it; with `keep`, it outlives
        its add-on. A NodePort leads from outside of the cluster to the port `node_port_target` of
        its pods.
        """
        namespace = kubernetes.core.v1.Namespace(
            f"{self.name}-{name}",
            metadata=ObjectMetaArgs(
                name=name, labels={"pod-security.kubernetes.io/enforce": security}
            ),
            opts=pulumi.ResourceOptions.merge(
                self.options(),
                pulumi.ResourceOptions(protect=protect or None, retain_on_delete=keep or None),
            ),
        )
        if not public and self.settings.cni.kind == "cilium":
            self._isolate(name, admitted, node_port_target, [*after, namespace])
        return namespace

    def _isolate(
        self,
        namespace: str,
        admitted: Sequence[str],
        node_port_target: int | None,
        after: Sequence[pulumi.Resource],
    ) -> None:
        nodes = self.custom(
            "cilium.io/v2",
            "CiliumNetworkPolicy",
            f"{namespace}-nodes",
            namespace,
            network_policies.from_nodes(node_port_target),
            after=after,
        )
        kubernetes.networking.v1.NetworkPolicy(
            f"{self.name}-{namespace}",
            metadata=ObjectMetaArgs(name=network_policies.NAME, namespace=namespace),
            spec=network_policies.from_pods(admitted),
            opts=self.options([nodes]),
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
        """Create a Secret with these texts, of type `kind`; it is secret in the state, too."""
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
        """Create a ConfigMap with these files."""
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
        """Create an object of a kind that one of the resources in `after` defines."""
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
        """Install a chart with the program's values, over which the user's `overrides` win.

        If a secret may be among the `overrides`, all values and all objects are secret.
        """
        conceal = self.with_secrets and bool(overrides)
        chosen: pulumi.Input[Mapping[str, Any]] = merge(values, overrides)
        options = self.options(after)
        objects = ChartObjects()
        # Concealing must be the last one: the others read the objects.
        options.transforms = [objects.transform, *transforms, *([concealed] if conceal else [])]
        made = kubernetes.helm.v4.Chart(
            f"{self.name}-{source.name}",
            name=source.name,
            namespace=namespace,
            values=pulumi.Output.secret(chosen) if conceal else chosen,
            **chart.inputs(source, self.settings),
            opts=options,
        )
        self.chart_objects.append(objects.of(made))
        return made


def concealed(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Make the content of a chart's object secret: rendering forgets which values were secret."""
    # The provider does this for Secrets itself.
    if not is_object(args) or args.props["kind"] == "Secret":
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
