"""Watching the server through redis-py's parsers: MONITOR, SLOWLOG, LATENCY, CLIENT LIST, KILL, PAUSE,
INFO, MEMORY, COMMAND, CONFIG, SCAN. Not here: their texts to the byte (the differential test)."""
import threading
import time

import redis
from kit import client, equal, main, protocols, refused, text, until
from redis.backoff import NoBackoff
from redis.retry import Retry


def named(r, name):
    return [one for one in r.client_list() if one["name"] == name]


@protocols
def test_monitor(r):
    port = r.connection_pool.get_connection()
    with r.monitor() as monitor:

        def shown():
            # Connecting clients say something as well: that is skipped.
            while True:
                command = monitor.next_command()
                if not command["command"].startswith(("CLIENT SETINFO", "HELLO")):
                    return command

        with client(db=3, retry=Retry(NoBackoff(), 0)) as other:
            before = time.time()
            other.set("lock", 'a "quoted" token', nx=True)
            other.eval("return redis.call('get', KEYS[1])", 1, "lock")
            select = shown()
            equal(select["command"], "SELECT 3")
            taken = shown()
            equal((taken["db"], taken["client_type"], taken["client_address"]), (3, "tcp", "127.0.0.1"))
            equal(taken["command"], 'SET lock a "quoted" token NX')
            assert before - 5 < taken["time"] < time.time() + 5
            equal(shown()["command"], "EVAL return redis.call('get', KEYS[1]) 1 lock")
            inner = shown()
            equal((inner["client_type"], inner["command"]), ("lua", "get lock"))
            with other.pipeline() as pipe:
                pipe.incr("n").publish("lock", "x").execute()
            equal([shown()["command"] for _ in range(4)], ["MULTI", "INCRBY n 1", "PUBLISH lock x", "EXEC"])
            # Nobody reads a password over a monitor's shoulder.
            refused(redis.AuthenticationError, "invalid username", other.execute_command, "AUTH", "nobody", "secret")
            equal(shown()["command"], "AUTH (redacted) (redacted)")
    r.connection_pool.release(port)


@protocols
def test_slow_log(r):
    r.config_set("slowlog-log-slower-than", 0)
    r.slowlog_reset()
    with client(client_name="slow") as other:
        other.set("lock", "me", px=30_000)
        other.eval("return redis.call('get', KEYS[1])", 1, "lock")
        other.ping()
        r.config_set("slowlog-log-slower-than", 10_000)
    entries = r.slowlog_get(128)
    found = {}
    for entry in entries:
        found.setdefault(text(entry["command"]), entry)
    entry = found["SET lock me PX 30000"]
    assert entry["duration"] >= 0 and abs(entry["start_time"] - time.time()) < 60
    equal(text(entry["client_name"]), "slow")
    assert text(entry["client_address"]).startswith("127.0.0.1:")
    assert "EVAL return redis.call('get', KEYS[1]) 1 lock" in found and "PING" in found
    equal([entry["id"] for entry in entries], sorted((entry["id"] for entry in entries), reverse=True))
    equal(r.slowlog_len(), len(entries))
    equal(len(r.slowlog_get(2)), 2)
    assert r.slowlog_reset()
    equal((r.slowlog_len(), r.slowlog_get()), (0, []))


@protocols
def test_latency(r):
    equal(r.latency_latest(), [])
    r.config_set("latency-monitor-threshold", 1)
    r.eval("local n = 0 for i = 1, 20000000 do n = n + i end return n", 0)
    r.config_set("latency-monitor-threshold", 0)
    events = {text(event[0]): event for event in r.latency_latest()}
    name, last, latest, worst = events["command"]
    assert abs(last - time.time()) < 60 and 1 <= latest <= worst
    history = r.latency_history("command")
    equal([text(one) for one in history[-1]], [last, latest])
    equal(r.latency_history("nosuch"), [])
    equal(r.latency_reset("nosuch"), 0)
    equal(r.latency_reset(), len(events))
    equal(r.latency_latest(), [])
    r.set("k", 1)
    refused(NotImplementedError, "", r.latency_histogram)
    histogram = text(r.execute_command("LATENCY HISTOGRAM", "set", "nosuch"))
    assert "set" in histogram and "nosuch" not in histogram, histogram


