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

# require_images: before the static pods stop. Those of another registry are not here yet.
require_images() {
  local image images
  step "container images"
  images=$(kubeadm_images) || die "kubeadm does not list its images"
  for image in $images; do
    [[ " ${STATIC_PODS[*]} " == *" $(name_of "$image") "* ]] || continue
    want_image "$image" || die "$image could not be pulled: the reason is above. This control plane continues as before"
  done
}

# image_of KIND NAME: that its pods have in the cluster; empty where it is missing.
image_of() {
  kube -n kube-system get "$1" "$2" --ignore-not-found -o jsonpath='{.spec.template.spec.containers[0].image}'
}

# moved_image IMAGE: where the configuration has it now, if that is another registry. An upgrade brings
# other versions.
moved_image() {
  local image images
  images=$(kubeadm_images) || return
  for image in $images; do
    if [[ ${image##*/} == "${1##*/}" && $image != "$1" ]]; then
      printf '%s' "$image"
    fi
  done
}

# name_of IMAGE: without registry and tag.
name_of() {
  local name=${1##*/}
  printf '%s' "${name%%:*}"
}

# want_image NAME: from its registry, if it is not here.
want_image() {
  crictl inspecti --quiet "$1" >/dev/null 2>&1 || run crictl pull "$1"
}
