"""What the API server reads: audit, encryption of Secrets, admission, logins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.kubeadm import Document
from config.kubernetes_yaml import dump
from config.models.kubernetes import Oidc

_ENCRYPTION_HEAD = """\
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
"""


def audit_policy(custom: Mapping[str, Any] | None) -> str:
    """The audit policy: metadata of requests without bodies, which may hold secrets; no noise."""
    if custom is not None:
        return dump(custom)
    return dump(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
                {
                    "level": "None",
                    "resources": [
                        {"group": "coordination.k8s.io", "resources": ["leases"]},
                        {"group": "", "resources": ["events"]},
                        {"group": "events.k8s.io", "resources": ["events"]},
                    ],
                },
                {
                    "level": "None",
                    "users": ["system:kube-proxy", "system:apiserver"],
                    "verbs": ["get", "list", "watch"],
                },
                {
                    "level": "None",
                    "userGroups": ["system:nodes"],
                    "verbs": ["get", "list", "watch"],
                },
                {"level": "Metadata"},
            ],
        }
    )


def encryption_providers(generation: int, *, encrypt: bool) -> Sequence[str]:
    """Names of what the API servers have in the end, in their order: the first one writes.

    Secrets stay readable when encryption is switched on or off.
    """
    both = (encryption_key_name(generation), "identity")
    return both if encrypt else both[::-1]


def encryption_key_name(generation: int) -> str:
    """The name that a Secret in etcd begins with, after `k8s:enc:secretbox:v1:`.

    From the second one on, base64 of all that is a whole number of characters: the node scripts
    look for it.
    """
    return "key1" if generation == 1 else f"key{generation:02d}"


def encryption_configuration(keys: Sequence[str], *, encrypt: bool) -> str:
    """Encryption of Secrets at rest: `encryption_providers`, then the older keys.

    `keys` are base64, that of the first generation first. Each provider is a line, for the node
    scripts, which write the file that the API server reads.
    """
    providers: dict[str, Document] = {"identity": {"identity": {}}}
    for generation, key in enumerate(keys, start=1):
        name = encryption_key_name(generation)
        providers[name] = {"secretbox": {"keys": [{"name": name, "secret": key}]}}
    first = encryption_providers(len(keys), encrypt=encrypt)
    older = [name for name in reversed(providers) if name not in first]
    return _ENCRYPTION_HEAD + "".join(
        f"  - {json.dumps(providers[name])}\n" for name in (*first, *older)
    )


def admission_configuration(pod_security: str) -> str:
    """Pod Security for the namespaces whose labels say none; kube-system runs what nodes need."""
    return dump(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [
                {
                    "name": "PodSecurity",
                    "configuration": {
                        "apiVersion": "pod-security.admission.config.k8s.io/v1",
                        "kind": "PodSecurityConfiguration",
                        "defaults": {"enforce": pod_security},
                        "exemptions": {"namespaces": ["kube-system"]},
                    },
                }
            ],
        }
    )


def authentication_configuration(oidc: Oidc | None) -> str:
    """Logins: people by OpenID Connect; without a login, the API answers about its health only."""
    return dump(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "jwt": [] if oidc is None else [_oidc_authenticator(oidc)],
            # The kubelets' probes and every HAProxy ask.
            "anonymous": {
                "enabled": True,
                "conditions": [{"path": path} for path in ("/livez", "/readyz", "/healthz")],
            },
        }
    )


def _oidc_authenticator(oidc: Oidc) -> Document:
    issuer: Document = {"url": oidc.issuer_url, "audiences": [oidc.client_id]}
    if oidc.ca_certificate is not None:
        issuer["certificateAuthority"] = oidc.ca_certificate
    claims = {
        "username": {"claim": oidc.username_claim, "prefix": _prefix(oidc)},
        "groups": {"claim": oidc.groups_claim, "prefix": oidc.groups_prefix},
    }
    return {"issuer": issuer, "claimMappings": claims}


def _prefix(oidc: Oidc) -> str:
    """The prefix of user names: empty and `-` mean what they mean to `--oidc-username-prefix`."""
    if oidc.username_prefix == "-":
        return ""
    if not oidc.username_prefix and oidc.username_claim != "email":
        return f"{oidc.issuer_url}#"
    return oidc.username_prefix
