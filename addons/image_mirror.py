"""Images taken from a mirror instead of their own registries."""

import pulumi


def mirrored(reference: str, registry: str | None) -> str:
    """Return the reference with `registry` in place of the image's own registry host."""
    if registry is None or reference.startswith(f"{registry}/"):
        return reference
    host, separator, path = reference.partition("/")
    # As in Docker: only a first part with a dot or a port, or localhost, is a host.
    if not (separator and (host == "localhost" or any(mark in host for mark in ".:"))):
        host, path = "docker.io", reference
    # Docker Hub's own name for an image without an owner.
    if host == "docker.io" and "/" not in path:
        path = f"library/{path}"
    return f"{registry}/{path}"


def mirror_images(registry: str) -> pulumi.ResourceTransform:
    """Return a transform that takes every image of every pod, of any chart, from a mirror."""

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
            # A concealed object: a chart's own transforms run before those of its parent.
            return value.apply(lambda known: _with_images(known, registry))
        case _:
            return value


def _container(container: object, registry: str) -> object:
    if isinstance(container, dict) and isinstance(container.get("image"), str):
        return {**container, "image": mirrored(container["image"], registry)}
    return container
