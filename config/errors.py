"""Every fault of a configuration in one error, each with its key, its value and what to do."""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, get_args

import pulumi
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

ModelT = TypeVar("ModelT", bound=BaseModel)

# Longer values are cut in messages.
_LONGEST_VALUE = 80

# The password in a URL.
_PASSWORD = re.compile(r"(?<=://)([^/@:\s]*):[^/@\s]*@")

MISSING = object()
"""The value of a fault whose key was not set."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with the configuration."""

    key: str
    """The key as the user writes it: `workerPools[0].count`."""
    value: object
    """What was set, or `MISSING`."""
    problem: str
    """What is allowed, or what to do."""

    @property
    def top(self) -> str:
        """The top-level key."""
        return re.split(r"[.\[]", self.key, maxsplit=1)[0]

    def __str__(self) -> str:
        if self.value is MISSING:
            return f"{self.key}: {self.problem}"
        return f"{self.key} = {shown(self.value)}: {self.problem}"


class ConfigError(pulumi.RunError):
    """The configuration cannot be used; `faults` are all the reasons that were found.

    The engine shows the message of a `RunError` without a stack trace.
    """

    def __init__(
        self, faults: Sequence[Fault], about: str = "the configuration cannot be used"
    ) -> None:
        self.faults = tuple(faults)
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        lines = "\n".join(f"  {fault}" for fault in faults)
        super().__init__(f"{about}, {count}:\n{lines}")


def shown(value: object) -> str:
    """A value as it is shown in a message: short, on one line, without passwords."""
    text = _PASSWORD.sub(r"\1:***@", " ".join(str(value).split()))
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def nearest(wanted: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Those of the known names that the wanted one was probably meant to be."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(wanted.casefold(), by_folded, n=count, cutoff=0.6)
    return [by_folded[name] for name in close]


def validate(
    model: type[ModelT],
    raw: Mapping[str, object],
    cross_field: Callable[[ModelT, frozenset[str]], Iterable[Fault]],
    secret: Collection[str] = (),
) -> ModelT:
    """Make the model from raw values.

    Args:
        model: the model of the whole configuration.
        raw: values by camelCase key.
        cross_field: rules over several keys; it is told which top-level keys are unusable.
        secret: top-level keys whose values must not be shown.

    Raises:
        ConfigError: with the faults of every field, and those of every rule whose keys are good.
    """
    try:
        result = model.model_validate(dict(raw))
        faults: list[Fault] = []
        bad: frozenset[str] = frozenset()
    except ValidationError as error:
        details = error.errors(include_url=False)
        faults = [_fault(model, detail) for detail in details]
        bad = frozenset(str(detail["loc"][0]) for detail in details)
        result = _with_examples(model, raw, bad)
    faults += cross_field(result, bad)
    if faults:
        raise ConfigError([_hidden(fault) if fault.top in secret else fault for fault in faults])
    return result


def _hidden(fault: Fault) -> Fault:
    return fault if fault.value is MISSING else replace(fault, value="[secret]")


def _with_examples(model: type[ModelT], raw: Mapping[str, object], bad: frozenset[str]) -> ModelT:
    """The model with the default, or the example, in the place of every unusable value."""
    good = {key: value for key, value in raw.items() if key not in bad}
    examples = {
        field.alias or name: field.examples[0]
        for name, field in model.model_fields.items()
        if field.is_required() and field.examples
    }
    return model.model_validate({**examples, **good})


def _fault(model: type[BaseModel], detail: ErrorDetails) -> Fault:
    location = detail["loc"]
    key = dotted(location)
    match detail["type"]:
        case "extra_forbidden":
            near = nearest(str(location[-1]), _keys(_model_at(model, location[:-1])))
            hint = f"did you mean {dotted((*location[:-1], near[0]))}?" if near else "remove it"
            return Fault(key, detail["input"], f"unknown key; {hint}")
        case "missing":
            return Fault(key, MISSING, _must_be_set(_model_at(model, location[:-1]), location[-1]))
        case "value_error":
            return Fault(key, detail["input"], detail["msg"].removeprefix("Value error, "))
        case _:
            message = re.sub(r"^(Input|String|Tuple|List|Value) should ", "must ", detail["msg"])
            return Fault(key, detail["input"], message)


def _must_be_set(model: type[BaseModel], key: str | int) -> str:
    """What the key means, and an example if there is one."""
    field = next(f for name, f in model.model_fields.items() if key == (f.alias or name))
    example = f", such as {json.dumps(field.examples[0])}" if field.examples else ""
    return f"must be set{example}: {field.description}"


def dotted(location: Sequence[str | int]) -> str:
    """The path of a value as `pulumi config set --path` takes it: `workerPools[0].name`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":  # pydantic's mark for a fault in the key of a mapping
            path += f".{part}" if path else part
    return path


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
