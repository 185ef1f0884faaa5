#!/usr/bin/env bash
# Container images of a control plane. Sourced, never run.

# pull_images: kubeadm would pull them while the next machine waits. It also says why it cannot.
pull_images() {
  local image
  step "container images"
  while IFS= read -r image; do
    want_image "$image" || break
  done < <(kubeadm_images)
}

kubeadm_images() {
  kubeadm config images list --config "$FOLDER/kubeadm-init.yaml"
}

# want_image NAME: from its registry, if it is not here.
want_image() {
  crictl inspecti --quiet "$1" >/dev/null 2>&1 || run crictl pull "$1"
}
