"""Waits until the Kubernetes API answers, since a provider cannot wait."""

import asyncio
from base64 import b64decode
from dataclasses import dataclass
from typing import Any, cast

import pulumi
import yaml
from pulumi.output import UNKNOWN
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from addons.http_client import NoAnswerError, request

# A gateway that takes over needs a few seconds.
_PREVIEW_SECONDS = 10.0
# A machine that has just been replaced may still be starting.
_UPDATE_SECONDS = 600.0
_PAUSE_SECONDS = 2.0
_ANSWER_SECONDS = 5.0


def when_it_answers(kubeconfig: pulumi.Input[str]) -> pulumi.Output[str]:
    """Return the kubeconfig as soon as its API answers.

    An update waits for the API: the same run may be repairing the machines it runs on. A preview
    gives up early and leaves the kubeconfig unknown. Otherwise no cluster whose API is down could
    be repaired, since every update begins with a preview.
    """
    return pulumi.Output.from_input(kubeconfig).apply(_answering)


async def _answering(kubeconfig: str) -> str:
    preview = pulumi.runtime.is_dry_run()
    server = _Server.of(kubeconfig)
    patient = AsyncRetrying(
        retry=retry_if_exception_type(NoAnswerError),
        stop=stop_after_delay(_PREVIEW_SECONDS if preview else _UPDATE_SECONDS),
        wait=wait_fixed(_PAUSE_SECONDS),
        reraise=True,
    )
    try:
        await patient(asyncio.to_thread, server.check)
    except NoAnswerError as problem:
        silent = f"the Kubernetes API at {server.url} does not answer ({problem})"
        if not preview:
            raise pulumi.RunError(
                f"{silent}: the add-ons were not touched; check the gateways and the control "
                "planes, then run the update again"
            ) from None
        pulumi.log.warn(
            f"{silent}: this preview cannot tell what happens to the add-ons; none of them is "
            "deleted, whatever is shown here"
        )
        return cast("str", UNKNOWN)
    return kubeconfig


@dataclass(frozen=True)
class _Server:
    """The address of the API, and the CA that signed its certificate."""

    url: str
    authority: str | None

    @classmethod
    def of(cls, kubeconfig: str) -> "_Server":
        cluster: dict[str, Any] = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]
        authority = cluster.get("certificate-authority-data")
        return cls(cluster["server"], b64decode(authority).decode() if authority else None)

    def check(self) -> None:
        """Raise NoAnswerError unless the API answers."""
        answer = request(
            "GET", f"{self.url}/readyz", timeout=_ANSWER_SECONDS, authority=self.authority
        )
        # An API that refuses to say whether it is ready is up.
        if answer.is_server_error:
            raise NoAnswerError(f"HTTP status {answer.status_code}")
