#!/usr/bin/env python3
"""Stands in a Hustings election by docs/protocol.md alone: bare HTTP, no library of Hustings, no third-party package.

The letters in brackets name the rules of that page. Prints one line of JSON per change, as `hustings campaign` does.
"""
import argparse, datetime, json, os, random, signal, ssl, sys, time, urllib.error, urllib.request

LEASES, CANDIDATES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases", "/apis/hustings.io/v1alpha1/namespaces/{}/leasecandidates"
MARK = "hustings.io/"
args = argparse.ArgumentParser(description=__doc__)
for name in ("server", "token", "ca-file", "namespace", "lease", "identity", "binary-version", "emulation-version"):
    args.add_argument("--" + name, required=True)
for name, default in (("duration", 15.0), ("deadline", 10.0), ("retry", 2.0), ("poll", 0.2), ("timeout", 3.0)):
    args.add_argument("--" + name, type=float, default=default)
args = args.parse_args()
tls = ssl.create_default_context(cafile=args.ca_file)
session, term, stopping, answered = f"{random.getrandbits(64):016x}", 0, False, None
lease_url = LEASES.format(args.namespace) + "/" + args.lease
candidates_url = CANDIDATES.format(args.namespace)
candidate_url = candidates_url + "/" + args.identity
signal.signal(signal.SIGTERM, lambda *_: globals().update(stopping=True))


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
    headers = {"Authorization": "Bearer " + args.token, "Content-Type": kind}
    data = None if body is None else json.dumps(body).encode()
    try:
        call = urllib.request.Request(args.server + url, data, headers, method=method)
        with urllib.request.urlopen(call, timeout=args.timeout, context=tls) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return (0 if error.code >= 500 else error.code), {}
    except (OSError, ValueError):
        return 0, {}


def say(event, **more):
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
    print(json.dumps({"time": now, "event": event, "identity": args.identity, **more}), flush=True)


def nominate():
    """Keeps the candidate in being [C1, C4] and answers pings [C2]; touches its own fields alone [C3]."""
    global answered
    claims = {"leaseName": args.lease, "binaryVersion": args.binary_version, "emulationVersion": args.emulation_version}
    status, candidate = request("GET", candidate_url)
    if status == 404:
        about = {"name": args.identity, "annotations": {MARK + "lease-duration": str(int(args.duration))}}
        request("POST", candidates_url, {"apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": about,
                                         "spec": {**claims, "renewTime": later_than()}})
    elif status == 200:
        spec = candidate["spec"]
        ping = spec.get("pingTime")
        if (ping and ping != answered) or any(spec.get(key) != value for key, value in claims.items()):
            status, _ = request("PATCH", candidate_url, {"spec": {**claims, "renewTime": later_than(spec.get("renewTime"), ping)}})
            answered = ping if status == 200 else answered


def write(lease, annotations, **spec):
    """A write that is conditional on the version read [H1]; each has a renewTime of its own [H6]."""
    spec["renewTime"] = later_than(lease["spec"].get("renewTime"), lease["spec"].get("acquireTime"))
    metadata = {"resourceVersion": lease["metadata"]["resourceVersion"], "annotations": {MARK + key: value for key, value in annotations.items()}}
    sent = clock()
    attempts[spec["renewTime"]] = sent
    if request("PATCH", lease_url, {"metadata": metadata, "spec": spec})[0] == 200:
        landed(sent)


def landed(sent):
    """A write that carried our own duration is known to have succeeded: validity counts from its sending [H3]."""
    global valid_until, due, leading
    valid_until, due = max(valid_until, sent + args.deadline), sent + args.retry
    if not leading and not ended and clock() < valid_until:
        leading = True
        say("leading", term=number, token=token)


def end(why):
    """A term once ended is never resumed [H10]."""
    global leading, ended
    if leading:
        say("stopped", term=number, message=why)
    leading, ended = False, True


say("started")
valid_until, due, leading, ended, number, token, attempts = 0.0, 0.0, False, True, 0, "", {}
while True:
    if leading and clock() >= valid_until:
        end("not renewed in time")
    if not stopping:
        nominate()
    elif request("DELETE", candidate_url)[0] not in (200, 404):  # before the release [H9]
        time.sleep(args.poll)
        continue
    status, lease = request("GET", lease_url)
    if status not in (200, 404):
        time.sleep(args.poll)
        continue
    spec, notes = lease.get("spec", {}), lease.get("metadata", {}).get("annotations", {})
    holder, mark, successor = spec.get("holderIdentity"), notes.get(MARK + "session"), notes.get(MARK + "preferred-holder")
    mine = holder == args.identity and mark == f"{session}/{term}/{int(args.duration)}"  # names are no proof [H5]
    if not ended and not mine and (leading or mark != "open"):
        end("the Lease is no longer mine")
    if mine and not ended and spec.get("renewTime") in attempts:  # of unknown outcome, and it did land [H6]
        landed(attempts[spec["renewTime"]])
    if mine and (stopping or (successor and successor != args.identity)):  # work stops, the flag falls, then the write [H8, H9]
        end("releasing" if stopping and not successor else "handing over")
        given = {"holderIdentity": "", "leaseDurationSeconds": 1, "preferredHolder": None}
        if successor and successor != args.identity:
            given.update(holderIdentity=successor, leaseDurationSeconds=5, acquireTime=later_than(spec.get("acquireTime")),
                         leaseTransitions=spec.get("leaseTransitions", 0) + 1)
        write(lease, {"session": "open", "preferred-holder": None}, **given)
        time.sleep(0.01)
        continue  # until a version shows that it is done, or no longer mine
    if stopping:
        say("exiting")
        sys.exit(0)
    if holder == args.identity and mark == "open":  # a grant is the right to take up, nothing more [H2]
        term, ended, valid_until, attempts = term + 1, False, 0.0, {}
        number, token = spec.get("leaseTransitions", 0), lease["metadata"]["resourceVersion"]
        taken = {"session": f"{session}/{term}/{int(args.duration)}", "token": token, "preferred-holder": None, "hold": None}
        write(lease, taken, acquireTime=later_than(), leaseDurationSeconds=int(args.duration), preferredHolder=None)
    elif mine and not ended and clock() >= due:
        write(lease, {})
    time.sleep(args.poll)
