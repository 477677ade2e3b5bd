#!/usr/bin/env bash
# Works only while this process leads, beside `hustings sidecar --while-connected`.
sidecar=${SIDECAR:-http://127.0.0.1:4040}
# The lease duration minus the renew deadline: after a longer silence another replica may lead.
silence=${SILENCE:-5}

while :; do
  # The kernel kills curl when this shell dies. Without setpriv (util-linux), curl ends at the sidecar's next heartbeat.
  exec 3< <(exec setpriv --pdeathsig KILL \
    curl --silent --show-error --fail --no-buffer --speed-limit 1 --speed-time "$silence" "$sidecar/term" 2>&1)
  curl=$! token=''
  while :; do
    # Work is done between the events, so none is left when the connection closes.
    if IFS= read -r -t 0.1 line <&3; then
      case $line in
        "event: "*) event=${line#event: } ;;
        "data: "*) [[ $event == leading && $line =~ \"token\":([0-9]+) ]] && token=${BASH_REMATCH[1]} || break ;;
        "curl: "*) echo "disconnected: $line" ;;
      esac
    elif (($? > 128)); then
      [[ $token ]] && echo "working, token $token"
    else
      break
    fi
  done
  [[ $token ]] && echo stopped
  kill "$curl" 2>/dev/null # closes the connection: that is how the sidecar learns that the work has ended
  exec 3<&-
  sleep 1
done
