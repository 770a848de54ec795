"""Scripts and functions through redis-py: registered scripts, the cache, what crosses into Lua and back,
libraries, what is refused. Not here: the language itself (the differential test)."""
import threading

import redis
from kit import RELEASE, client, equal, main, protocols, refused, text, together, until
from redis.exceptions import NoScriptError

LIBRARY = """#!lua name=locks
redis.register_function('release', function(keys, args)
  if redis.call('get', keys[1]) ~= args[1] then return 0 end
  return redis.call('del', keys[1])
end)
redis.register_function{
  function_name = 'held',
  callback = function(keys) return redis.call('exists', keys[1]) end,
  flags = {'no-writes'},
}
"""


@protocols
def test_registered_scripts(r):
    release = r.register_script(RELEASE)
    r.script_flush()
    equal(r.script_exists(release.sha), [False])
    r.set("lock", "mine")
    equal(release(keys=["lock"], args=["other"]), 0)
    equal(r.script_exists(release.sha, "0" * 40), [True, False])
    equal(release(keys=["lock"], args=["mine"]), 1)
    equal(text(r.script_load(RELEASE)), release.sha)
    # In a pipeline redis-py asks which scripts are there, and loads what is missing.
    r.script_flush()
    with r.pipeline() as pipe:
        pipe.set("lock", "mine")
        release(keys=["lock"], args=["mine"], client=pipe)
        equal(pipe.execute(), [True, 1])
    r.script_flush("ASYNC")
    refused(NoScriptError, "No matching script", r.evalsha, release.sha, 1, "lock", "mine")


@protocols
def test_what_comes_back(r):
    for script, wanted in (
        ("return 1", 1),
        ("return 'text'", "text"),
        ("return {1, {2, 'three'}, 'four'}", [1, [2, "three"], "four"]),
        ("return {1, nil, 3}", [1]),
        ("return false", None),
        ("return true", 1),
        ("return 3.99", 3),
        ("return redis.status_reply('FINE')", "FINE"),
        ("return {ok = 'GOOD'}", "GOOD"),
        ("return redis.call('mget', 'none', 'none')", [None, None]),
        ("return redis.sha1hex('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("return {#KEYS, #ARGV, KEYS[1], ARGV[2]}", [1, 2, "k", "b"]),
    ):
        equal(text(r.eval(script, 1, "k", "a", "b")), wanted)
    for script, wanted in (
        ("return redis.error_reply('LOCKED by another')", "LOCKED by another"),
        ("return {err = 'OOPS'}", "OOPS"),
        ("return redis.call('get')", "Wrong number of args calling Redis command from script"),
        ("return redis.call('nosuch')", "Unknown Redis command called from script"),
        ("return nosuch", "Script attempted to access nonexistent global variable 'nosuch'"),
        ("this is not Lua", "Error compiling script (new function)"),
    ):
        refused(redis.ResponseError, wanted, r.eval, script, 1, "k")
    equal(text(r.eval("return redis.pcall('incr', KEYS[1]).err", 1, "k")) if r.set("k", "x") else None,
          "ERR value is not an integer or out of range")


@protocols
def test_read_only(r):
    r.set("k", "v")
    equal(text(r.eval_ro("return redis.call('get', KEYS[1])", 1, "k")), "v")
    refused(
        redis.ResponseError,
        "Write commands are not allowed from read-only scripts",
        r.eval_ro,
        "return redis.call('del', KEYS[1])",
        1,
        "k",
    )
    equal(r.exists("k"), 1)


@protocols
def test_functions(r):
    r.function_flush()
    equal(text(r.function_load(LIBRARY)), "locks")
    refused(redis.ResponseError, "Library 'locks' already exists", r.function_load, LIBRARY)
    equal(text(r.function_load(LIBRARY, replace=True)), "locks")
    r.set("lock", "mine")
    equal(r.fcall("release", 1, "lock", "other"), 0)
    equal(r.fcall_ro("held", 1, "lock"), 1)
    refused(redis.ResponseError, "Can not execute a script with write flag", r.fcall_ro, "release", 1, "lock", "mine")
    equal(r.fcall("release", 1, "lock", "mine"), 1)
    refused(redis.ResponseError, "Function not found", r.fcall, "nosuch", 0)
    listed = text(r.function_list(library="lo*"))[0]
    flat = listed if isinstance(listed, dict) else dict(zip(listed[::2], listed[1::2]))
    equal((flat["library_name"], flat["engine"], len(flat["functions"])), ("locks", "LUA", 2))
    with client() as raw:
        dump = raw.function_dump()
        assert raw.function_delete("locks")
        equal(raw.function_list(), [])
        assert raw.function_restore(dump)
        equal(raw.fcall_ro("held", 1, "lock"), 0)
    r.function_flush()
    equal(r.function_list(), [])


def test_a_script_that_overruns():
    with client() as r, client() as other, client(client_name="runner") as runner:
        r.config_set("busy-reply-threshold", 20)
        failed = []

        def run():
            try:
                runner.eval("while true do end", 0)
            except redis.ResponseError as e:
                failed.append(str(e))

        thread = threading.Thread(target=run)
        thread.start()

        def busy():
            try:
                other.get("k")
            except redis.exceptions.ResponseError as e:
                return "Redis is busy running a script" in str(e)

        until("the server to be busy", busy)
        assert r.script_kill()
        thread.join()
        assert "Error running script" in failed[0] or "Script killed by user" in failed[0], failed
        equal(other.get("k"), None)
        refused(redis.ResponseError, "No scripts in execution right now", r.script_kill)
        r.config_set("busy-reply-threshold", 5000)


def test_scripts_are_atomic():
    def work(_):
        with client() as r:
            add = r.register_script(
                "local n = tonumber(redis.call('get', KEYS[1]) or 0) redis.call('set', KEYS[1], n + 1) return n"
            )
            for _ in range(20):
                add(keys=["n"])

    together(work, 30)
    with client() as r:
        equal(r.get("n"), b"600")


if __name__ == "__main__":
    main(globals())
