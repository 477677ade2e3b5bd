"""Runs a command as a shell does on a terminal of its own, as a job in the foreground, and ends as it does.

Signals stand for a person's actions: INT types Ctrl-C, TSTP types Ctrl-Z, CONT types `fg`, and HUP closes the terminal. It
prints `[stopped]` when the job has stopped.
"""

import os
import pty
import select
import signal
import sys
import termios
import time

TYPED = {signal.SIGINT: b"\x03", signal.SIGTSTP: b"\x1a", signal.SIGCONT: b"fg\n"}


def shell(command):
    """Needed for Ctrl-Z, which stops no process that its parent could not continue."""
    # It must take the terminal back from the job, while it is in the background itself.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    # The parent process may ignore SIGHUP.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        while os.tcgetpgrp(0) != os.getpid():
            time.sleep(0.001)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(command[0], command)
    while os.getpgid(job) != job:
        time.sleep(0.001)
    while True:
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        if not os.WIFSTOPPED(status):
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        os.write(1, b"[stopped]\n")
        while os.read(0, 100) != b"fg\n":
            pass


leader, terminal = pty.fork()
if leader == 0:
    shell(sys.argv[1:])
# Without an echo, which would precede the next line.
attributes = termios.tcgetattr(terminal)
attributes[3] &= ~termios.ECHO
termios.tcsetattr(terminal, termios.TCSANOW, attributes)
asked = []
for number in (*TYPED, signal.SIGHUP):
    signal.signal(number, lambda number, _frame: asked.append(number))
while True:
    if asked:
        number = asked.pop(0)
        if number == signal.SIGHUP:
            os.close(terminal)
            break
        os.write(terminal, TYPED[number])
    # A signal just before the wait does not end the wait.
    elif select.select([terminal], [], [], 0.05)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            # The last process has closed it.
            break
        os.write(1, data.replace(b"\r\n", b"\n"))
code = os.waitstatus_to_exitcode(os.waitpid(leader, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
