"""Run hollow machines at consecutive addresses, which must be on this machine, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import signal
from pathlib import Path

import asyncssh

from bench.hollow.machine import Machine, addresses

# Each has an SSH port, a kubelet, and connections to the API.
FILES_EACH = 16


async def listen(machine: Machine, host_key: Path, authorized: Path) -> asyncssh.SSHAcceptor:
    """Let this key in, take files, and run what it asks for."""

    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        given = await process.stdin.read()
        status, said = await machine.run(process.command or "", given)
        (process.stdout if status == 0 else process.stderr).write(said.encode())
        process.exit(status)

    return await asyncssh.listen(
        machine.address,
        22,
        server_host_keys=[host_key],
        authorized_client_keys=str(authorized),
        process_factory=run,
        encoding=None,
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=machine.home.encode()),
        allow_scp=False,
        line_editor=False,
    )


async def main() -> None:
    """Run until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", required=True, metavar="ADDRESS")
    parser.add_argument("--count", required=True, type=int)
    parser.add_argument("--host-key", required=True, type=Path, metavar="FILE")
    parser.add_argument("--authorized-keys", required=True, type=Path, metavar="FILE")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(most, arguments.count * FILES_EACH)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    machines = [Machine(address) for address in addresses(arguments.first, arguments.count)]
    for machine in machines:
        await listen(machine, arguments.host_key, arguments.authorized_keys)
    print("ready", flush=True)
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    await end.wait()
    await asyncio.gather(*(machine.stop() for machine in machines))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
