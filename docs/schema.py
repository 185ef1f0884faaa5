"""The keys of the configuration as the documents show them, from the models' JSON schema."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from config.models.cluster import Cluster

_FORMATS = {"ipv4network": "CIDR", "ipv4": "IPv4 address"}

Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of the configuration."""

    path: str
    """As for `pulumi config set --path`; `[]` stands for any index of a list."""
    kind: str
    """`string`, `integer`, `boolean`, `array` or `object`."""
    item_kind: str
    """The kind of the items of a list."""
    type: str
    """The type as the reference shows it."""
    required: bool
    default: object
    description: str
    depth: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


def keys() -> Iterator[Key]:
    """Every key, in the order of the models, each group before its own keys."""
    schema = Cluster.model_json_schema()
    yield from _keys(schema, schema["$defs"], "", 0)


def _keys(model: Schema, definitions: Schema, prefix: str, depth: int) -> Iterator[Key]:
    for name, field in model["properties"].items():
        inner = _resolved(field, definitions)
        path = f"{prefix}{name}"
        items = _resolved(inner.get("items", {}), definitions)
        is_group = "properties" in inner
        yield Key(
            path=path,
            kind=inner.get("type", "object"),
            item_kind=items.get("type", "object"),
            type="group" if is_group and _optional(field) is None else _type(inner, definitions),
            required=name in model.get("required", ()),
            default=field.get("default", {} if inner.get("type") == "object" else None),
            description=" ".join(
                (field.get("description") or inner.get("description") or "").split()
            ),
            depth=depth,
        )
        if is_group:
            yield from _keys(inner, definitions, f"{path}.", depth + 1)
        elif "properties" in items:
            yield from _keys(items, definitions, f"{path}[].", depth + 1)


def _optional(field: Schema) -> Schema | None:
    """The type of a field that may also be null; None when it must not be null."""
    choices = field.get("anyOf", ())
    if not any(choice.get("type") == "null" for choice in choices):
        return None
    other: Schema = next(choice for choice in choices if choice.get("type") != "null")
    return other


def _resolved(field: Schema, definitions: Schema) -> Schema:
    field = _optional(field) or field
    if "$ref" in field:
        definition: Schema = definitions[field["$ref"].rpartition("/")[2]]
        return definition
    return field


def _type(field: Schema, definitions: Schema) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    kind: str = field.get("type", "any")
    if kind == "array":
        items = _resolved(field.get("items", {}), definitions)
        return f"list of {_plural(_type(items, definitions))}"
    if kind == "object":
        values = field.get("additionalProperties")
        if not isinstance(values, Mapping) or values.get("$ref") == "#/$defs/JsonValue":
            return "object"
        return f"object of {_plural(_type(_resolved(values, definitions), definitions))}"
    text = _FORMATS.get(field.get("format", ""), kind)
    least, most = field.get("minimum"), field.get("maximum")
    if least is not None and most is not None:
        return f"{text}, {least} to {most}"
    return text if least is None else f"{text}, {least} or more"


def _plural(text: str) -> str:
    if text.endswith("`"):
        return text
    if text.startswith(("list of ", "object of ")):
        return text.replace(" ", "s ", 1)
    return f"{text}es" if text.endswith("address") else f"{text}s"
