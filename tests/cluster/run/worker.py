"""The command that the tests wrap: it reports its events, each as a line of JSON, until it is stopped.

Arguments: `ignore` has it ignore SIGTERM, `slow SECONDS` has it take that long to stop, `fork` has it start a process in
its group and one that leaves it, as a daemon does.
"""

import json
import os
import signal
import subprocess
import sys
import time


def say(event, **more):
    os.write(1, (json.dumps({"time": time.time(), "event": event, "pid": os.getpid(), **more}) + "\n").encode())


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    ends_at = None

    def received(number, _frame):
        nonlocal ends_at
        say("received", signal=signal.Signals(number).name)
        if number in (signal.SIGTERM, signal.SIGINT) and mode != "ignore" and ends_at is None:
            ends_at = time.time() + (float(sys.argv[2]) if mode == "slow" else 0)

    for number in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH", "TTIN"):
        signal.signal(getattr(signal, "SIG" + number), received)
    if mode == "fork":
        beat = "import time\nwhile True: time.sleep(0.05)"
        for leaves in (False, True):
            child = subprocess.Popen([sys.executable, "-c", beat], start_new_session=leaves)
            say("forked", child=child.pid)
    say("begins", environment={name: value for name, value in os.environ.items() if name.startswith("LEADER_")})
    while ends_at is None or time.time() < ends_at:
        say("beats")
        time.sleep(0.05)
    say("ends")
    sys.exit(5)


main()
