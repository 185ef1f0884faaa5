#!/usr/bin/env bash
# The scripts and settings that stay on the machine, for units, later runs and people. Sourced by
# lib.sh.

# install_scripts: the folder's scripts become the current release, all at once: a power cut leaves
# the old set or the new one.
install_scripts() {
  local sum release previous
  # An installed copy has nothing to install.
  [[ $FOLDER == "$HERE" ]] || return 0
  mkdir -p -- "$LIB_DIR/releases" "$METRICS_DIR" # node-exporter counts an error where it is missing
  keep_settings
  sum=$(with_scripts sha256sum | sha256sum)
  release=releases/${sum:0:16}
  previous=$(readlink -- "$SCRIPTS_DIR" || true) # none yet
  [[ $previous != "$release" ]] || return 0
  [[ -d $LIB_DIR/$release ]] || write_release "$LIB_DIR/$release"
  ln -sfT -- "$release" "$SCRIPTS_DIR.new"
  mv -fT -- "$SCRIPTS_DIR.new" "$SCRIPTS_DIR"
  sync -- "$LIB_DIR"
  log "installed the scripts in $LIB_DIR/$release"
  find "$LIB_DIR/releases" -mindepth 1 -maxdepth 1 \
    ! -name "${release#*/}" ! -name "${previous#*/}" -exec rm -rf -- {} +
}

write_release() {
  local new
  new=$(mktemp -d -- "$LIB_DIR/releases/.new.XXXXXXXX")
  with_scripts cp --parents --target-directory="$new"
  chmod -R u=rwX,go=rX -- "$new"
  find "$new" -mindepth 2 -maxdepth 2 -name '*.sh' -exec chmod 0755 -- {} +
  find "$new" -exec sync -- {} +
  mv -T -- "$new" "$1"
  sync -- "${1%/*}"
}

# with_scripts COMMAND...: runs it in the folder, with the paths of all files that lie in folders
# with scripts.
with_scripts() (
  local script
  local -A folders=()
  cd -- "$HERE" || exit
  for script in */*.sh; do
    folders[${script%%/*}]=yes
  done
  find "${!folders[@]}" -type f -print0 | sort -z | xargs -0 "$@" --
)

# keep_settings: what is no secret of the cluster, in CONF_DIR; a setting that is gone goes there too.
keep_settings() {
  local file
  for file in node.env ca.crt kubeadm-join.yaml; do
    [[ ! -e $FOLDER/$file ]] || copy_file "$FOLDER/$file" "$CONF_DIR/$file" 0644
  done
  for file in $(settings_of_install "$CONF_DIR"); do
    [[ -e $FOLDER/$file ]] || rm -f -- "$CONF_DIR/$file"
  done
  # They may hold passwords, of a proxy or of a registry.
  for file in $(settings_of_install "$FOLDER"); do
    copy_file "$FOLDER/$file" "$CONF_DIR/$file" 0600
  done
  # A power cut would leave a new file empty.
  ((${#CHANGED[@]} == 0)) || find "$CONF_DIR" -exec sync -- {} +
}

# settings_of_install FOLDER: the paths in it of what install.sh puts elsewhere.
settings_of_install() {
  (cd -- "$1" && existing containerd/*.toml containerd/certs.d/*/hosts.toml proxy.env)
}
