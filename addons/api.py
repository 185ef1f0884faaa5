"""Whether the Kubernetes API answers, before the provider asks it: a provider cannot wait."""

import asyncio
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64decode
from dataclasses import dataclass
from typing import Any, cast

import pulumi
import yaml
from pulumi.output import UNKNOWN

# A gateway that takes over needs a few seconds.
_PREVIEW_SECONDS = 10.0
# A machine that was replaced a moment ago may still be starting.
_UPDATE_SECONDS = 600.0
_PAUSE_SECONDS = 2.0
_ANSWER_SECONDS = 5.0


def when_it_answers(kubeconfig: pulumi.Input[str]) -> pulumi.Output[str]:
    """The kubeconfig, as soon as its API answers.

    An update waits for it: the same run may be repairing the machines it runs on. A preview does
    not, and leaves the kubeconfig unknown then; otherwise no cluster without an API could be
    repaired, since every update begins with a preview.
    """
    return pulumi.Output.from_input(kubeconfig).apply(_answering)


async def _answering(kubeconfig: str) -> str:
    preview = pulumi.runtime.is_dry_run()
    server = _Server.of(kubeconfig)
    deadline = time.monotonic() + (_PREVIEW_SECONDS if preview else _UPDATE_SECONDS)
    while (problem := await asyncio.to_thread(server.problem)) is not None:
        if time.monotonic() < deadline:
            await asyncio.sleep(_PAUSE_SECONDS)
        elif preview:
            pulumi.warn(
                f"the Kubernetes API at {server.url} does not answer ({problem}): what happens to "
                "the add-ons cannot be told, and none of them is deleted, whatever is shown here"
            )
            return cast("str", UNKNOWN)
        else:
            raise pulumi.RunError(
                f"the Kubernetes API at {server.url} does not answer ({problem}): the add-ons were "
                "not touched; check the gateways and the control planes, then update again"
            )
    return kubeconfig


@dataclass(frozen=True)
class _Server:
    """Where the API is, and who vouches for it."""

    url: str
    authority: str | None

    @classmethod
    def of(cls, kubeconfig: str) -> "_Server":
        cluster: dict[str, Any] = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]
        authority = cluster.get("certificate-authority-data")
        return cls(cluster["server"], b64decode(authority).decode() if authority else None)

    def problem(self) -> str | None:
        """Why it does not answer, None when it does."""
        context = ssl.create_default_context(cadata=self.authority)
        request = urllib.request.Request(f"{self.url}/readyz")  # noqa: S310 - of a kubeconfig
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS, context=context):  # noqa: S310
                return None
        except urllib.error.HTTPError as error:
            # Whoever refuses to say it lives does live.
            return f"HTTP status {error.code}" if error.code >= 500 else None
        except urllib.error.URLError as error:
            return getattr(error.reason, "strerror", None) or str(error.reason)
        except OSError as error:
            return str(error)
