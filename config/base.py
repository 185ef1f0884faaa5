"""The base of every model of the configuration."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Settings(BaseModel):
    """A frozen group of settings; keys are camelCase, and an unknown key is a fault."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        # `pulumi config set --path a.b 5` stores a number where a text may be meant.
        coerce_numbers_to_str=True,
        str_strip_whitespace=True,
        use_attribute_docstrings=True,
    )
