"""redis-py's own lock: acquire at once, in the end or not at all, extend, reacquire, release, lose it;
and the steps of docs/locks.md as a program writes them. Not here: locks that are handed over by a
message (handover.py)."""
import threading
import time

from kit import IS_KEYLATCH, RELEASE, client, equal, main, protocols, refused, together, until
from redis.commands.core import DataPersistOptions
from redis.exceptions import LockError, LockNotOwnedError


@protocols
def test_one_lock(r):
    lock = r.lock("lock", timeout=30)
    assert not lock.locked() and not lock.owned()
    assert lock.acquire(blocking=False)
    assert lock.owned() and lock.locked()
    other = r.lock("lock", timeout=30)
    assert not other.acquire(blocking=False)
    assert other.locked() and not other.owned()
    assert 29_000 < r.pttl("lock") <= 30_000
    assert lock.extend(30)
    assert 59_000 < r.pttl("lock") <= 60_000
    assert lock.extend(10, replace_ttl=True)
    assert 9_000 < r.pttl("lock") <= 10_000
    assert lock.reacquire()
    assert 29_000 < r.pttl("lock") <= 30_000
    refused(LockError, "not owned or is already unlocked", other.release)
    refused(LockError, "Cannot extend an unlocked lock", other.extend, 5)
    lock.release()
    equal(r.exists("lock"), 0)
    refused(LockError, "already unlocked", lock.release)


@protocols
def test_a_lock_that_was_lost(r):
    for use, wanted in (
        (lambda lock: lock.release(), "Cannot release a lock that's no longer owned"),
        (lambda lock: lock.extend(5), "Cannot extend a lock that's no longer owned"),
        (lambda lock: lock.reacquire(), "Cannot reacquire a lock that's no longer owned"),
    ):
        # Taken by another, or gone.
        for lose in (lambda: r.set("lock", "thief", px=5000), lambda: r.delete("lock")):
            r.delete("lock")
            lock = r.lock("lock", timeout=30)
            assert lock.acquire(blocking=False)
            lose()
            before = r.get("lock")
            assert not lock.owned()
            refused(LockNotOwnedError, wanted, use, lock)
            equal(r.get("lock"), before)
            assert r.pttl("lock") <= 5000


@protocols
def test_a_lock_that_ran_out(r):
    lock = r.lock("lock", timeout=0.05)
    assert lock.acquire(blocking=False)
    until("the deadline", lambda: not lock.locked())
    refused(LockNotOwnedError, "no longer owned", lock.release)
    assert r.lock("lock", timeout=30).acquire(blocking=False)


@protocols
def test_waiting_for_a_lock(r):
    holder = r.lock("lock", timeout=30)
    assert holder.acquire()
    waiter = r.lock("lock", timeout=30, sleep=0.005)
    began = time.monotonic()
    assert not waiter.acquire(blocking_timeout=0.05)
    assert time.monotonic() - began < 10
    equal(waiter.local.token, None)
    releasing = threading.Timer(0.05, r.delete, ["lock"])
    releasing.start()
    assert waiter.acquire()
    releasing.join()
    waiter.release()
    # By a deadline instead of a release.
    assert r.lock("lock", timeout=0.05).acquire()
    assert waiter.acquire(blocking_timeout=20)
    waiter.release()


@protocols
def test_as_a_context(r):
    with r.lock("lock", timeout=30) as lock:
        assert lock.owned()
    equal(r.exists("lock"), 0)
    r.set("lock", "thief")
    refused(LockError, "Unable to acquire lock", r.lock("lock", blocking=False).__enter__)
    r.delete("lock")

    def stolen():
        with r.lock("lock", timeout=30):
            r.set("lock", "thief")

    refused(LockNotOwnedError, "no longer owned", stolen)
    with r.lock("mine", timeout=30, raise_on_release_error=False):
        r.delete("mine")


@protocols
def test_tokens_and_threads(r):
    lock = r.lock("lock")
    assert lock.acquire(token="a token of one's own")
    assert r.get("lock") in (b"a token of one's own", "a token of one's own")
    equal(r.pttl("lock"), -1)
    refused(LockError, "Cannot extend a lock with no timeout", lock.extend, 5)
    lock.release()
    # Another thread may release what this one took, where that is asked for.
    shared = r.lock("lock", thread_local=False)
    assert shared.acquire()
    together(lambda _: shared.release(), 1)
    equal(r.exists("lock"), 0)


def test_fifty_contenders():
    def work(_):
        with client() as r:
            for _ in range(4):
                with r.lock("lock", timeout=60, sleep=0.002):
                    r.set("counter", int(r.get("counter") or 0) + 1)

    together(work, 50)
    with client() as r:
        equal(int(r.get("counter")), 200)


@protocols
def test_scripts_forgotten_while_a_lock_is_held(r):
    # As after a restart: EVALSHA hears NOSCRIPT, and redis-py loads the script anew.
    lock = r.lock("lock", timeout=30)
    assert lock.acquire()
    r.script_flush()
    assert lock.extend(5)
    r.script_flush()
    lock.release()


@protocols
def test_the_steps_of_the_docs_with_a_script(r):
    release = r.register_script(RELEASE)
    renew = r.register_script(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then "
        "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end"
    )
    key, token = "lock:order:1001", "mine"
    assert r.set(key, token, nx=True, px=30_000)
    equal(r.set(key, "other", nx=True, px=30_000), None)
    equal(renew(keys=[key], args=["other", 60_000]), 0)
    equal(renew(keys=[key], args=[token, 60_000]), 1)
    assert 59_000 < r.pttl(key) <= 60_000
    equal(release(keys=[key], args=["other"]), 0)
    equal(release(keys=[key], args=[token]), 1)
    equal(release(keys=[key], args=[token]), 0)
    # After a crash of the holder the deadline is what ends it.
    assert r.set(key, token, nx=True, px=40)
    until("the deadline", lambda: r.set(key, "next", nx=True, px=30_000))
    equal(release(keys=[key], args=[token]), 0)
    # The number that grows with each acquisition.
    equal((r.incr("lock:fence"), r.incr("lock:fence")), (1, 2))


@protocols
def test_the_steps_of_the_docs_without(r):
    if not IS_KEYLATCH:
        return
    key, token = "lock:order:1001", "mine"
    assert r.set(key, token, nx=True, px=30_000)
    # The value is written anew only while it is ours; without PX it would lose its deadline.
    equal(r.set(key, "other", ifeq="other", px=90_000), None)
    assert r.set(key, token, ifeq=token, px=60_000)
    assert 59_000 < r.pttl(key) <= 60_000
    equal(r.execute_command("PEXPIRE", key, 90_000, "IFEQ", "other"), 0)
    equal(r.execute_command("PEXPIRE", key, 90_000, "IFEQ", token), 1)
    assert 89_000 < r.pttl(key) <= 90_000
    equal(r.delex(key, ifeq="other"), 0)
    equal(r.delex(key, ifdeq=r.digest(key)), 1)
    equal(r.delex(key, ifeq=token), 0)
    assert r.set(key, token, nx=True, px=30_000)
    equal(r.execute_command("DELIFEQ", key, "other"), 0)
    equal(r.execute_command("DELIFEQ", key, token), 1)
    equal(r.digest(key), None)
    equal(r.msetex({"a": 1, "b": 2}, px=30_000, data_persist_option=DataPersistOptions.NX), 1)
    equal(r.msetex({"b": 3, "c": 4}, data_persist_option=DataPersistOptions.NX), 0)
    equal(r.exists("c"), 0)


if __name__ == "__main__":
    main(globals())
