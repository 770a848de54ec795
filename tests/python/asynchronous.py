"""redis.asyncio against the server: many tasks on one pool, locks, pub/sub, pipelines, WATCH, scripts,
a cluster client is left to cluster.py. Not here: what the blocking client already shows."""
import asyncio

import redis.asyncio as redis
from kit import PATIENCE, PORT, RELEASE, equal, main, text
from redis.exceptions import LockNotOwnedError, WatchError


def tasks(test):
    """The coroutine once for each protocol, with a client that speaks it."""

    def each():
        async def run(protocol):
            async with redis.Redis(port=PORT, protocol=protocol, max_connections=200) as r:
                await r.flushall()
                await test(r)

        for protocol in (2, 3):
            asyncio.run(run(protocol))

    each.__name__ = test.__name__
    return each


@tasks
async def test_locks(r):
    lock = r.lock("lock", timeout=30)
    assert await lock.acquire(blocking=False)
    assert await lock.owned() and await lock.locked()
    assert not await r.lock("lock", timeout=30).acquire(blocking=False)
    assert await lock.extend(5) and await lock.reacquire()
    assert 29_000 < await r.pttl("lock") <= 30_000
    await r.set("lock", "thief")
    try:
        await lock.release()
        raise AssertionError("a stolen lock could be released")
    except LockNotOwnedError:
        pass
    equal(await r.get("lock"), b"thief")


@tasks
async def test_fifty_tasks_contend_for_one_lock(r):
    async def work():
        for _ in range(3):
            async with r.lock("lock", timeout=60, sleep=0.002):
                await r.set("counter", int(await r.get("counter") or 0) + 1)

    await asyncio.gather(*(work() for _ in range(50)))
    equal(await r.get("counter"), b"150")


@tasks
async def test_fifty_tasks_retry_and_lose_no_update(r):
    async def work():
        for _ in range(4):
            async with r.pipeline(transaction=True) as pipe:
                while True:
                    try:
                        await pipe.watch("counter")
                        n = int(await pipe.get("counter") or 0)
                        pipe.multi()
                        pipe.set("counter", n + 1)
                        await pipe.execute()
                        break
                    except WatchError:
                        continue

    await asyncio.gather(*(work() for _ in range(50)))
    equal(await r.get("counter"), b"200")


@tasks
async def test_a_lock_is_handed_over(r):
    await r.config_set("notify-keyspace-events", "Ex")
    assert await r.set("lock", "one", nx=True, px=60)
    async with r.pubsub() as p:
        await p.subscribe("__keyevent@0__:expired", "lock")
        for _ in range(2):
            equal((await p.get_message(timeout=PATIENCE))["type"], "subscribe")
        message = await p.get_message(timeout=PATIENCE)
        equal((message["channel"], message["data"]), (b"__keyevent@0__:expired", b"lock"))
        assert await r.set("lock", "two", nx=True, px=30_000)
        equal(await r.publish("lock", "released"), 1)
        equal((await p.get_message(timeout=PATIENCE))["data"], b"released")
    await r.config_set("notify-keyspace-events", "")


@tasks
async def test_pipelines_scripts_and_scans(r):
    async with r.pipeline(transaction=False) as pipe:
        for number in range(300):
            pipe.set(f"k:{number}", number)
        equal(await pipe.execute(), [True] * 300)
    equal(len({key async for key in r.scan_iter("k:*", count=11)}), 300)
    release = r.register_script(RELEASE)
    await r.script_flush()
    await r.set("lock", "mine")
    equal([await release(keys=["lock"], args=[token]) for token in ("other", "mine")], [0, 1])
    equal(text(await r.echo("x")), "x")


@tasks
async def test_a_cancelled_task_leaves_the_pool_whole(r):
    # The reply to a request nobody waits for any more must not be taken for another's.
    await r.set("k", "v")
    waiting = asyncio.create_task(r.wait(1, 300))
    await asyncio.sleep(0.01)
    waiting.cancel()
    try:
        await waiting
    except asyncio.CancelledError:
        pass
    equal(await asyncio.gather(*(r.get("k") for _ in range(20))), [b"v"] * 20)


if __name__ == "__main__":
    main(globals())
