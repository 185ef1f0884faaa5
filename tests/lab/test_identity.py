"""Keystone under concurrent callers. Run inside the lab: `python -m lab run -- pytest FILE`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.cloud import bootstrap
from tests.lab.tenant import Tenant

pytestmark = [
    pytest.mark.skipif("OS_CLOUD" not in os.environ, reason="for inside `lab run`"),
    # The SDK warns of its own insides.
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


@pytest.fixture(scope="module")
def tenant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    tenant = Tenant(tmp_path_factory.mktemp("tenant"))
    try:
        yield tenant
    finally:
        tenant.close()


def test_no_caller_gets_the_roles_of_another(tenant: Tenant) -> None:
    # A credential gets its caller's roles; with another's, Keystone refuses to make it.
    rounds = 60
    administrator = bootstrap.identity_of(bootstrap.admin())

    def credentials(caller: int) -> None:
        user = tenant.cloud.current_user_id
        for number in range(rounds):
            made = tenant.cloud.identity.create_application_credential(
                user, name=f"caller-{caller}-{number}"
            )
            tenant.cloud.identity.delete_application_credential(user, made)

    def projects(_: int) -> None:
        for _ in range(rounds * 4):
            assert list(administrator.projects())

    with ThreadPoolExecutor(8) as callers:
        work = [
            callers.submit(what, caller) for caller in range(4) for what in (credentials, projects)
        ]
        for one in work:
            one.result()
