#!/usr/bin/env bash
# The control planes that the configuration does not have. Sourced, never run; after etcd-members.sh.

# list_members: sets `members`.
list_members() { members=$(etcd_members); }

# refuse_unknown_control_planes LOSS: one that goes with this very update goes later, without the new key.
refuse_unknown_control_planes() {
  local members name peers address
  # After a restore, the API answers before it knows that etcd's pod is ready.
  wait_for "${MEMBERS_TIMEOUT:-120}" "etcd's list of members" list_members ||
    die "etcd's members could not be listed, so no one knows whose API servers need the new key"
  while IFS=, read -r _ _ name peers _; do
    address=${peers##*//}
    address=${address%:*}
    # It has none until its etcd has started.
    name=${name# }
    [[ " $CONTROL_PLANES " == *" $address "* ]] ||
      die "the control plane ${name:-that is joining} at $address is not in the configuration, and $1: set controlPlaneCount to what it was, pulumi up, and then lower it"
  done <<<"$members"
}
