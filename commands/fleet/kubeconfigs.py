"""One kubeconfig of several, with a context for each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from config.kubernetes_yaml import dump

# The lists of a kubeconfig, and the key of what their entries name.
_LISTS = {"contexts": "context", "clusters": "cluster", "users": "user"}


def merge(by_stack: Mapping[str, str]) -> str:
    """The outputs `kubeconfig` of some stacks as one, with the first as its current context.

    Each context, cluster and user is called like its stack: others may have the same names.
    """
    merged: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(by_stack)),
        **{name: [] for name in _LISTS},
    }
    for stack, text in by_stack.items():
        document = yaml.safe_load(text)
        for name, key in _LISTS.items():
            [entry] = document[name]
            content = entry[key] if key != "context" else {"cluster": stack, "user": stack}
            merged[name].append({"name": stack, key: content})
    return dump(merged)
