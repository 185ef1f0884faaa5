"""The API of the cluster, for programs in its pods: a plain Python image has no client for it."""

import contextlib
import json
import os
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PAGE = 250
_REQUEST_SECONDS = 30
_CONTENT_TYPES = {"PATCH": "application/merge-patch+json"}

Document = dict[str, Any]
Call = Callable[[str, str, Document | None], Document]


class ApiError(Exception):
    """A refusal of the API server with this HTTP status, or 0 if it did not answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def api_server() -> Call:
    """Return a function that calls the cluster's API as the pod's service account."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    context = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))

    def call(method: str, path: str, body: Document | None) -> Document:
        request = urllib.request.Request(
            f"https://{host}:{port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                # Read for each request: the kubelet renews it.
                "Authorization": f"Bearer {(_ACCOUNT / 'token').read_text()}",
                "Content-Type": _CONTENT_TYPES.get(method, "application/json"),
            },
        )
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=_REQUEST_SECONDS, context=context
            ) as answer:
                document: Document = json.load(answer)
                return document
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["message"]
            raise ApiError(error.code, text or str(error)) from None
        except OSError as error:
            raise ApiError(0, str(error)) from None

    return call


def listed(path: str, selector: str, call: Call) -> Iterator[Document]:
    """Return all objects at this path, of as many pages as there are."""
    token = ""
    while True:
        query = {"labelSelector": selector, "limit": str(_PAGE), "continue": token}
        page = call("GET", f"{path}?{urllib.parse.urlencode(query)}", None)
        yield from page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return


def exit_status(run: Callable[[], Sequence[str]]) -> int:
    """Run once and print the problems; return the exit status, 0 if there are none."""
    try:
        problems = run()
    except ApiError as error:
        problems = [str(error)]
    for problem in problems:
        print(f"ERROR: {problem}", file=sys.stderr)
    return 1 if problems else 0
