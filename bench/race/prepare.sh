# shellcheck shell=bash disable=SC2154 # the caller sets ETCD_VERSION, ARTIFACTS and ARCHIVES
# Archives of the image's programs, as kubespray downloads them; prints their checksums.

archive() {
  tar -C "$2" --sort=name --mtime=@0 --owner=0 --group=0 -c "${@:3}" | gzip -1n >"$1.tar.gz"
}

# It would override kubespray's own unit.
rm -f /etc/systemd/system/kubelet.service.d/10-kubeadm.conf
etcd_folder=etcd-$ETCD_VERSION-linux-amd64
mkdir -p "$ARCHIVES"/{containerd/bin,etcd/"$etcd_folder"}
cd "$ARCHIVES" || exit
cp "$ARTIFACTS"/containerd/* containerd/bin/
cp "$(command -v runc)" runc
# etcd's are in a layer of its image; containerd keeps layers unpacked only.
etcd=$(find /var/lib/containerd -path '*/fs/usr/local/bin/etcd' -print -quit)
cp "${etcd%/*}"/etcd* "etcd/$etcd_folder/"
# kubespray installs nerdctl for people, and CNI plugins; Cilium calls one that the image has.
printf '#!/bin/sh\n' >nerdctl
chmod 0755 nerdctl
echo 'no plugin is called' >README
archive containerd containerd bin
archive crictl "$ARTIFACTS" crictl
archive etcd etcd "$etcd_folder"
archive nerdctl . nerdctl
archive cni . README
sha256sum "$ARCHIVES"/*.tar.gz "$ARCHIVES/runc" "$ARTIFACTS"/v*/*
