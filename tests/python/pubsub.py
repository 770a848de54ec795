"""Channels, patterns and shard channels through redis-py, in RESP2 and RESP3: what is confirmed, what
arrives, what is refused meanwhile, keyspace notifications. Not here: locks handed over (handover.py)."""
import redis
from kit import PATIENCE, client, equal, main, protocols, refused, text, until


def take(p, count, **options):
    """The next messages, as (type, pattern, channel, data)."""
    found = []
    for _ in range(count):
        message = p.get_message(timeout=PATIENCE, **options)
        assert message is not None, f"only {found}"
        found.append(tuple(text(message[part]) for part in ("type", "pattern", "channel", "data")))
    return found


@protocols
def test_channels(r):
    p = r.pubsub()
    p.subscribe("a", "b")
    p.subscribe("a")
    equal(take(p, 3), [("subscribe", None, "a", 1), ("subscribe", None, "b", 2), ("subscribe", None, "a", 2)])
    equal(r.publish("a", "one"), 1)
    equal(r.publish("b", b"\x00\r\n"), 1)
    equal(r.publish("none", "x"), 0)
    equal(take(p, 2), [("message", None, "a", "one"), ("message", None, "b", "\x00\r\n")])
    equal(sorted(text(r.pubsub_channels())), ["a", "b"])
    equal(text(r.pubsub_channels("b*")), ["b"])
    equal(text(r.pubsub_numsub("a", "none")), [["a", 1], ["none", 0]])
    p.unsubscribe("a")
    equal(take(p, 1), [("unsubscribe", None, "a", 1)])
    equal(r.publish("a", "late"), 0)
    p.unsubscribe()
    equal(take(p, 1), [("unsubscribe", None, "b", 0)])
    assert not p.subscribed
    # What was a subscriber is a client like any other again.
    equal(text(r.pubsub_channels()), [])
    p.subscribe("c")
    equal(take(p, 1), [("subscribe", None, "c", 1)])
    p.close()
    until("the connection's subscriptions to be gone", lambda: not r.pubsub_channels())


@protocols
def test_patterns(r):
    p = r.pubsub()
    p.psubscribe("n?ws", "lock:*")
    equal(sorted(take(p, 2)), [("psubscribe", None, "lock:*", 2), ("psubscribe", None, "n?ws", 1)])
    p.subscribe("news")
    equal(take(p, 1), [("subscribe", None, "news", 3)])
    equal(r.pubsub_numpat(), 2)
    equal(r.publish("news", "x"), 2)
    equal(take(p, 2), [("message", None, "news", "x"), ("pmessage", "n?ws", "news", "x")])
    equal(r.publish("lock:1", "freed"), 1)
    equal(take(p, 1), [("pmessage", "lock:*", "lock:1", "freed")])
    p.punsubscribe("n?ws")
    equal(take(p, 1), [("punsubscribe", None, "n?ws", 2)])
    p.punsubscribe()
    equal(take(p, 1), [("punsubscribe", None, "lock:*", 1)])
    equal(r.pubsub_numpat(), 0)
    p.close()


@protocols
def test_shard_channels(r):
    p = r.pubsub()
    p.ssubscribe("s1")
    equal(take(p, 1), [("ssubscribe", None, "s1", 1)])
    p.subscribe("s1")
    equal(take(p, 1), [("subscribe", None, "s1", 1)])
    # The two kinds of channel know nothing of each other.
    equal(r.publish("s1", "plain"), 1)
    equal(r.spublish("s1", "shard"), 1)
    equal(take(p, 2), [("message", None, "s1", "plain"), ("smessage", None, "s1", "shard")])
    equal(text(r.pubsub_shardchannels()), ["s1"])
    equal(text(r.pubsub_shardnumsub("s1", "s2")), [["s1", 1], ["s2", 0]])
    p.sunsubscribe("s1")
    equal(take(p, 1), [("sunsubscribe", None, "s1", 0)])
    equal(r.spublish("s1", "late"), 0)
    p.close()


@protocols
def test_handlers_and_a_thread(r):
    got = []
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe(**{"a": lambda message: got.append(text(message["data"]))})
    p.psubscribe(**{"b*": lambda message: got.append(text(message["channel"]))})
    thread = p.run_in_thread(sleep_time=0.01)
    until("both subscriptions", lambda: r.pubsub_numpat() == 1 and r.pubsub_channels("a"))
    for number in range(100):
        r.publish("a", number)
    r.publish("bee", "x")
    until("all messages", lambda: len(got) == 101)
    equal(got, [str(number) for number in range(100)] + ["bee"])
    thread.stop()
    thread.join()


