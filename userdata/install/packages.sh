#!/usr/bin/env bash
# Packages, also those that the distribution does not have. Sourced by install.sh.

# apt-daily holds dpkg's lock for minutes on a machine's first boot, and its upgrades would restart
# containerd at any time.
mask_apt_daily() {
  local unit masked=false
  for unit in apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service; do
    [[ ! -L $UNIT_DIR/$unit ]] || continue
    # Stopped first: what is masked is not looked at again.
    ! systemd_runs || systemctl stop "$unit" 2>/dev/null || true # a unit that is not there
    mkdir -p -- "$UNIT_DIR"
    ln -sf /dev/null "$UNIT_DIR/$unit"
    masked=true
  done
  ! "$masked" || ! systemd_runs || systemctl daemon-reload
}

# want_packages PACKAGE...: those that are missing.
want_packages() {
  local installed missing=() package
  # shellcheck disable=SC2016
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package; do
    grep -qx "installed $package" <<<"$installed" || missing+=("$package")
  done
  ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
}

# want_pinned PACKAGE[=VERSION]...: at this version, and never brought to another one by apt. A file of it
# may be that of another version, which `put_manifests_back` leaves.
want_pinned() {
  apt_install --reinstall --allow-downgrades --allow-change-held-packages "$@"
  run apt-mark hold "${@%%=*}"
}

# want_repository NAME KEY_URL LINE: a source of packages with its own signing key, which is asked for
# each time: it gets another day on which it expires, and a mirror may have a key of its own. The source
# is gone when this run ends: nothing else comes from it, and its key may expire before the next one.
want_repository() {
  local key=$ROOT/etc/apt/keyrings/$1.asc list
  list=$ROOT/etc/apt/sources.list.d/openstack-kubernetes-$1.list
  want_packages ca-certificates curl
  mkdir -p -- "${key%/*}"
  if with_proxy run curl -fsSL --connect-timeout 10 --max-time 60 --retry 5 --retry-connrefused -o "$key.new" "$2"; then
    put_in_place "$key.new" "$key" 0644
  elif [[ -s $key ]]; then
    log "cannot download the signing key $2: trying the one that is here"
  else
    die "cannot download the signing key $2; without internet put the programs into $ARTIFACTS"
  fi
  at_exit "rm -f -- '$list'"
  write_file "$list" 0644 "deb [signed-by=$key] $3"
  # shellcheck disable=SC2034 # apt_install looks at it
  ! changed "$list" "$key" || APT_UPDATED=false
}

# forget_repositories: of runs that were killed, and of 0.1.0, which left them in place, under names
# that others use too.
forget_repositories() {
  local name list
  rm -f -- "$ROOT"/etc/apt/sources.list.d/openstack-kubernetes-*.list
  for name in docker kubernetes; do
    list=$ROOT/etc/apt/sources.list.d/$name.list
    ! grep -qsF "deb [signed-by=$ROOT/etc/apt/keyrings/$name.asc] " "$list" || rm -f -- "$list"
  done
}
