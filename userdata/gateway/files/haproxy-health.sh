#!/bin/bash
# Whether HAProxy on this gateway answers; keepalived asks every second. A dead one refuses at once;
# the time-out is for a machine that is only busy.
exec 3<>/dev/tcp/127.0.0.1/@HAPROXY_HEALTH_PORT@ || exit 1
printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3
read -r -t 3 line <&3 && [[ $line == *' 200 '* ]]
