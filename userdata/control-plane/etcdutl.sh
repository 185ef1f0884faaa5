#!/usr/bin/env bash
# etcdutl, in a container. Sourced, never run.

ETCDUTL_POD=openstack-kubernetes-restore

# etcdutl FOLDER ARGUMENT...: with FOLDER as /restore, from kubeadm's etcd image or from that of the
# etcd project; its output is in FOLDER/etcdutl.log. It uses crictl alone: no kubelet runs here yet, and
# ctr cannot mount an image in containerd 2.2.
etcdutl() {
  local work=$1 image images
  shift
  images=$(kubeadm_images) || die "kubeadm does not list its images"
  at_exit remove_etcdutl_pod
  rm -f -- "$work/etcdutl.log"
  for image in $(grep '/etcd:' <<<"$images") ${ETCD_IMAGE:-}; do
    want_image "$image" || continue
    remove_etcdutl_pod
    if run_etcdutl "$work" "$image" "$@"; then
      remove_etcdutl_pod
      return
    fi
    [[ ! -s $work/etcdutl.log ]] || break # it has run
    log "$image has no etcdutl"
  done
  [[ ! -e $work/etcdutl.log ]] || sed 's/^/  | /' "$work/etcdutl.log" >&2
  return 1
}

# run_etcdutl FOLDER IMAGE ARGUMENT...: its exit status.
run_etcdutl() {
  local work=$1 image=$2 id arguments
  shift 2
  printf -v arguments ', "%s"' "$@"
  render "$FILES/etcdutl-pod.json" POD="$ETCDUTL_POD" WORK="$work" >"$work/pod.json"
  render "$FILES/etcdutl-container.json" IMAGE="$image" WORK="$work" ARGUMENTS="$arguments" >"$work/container.json"
  id=$(crictl run --no-pull "$work/container.json" "$work/pod.json") || return
  wait_for "${RESTORE_TIMEOUT:-1800}" "etcdutl" container_has_exited "$id" || return
  [[ $(crictl inspect --output go-template --template '{{.status.exitCode}}' "$id") == 0 ]]
}

container_has_exited() {
  [[ $(crictl inspect --output go-template --template '{{.status.state}}' "$1") == CONTAINER_EXITED ]]
}

remove_etcdutl_pod() {
  local pod
  for pod in $(crictl pods --quiet --name "^$ETCDUTL_POD\$"); do
    crictl rmp --force "$pod" >/dev/null
  done
}
