"""Nova's driver: servers as LXC containers, disks as files, ports as veth pairs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import disk_images
import eventlet
import os_resource_classes as orc
from nova import exception
from nova.api.metadata import base as instance_metadata
from nova.compute import power_state, task_states
from nova.objects import fields
from nova.virt import configdrive, driver, hardware, images
from nova.virt.images import IMAGE_API
from oslo_log import log as logging
from oslo_utils import units

from . import disks, network
from .command import run
from .container import Container, Settings
from .options import CONF

LOG = logging.getLogger(__name__)

_STATES = {
    "RUNNING": power_state.RUNNING,
    "FROZEN": power_state.PAUSED,
    "STOPPED": power_state.SHUTDOWN,
}
_CONSOLE_BYTES = 100 * units.Ki


class LxcDriver(driver.ComputeDriver):
    """One machine, one node; a server's files are in instances_path/<its id>."""

    capabilities = {  # noqa: RUF012 - the base class declares it like this
        **driver.ComputeDriver.capabilities,
        "has_imagecache": True,
        "supports_attach_interface": True,
        "supports_extend_volume": True,
        "supports_migrate_to_same_host": True,
        "supports_image_type_qcow2": True,
        "supports_image_type_raw": True,
    }

    # --- the machine ---

    def init_host(self, host):
        Path(CONF.instances_path).mkdir(parents=True, exist_ok=True)

    def get_available_nodes(self, refresh=False):
        return [CONF.host]

    def list_instances(self):
        return self.list_instance_uuids()

    def list_instance_uuids(self):
        return [path.parent.name for path in Path(CONF.instances_path).glob("*/config")]

    def instance_exists(self, instance):
        return (self._folder(instance) / "config").exists()

    def instance_on_disk(self, instance):
        return self._folder(instance).exists()

    def get_available_resource(self, nodename):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // units.Mi
        disk = shutil.disk_usage(CONF.instances_path)
        kind = (fields.Architecture.X86_64, fields.HVType.LXC, fields.VMMode.EXE)
        return {
            "vcpus": os.cpu_count(),
            "memory_mb": memory,
            "local_gb": disk.total // units.Gi,
            "vcpus_used": 0,
            "memory_mb_used": CONF.reserved_host_memory_mb,
            "local_gb_used": disk.used // units.Gi,
            "disk_available_least": disk.free // units.Gi,
            "hypervisor_type": "lxc",
            "hypervisor_version": 5_000_002,
            "hypervisor_hostname": nodename,
            "cpu_info": json.dumps({"arch": fields.Architecture.X86_64}),
            "supported_instances": [kind],
            "numa_topology": None,
        }

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        found = self.get_available_resource(nodename)
        ratios = self._get_allocation_ratios(provider_tree.data(nodename).inventory)
        reserved_disk = self._get_reserved_host_disk_gb_from_config()
        totals = {
            orc.VCPU: (found["vcpus"], CONF.reserved_host_cpus),
            orc.MEMORY_MB: (found["memory_mb"], CONF.reserved_host_memory_mb),
            orc.DISK_GB: (found["local_gb"], reserved_disk),
        }
        provider_tree.update_inventory(nodename, {
            name: {
                "total": total, "reserved": reserved, "min_unit": 1, "step_size": 1,
                # A flavor may have more processors than the machine: it is only a limit then.
                "max_unit": max(total, 16) if name == orc.VCPU else total,
                "allocation_ratio": ratios[name],
            }
            for name, (total, reserved) in totals.items()
        })  # fmt: skip
        provider_tree.update_traits(nodename, [
            trait for trait, supported in self.capabilities_as_traits().items() if supported
        ])  # fmt: skip

    def get_volume_connector(self, instance):
        return {
            "host": CONF.host, "ip": CONF.my_block_storage_ip, "initiator": None,
            "multipath": False, "os_type": "linux", "platform": "x86_64",
        }  # fmt: skip

    def get_host_ip_addr(self):
        return CONF.my_ip

    def get_host_uptime(self):
        return run("uptime")

    # --- a server's life ---

    def spawn(
        self, context, instance, image_meta, injected_files, admin_password, allocations,
        network_info=None, block_device_info=None, power_on=True, accel_info=None,
    ):  # fmt: skip
        folder = self._folder(instance)
        try:
            with self._plugged(instance, network_info):
                folder.mkdir(mode=0o700, exist_ok=True)
                if self._root_volume(block_device_info) is None:
                    self._make_root(context, instance, image_meta.id)
                self._write_seed(instance, injected_files, network_info)
                self._configure(instance, network_info, block_device_info)
            if power_on:
                self._start(instance, network_info)
        except Exception as error:
            LOG.exception("The server could not be started", instance=instance)
            self.destroy(context, instance, network_info, block_device_info)
            if isinstance(error, disks.UnusableDisk):
                # Nova shows the reason of this one, and does not try again.
                raise exception.ImageUnacceptable(
                    image_id=image_meta.id, reason=str(error)
                ) from error
            raise

    def get_info(self, instance, use_cache=True):
        if not self.instance_exists(instance):
            raise exception.InstanceNotFound(instance_id=instance.uuid)
        state = self._container(instance).state
        return hardware.InstanceInfo(state=_STATES.get(state, power_state.RUNNING))

    def power_on(self, context, instance, network_info, block_device_info=None, accel_info=None):
        container = self._container(instance)
        if container.running:
            return
        self.plug_vifs(instance, network_info)
        self._configure(instance, network_info, block_device_info)
        self._start(instance, network_info)

    def power_off(self, instance, timeout=0, retry_interval=0):
        self._container(instance).stop(timeout)

    def reboot(self, context, instance, network_info, reboot_type, block_device_info=None,
               bad_volumes_callback=None, accel_info=None):  # fmt: skip
        self.power_off(instance, CONF.lxc.stop_timeout if reboot_type == "SOFT" else 0)
        self.power_on(context, instance, network_info, block_device_info)

    def resume_state_on_host_boot(self, context, instance, network_info, block_device_info=None):
        self.power_on(context, instance, network_info, block_device_info)

    def pause(self, instance):
        self._container(instance).freeze()

    def unpause(self, instance):
        self._container(instance).thaw()

    def destroy(self, context, instance, network_info, block_device_info=None,
                destroy_disks=True, destroy_secrets=True):  # fmt: skip
        self._container(instance).stop(0)
        self.cleanup(context, instance, network_info, block_device_info, destroy_disks)

    def cleanup(self, context, instance, network_info, block_device_info=None,
                destroy_disks=True, migrate_data=None, destroy_vifs=True,
                destroy_secrets=True):  # fmt: skip
        if destroy_vifs:
            self.unplug_vifs(instance, network_info)
        for volume in self._volumes(block_device_info):
            disks.detach(volume.file)
        self._container(instance).remove_groups()
        if destroy_disks:
            self.delete_instance_files(instance)

    def delete_instance_files(self, instance):
        shutil.rmtree(self._folder(instance), ignore_errors=True)
        return not self._folder(instance).exists()

    def get_console_output(self, context, instance):
        try:
            with open(self._container(instance).console, "rb") as console:
                size = console.seek(0, os.SEEK_END)
                console.seek(max(0, size - _CONSOLE_BYTES))
                return console.read()
        except FileNotFoundError:
            return b""

    # --- ports ---

    def plug_vifs(self, instance, network_info):
        for vif in network_info or ():
            network.plug(vif)

    def unplug_vifs(self, instance, network_info):
        for vif in network_info or ():
            network.unplug(vif)

    def attach_interface(self, context, instance, image_meta, vif):
        network.plug(vif)
        pid = self._container(instance).pid
        if pid:
            taken = network.names_in(pid)
            name = next(f"eth{n}" for n in range(1000) if f"eth{n}" not in taken)
            network.move_in(vif, pid, name)

    def detach_interface(self, context, instance, vif):
        network.unplug(vif)

    # --- volumes ---

    def default_root_device_name(self, instance, image_meta, root_bdm):
        return "/dev/vda"

    def attach_volume(self, context, connection_info, instance, mountpoint, disk_bus=None,
                      device_type=None, encryption=None):  # fmt: skip
        volume = _Volume(connection_info, mountpoint)
        loop = disks.attach(volume.file)
        container = self._container(instance)
        if container.running:
            disks.reveal(container.root / "dev", volume.name, loop, volume.serial)
        with open(container.devices, "a") as listing:
            listing.write(disks.line(volume.name, loop, volume.serial))

    def detach_volume(self, context, connection_info, instance, mountpoint, encryption=None):
        volume = _Volume(connection_info, mountpoint)
        container = self._container(instance)
        if container.running:
            disks.hide(container.root / "dev", volume.name, volume.serial)
        disks.detach(volume.file)
        with contextlib.suppress(FileNotFoundError):
            kept = [
                line for line in container.devices.read_text().splitlines(keepends=True)
                if line.split()[0] != volume.name
            ]  # fmt: skip
            container.devices.write_text("".join(kept))

    def extend_volume(self, context, connection_info, instance, requested_size):
        disks.refresh(_Volume(connection_info, "").file)

    # --- resize, on the same machine ---

    def migrate_disk_and_power_off(
        self, context, instance, dest, flavor, network_info, block_device_info=None,
        timeout=0, retry_interval=0,
    ):  # fmt: skip
        if flavor.root_gb and flavor.root_gb < instance.flavor.root_gb:
            reason = "a disk cannot be made smaller"
            raise exception.InstanceFaultRollback(exception.ResizeError(reason=reason))
        self.power_off(instance, timeout)
        disk = self._disk(instance)
        if disk.exists():
            # A revert brings back what the disk held before.
            run(*disk_images.clone_command(disk, self._disk_before_resize(instance)))
        return "{}"

    def finish_migration(self, context, migration, instance, disk_info, network_info, image_meta,
                         resize_instance, allocations, block_device_info=None,
                         power_on=True):  # fmt: skip
        disk = self._disk(instance)
        if disk.exists():
            disk_images.grow(disk, instance.flavor.root_gb * units.Gi)
        if power_on:
            self.power_on(context, instance, network_info, block_device_info)

    def confirm_migration(self, context, migration, instance, network_info):
        self._disk_before_resize(instance).unlink(missing_ok=True)

    def finish_revert_migration(self, context, instance, network_info, migration,
                                block_device_info=None, power_on=True):  # fmt: skip
        before = self._disk_before_resize(instance)
        if before.exists():
            before.rename(self._disk(instance))
        if power_on:
            self.power_on(context, instance, network_info, block_device_info)

    def check_instance_shared_storage_local(self, context, instance):
        # Nothing to check: there is one machine, so a revert must not delete the disk.
        return None

    # --- images ---

    def snapshot(self, context, instance, image_id, update_task_state):
        disk = self._disk(instance)
        if not disk.exists():
            raise exception.InstanceNotReady(instance_id=instance.uuid)
        update_task_state(task_state=task_states.IMAGE_PENDING_UPLOAD)
        copy = disk.with_name(f"snapshot-{image_id}")
        try:
            with self._quiet(instance):
                run(*disk_images.clone_command(disk, copy))
            update_task_state(
                task_state=task_states.IMAGE_UPLOADING,
                expected_state=task_states.IMAGE_PENDING_UPLOAD,
            )
            run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", copy, f"{copy}.qcow2")
            metadata = {
                "disk_format": "qcow2", "container_format": "bare", "status": "active",
                "name": IMAGE_API.get(context, image_id)["name"],
            }  # fmt: skip
            with open(f"{copy}.qcow2", "rb") as data:
                IMAGE_API.update(context, image_id, metadata, data)
        finally:
            copy.unlink(missing_ok=True)
            Path(f"{copy}.qcow2").unlink(missing_ok=True)

    def cache_image(self, context, image_id):
        if (Path(CONF.lxc.image_cache) / image_id).exists():
            return False
        self._image(context, image_id)
        return True

    def manage_image_cache(self, context, all_instances):
        used = {instance.image_ref for instance in all_instances}
        for image in Path(CONF.lxc.image_cache).glob("[!.]*"):
            if image.name not in used and not self._image_exists(context, image.name):
                image.unlink(missing_ok=True)

    # --- helpers ---

    def _folder(self, instance) -> Path:
        return Path(CONF.instances_path) / instance.uuid

    def _disk(self, instance) -> Path:
        return self._folder(instance) / "disk"

    def _disk_before_resize(self, instance) -> Path:
        return self._folder(instance) / "disk.before-resize"

    def _container(self, instance) -> Container:
        return Container(self._folder(instance), CONF.lxc.cgroup)

    def _image(self, context, image_id: str) -> Path:
        def fetch(path: str) -> None:
            source = Path(CONF.lxc.image_store or "") / image_id
            if not CONF.lxc.image_store or not source.exists():
                images.fetch_to_raw(context, image_id, path)
                return
            # Nova's own check that the file is what Glance says and names no other file.
            form = images.do_image_deep_inspection(
                IMAGE_API.get(context, image_id), image_id, str(source)
            )
            run(*disk_images.convert_command(source, form, path))

        return disk_images.cached(Path(CONF.lxc.image_cache), image_id, fetch)

    def _image_exists(self, context, image_id: str) -> bool:
        try:
            IMAGE_API.get(context, image_id)
        except exception.ImageNotFound:
            return False
        return True

    def _make_root(self, context, instance, image_id: str) -> None:
        """The root disk: a clone of the image, as large as the flavor says."""
        disk, image = self._disk(instance), self._image(context, image_id)
        size = instance.flavor.root_gb * units.Gi
        # No size in the flavor means the image's own.
        if size and size < image.stat().st_size:
            raise exception.FlavorDiskSmallerThanImage(
                flavor_size=size, image_size=image.stat().st_size
            )
        run(*disk_images.clone_command(image, disk))
        disk_images.grow(disk, size)

    def _write_seed(self, instance, injected_files, network_info) -> None:
        """The config drive's files, kept for the next boots, where the server asks for one."""
        seed = self._folder(instance) / "seed"
        shutil.rmtree(seed, ignore_errors=True)
        if not configdrive.required_by(instance):
            return
        metadata = instance_metadata.InstanceMetadata(
            instance, content=injected_files, network_info=network_info
        )
        for path, data in metadata.metadata_for_config_drive():
            target = seed / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data.encode() if isinstance(data, str) else data)

    def _configure(self, instance, network_info, block_device_info) -> None:
        """Bring disks and configuration to what the next boot needs."""
        container = self._container(instance)
        root = self._root(instance, block_device_info)
        lines = [
            disks.line(volume.name, disks.attach(volume.file), volume.serial)
            for volume in self._volumes(block_device_info) if volume.file != root
        ]  # fmt: skip
        container.devices.write_text("".join(lines))
        seed = container.folder / "seed"
        disks.prepare(root, container.folder / "rootfs", seed if seed.exists() else None)
        container.configure(Settings(
            hostname=instance.hostname,
            root=root,
            memory_mb=instance.flavor.memory_mb,
            vcpus=instance.flavor.vcpus,
            interfaces=[network.inner(vif) for vif in network_info or ()],
        ))  # fmt: skip

    def _start(self, instance, network_info) -> None:
        def replug() -> None:
            self.unplug_vifs(instance, network_info)
            self.plug_vifs(instance, network_info)

        self._container(instance).start(replug)

    def _root(self, instance, block_device_info) -> Path:
        """The file that the server boots from."""
        volume = self._root_volume(block_device_info)
        return volume.file if volume else self._disk(instance)

    def _volumes(self, block_device_info) -> list[_Volume]:
        mapping = driver.block_device_info_get_mapping(block_device_info)
        return [_Volume(entry["connection_info"], entry["mount_device"]) for entry in mapping]

    def _root_volume(self, block_device_info) -> _Volume | None:
        root = driver.block_device_info_get_root_device(block_device_info)
        for entry in driver.block_device_info_get_mapping(block_device_info):
            if entry.get("boot_index") == 0 or entry["mount_device"] == root:
                return _Volume(entry["connection_info"], entry["mount_device"])
        return None

    @contextlib.contextmanager
    def _plugged(self, instance, network_info) -> Iterator[None]:
        """Plug the ports, run the block meanwhile, and wait until Neutron has wired them."""
        events = [
            ("network-vif-plugged", vif["id"])
            for vif in network_info or () if not vif.get("active", True)
        ] if CONF.vif_plugging_timeout else []  # fmt: skip
        try:
            with self.virtapi.wait_for_instance_event(
                instance, events, deadline=CONF.vif_plugging_timeout,
                error_callback=_neutron_failed,
            ):  # fmt: skip
                self.plug_vifs(instance, network_info)
                yield
        except eventlet.timeout.Timeout:
            LOG.warning("Neutron has not wired the ports in time", instance=instance)
            if CONF.vif_plugging_is_fatal:
                raise exception.VirtualInterfaceCreateException() from None

    @contextlib.contextmanager
    def _quiet(self, instance) -> Iterator[None]:
        """Hold the server's writes, so that a copy of its disk is a whole file system."""
        container = self._container(instance)
        if container.state != "RUNNING":
            yield
            return
        root = container.root
        run("fsfreeze", "--freeze", root)
        try:
            yield
        finally:
            run("fsfreeze", "--unfreeze", root)


class _Volume:
    """A Cinder volume as the driver sees it: a file, a device name, a serial."""

    def __init__(self, connection_info, mountpoint: str) -> None:
        self.file = Path(connection_info["data"]["device_path"])
        self.name = Path(mountpoint).name
        self.serial = connection_info.get("serial") or connection_info["data"]["volume_id"]


def _neutron_failed(event_name, instance):
    LOG.error("Neutron reported %s as failed", event_name, instance=instance)
    if CONF.vif_plugging_is_fatal:
        raise exception.VirtualInterfaceCreateException()
