"""redis-py's own lock against the server on loopback at the port given: acquire, refuse, extend,
reacquire, release, lose; RESP2 and RESP3, decoded or not. Exit status 0 when all is as it should be."""
import sys

import redis
from redis.exceptions import LockError, LockNotOwnedError

PORT = int(sys.argv[1])

for protocol in (2, 3):
    for decode in (False, True):
        r = redis.Redis(port=PORT, protocol=protocol, decode_responses=decode)
        r.flushall()
        lock = r.lock("lock:py", timeout=30)
        assert lock.acquire(blocking=False)
        assert lock.owned() and lock.locked()
        other = r.lock("lock:py", timeout=30)
        assert not other.acquire(blocking=False)
        assert 29_000 < r.pttl("lock:py") <= 30_000
        assert lock.extend(30)
        assert 59_000 < r.pttl("lock:py") <= 60_000
        assert lock.extend(10, replace_ttl=True)
        assert 9_000 < r.pttl("lock:py") <= 10_000
        assert lock.reacquire()
        assert 29_000 < r.pttl("lock:py") <= 30_000
        try:
            other.release()
            raise SystemExit("a lock that was never held could be released")
        except LockError:
            pass
        r.set("lock:py", "thief", px=5000)
        for late in (lock.release, lambda: lock.extend(5), lock.reacquire):
            try:
                late()
                raise SystemExit("a stolen lock could still be used")
            except LockNotOwnedError:
                lock.local.token = lock.local.token or b"gone"
        assert r.get("lock:py") in (b"thief", "thief")
        r.delete("lock:py")
        assert r.ttl("lock:py") == -2
        with r.pipeline(transaction=False) as pipe:
            pipe.set("a", 1).incr("a").pttl("a").get("none")
            assert pipe.execute() == [True, 2, -1, None]
        release = r.register_script(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end"
        )
        r.set("l", "mine", nx=True, px=30_000)
        assert release(keys=["l"], args=["other"]) == 0
        assert release(keys=["l"], args=["mine"]) == 1
        r.mset({f"lock:{i}": i for i in range(300)})
        assert len(set(r.scan_iter("lock:*"))) == 300
        info = r.info()
        assert info["db0"]["keys"] == 301 and info["redis_mode"] == "standalone", info
        assert r.client_list()[0]["addr"]
        assert r.config_get("maxmemory*")["maxmemory"] == "0"
        r.close()
print("redis-py: all as it should be")
