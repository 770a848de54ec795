"""redis-py's client-side cache: what was read is kept, and forgotten as soon as the server tells that
it has changed, run out or been flushed. The server must report 7.4 or newer (compat-version), else
redis-py refuses to cache. Not here: CLIENT TRACKING's options on raw sockets."""
from kit import IS_KEYLATCH, client, equal, main, text, until
from redis.cache import CacheConfig, CacheKey
from redis.connection import CacheProxyConnection

if not IS_KEYLATCH:
    CacheProxyConnection.MIN_ALLOWED_VERSION = "6.0.0"


def caching(**options):
    return client(protocol=3, cache_config=CacheConfig(max_size=100), **options)


def kept(r, *command):
    """Whether the reply is in the cache."""
    keys = command[1:] if command[0] == "MGET" else command[1:2]
    return r.get_cache().get(CacheKey(command=command[0], redis_keys=keys, redis_args=command)) is not None


def reads(other):
    """How often the server was asked to GET or MGET."""
    stats = other.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("get", "mget"))


def test_a_second_read_asks_nobody():
    with caching() as r, client() as other:
        other.set("a", 1)
        before = reads(other)
        equal([r.get("a") for _ in range(50)], [b"1"] * 50)
        assert kept(r, "GET", "a")
        equal(reads(other) - before, 1)


def test_what_forgets():
    changes = [
        lambda o: o.set("a", 2),
        lambda o: o.delete("a"),
        lambda o: o.append("a", "x"),
        lambda o: o.expire("a", 1000),
        lambda o: o.rename("a", "b"),
        lambda o: o.rename("other", "a"),
        lambda o: o.copy("other", "a", replace=True),
        lambda o: o.move("a", 1),
        lambda o: o.flushall(),
        lambda o: o.flushdb(),
        lambda o: o.eval("return redis.call('incr', KEYS[1])", 1, "a"),
        lambda o: o.pipeline().incr("a").incr("other").execute(),
        lambda o: o.getdel("a"),
        lambda o: o.setrange("a", 1, "x"),
    ]
    for number, change in enumerate(changes):
        with caching() as r, client() as other:
            other.flushall()
            other.mset({"a": 1, "other": 2, "still": 3})
            equal((r.get("a"), r.mget("a", "still"), r.get("still")), (b"1", [b"1", b"3"], b"3"))
            change(other)
            # A read of another key takes the invalidation in.
            until("it to be forgotten", lambda: r.exists("x") == 0 and not kept(r, "GET", "a"))
            assert not kept(r, "MGET", "a", "still"), number
            equal(r.get("a"), other.get("a"))


def test_what_is_no_change_forgets_nothing():
    with caching() as r, client() as other:
        other.mset({"a": 1, "other": 2})
        equal(r.get("a"), b"1")
        for harmless in (
            lambda: other.set("other", 3),
            lambda: other.get("a"),
            lambda: other.set("a", 2, nx=True),
            lambda: other.persist("a"),
            lambda: client(db=1).set("none", 1),
        ):
            harmless()
            r.ping()
            assert kept(r, "GET", "a")


def test_a_lock_that_runs_out_is_forgotten():
    with caching() as r, client() as other:
        other.set("lock", "me", px=60)
        equal(r.get("lock"), b"me")
        # Nobody asks the server for it: its end is told by the active cycle.
        until("the deadline to be told", lambda: r.exists("x") == 0 and not kept(r, "GET", "lock"))
        equal(r.get("lock"), None)


def test_ones_own_change_is_seen_at_once():
    with caching() as r:
        for number in range(20):
            r.set("a", number)
            equal(int(r.get("a")), number)


def test_a_lost_connection_forgets_all():
    with caching() as r, client() as other:
        other.set("a", 1)
        equal(r.get("a"), b"1")
        other.client_kill_filter(_type="normal")
        other.set("a", 2)
        until("the new value", lambda: r.get("a") == b"2")


def test_tracking_by_hand():
    with client(protocol=3) as r, client() as other:
        connection = r.connection_pool.get_connection()
        told = []
        connection._parser.set_invalidation_push_handler(lambda data: told.append(text(data[1])))

        def say(*words):
            connection.send_command(*words)
            return text(connection.read_response())

        equal(say("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "lock:", "NOLOOP"), "OK")
        info = say("CLIENT", "TRACKINGINFO")
        equal(info["prefixes"], ["lock:"])
        equal(set(info["flags"]), {"on", "bcast", "noloop"})
        say("SET", "lock:mine", "1")
        other.mset({"lock:a": 1, "else": 1})
        until("the invalidation", lambda: say("PING") and told)
        equal(told, [["lock:a"]])
        equal(say("CLIENT", "TRACKING", "OFF"), "OK")
        equal(say("CLIENT", "TRACKING", "ON", "OPTIN"), "OK")
        say("MGET", "x", "y")
        equal(say("CLIENT", "CACHING", "YES"), "OK")
        say("GET", "z")
        other.mset({"x": 1, "y": 1, "z": 1})
        until("the invalidation", lambda: say("PING") and len(told) > 1)
        equal(told[1:], [["z"]])
        equal(say("CLIENT", "GETREDIR"), 0)
        connection.disconnect()


def test_the_version_is_what_allows_it():
    if not IS_KEYLATCH:
        return
    with client() as r:
        version = r.info("server")["redis_version"]
        assert tuple(map(int, version.split("."))) >= (7, 4, 0), "start it with --compat-version 7.4.0"


if __name__ == "__main__":
    main(globals())
