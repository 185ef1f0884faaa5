"""Makes a model from raw values; what cannot be used becomes a fault, not an exception."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from config.errors import MISSING, Fault, nearest

ModelT = TypeVar("ModelT", bound=BaseModel)

# What Pulumi's property paths take without quotes.
_PLAIN_PART = re.compile(r"[^.\[\]\"]+")
# What pydantic's sentences begin with; the key takes its place.
_SUBJECT = re.compile(r"^(Input|String|Tuple|List|Dictionary|Value) should ")


@dataclass(frozen=True)
class Parsed(Generic[ModelT]):
    """A model, and what had to be left out of it."""

    model: ModelT
    """Has the default, or the example, in place of each unusable value."""
    faults: tuple[Fault, ...]
    unusable: frozenset[str]
    """The top-level keys that have faults."""


def parse(model: type[ModelT], raw: Mapping[str, object]) -> Parsed[ModelT]:
    """Make the model from raw values by camelCase key."""
    try:
        return Parsed(model.model_validate(dict(raw)), (), frozenset())
    except ValidationError as error:
        details = error.errors(include_url=False)
    unusable = frozenset(str(detail["loc"][0]) for detail in details)
    good = {key: value for key, value in raw.items() if key not in unusable}
    return Parsed(
        model.model_validate({**_examples(model), **good}),
        tuple(_fault(model, detail) for detail in details),
        unusable,
    )


def _examples(model: type[BaseModel]) -> dict[str, object]:
    """The example of each key that has no default."""
    return {
        field.alias or name: field.examples[0]
        for name, field in model.model_fields.items()
        if field.is_required() and field.examples
    }


def _fault(model: type[BaseModel], detail: ErrorDetails) -> Fault:
    location = detail["loc"]
    key = path(location)
    match detail["type"]:
        case "extra_forbidden":
            near = nearest(str(location[-1]), _keys(_model_at(model, location[:-1])))
            hint = f"did you mean {path((*location[:-1], near[0]))}?" if near else "remove it"
            return Fault(key, detail["input"], f"unknown key; {hint}")
        case "missing":
            return Fault(key, MISSING, _must_be_set(_model_at(model, location[:-1]), location[-1]))
        case "value_error":
            return Fault(key, detail["input"], detail["msg"].removeprefix("Value error, "))
        case _:
            message = _SUBJECT.sub("must ", detail["msg"])
            return Fault(key, detail["input"], message)


def _must_be_set(model: type[BaseModel], key: str | int) -> str:
    """The problem of a missing key, with an example if there is one, and its description."""
    field = next(f for name, f in model.model_fields.items() if key == (f.alias or name))
    example = f", such as {json.dumps(field.examples[0])}" if field.examples else ""
    description = " ".join((field.description or "").split())
    return f"must be set{example}: {description}"


def path(location: Sequence[str | int]) -> str:
    """The path of a value as `pulumi config set --path` takes it: `workerPools[0].name`."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part == "[key]":
            continue  # pydantic's mark for a fault in the key of a mapping
        elif not text:
            text = part
        else:
            text += f".{part}" if _PLAIN_PART.fullmatch(part) else f"[{json.dumps(part)}]"
    return text


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(model: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel]:
    for part in location:
        for name, field in model.model_fields.items():
            if part == (field.alias or name):
                model = _model_in(field.annotation) or model
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model that a field holds, directly, as one of several, or in a tuple or mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in get_args(annotation) if (found := _model_in(arg))), None)
