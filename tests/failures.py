"""Each fault by redis-py in both protocols, over the wire, against the server on loopback at the port
given, whose clock stands. Exit status 0 when all is as it should be."""
import sys
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PORT = int(sys.argv[1])
TTL = 10_000
protocol = 2


def connect(timeout=20):
    """A client that tries nothing twice by itself: a fault is to be seen."""
    once = Retry(NoBackoff(), 0)
    return redis.Redis(port=PORT, protocol=protocol, decode_responses=True, socket_timeout=timeout, retry=once)


governor = connect()


def keylatch(*words):
    return governor.execute_command("KEYLATCH", *words)


def fault(*words):
    return keylatch("FAULT", "ADD", *words)


def fails(with_what, call):
    try:
        answer = call()
    except with_what as error:
        return str(error)
    raise SystemExit(f"{with_what.__name__} was to come, but {answer!r} came")


def struck():
    rules = keylatch("FAULT", "LIST")
    if rules and isinstance(rules[0], list):
        rules = [dict(zip(rule[::2], rule[1::2])) for rule in rules]
    return sum(rule["struck"] for rule in rules)


def in_background(call):
    """Begins a call that waits, once its fault has struck; gives what collects its answer."""
    answers, before = [], struck()
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    while struck() == before:
        pass

    def collect():
        thread.join(20)
        assert answers, "no answer came"
        return answers[0]

    return collect


def test_error():
    fault("COMMAND", "set", "TIMES", "1", "ERROR", "LOCKED for a test")
    r = connect()
    assert "LOCKED for a test" in fails(redis.ResponseError, lambda: r.set("k", "1"))
    assert r.set("k", "1") and r.get("k") == "1"


def test_drop():
    r = connect()
    fault("COMMAND", "set", "TIMES", "1", "DROP")
    fails(redis.ConnectionError, lambda: r.set("before", "1"))
    assert r.get("before") is None
    fault("COMMAND", "set", "ON", "after", "TIMES", "1", "DROP")
    fails(redis.ConnectionError, lambda: r.set("after", "1"))
    assert r.get("after") == "1"


def test_hang():
    for on, left in (("before", None), ("after", "1")):
        r = connect(timeout=0.05)
        fault("COMMAND", "set", "ON", on, "TIMES", "1", "HANG")
        fails(redis.TimeoutError, lambda: r.set(f"hang:{on}", "1"))
        assert connect().get(f"hang:{on}") == left


def test_truncate():
    r = connect()
    r.set("k", "0123456789")
    fault("COMMAND", "get", "TIMES", "1", "TRUNCATE", "8")
    fails(redis.ConnectionError, lambda: r.get("k"))
    assert r.get("k") == "0123456789"


def test_split():
    r = connect()
    r.set("k", "0123456789")
    fault("COMMAND", "get", "TIMES", "1", "SPLIT", "3")
    answer = in_background(lambda: r.get("k"))
    for _ in range(6):
        keylatch("CLOCK", "ADVANCE", 1)
    assert answer() == "0123456789"


def test_delay():
    r = connect()
    for on, left in (("before", None), ("after", "1")):
        fault("COMMAND", "set", "ON", on, "TIMES", "1", "DELAY", "500")
        answer = in_background(lambda: r.set(f"delay:{on}", "1"))
        keylatch("CLOCK", "ADVANCE", 499)
        assert governor.get(f"delay:{on}") == left
        keylatch("CLOCK", "ADVANCE", 1)
        assert answer() and governor.get(f"delay:{on}") == "1"


def test_stall():
    r, other = connect(), connect()
    fault("COMMAND", "set", "TIMES", "1", "STALL", "5000")
    answer = in_background(lambda: r.set("lock", "r", nx=True))
    others = threading.Thread(target=lambda: outcome.append(other.set("lock", "other", nx=True)))
    outcome = []
    others.start()
    keylatch("CLOCK", "ADVANCE", 4999)
    assert not outcome
    keylatch("CLOCK", "ADVANCE", 1)
    assert answer() is True
    others.join(20)
    assert outcome == [None]


def test_expire_first():
    r = connect()
    fault("COMMAND", "get", "KEY", "lock:*", "EXPIRE-FIRST")
    r.set("lock:1", "mine", px=TTL)
    assert r.get("lock:1") is None


def test_a_lock_whose_acquisitions_reply_was_lost():
    r = connect()
    fault("COMMAND", "set", "KEY", "lock:*", "ON", "after", "TIMES", "1", "DROP")
    fails(redis.ConnectionError, lambda: r.set("lock:1", "token", nx=True, px=TTL))
    assert r.set("lock:1", "token", nx=True, px=TTL) is None
    assert r.get("lock:1") == "token"


def test_a_release_that_arrives_late():
    r = connect()
    lock = r.lock("lock:1", timeout=TTL / 1000)
    assert lock.acquire(blocking=False)
    fault("COMMAND", "evalsha", "TIMES", "1", "EXPIRE-FIRST")
    fails(redis.exceptions.LockNotOwnedError, lock.release)


tests = [test for name, test in globals().items() if name.startswith("test_")]
for protocol in (2, 3):
    for test in tests:
        keylatch("RESET")
        test()
        print("ok", protocol, test.__name__)
