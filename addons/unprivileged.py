"""Security contexts with the least rights, for pods that no chart describes."""

from pulumi_kubernetes.core.v1 import (
    CapabilitiesArgs,
    PodSecurityContextArgs,
    SeccompProfileArgs,
    SecurityContextArgs,
)

# The user and group `nonroot` of distroless images; any image will do.
USER = 65532


def pod_security() -> PodSecurityContextArgs:
    """Return the context of a pod that runs as an ordinary user."""
    return PodSecurityContextArgs(
        run_as_non_root=True,
        run_as_user=USER,
        run_as_group=USER,
        fs_group=USER,
        seccomp_profile=SeccompProfileArgs(type="RuntimeDefault"),
    )


def container_security() -> SecurityContextArgs:
    """Return the context of a container without capabilities or a writable file system."""
    return SecurityContextArgs(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=CapabilitiesArgs(drop=["ALL"]),
    )
