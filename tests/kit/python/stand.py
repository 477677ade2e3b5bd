#!/usr/bin/env python3
"""Stands in a Hustings election by docs/protocol.md alone: bare HTTP, no library of Hustings, no third-party package.

The letters in brackets name the rules of that page. Prints a line of JSON per change, as `hustings campaign -o json` does.
"""
import argparse, datetime, http.client, json, os, random, signal, ssl, sys, time, urllib.error, urllib.request

LEASES, CANDIDATES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases", "/apis/hustings.io/v1alpha1/namespaces/{}/leasecandidates"
MARK, MOST_TRANSITIONS = "hustings.io/", 2**31 - 1
args = argparse.ArgumentParser(description=__doc__)
for name in ("server", "token", "ca-file", "namespace", "lease", "identity", "binary-version", "emulation-version"):
    args.add_argument("--" + name, required=True)
for name, default in (("duration", 15.0), ("deadline", 10.0), ("retry", 2.0), ("poll", 0.2), ("timeout", 3.0)):
    args.add_argument("--" + name, type=float, default=default)
args = args.parse_args()
# No proxy between this and the API server, whatever the environment says.
tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=args.ca_file))
web = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)
lease_url, candidates_url = LEASES.format(args.namespace) + "/" + args.lease, CANDIDATES.format(args.namespace)
candidate_url = candidates_url + "/" + args.identity
session, seconds = f"{random.getrandbits(64):016x}", int(args.duration)
# A term begins with `ended = False`, leads with `leading = True`, and never comes back from `ended = True`.
term, number, token, ended, leading, valid_until, due, attempts = 0, 0, "", True, False, 0.0, 0.0, {}
stopping, stop_by, answered = False, 0.0, None


def clock():
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # counts suspension [H3]


