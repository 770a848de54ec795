"""What the redis-py tests share: the server's port, clients of every kind, a runner that runs each
function named test_… of a file on an emptied server and tells which failed. Not here: any test.

A file is started as `python FILE PORT [word]`; with a word only the tests that have it in their
names are run. tests/python.rs does that for each file."""
import os
import sys
import threading
import time
import traceback

import redis

PORT = int(sys.argv[1])

# Whether the server is keylatch itself, and not one to compare with: some tests ask for what is ours alone.
IS_KEYLATCH = "KEYLATCH_TEST_BINARY" not in os.environ

# How long a test waits for what ought to come at once. Only a failing test waits.
PATIENCE = 20

RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end"


def client(**options):
    return redis.Redis(port=PORT, **options)


def protocols(test):
    """The test once for each protocol, with a client that speaks it, bytes decoded or not."""

    def each():
        for protocol in (2, 3):
            for decode in (False, True):
                with client(protocol=protocol, decode_responses=decode) as r:
                    r.flushall()
                    test(r)

    each.__name__ = test.__name__
    return each


def equal(got, wanted):
    assert got == wanted, f"{got!r} is not {wanted!r}"


def text(value):
    """Bytes as text, all the way down."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [text(one) for one in value]
    if isinstance(value, dict):
        return {text(key): text(one) for key, one in value.items()}
    return value


def refused(error, wanted, call, *args, **options):
    """The call raises exactly this."""
    try:
        answer = call(*args, **options)
    except error as e:
        assert wanted in str(e), f"{e} does not say {wanted}"
    else:
        raise AssertionError(f"answered with {answer!r} instead of {error.__name__}")


def until(what, ask):
    end = time.monotonic() + PATIENCE
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.002)


def together(work, count):
    """Runs `work(number)` in `count` threads; fails when one of them does."""
    failures = []

    def one(number):
        try:
            work(number)
        except BaseException:
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def main(names):
    tests = {name: test for name, test in names.items() if name.startswith("test_")}
    wanted = [name for name in tests if len(sys.argv) < 3 or sys.argv[2] in name]
    assert wanted, "no such test"
    failed = 0
    for name in wanted:
        with client() as r:
            r.flushall()
        try:
            tests[name]()
            print(name, "ok")
        except BaseException:
            failed += 1
            print(name, "FAILED")
            traceback.print_exc(file=sys.stdout)
    sys.exit(1 if failed else 0)
