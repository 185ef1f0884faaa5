"""Anything that a user writes loads or is refused with faults that name their keys."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from config.errors import ConfigError, Fault
from config.load import SECRET_KEYS, load
from config.models.cluster import Cluster
from docs.schema import keys
from tests.unit.test_generated import stack_file

TOP_LEVEL = [field.alias or name for name, field in Cluster.model_fields.items()]
NAMES = sorted({key.name.removesuffix("[]") for key in keys()})
# What a rule over several keys may take further than a random value.
LIKELY = ["", "0.0.0.0/0", "10.8.0.0/26", "10.96.0.0/12", "255.255.255.255", "v1.36.3", "a" * 63]

# What would break a file, a command line or a message that it is written into.
BREAKS = ["a\nb", "a\rb", "a\0b", "https://a\x1b", "a\u2028b"]
# Keys that another program owns.
OWNED = ["kubernetes.io/hostname", "node-role.kubernetes.io/master", "clusterDNS", "cgroupDriver"]
# Values that have lines, or whose meaning only another program knows.
FREE = {"policy", "values", "extraConfig", "dropIns", "fluentBitValues", "alertmanager"}
FREE |= {"caCertificate"}

# Every key with its default or example.
EVERY_KEY = {key: stack_file(key)[key] for key in TOP_LEVEL}

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**30), max_value=10**30)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([*LIKELY, *BREAKS]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*NAMES, *OWNED, *BREAKS]) | st.text(max_size=5), inner, max_size=3
        )
    ),
    max_leaves=8,
)
ANYTHING = st.dictionaries(
    st.sampled_from([*TOP_LEVEL, *SECRET_KEYS]) | st.text(min_size=1, max_size=5),
    VALUES,
    max_size=4,
)


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    """A configuration that loads, but for up to three values of it."""
    raw = copy.deepcopy(EVERY_KEY)
    for _ in range(draw(st.integers(1, 3))):
        place: Any = raw
        while True:
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            key = draw(st.sampled_from(keys))
            if not place[key] or not isinstance(place[key], dict | list) or draw(st.booleans()):
                break
            place = place[key]
        place[key] = draw(VALUES)
    return raw


def loaded(raw: dict[str, Any]) -> tuple[Cluster | None, tuple[Fault, ...]]:
    try:
        return load(raw, "demo"), ()
    except ConfigError as error:
        return None, error.faults


def texts(value: object) -> Iterator[str]:
    """Every text that the program would write somewhere, keys included."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from () if key in FREE else texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield value


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(ANYTHING | changed())
def test_a_configuration_loads_or_every_fault_names_a_key(raw: dict[str, Any]) -> None:
    cluster, faults = loaded(raw)
    for fault in faults:
        assert any(fault.is_in(key) for key in (*TOP_LEVEL, *SECRET_KEYS, *raw)), fault
        assert fault.problem
        assert str(fault).isprintable()
    if cluster is not None:
        settings = cluster.model_dump(mode="json", by_alias=True)
        assert [text for text in texts(settings) if not text.isprintable()] == []
        assert not set(OWNED) & {*settings["worker"]["labels"], *settings["kubelet"]["extraConfig"]}
