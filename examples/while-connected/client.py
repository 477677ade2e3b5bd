"""Works only while this process leads, according to `hustings sidecar --while-connected`.

The process exits when it no longer leads, and the kubelet starts its container again. The kernel closes the connection
only after every thread has ended, so no work is left when another replica leads.
"""

import json, os, signal, threading, time, urllib.request

SIDECAR = os.environ.get("SIDECAR", "http://127.0.0.1:4040")
# The lease duration minus the renew deadline: after a longer silence another replica may lead.
SILENCE = float(os.environ.get("SILENCE", "5"))


def work(token):
    while True:
        print(f"working, token {token}", flush=True)
        time.sleep(0.1)


def exit_with_the_term(stream):
    try:
        next(line for line in stream if line.startswith(b"event: "))  # stopping
    finally:
        os._exit(1)  # does not wait for the work, and leaves the connection to the kernel


# Without a handler, the first process of a container ignores SIGTERM.
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
stream = urllib.request.urlopen(f"{SIDECAR}/term", timeout=SILENCE)
if next(line for line in stream if line.startswith(b"event: ")) == b"event: leading\n":
    token = json.loads(next(stream).removeprefix(b"data: "))["token"]
    threading.Thread(target=exit_with_the_term, args=[stream], daemon=True).start()
    work(token)
