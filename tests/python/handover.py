"""A lock handed from its holder to who waits: by a message on release, by the `expired` event when the
holder has crashed. One waiter, and many. Not here: redis-py's own lock (locks.py)."""
import os
import subprocess
import sys
import time

from kit import PATIENCE, PORT, client, equal, main, protocols, text, together, until

# Deletes the lock of its owner and tells who waits, in one step.
RELEASE_AND_TELL = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[1], 'released')
return 1
"""


def listening(r, channel):
    """Subscribed, and it is known to be."""
    p = r.pubsub()
    p.subscribe(channel)
    message = p.get_message(timeout=PATIENCE)
    equal((text(message["type"]), text(message["channel"])), ("subscribe", channel))
    return p


@protocols
def test_by_a_message(r):
    assert r.set("lock", "one", nx=True, px=60_000)
    p = listening(r, "lock")
    assert not r.set("lock", "two", nx=True, px=60_000)
    equal(r.eval(RELEASE_AND_TELL, 1, "lock", "stranger"), 0)
    equal(r.eval(RELEASE_AND_TELL, 1, "lock", "one"), 1)
    message = p.get_message(timeout=PATIENCE)
    equal((text(message["channel"]), text(message["data"])), ("lock", "released"))
    assert r.set("lock", "two", nx=True, px=60_000)
    # The stranger's attempt told nobody.
    equal(p.get_message(timeout=0.02), None)
    p.close()


@protocols
def test_in_a_transaction(r):
    # The same without a script: WATCH, look, DEL and PUBLISH together.
    assert r.set("lock", "one", nx=True, px=60_000)
    p = listening(r, "lock")
    with r.pipeline() as pipe:
        pipe.watch("lock")
        equal(text(pipe.get("lock")), "one")
        pipe.multi()
        pipe.delete("lock").publish("lock", "released")
        equal(pipe.execute(), [1, 1])
    equal(text(p.get_message(timeout=PATIENCE)["data"]), "released")
    p.close()


def test_by_the_expiry_of_a_crashed_holder():
    with client() as r:
        r.config_set("notify-keyspace-events", "Ex")
        p = listening(r, "__keyevent@0__:expired")
        # A process that takes the lock and is killed while it holds it.
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(PORT)], stdout=subprocess.PIPE, env={**os.environ}
        )
        equal(holder.stdout.readline(), b"held\n")
        assert not r.set("lock", "two", nx=True, px=60_000)
        holder.kill()
        holder.wait()
        holder.stdout.close()
        message = p.get_message(timeout=PATIENCE)
        equal((text(message["channel"]), text(message["data"])), ("__keyevent@0__:expired", "lock"))
        assert r.set("lock", "two", nx=True, px=60_000)
        p.close()
        r.config_set("notify-keyspace-events", "")


HOLDER = """
import sys, time, redis
assert redis.Redis(port=int(sys.argv[1])).set("lock", "one", nx=True, px=1000)
print("held", flush=True)
time.sleep(60)
"""


def test_many_waiters_by_messages():
    # Each waits for a message instead of polling, holds the lock once, and hands it on.
    def work(number):
        with client() as r:
            p = listening(r, "lock")
            while not r.set("lock", number, nx=True, px=60_000):
                assert p.get_message(timeout=PATIENCE), "nobody told that the lock is free"
            r.set("counter", int(r.get("counter") or 0) + 1)
            equal(r.eval(RELEASE_AND_TELL, 1, "lock", number), 1)
            p.close()

    together(work, 30)
    with client() as r:
        equal(int(r.get("counter")), 30)


def test_many_crashes():
    # Nobody releases: only deadlines hand the lock on, each told exactly once.
    with client() as r:
        r.config_set("notify-keyspace-events", "Ex")
        everything = listening(r, "__keyevent@0__:expired")

        def work(number):
            with client() as mine:
                p = listening(mine, "__keyevent@0__:expired")
                while not mine.set("lock", number, nx=True, px=30):
                    assert p.get_message(timeout=PATIENCE), "nobody told that the lock is free"
                p.close()

        together(work, 10)
        told = [text(everything.get_message(timeout=PATIENCE)["data"]) for _ in range(10)]
        equal(told, ["lock"] * 10)
        until("the last deadline", lambda: not r.exists("lock"))
        time.sleep(0.02)
        equal(everything.get_message(timeout=0.02), None)
        everything.close()
        r.config_set("notify-keyspace-events", "")


def test_by_client_side_caching():
    # A waiter that has read the lock is told when it changes: no channel of one's own is needed.
    with client(protocol=3) as r:
        connection = r.connection_pool.get_connection()

        def say(*words):
            connection.send_command(*words)
            return text(connection.read_response())

        r.set("lock", "one", px=60_000)
        told = []
        connection._parser.set_invalidation_push_handler(lambda data: told.append(text(data)))
        say("CLIENT", "TRACKING", "ON")
        equal(say("GET", "lock"), "one")
        equal(r.eval(RELEASE_AND_TELL, 1, "lock", "one"), 1)
        until("the invalidation", lambda: say("PING") and told)
        equal(told, [["invalidate", ["lock"]]])
        equal(say("SET", "lock", "two", "NX", "PX", "60000"), "OK")
        connection.disconnect()


if __name__ == "__main__":
    main(globals())
