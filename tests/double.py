"""The test double over the wire by redis-py: every subcommand that moves time or makes faults, and Redlock
over five servers. REDIS_URLS names them. Time is moved, not waited for. Not here: each fault (failures.py)."""
import os

import redis
from redis.exceptions import ConnectionError, ResponseError

URLS = os.environ["REDIS_URLS"].split(",")
NOW = 1_700_000_000_000
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


def connect(url=URLS[0], **options):
    options = {"protocol": 3, "decode_responses": True, "retry": None, "retry_on_timeout": False} | options
    return redis.Redis.from_url(url, single_connection_client=True, **options)


def keylatch(r, *words):
    return r.execute_command("KEYLATCH", *words)


def fault(r, *words):
    return keylatch(r, "FAULT", "ADD", *words)


def fails(error, call):
    try:
        answer = call()
    except error as seen:
        return str(seen)
    raise AssertionError(f"answered {answer!r}")


def fresh(governor):
    keylatch(governor, "RESET")
    keylatch(governor, "CLOCK", "FREEZE", NOW)


def clock(g):
    r = connect()
    assert keylatch(g, "CLOCK", "GET") == NOW
    assert r.time() == (NOW // 1000, 0)
    r.set("lock", "t", nx=True, px=1000)
    keylatch(g, "CLOCK", "ADVANCE", 999)
    assert r.pttl("lock") == 1
    keylatch(g, "CLOCK", "ADVANCE", 1)
    assert r.get("lock") is None
    assert keylatch(g, "CLOCK", "SET", NOW) == NOW
    assert keylatch(g, "CLOCK", "RESUME") >= NOW
    assert fails(ResponseError, lambda: keylatch(g, "CLOCK", "ADVANCE")) == "syntax error"


def expired_in_order(g):
    g.config_set("notify-keyspace-events", "Ex")
    p = connect().pubsub()
    p.subscribe("__keyevent@0__:expired")
    assert p.get_message(timeout=5)["type"] == "subscribe"
    for i in (30, 10, 20):
        g.set(f"k{i}", "v", px=i)
    keylatch(g, "CLOCK", "ADVANCE", 30)
    assert [p.get_message(timeout=5)["data"] for _ in range(3)] == ["k10", "k20", "k30"]


def seed(g):
    def draw():
        keylatch(g, "SEED", 42)
        return [g.randomkey() for _ in range(20)]

    g.mset({f"k{i}": i for i in range(50)})
    first = draw()
    assert draw() == first and len(set(first)) > 3


def error(g):
    fault(g, "COMMAND", "get", "TIMES", 1, "ERROR", "LOADING not yet")
    r = connect(retry=None)
    assert "not yet" in fails(redis.exceptions.BusyLoadingError, lambda: r.get("k"))
    assert connect().get("k") is None


def split(g):
    keylatch(g, "CLOCK", "RESUME")
    g.set("k", "0123456789")
    fault(g, "COMMAND", "get", "SPLIT", 3)
    assert connect().get("k") == "0123456789"


def rules(g):
    assert fault(g, "COMMAND", "get", "CLIENT", "worker-*", "SKIP", 1, "TIMES", 2, "PROBABILITY", "1", "ERROR", "ERR x") == 1
    assert fault(g, "DROP") == 2
    assert len(keylatch(g, "FAULT", "LIST")) == 2
    assert keylatch(g, "FAULT", "REMOVE", 2) == 1 and keylatch(g, "FAULT", "REMOVE", 2) == 0
    worker = connect(client_name="worker-1")
    assert worker.get("k") is None
    for _ in range(2):
        assert fails(ResponseError, lambda: worker.get("k")) == "x"
    assert worker.get("k") is None and connect().get("k") is None
    assert keylatch(g, "FAULT", "CLEAR") == 1 and keylatch(g, "FAULT", "LIST") == []
    for nonsense in (("ADD",), ("ADD", "FLY"), ("ADD", "DELAY", "x"), ("ADD", "ON", "before", "TRUNCATE", 1), ("ADD", "PROBABILITY", "2", "DROP"), ("REMOVE",)):
        fails(ResponseError, lambda: keylatch(g, "FAULT", *nonsense))


def locks_are_seen(g):
    r = connect(client_name="holder")
    assert r.set("lock:a", "t1", nx=True, px=9000)
    assert connect().set("lock:a", "t2", nx=True, px=9000) is None
    (lock,) = keylatch(g, "LOCKS", "MATCH", "lock:*")
    assert (lock["key"], lock["token"], lock["refused"]) == ("lock:a", "t1", 1), lock
    assert [event["event"] for event in keylatch(g, "HISTORY", "lock:a")] == ["acquired", "refused"]
    assert keylatch(g, "FINDINGS") == []
    assert r.delete("lock:a") == 1
    assert [finding["finding"] for finding in keylatch(g, "FINDINGS")] == ["bare-delete"]


def redlock():
    governors = [connect(url) for url in URLS]
    assert keylatch(governors[3], "NODES") == [url.removeprefix("redis://") for url in URLS]
    for g in governors:
        fresh(g)

    def acquire(token):
        taken = 0
        for url in URLS:
            try:
                taken += bool(connect(url).set("lock", token, nx=True, px=10000))
            except ConnectionError:
                pass
        if taken <= len(URLS) // 2:
            for url in URLS:
                try:
                    connect(url).eval(RELEASE, 1, "lock", token)
                except ConnectionError:
                    pass
        return taken

    def down(g):
        for command in ("set", "eval"):
            fault(g, "COMMAND", command, "DROP")

    down(governors[0])
    down(governors[1])
    assert acquire("first") == 3
    assert acquire("second") == 0
    for g in governors:
        keylatch(g, "CLOCK", "ADVANCE", 10000)
    down(governors[2])
    assert acquire("third") == 2
    assert [g.get("lock") for g in governors] == [None] * 5
    for g in governors[:3]:
        keylatch(g, "FAULT", "CLEAR")
    # A reply that is lost on one node costs no more than that node.
    fault(governors[4], "ON", "after", "COMMAND", "set", "TIMES", 1, "DROP")
    assert acquire("fourth") == 4
    assert governors[4].get("lock") == "fourth"
    # The clocks of three jump: another client gets a majority while the first still believes.
    for g in governors[:3]:
        keylatch(g, "CLOCK", "ADVANCE", 10000)
    assert acquire("fifth") == 3


def main():
    governor = connect()
    keylatch(governor, "CLOCK", "FREEZE", NOW)
    parts = [clock, expired_in_order, seed, error, split, rules, locks_are_seen]
    for part in parts:
        fresh(governor)
        part(governor)
    redlock()
    print(f"{len(parts) + 1} parts ok")


main()
