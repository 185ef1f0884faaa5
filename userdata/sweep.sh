#!/usr/bin/env bash
# sweep.sh: before a cluster is destroyed, removes what its controllers made in the cloud: load
# balancers of Services and volumes of PersistentVolumeClaims. Runs on the active gateway.
#
# Destroying must always end: it says what it could not remove, and succeeds.

# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

LIMIT=${SWEEP_TIMEOUT:-300}

sweep() {
  step "ask the API"
  if ! wait_for "${API_TIMEOUT:-20}" "the cluster's API" api_answers; then
    log "the API does not answer: load balancers and volumes that the cluster made in the cloud stay"
    return
  fi
  load_balancers
  volumes
}

load_balancers() {
  local namespace name
  step "load balancers"
  while read -r namespace name; do
    [[ -n $name ]] || continue
    log "deleting Service $namespace/$name"
    attempt kube -n "$namespace" delete service "$name" --wait=false --ignore-not-found
  done < <(services || log "the Services could not be listed")
  wait_for "$LIMIT" "the load balancers to go" no_services ||
    log "still there, look for them in the cloud: $(complaint services | paste -sd,)"
}

services() {
  kube get services --all-namespaces \
    -o jsonpath='{range .items[?(@.spec.type=="LoadBalancer")]}{.metadata.namespace}{" "}{.metadata.name}{"\n"}{end}'
}

no_services() {
  local left
  left=$(services) && [[ -z $left ]]
}

# Nothing may make new claims meanwhile: what runs outside kube-system stops, and no pod starts.
volumes() {
  local claims namespace nodes
  step "volumes"
  claims=$(kube get persistentvolumeclaims --all-namespaces -o jsonpath='{range .items[*]}{.metadata.namespace}{"\n"}{end}' | sort -u) || {
    log "the claims could not be listed: volumes stay"
    return
  }
  [[ -n $claims ]] || return 0
  nodes=$(kube get nodes -o name) || nodes=''
  # shellcheck disable=SC2086 # one argument a node
  [[ -z $nodes ]] || attempt kube cordon $nodes
  while read -r namespace; do
    [[ $namespace != kube-system ]] || continue
    attempt kube -n "$namespace" scale deployments --all --replicas=0
    attempt kube -n "$namespace" delete statefulsets --all --wait=false
  done < <(namespaces || log "the namespaces could not be listed")
  if kube get customresourcedefinition volumesnapshots.snapshot.storage.k8s.io >/dev/null 2>&1; then
    attempt kube delete volumesnapshots.snapshot.storage.k8s.io --all --all-namespaces --wait=false
  fi
  while read -r namespace; do
    log "deleting the claims in $namespace"
    attempt kube -n "$namespace" delete persistentvolumeclaims --all --wait=false
    # A pod that has not been told to go yet keeps its claim.
    [[ $namespace == kube-system ]] || attempt kube -n "$namespace" delete pods --all --wait=false
  done <<<"$claims"
  wait_for "$LIMIT" "the volumes to go" no_volumes ||
    log "still there, look for them in the cloud: $(complaint volumes_left | paste -sd,)"
}

namespaces() {
  kube get namespaces -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}'
}

# What the storage driver made and must delete; volumes that are to be kept are not waited for.
volumes_left() {
  kube get persistentvolumes \
    -o jsonpath='{range .items[?(@.spec.persistentVolumeReclaimPolicy=="Delete")]}{.metadata.name}{" "}{.spec.csi.volumeHandle}{"\n"}{end}'
}

no_volumes() {
  local left
  left=$(volumes_left) && [[ -z $left ]]
}

attempt() {
  "$@" >/dev/null || log "failed, going on: ${*:2}"
}

load_env CLUSTER_NAME
sweep
