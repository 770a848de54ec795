"""WATCH, MULTI and pipelines through redis-py: fifty clients that retry and lose nothing, what breaks a
watch, what a transaction answers and refuses. Not here: the same on raw sockets."""
import redis
from kit import client, equal, main, protocols, refused, together


def test_fifty_clients_lose_no_update():
    clients, each = 50, 6

    def work(_):
        with client() as r:
            for _ in range(each):
                with r.pipeline() as pipe:
                    while True:
                        try:
                            pipe.watch("counter")
                            n = int(pipe.get("counter") or 0)
                            pipe.multi()
                            pipe.set("counter", n + 1)
                            pipe.execute()
                            break
                        except redis.WatchError:
                            pass

    together(work, clients)
    with client() as r:
        equal(int(r.get("counter")), clients * each)


def test_fifty_clients_of_the_transaction_helper():
    # Two accounts whose sum stays, by redis-py's own retry loop.
    with client() as r:
        r.mset({"from": 1000, "to": 0})

    def work(_):
        def move(pipe):
            one, other = int(pipe.get("from")), int(pipe.get("to"))
            pipe.multi()
            pipe.mset({"from": one - 1, "to": other + 1})

        with client(protocol=2) as r:
            for _ in range(5):
                equal(r.transaction(move, "from", "to"), [True])

    together(work, 50)
    with client() as r:
        equal(r.mget("from", "to"), [b"750", b"250"])


def test_fifty_clients_with_a_lock_that_expires():
    # A lock taken in a transaction: WATCH, look, take it. Only the holder touches the counter.
    def work(number):
        with client() as r:
            for _ in range(3):
                while True:
                    with r.pipeline() as pipe:
                        try:
                            pipe.watch("lock")
                            if pipe.get("lock") is not None:
                                pipe.reset()
                                continue
                            pipe.multi()
                            pipe.set("lock", number, px=60_000)
                            pipe.execute()
                            break
                        except redis.WatchError:
                            continue
                r.set("counter", int(r.get("counter") or 0) + 1)
                equal(int(r.get("lock")), number)
                equal(r.delete("lock"), 1)

    together(work, 50)
    with client() as r:
        equal(int(r.get("counter")), 150)


@protocols
def test_what_breaks_a_watch(r):
    breaking = [
        lambda: r.set("k", 2),
        lambda: r.delete("k"),
        lambda: r.expire("k", 100),
        lambda: r.rename("k", "j"),
        lambda: r.rename("other", "k"),
        lambda: r.flushall(),
        lambda: r.flushdb(),
        lambda: r.swapdb(0, 1),
        lambda: r.move("k", 1),
        lambda: r.copy("other", "k", replace=True),
        lambda: r.pexpire("k", -1),
        lambda: r.eval("return redis.call('set', KEYS[1], 1)", 1, "k"),
        lambda: r.getex("k", px=1000),
    ]
    harmless = [
        lambda: r.set("other", 2),
        lambda: r.get("k"),
        lambda: r.set("k", 2, nx=True),
        lambda: r.persist("k"),
        lambda: r.delete("none"),
    ]
    for number, change in enumerate(breaking + harmless):
        r.flushall()
        r.mset({"k": 1, "other": 1})
        with r.pipeline() as pipe:
            pipe.watch("k")
            change()
            pipe.multi()
            pipe.echo("x")
            if number < len(breaking):
                refused(redis.WatchError, "Watched variable changed", pipe.execute)
            else:
                assert pipe.execute() in ([b"x"], ["x"]), number


@protocols
def test_unwatch_and_reset(r):
    r.set("k", 1)
    with r.pipeline() as pipe:
        pipe.watch("k")
        r.set("k", 2)
        pipe.unwatch()
        pipe.multi()
        pipe.incr("k")
        equal(pipe.execute(), [3])
        pipe.watch("k")
        r.set("k", 5)
    # The pipe is gone, and its watch with it: the same connection goes on without.
    with r.pipeline() as pipe:
        equal(pipe.incr("k").execute(), [6])


@protocols
def test_transactions(r):
    with r.pipeline(transaction=True) as pipe:
        pipe.set("a", 1).incr("a").get("none").pttl("a").mget("a", "none").exists("a", "a")
        answer = pipe.execute()
        equal(answer[:4], [True, 2, None, -1])
        assert answer[4] in ([b"2", None], ["2", None])
        equal(answer[5], 2)
    # One command fails while it runs: the others have run.
    with r.pipeline() as pipe:
        pipe.set("word", "x").incr("word").set("after", 1)
        answer = pipe.execute(raise_on_error=False)
        equal((answer[0], answer[2]), (True, True))
        equal(str(answer[1]), "value is not an integer or out of range")
        pipe.set("word", "y").incr("word")
        refused(redis.ResponseError, "Command # 2 (INCRBY word 1) of pipeline", pipe.execute)
        # What is refused when it is queued discards all.
        pipe.set("never", 1).execute_command("GET").set("never", 2)
        refused(redis.ResponseError, "wrong number of arguments for 'get' command", pipe.execute)
        equal(r.exists("never"), 0)
    equal(r.pipeline().execute(), [])


@protocols
def test_what_a_transaction_refuses(r):
    connection = r.connection_pool.get_connection()

    def say(*words):
        connection.send_command(*words)
        return connection.read_response()

    try:
        refused(redis.ResponseError, "EXEC without MULTI", say, "EXEC")
        refused(redis.ResponseError, "DISCARD without MULTI", say, "DISCARD")
        say("MULTI")
        refused(redis.ResponseError, "MULTI calls can not be nested", say, "MULTI")
        refused(redis.ResponseError, "WATCH inside MULTI is not allowed", say, "WATCH", "k")
        refused(redis.ResponseError, "unknown command 'NOSUCH'", say, "NOSUCH")
        refused(redis.exceptions.ExecAbortError, "Transaction discarded because of previous errors.", say, "EXEC")
        refused(redis.ResponseError, "EXEC without MULTI", say, "EXEC")
    finally:
        connection.disconnect()
        r.connection_pool.release(connection)


@protocols
def test_pipelines_without_transaction(r):
    with r.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"k:{number}", number)
        for number in range(1000):
            pipe.get(f"k:{number}")
        pipe.incr("k:1").execute_command("NOSUCH").incr("k:1")
        answer = pipe.execute(raise_on_error=False)
    equal(answer[:1000], [True] * 1000)
    equal([int(one) for one in answer[1000:2000]], list(range(1000)))
    equal((answer[2000], answer[2002]), (2, 3))
    assert isinstance(answer[2001], redis.ResponseError)


if __name__ == "__main__":
    main(globals())
