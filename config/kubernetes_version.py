"""The changes of the Kubernetes version that kubeadm can make."""

from collections.abc import Iterator

from config.errors import Fault
from config.values.kubernetes import version_parts


def version_change_faults(previous: str | None, wanted: str) -> Iterator[Fault]:
    """The changes that kubeadm cannot make: a downgrade, and an upgrade that skips a minor version.

    Args:
        previous: the version that was deployed last, None for a new cluster.
        wanted: the version in the configuration.
    """
    if previous is None:
        return
    before, after = version_parts(previous), version_parts(wanted)
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
