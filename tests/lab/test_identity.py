"""Keystone under concurrent callers. Run inside the lab: `python -m lab run -- pytest FILE`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lab.cloud import bootstrap
from tests.lab import marks
from tests.lab.tenant import Tenant

pytestmark = marks.INSIDE


def test_no_caller_gets_the_roles_of_another(tenant: Tenant) -> None:
    # A credential gets the roles of its caller; with another caller's roles Keystone refuses it.
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