@protocols
def test_client_list(r):
    with client(client_name="holder", db=2, lib_name="mine", lib_version="1.2") as holder:
        holder.set("lock", "me")
        (one,) = named(r, "holder")
        equal((one["db"], one["cmd"], one["user"], one["resp"]), ("2", "set", "default", "3"))
        assert int(one["age"]) >= 0 and int(one["idle"]) >= 0
        info = holder.client_info()
        equal((str(info["id"]), info["name"]), (one["id"], "holder"))
        equal(holder.client_id(), int(one["id"]))
        equal(text(holder.client_getname()), "holder")
        assert holder.client_setname("other")
        equal(text(holder.client_getname()), "other")
        equal([int(each["id"]) for each in r.client_list(client_id=[holder.client_id()])], [holder.client_id()])
        assert all(each["cmd"] for each in r.client_list(_type="normal"))
        equal(r.client_list(_type="replica"), [])
        pubsub = holder.pubsub()
        pubsub.subscribe("a", "b")
        until("the subscriptions", lambda: [one["sub"] for one in r.client_list(_type="pubsub")] == ["2"])
        pubsub.close()


@protocols
def test_client_kill(r):
    clients = []

    def one(name):
        clients.append(client(client_name=name, retry=None, protocol=2))
        connection = clients[-1].connection_pool.get_connection()
        (line,) = named(r, name)
        return connection, line

    def is_dead(connection):
        try:
            connection.send_command("PING")
            connection.read_response()
            return False
        except (redis.ConnectionError, OSError):
            return True

    for kill in (
        lambda line: r.client_kill(line["addr"]),
        lambda line: r.client_kill_filter(_id=line["id"]),
        lambda line: r.client_kill_filter(addr=line["addr"]),
        lambda line: r.client_kill_filter(_id=line["id"], user="default", _type="normal", laddr=line["laddr"]),
    ):
        connection, line = one("victim")
        assert kill(line) in (True, 1)
        assert is_dead(connection)
        equal(named(r, "victim"), [])
    connection, line = one("spared")
    equal(r.client_kill_filter(_id=line["id"], addr="1.2.3.4:5"), 0)
    equal(r.client_kill_filter(_type="replica"), 0)
    refused(redis.ResponseError, "No such user 'nobody'", r.client_kill_filter, user="nobody")
    refused(redis.ResponseError, "No such client", r.client_kill, "1.2.3.4:5")
    assert not is_dead(connection)
    # Oneself is left out unless asked for.
    assert r.client_kill_filter(user="default", skipme=True) >= 1
    assert is_dead(connection) and r.ping()


@protocols
def test_pause(r):
    assert r.client_pause(60_000, all=False)
    order = []
    with client() as reader, client() as writer:
        equal(reader.get("k"), None)

        def write():
            writer.set("k", "v")
            order.append("written")

        thread = threading.Thread(target=write)
        thread.start()
        until("the writer to be held", lambda: r.info("clients")["blocked_clients"] == 1)
        equal((reader.get("k"), order), (None, []))
        assert r.client_unpause()
        thread.join()
        equal((text(reader.get("k")), order), ("v", ["written"]))
        # A pause of everything ends by itself.
        before = time.monotonic()
        r.client_pause(60)
        equal(text(reader.get("k")), "v")
        assert time.monotonic() - before >= 0.05


@protocols
def test_waiting_and_unblocking(r):
    equal(r.wait(0, 0), 0)
    before = time.monotonic()
    equal(r.wait(1, 40), 0)
    assert time.monotonic() - before >= 0.035
    answers = []
    with client() as waiter:
        number = waiter.client_id()
        thread = threading.Thread(target=lambda: answers.append(waiter.wait(3, 0)))
        thread.start()
        until("it to wait", lambda: r.info("clients")["blocked_clients"] == 1)
        assert r.client_unblock(number)
        thread.join()
    equal(answers, [0])
    assert not r.client_unblock(number)
    equal(text(r.role()), ["master", 0, []])
    assert r.replicaof("NO", "ONE")


