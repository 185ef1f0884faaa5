#!/bin/sh
# The command `pulumi` in the image of this program, which Pulumi's operator runs in /program.
set -eu

# The operator puts options before the verb.
verb=
for word; do
  case $word in
    -*) ;;
    *)
      verb=$word
      break
      ;;
  esac
done

case $verb in
  up | destroy | refresh)
    exec .venv/bin/python -m commands.workspace /opt/pulumi/bin/pulumi "$@"
    ;;
  install)
    # The image has everything; the real one would look for newer tools on the internet.
    exit 0
    ;;
esac
exec /opt/pulumi/bin/pulumi "$@"
