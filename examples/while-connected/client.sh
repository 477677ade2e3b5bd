#!/usr/bin/env bash
# Works only while this process leads, according to `hustings sidecar --while-connected`.
#
# The process exits when it no longer leads, and the kubelet starts its container again. When it is killed as the first
# process of a container, the kernel kills curl with it. Elsewhere curl ends at the sidecar's next heartbeat.
sidecar=${SIDECAR:-http://127.0.0.1:4040}
# The lease duration minus the renew deadline: after a longer silence another replica may lead.
silence=${SILENCE:-5}

uptime() { read -r now _ </proc/uptime && now=${now%.*}; }

exec 3< <(exec curl --silent --show-error --fail --no-buffer "$sidecar/term")
trap "kill $! 2>/dev/null" EXIT # closes the connection
trap 'exit 0' TERM              # without it, the first process of a container ignores SIGTERM
uptime
heard=$now token='' begun=''
# Work is done between the events, so none is left when the connection closes. A step must be shorter than the silence.
while uptime && ((now - heard < silence)); do
  if IFS= read -r -t 0.1 part <&3; then
    line=$begun$part begun='' heard=$now
    case $line in
      "event: leading") ;;
      "event: "*) break ;;
      "data: "*) [[ $line =~ '"token":'([0-9]+) ]] && token=${BASH_REMATCH[1]} ;;
    esac
  elif (($? <= 128)); then
    break # the stream has ended
  else
    begun+=$part # of a line whose end has not arrived yet
    [[ $token ]] && echo "working, token $token"
  fi
done
exit 1
