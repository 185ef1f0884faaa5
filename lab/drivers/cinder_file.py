"""A Cinder driver whose volumes are plain sparse files on the machine of the servers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import disk_images
from cinder import exception, interface
from cinder.image import image_utils
from cinder.volume import configuration, driver, volume_utils
from oslo_concurrency import processutils
from oslo_config import cfg
from oslo_utils import units

OPTIONS = [
    cfg.StrOpt("volumes_path", default="$state_path/volumes", help="Folder of the volumes."),
    cfg.StrOpt(
        "image_cache",
        default="$volumes_path/_base",
        help="Folder of raw images, best on the file system of volumes_path (reflinks).",
    ),
    cfg.StrOpt(
        "image_store",
        help="Glance's folder of images where it is on this machine: nothing is downloaded.",
    ),
]
cfg.CONF.register_opts(OPTIONS, group=configuration.SHARED_CONF_GROUP)


@interface.volumedriver
class FileDriver(driver.VolumeDriver):
    """A volume is volumes_path/volume-<id>, a snapshot is a clone next to it."""

    VERSION = "1.0.0"
    CI_WIKI_NAME = "none"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTIONS)
        self._folder = Path(self.configuration.volumes_path)

    def check_for_setup_error(self):
        self._folder.mkdir(parents=True, exist_ok=True)

    def _update_volume_stats(self):
        usage = shutil.disk_usage(self._folder)
        self._stats = {
            "volume_backend_name": self.configuration.volume_backend_name,
            "vendor_name": "openstack-kubernetes lab",
            "driver_version": self.VERSION,
            "storage_protocol": "file",
            "total_capacity_gb": usage.total // units.Gi,
            "free_capacity_gb": usage.free // units.Gi,
            "reserved_percentage": self.configuration.reserved_percentage,
            "thin_provisioning_support": True,
            "max_over_subscription_ratio": self.configuration.max_over_subscription_ratio,
            "provisioned_capacity_gb": 0,
            "multiattach": False,
            "online_extend_support": True,
        }

    # --- volumes ---

    def create_volume(self, volume):
        with open(self._path(volume), "xb") as handle:
            os.truncate(handle.fileno(), volume.size * units.Gi)

    def create_cloned_volume(self, volume, src_vref):
        self._clone(self._path(src_vref), volume)

    def create_volume_from_snapshot(self, volume, snapshot):
        self._clone(self._path(snapshot), volume)

    def clone_image(self, context, volume, image_location, image_meta, image_service):
        self._clone(self._image(context, image_service, image_meta["id"], volume), volume)
        return {}, True

    def copy_image_to_volume(self, context, volume, image_service, image_id,
                             disable_sparse=False):  # fmt: skip
        # For a volume that exists already (re-imaging): what it held is gone.
        self._clone(self._image(context, image_service, image_id, volume), volume)

    def copy_volume_to_image(self, context, volume, image_service, image_meta):
        volume_utils.upload_volume(
            context, image_service, image_meta, str(self._path(volume)), volume, run_as_root=False
        )

    def extend_volume(self, volume, new_size):
        disk_images.grow(self._path(volume), new_size * units.Gi)

    def delete_volume(self, volume):
        self._path(volume).unlink(missing_ok=True)

    def revert_to_snapshot(self, context, volume, snapshot):
        self._clone(self._path(snapshot), volume)

    # --- snapshots ---

    def create_snapshot(self, snapshot):
        self._copy(self._path(snapshot.volume), self._path(snapshot))

    def delete_snapshot(self, snapshot):
        self._path(snapshot).unlink(missing_ok=True)

    # --- attachments: the compute driver opens the file itself ---

    def initialize_connection(self, volume, connector, **kwargs):
        data = {"device_path": str(self._path(volume)), "volume_id": volume.id}
        return {"driver_volume_type": "local", "data": data}

    def terminate_connection(self, volume, connector, **kwargs):
        pass

    def create_export(self, context, volume, connector):
        pass

    def ensure_export(self, context, volume):
        pass

    def remove_export(self, context, volume):
        pass

    # --- helpers ---

    def _path(self, thing) -> Path:
        """The file of a volume or of a snapshot."""
        return self._folder / thing.name

    def _clone(self, source: Path, volume) -> None:
        """Fill a volume with a copy, as large as the volume is to be."""
        target = self._path(volume)
        self._copy(source, target)
        disk_images.grow(target, volume.size * units.Gi)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        processutils.execute(*disk_images.clone_command(source, target))

    def _image(self, context, image_service, image_id: str, volume) -> Path:
        """The image as a raw file, from the cache that servers are made from too."""

        def fetch(path: str) -> None:
            store = self.configuration.image_store
            source = Path(store or "") / image_id
            if store and source.exists():
                info = image_utils.qemu_img_info(str(source), run_as_root=False)
                if info.backing_file:
                    reason = "it names another file as its base"
                    raise exception.ImageUnacceptable(image_id=image_id, reason=reason)
                form = image_service.show(context, image_id)["disk_format"]
                processutils.execute(*disk_images.convert_command(source, form, path))
                return
            image_utils.fetch_to_raw(
                context, image_service, image_id, path,
                self.configuration.volume_dd_blocksize, run_as_root=False,
            )  # fmt: skip

        image = disk_images.cached(Path(self.configuration.image_cache), image_id, fetch)
        if image.stat().st_size > volume.size * units.Gi:
            reason = f"it is larger than the volume's {volume.size} GiB"
            raise exception.ImageUnacceptable(image_id=image_id, reason=reason)
        return image
