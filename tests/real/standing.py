"""A fake that stands while a check talks to it, and a count of what was checked."""

import contextlib
import json
import subprocess
import sys

FAULTS, CHECKS = [], []


def expect(what, found, wanted):
    CHECKS.append(what)
    if found != wanted:
        FAULTS.append(f"{what}: {found!r}, not {wanted!r}")


@contextlib.contextmanager
def standing(server, kind):
    """Where the fake listens; at the end it must have nothing to complain about."""
    child = subprocess.Popen([server, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(child.stdout.readline())
    finally:
        child.stdin.close()
        code = child.wait()
    if code != 0:
        FAULTS.append(f"the fake {kind} ended with {code}: see what it says above")


def verdict(what):
    for fault in FAULTS:
        print("FAULT", fault)
    print(f"{'FAILED' if FAULTS or not CHECKS else 'good'}: {what}; {len(CHECKS)} expectations")
    sys.exit(1 if FAULTS or not CHECKS else 0)
