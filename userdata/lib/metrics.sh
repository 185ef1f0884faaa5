#!/usr/bin/env bash
# Metrics for node-exporter, which reads every file in METRICS_DIR. Sourced by lib.sh.

# write_gauge FILE NAME HELP: its samples come on standard input; the file is never there by halves.
write_gauge() {
  mkdir -p -- "$METRICS_DIR"
  {
    printf '# HELP %s %s\n# TYPE %s gauge\n' "$2" "$3" "$2"
    cat
  } >"$1.new" && mv -- "$1.new" "$1"
}
