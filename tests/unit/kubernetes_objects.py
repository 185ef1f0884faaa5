"""The part of a Kubernetes API that keeps objects, and gives tokens of ServiceAccounts."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from tests.unit.http_servers import Silent


class Objects:
    """The objects that an API server keeps, by path."""

    def __init__(self, *namespaces: str, longest: int = 10**9) -> None:
        # Seconds: --service-account-max-token-expiration.
        self.longest = longest
        self.kept: dict[str, dict[str, Any]] = {}
        # Of tokens that are valid: whose they are.
        self.tokens: dict[str, str] = {}
        self.applied_by: set[str] = set()
        # Changes of objects, by path.
        self.merged: list[tuple[str, dict[str, Any]]] = []
        for name in namespaces:
            self.kept[f"/api/v1/namespaces/{name}"] = {"metadata": {"name": name}}
        self.add_role("admin")

    def add_role(self, name: str) -> None:
        self.kept[f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"] = {
            "metadata": {"name": name}
        }

    def below(self, collection: str) -> dict[str, dict[str, Any]]:
        """The objects of a collection by name; of all namespaces if it names none."""
        parts = collection.strip("/").split("/")
        kind = parts[-1]
        found = {}
        for path, each in self.kept.items():
            above, _, name = path.rpartition("/")
            everywhere = "namespaces" not in parts and above.endswith(f"/{kind}")
            if above == collection or everywhere:
                found[name] = each
        return found

    def merge(self, path: str, changes: dict[str, Any]) -> None:
        self.merged.append((path, changes))

    def token(self, path: str, seconds: int) -> str:
        _, _, _, _, namespace, _, name, _ = path.split("/")
        user = f"system:serviceaccount:{namespace}:{name}"
        now = int(time.time())
        claims = {
            "iat": now,
            "exp": now + min(seconds, self.longest),
            "sub": user,
            "jti": len(self.tokens),
        }
        payload = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        made = f"head.{payload}.signature"
        self.tokens[made] = user
        return made

    def review(self, token: str) -> dict[str, Any]:
        if token not in self.tokens:
            return {"error": "invalid bearer token"}
        return {"authenticated": True, "user": {"username": self.tokens[token]}}

    def handler(self) -> type[Silent]:
        """A handler of requests for these objects."""
        return type("Api", (_Api,), {"objects": self})


class _Api(Silent):
    objects: ClassVar[Objects]

    def do_GET(self) -> None:  # noqa: N802
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        if "labelSelector" in parts.query:
            key, _, value = parse_qs(parts.query)["labelSelector"][0].partition("=")
            items = [
                each
                for each in self.objects.below(path).values()
                if each["metadata"].get("labels", {}).get(key) == value
            ]
            self._answer(200, {"items": items})
        elif path in self.objects.kept:
            self._answer(200, self.objects.kept[path])
        else:
            self._answer(404, {})

    def do_PATCH(self) -> None:  # noqa: N802
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        if self.headers["Content-Type"] == "application/merge-patch+json":
            self.objects.merge(path, self._body())
            self._answer(200 if path in self.objects.kept else 404, {})
            return
        assert self.headers["Content-Type"] == "application/apply-patch+yaml"
        self.objects.applied_by.update(parse_qs(parts.query)["fieldManager"])
        made = self._body()
        if "/namespaces/" in path and made["kind"] != "Namespace":
            namespace = path.split("/namespaces/")[1].split("/")[0]
            if f"/api/v1/namespaces/{namespace}" not in self.objects.kept:
                self._answer(404, {})
                return
            made["metadata"]["namespace"] = namespace
        before = self.objects.kept.get(path, made)
        if before.get("roleRef") != made.get("roleRef"):
            self._answer(422, {})
            return
        self._number(made, self.objects.kept.get(path))
        self.objects.kept[path] = made
        self._answer(200, made)

    @staticmethod
    def _number(made: dict[str, Any], before: dict[str, Any] | None) -> None:
        """Give it another version if it differs from what there was."""
        version = before["metadata"].get("resourceVersion", "0") if before else "0"
        made["metadata"]["resourceVersion"] = version
        if made != before:
            made["metadata"]["resourceVersion"] = str(int(version) + 1)

    def do_POST(self) -> None:  # noqa: N802
        spec = self._body()["spec"]
        if self.path.endswith("/token"):
            assert self.path.rpartition("/")[0] in self.objects.kept
            status = {"token": self.objects.token(self.path, spec["expirationSeconds"])}
        else:
            status = self.objects.review(spec["token"])
        self._answer(201, {"status": status})

    def do_DELETE(self) -> None:  # noqa: N802
        found = self.objects.kept.pop(unquote(self.path), None)
        self._answer(404 if found is None else 200, {})

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _answer(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())
