#!/usr/bin/env bash
# The volumes that are attached to the node, and those on its own disk. Sourced, never run.

# Another machine of this name would begin with empty folders where pods expect their data.
refuse_local_volumes() {
  local volumes
  [[ ${DELETE_LOCAL_VOLUMES:-false} != true ]] || return 0
  volumes=$(local_volumes) || die "the persistent volumes could not be read from the API"
  [[ -z $volumes ]] ||
    die "$NODE_NAME stays, because these persistent volumes have their data on its disk: ${volumes//$'\n'/, }. Move the data, then delete the claims and volumes: kubectl delete persistentvolumeclaim, kubectl delete persistentvolume. Or set deleteLocalVolumes for its pool in an update before this one: the data is lost then"
}

# local_volumes: with their claims.
local_volumes() {
  local lines
  lines=$(kube get persistentvolumes -o go-template="$PINNED_VOLUMES") || return
  sed -n "s|^$NODE_NAME ||p" <<<"$lines"
}

# Lines of NODE VOLUME (claim NAMESPACE/NAME). A volume without a claim has no data yet.
# shellcheck disable=SC2016 # the variables are the template's
PINNED_VOLUMES='{{range $volume := .items}}{{if and .spec.claimRef .spec.nodeAffinity (or .spec.local .spec.hostPath)}}
{{- range .spec.nodeAffinity.required.nodeSelectorTerms}}{{range .matchExpressions}}{{if eq .key "kubernetes.io/hostname"}}
{{- range .values}}{{.}} {{$volume.metadata.name}} (claim {{$volume.spec.claimRef.namespace}}/{{$volume.spec.claimRef.name}}){{"\n"}}{{end}}
{{- end}}{{end}}{{end}}{{end}}{{end}}'

# wait_for_volumes ALIVE: a dead node, `false`, cannot detach anything itself.
wait_for_volumes() {
  step "wait for volumes to detach"
  wait_for "${NODE_TIMEOUT:-60}" "the API to list the volumes of DaemonSets" read_daemon_volumes ||
    die "the volumes of the DaemonSets on $NODE_NAME could not be read from the API"
  wait_for "${DETACH_TIMEOUT:-300}" "the volumes of $NODE_NAME to detach" volumes_are_detached && return
  [[ $1 == false ]] ||
    die "volumes are still attached to $NODE_NAME: $(complaint volumes_left). See kubectl get volumeattachments, and openstack volume list --status detaching"
  log "volumes are still recorded as attached to the dead $NODE_NAME; deleting its server detaches them: $(complaint volumes_left)"
}

volumes_are_detached() {
  local left
  left=$(volumes_left) && [[ -z $left ]]
}

# volumes_left: those that the drain should have freed.
volumes_left() {
  local attached node volume
  attached=$(kube get volumeattachments.storage.k8s.io -o jsonpath='{range .items[*]}{.spec.nodeName}{" "}{.spec.source.persistentVolumeName}{"\n"}{end}') || return
  while read -r node volume; do
    [[ $node != "$NODE_NAME" || " $daemon_volumes " == *" $volume "* ]] || printf '%s\n' "$volume"
  done <<<"$attached"
}

read_daemon_volumes() {
  daemon_volumes=$(volumes_of_daemons)
}

# volumes_of_daemons: the volumes of the DaemonSets' pods on this node, in one line. A drain leaves
# these pods alone; their volumes are detached when the machine is gone.
volumes_of_daemons() {
  local claims volumes volume claim found=''
  claims=$(kube get pods --all-namespaces --field-selector "spec.nodeName=$NODE_NAME" -o go-template="$DAEMON_CLAIMS") || return
  [[ -n $claims ]] || return 0
  volumes=$(kube get persistentvolumes -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.spec.claimRef.namespace}{"/"}{.spec.claimRef.name}{"\n"}{end}') || return
  while read -r volume claim; do
    ! grep -qxF -- "$claim" <<<"$claims" || found+=" $volume"
  done <<<"$volumes"
  printf '%s' "${found# }"
}

# Claims as NAMESPACE/NAME; that of an ephemeral volume is named after its pod and the volume.
# shellcheck disable=SC2016 # the variables are the template's
DAEMON_CLAIMS='{{range $pod := .items}}{{range $pod.metadata.ownerReferences}}{{if eq .kind "DaemonSet"}}
{{- range $pod.spec.volumes}}
{{- if .persistentVolumeClaim}}{{$pod.metadata.namespace}}/{{.persistentVolumeClaim.claimName}}{{"\n"}}
{{- else if .ephemeral}}{{$pod.metadata.namespace}}/{{$pod.metadata.name}}-{{.name}}{{"\n"}}{{end}}
{{- end}}{{end}}{{end}}{{end}}'
