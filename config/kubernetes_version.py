"""The Kubernetes versions that a cluster can have, and those it can change to."""

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator

import versions
from config.errors import Fault

_VERSION = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def _parts(version: str) -> tuple[int, int, int] | None:
    match = _VERSION.fullmatch(version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _supported(version: str) -> str:
    parts = _parts(version)
    if parts is None:
        raise ValueError(
            f"must be a complete version with the v, such as {versions.KUBERNETES_VERSION}"
        )
    if f"{parts[0]}.{parts[1]}" not in versions.KUBERNETES_MINORS:
        minors = ", ".join(versions.KUBERNETES_MINORS)
        raise ValueError(f"this minor version is not supported; supported are {minors}")
    return version


KubernetesVersion = Annotated[str, AfterValidator(_supported)]


def version_change_faults(previous: str | None, wanted: str) -> Iterator[Fault]:
    """The changes that kubeadm cannot make: a downgrade, and an upgrade that skips a minor version.

    Args:
        previous: the version that was deployed last, None for a new cluster.
        wanted: the version in the configuration.
    """
    if previous is None:
        return
    before, after = _parts(previous), _parts(wanted)
    if before is None or after is None or before == after:
        return
    if after < before:
        problem = (
            f"the cluster runs {previous}, and Kubernetes cannot be downgraded; set {previous}"
        )
    elif after[0] == before[0] and after[1] - before[1] <= 1:
        return
    else:
        problem = (
            f"the cluster runs {previous}, and a minor version cannot be skipped; "
            f"upgrade to a v{before[0]}.{before[1] + 1} version first"
        )
    yield Fault("kubernetesVersion", wanted, problem)
