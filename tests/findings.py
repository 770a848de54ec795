"""Locks as libraries take them, and locks as they should not be taken, against the server that
REDIS_URL names. `right`: redis-py's Lock, redlock-py, WATCH, scripts, fencing; there must be no
finding. `wrong`: each of the mistakes once; each must be found. Time is moved, not waited for."""
import logging
import os
import sys
import threading
import uuid

import redis

URL = os.environ["REDIS_URL"]
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def connect(**options):
    return redis.Redis.from_url(URL, single_connection_client=True, **options)


def findings(r, *options):
    """KEYLATCH FINDINGS as dictionaries, whichever protocol is spoken."""

    def pairs(entry):
        if isinstance(entry, dict):
            return entry
        return dict(zip(entry[::2], entry[1::2]))

    text = lambda value: value.decode() if isinstance(value, bytes) else value
    found = [pairs(entry) for entry in r.execute_command("KEYLATCH", "FINDINGS", *options)]
    return [
        {text(key): [text(v) for v in value] if isinstance(value, list) else text(value) for key, value in entry.items()}
        for entry in found
    ]


def advance(r, ms):
    r.execute_command("KEYLATCH", "CLOCK", "ADVANCE", ms)


def redis_py_lock():
    for protocol in (2, 3):
        pool = redis.Redis.from_url(URL, protocol=protocol)
        with pool.lock("lock:with", timeout=5):
            pool.set("data", 1)
        lock = pool.lock("lock:py", timeout=30, thread_local=False)
        assert lock.acquire(blocking=False)
        assert not pool.lock("lock:py", timeout=30).acquire(blocking=False)
        assert lock.extend(30) and lock.extend(10, replace_ttl=True) and lock.reacquire()
        assert lock.owned() and lock.locked()
        # One waits, on a connection of its own, until the other lets go.
        waiter = pool.lock("lock:py", timeout=30, sleep=0.005, thread_local=False)
        waiting = threading.Thread(target=waiter.acquire)
        waiting.start()
        while not any(held["refused"] > 1 for held in locks(pool)):
            pass
        lock.release()
        waiting.join()
        assert waiter.owned()
        waiter.release()
        # Ten take turns.
        def work():
            for _ in range(3):
                with pool.lock("lock:turns", timeout=30, sleep=0.002):
                    pool.set("count", int(pool.get("count") or 0) + 1)

        pool.delete("count")
        threads = [threading.Thread(target=work) for _ in range(10)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert int(pool.get("count")) == 30
        # One expires and is taken by another; who lost it asks, and does not release it.
        lost = pool.lock("lock:lost", timeout=1)
        assert lost.acquire(blocking=False)
        advance(pool, 1500)
        assert not lost.owned()
        with pool.lock("lock:lost", timeout=1):
            pass
        pool.close()


def locks(r):
    held = r.execute_command("KEYLATCH", "LOCKS")
    held = [entry if isinstance(entry, dict) else dict(zip(entry[::2], entry[1::2])) for entry in held]
    return [{(k.decode() if isinstance(k, bytes) else k): v for k, v in entry.items()} for entry in held]


def redlock_py():
    try:
        from redlock import Redlock
    except ImportError:
        print("!!! redlock-py is not installed: it is left out", file=sys.stderr)
        return
    dlm = Redlock([URL], retry_count=2, retry_delay=0.001)
    other = Redlock([URL], retry_count=2, retry_delay=0.001)
    for _ in range(3):
        mine = dlm.lock("redlock", 10_000)
        assert mine and not other.lock("redlock", 10_000)
        dlm.unlock(mine)
    theirs = other.lock("redlock", 10_000)
    assert theirs
    other.unlock(theirs)
    # Of three nodes two do not answer: what was won here is given back, and tried for again.
    logging.disable()  # it logs each node that does not answer, at length
    dead = [redis.Redis(port=1, socket_connect_timeout=0.01, retry=None) for _ in range(2)]
    assert not Redlock([redis.Redis.from_url(URL), *dead], retry_count=3, retry_delay=0.001).lock("minority", 10_000)


def by_hand():
    a, b = connect(), connect()
    a.set("lock:a", "one", nx=True, px=1000)
    fence = a.incr("fence:a")
    assert b.set("lock:a", "two", nx=True, px=1000) is None
    a.set("data:a", fence)
    with a.pipeline() as pipe:
        pipe.watch("lock:a")
        assert pipe.get("lock:a") == b"one"
        pipe.multi()
        pipe.delete("lock:a")
        assert pipe.execute() == [1]
    assert b.set("lock:a", "two", nx=True, px=1000)
    assert b.eval(RELEASE, 1, "lock:a", "not mine") == 0
    assert b.eval(RELEASE, 1, "lock:a", "two") == 1
    # A reply was lost: the same connection's successor tries again with its token.
    token = uuid.uuid4().hex
    lost = connect()
    lost.set("lock:b", token, nx=True, px=1000)
    lost.close()
    again = connect()
    assert again.set("lock:b", token, nx=True, px=1000) is None and again.get("lock:b") == token.encode()
    assert again.execute_command("DELEX", "lock:b", "IFEQ", token) == 1
    list(a.scan_iter("lock:*"))
    a.close(), b.close(), again.close()


def wrong():
    a, b = connect(), connect(protocol=3)
    b.client_setname("other")
    a.execute_command("KEYLATCH", "CLOCK", "FREEZE")
    a.execute_command("KEYLATCH", "GUARD", "guarded:*", "data:*")

    def two_step_acquire():
        a.setnx("two-step-acquire", "t1")
        a.expire("two-step-acquire", 10)

    def no_deadline():
        c = connect()
        c.set("no-deadline", "t2", nx=True)
        c.close()

    def bare_delete():
        a.set("bare-delete", "t3", nx=True, px=1000)
        a.delete("bare-delete")

    def foreign_release():
        a.set("foreign-release", "t4", nx=True, px=1000)
        b.unlink("foreign-release")

    def overrun():
        a.set("overrun", "t5", nx=True, px=1000)
        advance(a, 1500)
        assert a.eval(RELEASE, 1, "overrun", "t5") == 0

    def missed_renewal():
        a.set("missed-renewal", "t6", nx=True, px=1000)
        a.eval(RELEASE, 1, "missed-renewal", "t6")
        assert not a.pexpire("missed-renewal", 1000)

    def renewal_that_deletes():
        a.set("renewal-that-deletes", "t7", nx=True, px=1000)
        assert a.pexpire("renewal-that-deletes", 0)

    def shared_token():
        for client in (a, b):
            client.set("shared-token", "t8", nx=True, px=1000)
            client.eval(RELEASE, 1, "shared-token", "t8")

    def lockstep_retry():
        a.set("lockstep-retry", "t9", nx=True, px=60_000)
        for _ in range(5):
            b.set("lockstep-retry", "t10", nx=True, px=60_000)
            advance(a, 100)

    def keys_walk():
        a.keys("keys-walk")

    def expired_owner_write():
        a.set("guarded:1", "t11", nx=True, px=1000)
        advance(a, 1500)
        a.set("data:1", "late")

    mistakes = [two_step_acquire, no_deadline, bare_delete, foreign_release, overrun, missed_renewal]
    mistakes += [renewal_that_deletes, shared_token, lockstep_retry, keys_walk, expired_owner_write]
    seen = 0
    for mistake in mistakes:
        mistake()
        name = mistake.__name__.replace("_", "-")
        for client in (a, b):
            found = findings(client)
            # The server may not have heard of the end of a connection yet: asking is the test's end.
            assert [f["finding"] for f in found[seen:]] == [name], (name, found[seen:])
        one = found[seen]
        assert one["key"] == ("data:1" if name == "expired-owner-write" else name), one
        assert one["client-id"] > 0 and one["client-addr"].startswith("127.0.0.1:"), one
        assert one["at"] > 0 and one["commands"] and one["detail"] and one["instead"], one
        if name == "foreign-release":
            assert one["client-name"] == "other" and one["commands"][-1] == "UNLINK foreign-release", one
        seen += 1


if sys.argv[1] == "right":
    redis_py_lock()
    redlock_py()
    by_hand()
    found = findings(connect())
    assert not found, found
else:
    wrong()
print("as it should be")
