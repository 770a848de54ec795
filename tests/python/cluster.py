"""redis-py's cluster client against one node that owns all slots (cluster-enabled yes): how it finds
its way, what crosses slots, locks, scripts, pipelines, shard channels. Not here: the replies to the
byte (the differential test)."""
import redis
from kit import PATIENCE, PORT, RELEASE, client, equal, main, refused, text
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException


def clusters(test):
    def each():
        for protocol in (2, 3):
            r = RedisCluster(host="127.0.0.1", port=PORT, protocol=protocol, decode_responses=True)
            r.flushall()
            test(r)
            r.close()

    each.__name__ = test.__name__
    return each


@clusters
def test_it_finds_one_node_with_all_slots(r):
    (node,) = r.get_nodes()
    equal((node.port, node.server_type), (PORT, "primary"))
    equal(r.get_node_from_key("any"), node)
    info = r.cluster_info(target_nodes=node)
    equal((info["cluster_state"], info["cluster_slots_assigned"]), ("ok", "16384"))
    (shard,) = r.cluster_shards()
    equal(len(shard["nodes"]), 1)
    ((address, told),) = r.cluster_nodes().items()
    assert address.endswith(f":{PORT}"), address
    equal((told["slots"], "myself" in told["flags"]), ([["0", "16383"]], True))
    equal(r.keyslot("{x}a"), 16287)
    equal(r.cluster_keyslot("{x}a"), 16287)
    equal(r.cluster_countkeysinslot(16287), 0)
    r.set("{x}a", 1)
    equal(r.cluster_countkeysinslot(16287), 1)
    equal(r.cluster_get_keys_in_slot(16287, 10), ["{x}a"])


@clusters
def test_locks(r):
    lock = r.lock("lock:{order}", timeout=30)
    assert lock.acquire(blocking=False)
    assert not r.lock("lock:{order}", timeout=30).acquire(blocking=False)
    assert lock.extend(5) and lock.reacquire()
    lock.release()
    equal(r.exists("lock:{order}"), 0)
    release = r.register_script(RELEASE)
    assert r.set("lock", "mine", nx=True, px=30_000)
    equal(release(keys=["lock"], args=["other"]), 0)
    equal(release(keys=["lock"], args=["mine"]), 1)


@clusters
def test_what_crosses_slots(r):
    # redis-py itself refuses, or splits; the server refuses what it is sent all the same.
    refused(RedisClusterException, "", r.mget, "a", "b")
    assert r.mset_nonatomic({"a": 1, "b": 2})
    equal(r.mget_nonatomic("a", "b"), ["1", "2"])
    assert r.mset({"{x}a": 1, "{x}b": 2})
    equal(r.mget("{x}a", "{x}b"), ["1", "2"])
    equal(r.delete("a", "b", "{x}a"), 3)
    with client() as raw:
        for command in ("MGET a b", "MSET a 1 b 2", "DEL a b", "RENAME a b", "COPY a b", "EVAL return 2 a b"):
            words = command.split()
            if words[0] == "EVAL":
                words = ["EVAL", "return 1", "2", "a", "b"]
            refused(redis.ResponseError, "Keys in request don't hash to the same slot", raw.execute_command, *words)
        refused(redis.ResponseError, "SELECT is not allowed in cluster mode", raw.execute_command, "SELECT", 1)
        pipe = raw.pipeline()
        pipe.set("a", 1).set("b", 1)
        refused(redis.ResponseError, "don't hash to the same slot", pipe.execute)


@clusters
def test_pipelines_and_transactions(r):
    with r.pipeline() as pipe:
        for number in range(200):
            pipe.set(f"k:{number}", number)
        for number in range(200):
            pipe.get(f"k:{number}")
        answer = pipe.execute()
    equal(answer[:200], [True] * 200)
    equal(answer[200:], [str(number) for number in range(200)])
    with r.pipeline(transaction=True) as pipe:
        pipe.watch("{n}a")
        n = int(pipe.get("{n}a") or 0)
        pipe.multi()
        pipe.set("{n}a", n + 1).incr("{n}b")
        assert pipe.execute() in (["OK", 1], [True, 1])
    equal(len(list(r.scan_iter("k:*"))), 200)
    equal(r.dbsize(), 202)


@clusters
def test_shard_channels(r):
    p = r.pubsub(ignore_subscribe_messages=True)
    p.ssubscribe("news")
    equal(p.get_sharded_message(timeout=0.2), None)
    equal(r.spublish("news", "x"), 1)
    message = p.get_sharded_message(timeout=PATIENCE)
    equal((message["type"], message["channel"], message["data"]), ("smessage", "news", "x"))
    p.sunsubscribe()
    p.close()


def test_from_startup_nodes():
    r = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", PORT)])
    assert r.set("k", "v")
    equal(text(r.get("k")), "v")
    assert r.readonly(target_nodes="all") and r.readwrite(target_nodes="all")
    equal(r.info(target_nodes="primaries")["cluster_enabled"], 1)
    r.close()


if __name__ == "__main__":
    main(globals())