def later_than(*former):
    """Now as MicroTime, or just after the latest of the former values."""
    parse = lambda text: datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    now = datetime.datetime.now(datetime.timezone.utc)
    now = max([now] + [parse(text) + datetime.timedelta(microseconds=1) for text in former if text])
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def request(method, url, body=None):
    """The answer's status and object; status 0 if the outcome is unknown."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers, data = {"Authorization": "Bearer " + args.token, "Content-Type": kind}, body and json.dumps(body).encode()
    try:
        with web.open(urllib.request.Request(args.server + url, data, headers, method=method), timeout=args.timeout) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return (0 if error.code >= 500 or error.code == 408 else error.code), {}
    except (OSError, ValueError, http.client.HTTPException):
        return 0, {}


def say(event, holder=None, message=""):
    """Past any buffer, as this is also called while another line is being written: by `expire`."""
    mine = event in ("leading", "stopped")
    line = {"time": later_than(), "event": event, "identity": args.identity, "holder": args.identity if mine else holder,
            "term": number if mine else None, "token": int(token) if mine else None, "message": message}
    os.write(1, json.dumps(line).encode() + b"\n")


def nominate():
    """Keeps the candidate in being [C1, C4, C6] and answers pings [C2]; touches its own fields alone [C3]."""
    global answered
    notes = {"annotations": {MARK + "lease-duration": str(seconds), MARK + "session": session}}
    claims = {"leaseName": args.lease, "binaryVersion": args.binary_version, "emulationVersion": args.emulation_version}
    status, candidate = request("GET", candidate_url)
    if status == 404:
        request("POST", candidates_url, {"apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate",
                                         "metadata": {"name": args.identity, **notes}, "spec": {**claims, "renewTime": later_than()}})
    elif status == 200:
        spec = candidate["spec"]
        ping = spec.get("pingTime")
        if (ping and ping != answered) or any(spec.get(key) != value for key, value in claims.items()):
            renewed = {**claims, "renewTime": later_than(spec.get("renewTime"), ping)}
            if request("PATCH", candidate_url, {"metadata": notes, "spec": renewed})[0] == 200:
                answered = ping


def write(lease, annotations, **spec):
    """A write that is conditional on the version read [H1]; each has a renewTime of its own [H4, H6]."""
    spec["renewTime"] = later_than(lease["spec"].get("renewTime"), *attempts)
    metadata = {"resourceVersion": lease["metadata"]["resourceVersion"], "annotations": {MARK + key: value for key, value in annotations.items()}}
    attempts[spec["renewTime"]] = sent = clock()
    if request("PATCH", lease_url, {"metadata": metadata, "spec": spec})[0] == 200:
        landed(sent)


def landed(sent):
    """A write that carried our own duration is known to have succeeded: validity counts from its sending [H3]."""
    global valid_until, due, leading
    begins = not leading  # first of all, as `expire` may end the term between any two lines
    valid_until, due = max(valid_until, sent + args.deadline), sent + args.retry
    attempts.clear()  # what was conditional on an older version cannot land any more
    if ended or clock() >= valid_until:
        return
    if begins:
        leading = True
        say("leading")
    signal.setitimer(signal.ITIMER_REAL, max(valid_until - clock(), 0.001))


def end(why):
    """A term once ended is never resumed [H10]."""
    global leading, ended
    led, leading, ended = leading, False, True
    if led:
        say("stopped", message=why)


def expire(*_):
    """Comes also between two steps of a request that hangs, so that this never says yes for longer than it may [H3]."""
    if leading and clock() >= valid_until:
        end("the term has ended")
    elif leading:
        signal.setitimer(signal.ITIMER_REAL, max(valid_until - clock(), 0.001))


signal.signal(signal.SIGALRM, expire)
signal.signal(signal.SIGTERM, lambda *_: globals().update(stopping=True, stop_by=clock() + args.deadline))
say("started")
while True:
    expire()
    if stopping and not leading and clock() >= stop_by:
        say("exiting", message="could not take leave in time")
        sys.exit(0)
    gone = stopping and request("DELETE", candidate_url)[0] in (200, 404)  # before the release, while renewals go on [H9]
    if not stopping:
        nominate()
    status, lease = request("GET", lease_url)
    if status not in (200, 404):
        time.sleep(args.poll)
        continue
    spec, notes = lease.get("spec", {}), lease.get("metadata", {}).get("annotations", {})
    holder, mark, successor = spec.get("holderIdentity"), notes.get(MARK + "session"), notes.get(MARK + "preferred-holder")
    successor = successor if successor != args.identity else None
    mine = holder == args.identity and mark == f"{session}/{term}/{seconds}"  # names are no proof [H5]
    if leading and not mine:
        end("the Lease is no longer mine")  # [H7]
    elif mine and spec.get("renewTime") in attempts:  # of unknown outcome perhaps, and it did land [H6]
        landed(attempts[spec["renewTime"]])
    if mine and (gone or successor):  # no work is left to stop; the flag falls, then comes the write [H8, H9, H11]
        end("handing over" if successor else "stopping")
        given = {"holderIdentity": successor or "", "leaseDurationSeconds": 5 if successor else 1, "preferredHolder": None}
        if successor:
            transitions = min(spec.get("leaseTransitions", 0) + 1, MOST_TRANSITIONS)
            given.update(acquireTime=later_than(spec.get("acquireTime")), leaseTransitions=transitions)
        write(lease, {"session": "open", "preferred-holder": None}, **given)
        time.sleep(args.poll)
        continue  # until a version shows that it is done, or no longer mine
    if gone:
        say("exiting", holder or None)
        sys.exit(0)
    if holder == args.identity and mark == "open" and not stopping:  # a grant is the right to take up, nothing more [H2]
        term, ended, valid_until, attempts = term + 1, False, 0.0, {}
        number, stands = spec.get("leaseTransitions", 0), notes.get(MARK + "token", "")
        token = str(max(int(lease["metadata"]["resourceVersion"]), int(stands) + 1 if stands.isascii() and stands.isdigit() else 0))
        taken = {"session": f"{session}/{term}/{seconds}", "token": token, "preferred-holder": None, "hold": None}
        write(lease, taken, acquireTime=later_than(), leaseDurationSeconds=seconds, preferredHolder=None)
    elif mine and not ended and clock() >= due:
        write(lease, {})
    time.sleep(args.poll)
