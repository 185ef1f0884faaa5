#!/usr/bin/env bash
# The labels, taints and pool of the node. Sourced, never run; after nodes.sh.
# shellcheck disable=SC2154 # nodes.sh sets node_*

# Annotations of the Node: the keys that come from the configuration.
LABELS_SET=openstack-kubernetes-labels
TAINTS_SET=openstack-kubernetes-taints

# Sets those of the configuration and removes those that the configuration no longer has. They are
# recorded before they are set, so that an interrupted run forgets none.
label_node() {
  local text old_labels old_taints present each
  local -a labels taints label_keys=() taint_keys=() gone_labels=() gone_taints=()
  IFS=', ' read -ra labels <<<"${NODE_LABELS:-}"
  IFS=', ' read -ra taints <<<"${NODE_TAINTS:-}"
  text=$(kube get "node/$NODE_NAME" -o jsonpath="{.metadata.annotations.$LABELS_SET}{'|'}{.metadata.annotations.$TAINTS_SET}{'|'}{range .spec.taints[*]}{.key}{':'}{.effect}{' '}{end}") ||
    die "the labels and taints of $NODE_NAME could not be read from the API"
  IFS='|' read -r old_labels old_taints present <<<"$text"
  for each in "${labels[@]}"; do
    label_keys+=("${each%%=*}")
  done
  for each in "${taints[@]}"; do
    taint_keys+=("${each%%=*}:${each##*:}")
  done
  for each in $old_labels; do
    [[ " ${label_keys[*]} " == *" $each "* ]] || gone_labels+=("$each")
  done
  for each in $old_taints; do
    # kubectl fails when it should remove a taint that is not there.
    [[ " ${taint_keys[*]} " == *" $each "* || " $present " != *" $each "* ]] || gone_taints+=("$each")
  done
  record_labels "${label_keys[*]} ${gone_labels[*]}" "${taint_keys[*]} ${gone_taints[*]}"
  if ((${#labels[@]} + ${#gone_labels[@]})); then
    step "labels"
    kube label node "$NODE_NAME" --overwrite "${labels[@]}" "${gone_labels[@]/%/-}" >/dev/null ||
      die "$NODE_NAME could not be labeled"
  fi
  if ((${#taints[@]} + ${#gone_taints[@]})); then
    step "taints"
    kube taint node "$NODE_NAME" --overwrite "${taints[@]}" "${gone_taints[@]/%/-}" >/dev/null ||
      die "$NODE_NAME could not be tainted"
  fi
  record_labels "${label_keys[*]}" "${taint_keys[*]}"
}

# record_labels LABELS TAINTS: old_labels and old_taints are what the Node has recorded so far.
record_labels() {
  local labels taints
  read -r labels <<<"$1"
  read -r taints <<<"$2"
  [[ $labels != "$old_labels" || $taints != "$old_taints" ]] || return 0
  kube annotate node "$NODE_NAME" --overwrite "$LABELS_SET=$labels" "$TAINTS_SET=$taints" >/dev/null ||
    die "$NODE_NAME could not be annotated"
  old_labels=$labels old_taints=$taints
}

# record_pool: a drain of any node asks the Nodes how many of each pool may be unhealthy.
record_pool() {
  [[ $node_pool != "${POOL:-}" || $node_limit != "${MAX_UNHEALTHY:-}" ]] || return 0
  kube annotate node "$NODE_NAME" --overwrite "openstack-kubernetes-pool=${POOL:-}" \
    "openstack-kubernetes-max-unhealthy=${MAX_UNHEALTHY:-}" >/dev/null ||
    die "$NODE_NAME could not be annotated"
}