@protocols
def test_figures(r):
    r.config_resetstat()
    r.set("k", 1)
    r.get("k")
    r.get("none")
    refused(redis.ResponseError, "not an integer", r.eval, "return redis.call('incrby', KEYS[1], 'x')", 1, "k")
    stats = r.info("commandstats")
    equal((stats["cmdstat_get"]["calls"], stats["cmdstat_set"]["calls"]), (2, 1))
    equal(stats["cmdstat_incrby"]["failed_calls"], 1)
    equal(r.info("errorstats")["errorstat_ERR"]["count"], 1)
    assert r.info("latencystats")["latency_percentiles_usec_get"]["p50"] >= 0
    info = r.info()
    equal((info["keyspace_hits"], info["keyspace_misses"]), (1, 1))
    equal((info["db0"]["keys"], info["redis_mode"], info["role"]), (1, "standalone", "master"))
    equal(info["connected_clients"], len(r.client_list()))
    assert r.memory_usage("k") > 0 and r.memory_usage("none") is None
    stats = r.memory_stats()
    equal(stats["keys.count"], 1)
    assert stats["total.allocated"] > 0
    assert r.memory_purge()


@protocols
def test_commands_tell_themselves(r):
    names = [name for name in text(r.command_list()) if "|" not in name]
    equal(len(set(names)), r.command_count())
    told = r.command()
    equal(sorted(told), sorted(names))
    equal((told["set"]["arity"], told["set"]["first_key_pos"], "write" in told["set"]["flags"]), (-3, 1, True))
    equal(text(r.command_getkeys("MSET", "a", 1, "b", 2)), ["a", "b"])
    equal(
        [[key, set(flags)] for key, flags in text(r.command_getkeysandflags("SET", "a", 1, "GET"))],
        [["a", {"RW", "access", "update"}]],
    )
    equal(text(r.config_get("maxmemory")), {"maxmemory": "0"})
    assert r.config_set("maxmemory", "100mb")
    equal(text(r.config_get("maxmem*"))["maxmemory"], "104857600")
    assert r.config_set("maxmemory", 0)
    refused(redis.ResponseError, "Unknown option", r.config_set, "nosuch", 1)
    seconds, micros = r.time()
    assert abs(seconds - time.time()) < 60 and 0 <= micros < 1_000_000
    equal(text(r.echo("x")), "x")
    assert "Redis ver" in text(r.lolwut())


@protocols
def test_scans(r):
    keys = {f"lock:{number}" for number in range(1000)} | {f"other:{number}" for number in range(100)}
    r.mset(dict.fromkeys(keys, 1))
    equal(set(text(list(r.scan_iter()))), keys)
    equal(set(text(list(r.scan_iter("lock:*", count=7)))), {key for key in keys if key.startswith("lock:")})
    equal(set(text(list(r.scan_iter("other:?5", _type="string")))), {f"other:{tens}5" for tens in range(1, 10)})
    equal(list(r.scan_iter(_type="list")), [])
    # What stays all the while is found, whatever else goes and comes.
    found = set()
    for number, key in enumerate(r.scan_iter("lock:*", count=10)):
        found.add(text(key))
        r.delete(f"other:{number % 100}")
        r.set(f"new:{number}", 1)
    equal(found, {key for key in keys if key.startswith("lock:")})
    cursor, some = r.scan(0, count=3)
    assert cursor != 0 and some


@protocols
def test_keys_of_every_kind(r):
    binary = bytes(range(256))
    r.set(binary, binary)
    with client() as raw:
        equal(raw.get(binary), binary)
        equal(raw.keys(), [binary])
        raw.restore("again", 0, raw.dump(binary))
        equal(raw.get("again"), binary)
    equal(r.object("refcount", "none"), None)
    r.set("n", 12)
    equal(text(r.object("encoding", "n")), "int")
    assert r.expire("n", 100, nx=True) and not r.expire("n", 50, gt=True) and r.expire("n", 50, lt=True)
    assert 45 < r.ttl("n") <= 50 and r.expiretime("n") > time.time()
    equal((r.setbit("bits", 7, 1), r.bitcount("bits"), r.getbit("bits", 7)), (0, 1, 1))
    equal(r.bitfield("bits").set("u8", 8, 200).get("u8", 8).incrby("u8", 8, 100).execute(), [0, 200, 44])
    equal((r.pfadd("h", "a", "b"), r.pfcount("h"), r.pfmerge("g", "h"), r.pfcount("g")), (1, 2, True, 2))
    r.mset({"x": "ohmytext", "y": "mynewtext"})
    equal(text(r.lcs("x", "y")), "mytext")
    equal(r.lcs("x", "y", len=True), 6)


if __name__ == "__main__":
    main(globals())
