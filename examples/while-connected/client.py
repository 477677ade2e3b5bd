"""Works only while this process leads, beside `hustings sidecar --while-connected`."""

import http.client, json, os, threading, time, urllib.request

SIDECAR = os.environ.get("SIDECAR", "http://127.0.0.1:4040")
# The lease duration minus the renew deadline: after a longer silence another replica may lead.
SILENCE = float(os.environ.get("SILENCE", "5"))


def work(token, stop):
    while not stop.wait(0.1):
        print(f"working, token {token}", flush=True)


def stand():
    event, stop, workers = None, threading.Event(), []
    # Leaving this block closes the connection: that is how the sidecar learns that the work has ended.
    with urllib.request.urlopen(f"{SIDECAR}/term", timeout=SILENCE) as stream:
        try:
            for line in stream:
                field, _, value = line.decode().strip().partition(": ")
                if field == "event":
                    event = value
                elif field == "data" and event == "leading":
                    workers.append(threading.Thread(target=work, args=(json.loads(value)["token"], stop)))
                    workers[0].start()
                elif field == "data":  # stopping
                    return
        finally:
            stop.set()
            for worker in workers:
                worker.join()
                print("stopped", flush=True)


while True:
    try:
        stand()
    except (OSError, http.client.HTTPException) as error:
        print(f"disconnected: {error}", flush=True)
    time.sleep(1)