def test_a_ping_while_subscribed():
    # RESP2 only: redis-py does not take RESP3's plain answer for a message.
    with client(protocol=2) as r:
        p = r.pubsub()
        p.subscribe("a")
        equal(take(p, 1), [("subscribe", None, "a", 1)])
        p.ping("are you there")
        p.ping()
        equal([(message[0], message[3]) for message in take(p, 2)], [("pong", "are you there"), ("pong", "")])
        p.close()


def test_what_a_subscriber_may_send():
    # In RESP2 next to nothing, in RESP3 all.
    with client(protocol=2) as r:
        connection = r.connection_pool.get_connection()
        connection.send_command("SUBSCRIBE", "a")
        connection.read_response()
        connection.send_command("GET", "k")
        refused(
            redis.ResponseError,
            "Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            connection.read_response,
        )
        connection.send_command("RESET")
        equal(connection.read_response(), b"RESET")
        connection.send_command("GET", "k")
        equal(connection.read_response(), None)
    with client(protocol=3) as r:
        connection = r.connection_pool.get_connection()
        connection.send_command("SUBSCRIBE", "a")
        equal(connection.read_response(push_request=True), [b"subscribe", b"a", 1])
        connection.send_command("SET", "k", "v")
        equal(connection.read_response(), b"OK")


@protocols
def test_publishing_from_scripts_and_transactions(r):
    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe("a")
    until("the subscription", lambda: r.pubsub_channels())
    p.get_message()
    equal(r.eval("redis.call('publish', 'a', 'first') return redis.call('publish', 'a', ARGV[1])", 0, "second"), 1)
    with r.pipeline() as pipe:
        pipe.publish("a", "third").publish("none", "x").publish("a", "fourth")
        equal(pipe.execute(), [1, 0, 1])
    equal([message[3] for message in take(p, 4)], ["first", "second", "third", "fourth"])
    p.close()


@protocols
def test_events_of_a_lock(r):
    r.config_set("notify-keyspace-events", "KEA")
    p = r.pubsub(ignore_subscribe_messages=True)
    p.psubscribe("__key*__:*")
    until("the subscription", lambda: r.pubsub_numpat())
    p.get_message()
    r.set("lock", "me", nx=True, px=60_000)
    r.set("lock", "you", nx=True, px=60_000)
    r.pexpire("lock", 50_000)
    r.eval("return redis.call('del', KEYS[1])", 1, "lock")
    both = []
    for event in ("set", "expire", "expire", "del"):
        both += [("__keyspace@0__:lock", event), (f"__keyevent@0__:{event}", "lock")]
    equal([message[2:] for message in take(p, 8)], both)
    r.set("brief", "x", px=30)
    take(p, 4)
    # Nobody asks for it: the active cycle removes it, once.
    equal(
        [message[2:] for message in take(p, 2)],
        [("__keyspace@0__:brief", "expired"), ("__keyevent@0__:expired", "brief")],
    )
    equal(r.get("brief"), None)
    equal(p.get_message(timeout=0.05), None)
    p.close()
    r.config_set("notify-keyspace-events", "")


def test_a_slow_subscriber_is_cut_off():
    with client() as r:
        r.config_set("client-output-buffer-limit", "pubsub 1048576 0 0")
        p = r.pubsub()
        p.subscribe("a")
        take(p, 1)
        chunk = "x" * 65536
        until("it to be cut off", lambda: r.publish("a", chunk) == 0)
        equal(text(r.pubsub_channels()), [])
        r.config_set("client-output-buffer-limit", "pubsub 33554432 8388608 60")


def test_a_subscriber_comes_back_by_itself():
    with client() as r:
        p = r.pubsub()
        p.subscribe("a")
        p.psubscribe("b*")
        take(p, 2)
        equal(r.client_kill_filter(_type="pubsub"), 1)
        # redis-py connects anew and subscribes again, as soon as it reads.
        take(p, 2)
        equal((r.publish("a", "x"), r.publish("bee", "y")), (1, 1))
        equal([message[3] for message in take(p, 2)], ["x", "y"])
        p.close()


if __name__ == "__main__":
    main(globals())
