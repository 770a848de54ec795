//! A script's plan and Lua answer, change and fail alike: scripts made at random run both ways. Which
//! scripts have a plan is told here too, so that none loses it unseen.

use super::plan_text::read;
use super::tests::Bench;
use proptest::prelude::*;
use std::collections::BTreeMap;

const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const PYTHON_RELEASE: &str = "
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    ";

#[test]
fn the_scripts_of_a_lock_have_a_plan() {
    for script in [
        RELEASE,
        PYTHON_RELEASE,
        "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"pexpire\",KEYS[1],ARGV[2]) else return 0 end",
        "-- fencing\nlocal held = redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])\n\
         if held then return redis.call('incr', KEYS[2]) end\nreturn false",
        "return 1",
        "return",
        "",
        "return redis.call('mget', KEYS[1], KEYS[2])",
        "return (1 == 1) and 'yes' or 'no';",
        "local a, b = 1\nif a == b then return 1 elseif not a then return 2 else a = b end return a",
    ] {
        assert!(read(script.as_bytes()).is_some(), "{script}");
    }
}

#[test]
fn what_a_plan_cannot_say_is_left_to_lua() {
    for script in [
        "return #KEYS",
        "return KEYS[ARGV[1]]",
        "return KEYS",
        "return redis.pcall('get', 'x')",
        "return 1 + 1",
        "return 'a' .. 'b'",
        "return 1 < 2",
        "x = 1",
        "return x",
        "local redis = {} return redis.call('x')",
        "local KEYS = {} return KEYS[1]",
        "for i = 1, 2 do end",
        "while true do end",
        "return function() end",
        "return {1}",
        "return 'a\\65'",
        "return 'a\\\nb'",
        "return [[a]]",
        "return 0x10",
        "return 1e3",
        "return 1.5",
        "return -1",
        "--[[ x ]] return 1",
        "--[==[\n]==] return 1",
        "return redis.call('get', 'x')[1]",
        "return redis['call']('get', 'x')",
        "return redis.call'get'",
        "return 1, 2",
        "do return 1 end",
        "return ...",
        "local a = 1 a.b = 2",
        "return redis.call('get', unpack(KEYS))",
        "\x0breturn 1",
        "return 'a",
        "return KEYS[1].x",
        "local function f() end",
        "return tostring(1)",
        "return redis.sha1hex('')",
        "return 4294967296",
    ] {
        assert_eq!(read(script.as_bytes()), None, "{script}");
    }
    let deep = format!("return {}1{}", "(".repeat(200), ")".repeat(200));
    let wide = format!("return 1{}", " == 1".repeat(200));
    let long = format!("return 1 {}", "-- x\n".repeat(1000));
    for script in [deep, wide, long] {
        assert_eq!(read(script.as_bytes()), None);
    }
}

#[test]
fn a_line_ends_where_it_ends_for_lua() {
    for end in ["\n", "\r", "\r\n", "\n\r", "\n\n", "\r\r", "\r\n\r", "\n\r\r\n"] {
        for script in [
            format!("-- a comment{end}return 1"),
            format!("--{end}redis.call('set', 'a', 'two') --{end}return redis.call('get', 'a')"),
            format!("local a = 1{end}if a == 1 then -- b{end}return ARGV[1]{end}end{end}"),
            format!("--{end}{end}redis.call('fail')"), // the error tells its line
            format!("return 1 --{end}"),
        ] {
            assert!(read(script.as_bytes()).is_some(), "{script:?}");
            same_both_ways(&script);
        }
    }
}

/// What a client reads, and what is there afterwards, when the script runs `by_plan` or by Lua.
fn outcome(script: &str, by_plan: bool, resp3: bool) -> (Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut bench = Bench::new();
    bench.host.by_plan = by_plan;
    bench.core.resp3 = resp3;
    for (key, value) in [("a", "one"), ("b", "token"), ("e", "")] {
        bench.core.keys.insert(key.into(), value.into());
    }
    // Twice, so that what the first run leaves would be seen.
    let parts: &[&[u8]] = &[b"eval", script.as_bytes(), b"2", b"a", b"b", b"token", b"one", b""];
    let mut said = bench.run(parts);
    said.extend(bench.run(parts));
    (said, bench.core.keys.into_iter().collect())
}

fn same_both_ways(script: &str) {
    for resp3 in [false, true] {
        let (plan, lua) = (outcome(script, true, resp3), outcome(script, false, resp3));
        assert_eq!(plan, lua, "{script}\n{}\n{}", shown(&plan.0), shown(&lua.0));
    }
}

fn shown(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[test]
fn answers_errors_and_their_lines_are_luas() {
    for script in [
        RELEASE,
        PYTHON_RELEASE,
        "return redis.call()",
        "\n\nreturn redis.call('nosuch')",
        "return redis.call('get')",
        "local x = redis.call('get', KEYS[1])\nredis.call('set', 'y', x)\nredis.call('set',\n 'z',\n nil)",
        "return redis.call('set', 'n', 12)",
        "return redis.call('set', 'n', false)",
        "return redis.call(1)",
        "return redis.call('many', 2)",
        "return redis.call('many', 0)",
        "return redis.call('set3')",
        "return redis.call('truth')",
        "return redis.call('verb')",
        "return redis.call('big')",
        "local a = redis.call('many', 1)\nlocal b = redis.call('many', 1)\nreturn (a == a) ~= (a == b)",
        "local s = redis.call('set', 'k', 'v') if s == 'OK' then return 1 end return s",
        "#!lua flags=no-writes\nreturn redis.call('set', 'k', 'v')",
        "#!lua\nreturn redis.call('get')",
        "return redis.call('get', KEYS[3])",
        "return ARGV[4]",
        "return KEYS[0]",
        "return true",
        "return false",
        "return redis.call('get', 'e') == ''",
        "local a = 1 local a = 2 return a",
        "redis.call('nosuch') -- x",
        "local a = 1 if true then local a = 2 a = 3 end return a",
        "return redis.call('get', 'gone') == false",
        "local a = redis.call('get', 'e') local b = redis.call('get', 'a') return a == b or b",
        "return redis.call(\n'get'\n,\n'a', 'b')",
        "return 'a\\n\\t\\r\\\\\\'\\\"'",
        "return 'a' == nil",
    ] {
        assert!(
            read(script.trim_start_matches("#!lua flags=no-writes").trim_start_matches("#!lua").as_bytes())
                .is_some(),
            "{script}"
        );
        same_both_ways(script);
    }
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "nil", "true", "false", "0", "7", "'token'", "\"one\"", "''", "KEYS[1]", "KEYS[2]", "KEYS[3]",
        "ARGV[1]", "ARGV[2]", "ARGV[3]", "ARGV[0]", "x", "y",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let pair = || (inner.clone(), inner.clone());
        prop_oneof![
            pair().prop_map(|(a, b)| format!("{a} == {b}")),
            pair().prop_map(|(a, b)| format!("{a} ~= {b}")),
            pair().prop_map(|(a, b)| format!("{a} and {b}")),
            pair().prop_map(|(a, b)| format!("{a} or\n{b}")),
            inner.clone().prop_map(|a| format!("not {a}")),
            inner.clone().prop_map(|a| format!("({a})")),
            pair().prop_map(|(a, b)| format!("redis.call('get', {a} or {b})")),
            inner.clone().prop_map(|a| format!("redis.call('del', {a} and 'b')")),
            pair().prop_map(|(a, b)| format!("redis.call('set',\n {a} or 'a', {b} or 'v')")),
            prop::sample::select(vec!["redis.call('many', 2)", "redis.call('set3')", "redis.call('verb')"])
                .prop_map(str::to_owned),
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|all| format!("redis.call({})", all.join(", "))),
        ]
    })
}

fn blocks() -> impl Strategy<Value = String> {
    let statement = prop_oneof![
        expressions().prop_map(|a| format!("local x = {a}")),
        (expressions(), expressions()).prop_map(|(a, b)| format!("local x, y = {a}, {b}")),
        expressions().prop_map(|a| format!("local y, x = {a};")),
        expressions().prop_map(|a| format!("x = {a}")),
        expressions().prop_map(|a| format!("redis.call('set', 'a', {a} or 'w') -- said")),
    ];
    let simple = prop::collection::vec(statement, 0..4).prop_map(|all| all.join("\n"));
    simple.prop_recursive(3, 12, 3, |inner| {
        let end = prop_oneof![Just(String::new()), expressions().prop_map(|a| format!("return {a}"))];
        (inner.clone(), expressions(), inner.clone(), end, inner.clone(), expressions(), inner).prop_map(
            |(before, a, then, end, other, b, after)| {
                format!(
                    "{before}\nif {a} then {then} {end}\nelseif {b} then {other} else x = {b} end\n{after}"
                )
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_plan_and_lua_do_the_same(block in blocks(), last in expressions()) {
        let script = format!("local x, y = 'token'\n{block}\nreturn {last}");
        prop_assume!(script.len() < 4000);
        let compiled = Bench::new().run(&[b"script", b"load", script.as_bytes()]);
        if compiled.starts_with(b"$40") {
            same_both_ways(&script);
        }
    }

    #[test]
    fn no_text_makes_the_reader_fail(pieces in prop::collection::vec(prop::sample::select(vec![
        "if ", "then ", "else ", "end ", "elseif ", "local ", "x ", "= ", "redis", ".", "call", "(", ")", ",", "'a'", "KEYS",
        "[", "1", "]", "==", "~=", "not ", "and ", "or ", "return ", ";", "\n", "--", "\"", "\\", "\u{e9}",
    ]), 0..30)) {
        let text = pieces.concat();
        // What has a plan is Lua: reading says nothing of what Lua would not compile.
        if read(text.as_bytes()).is_some() {
            let loaded = Bench::new().run(&[b"script", b"load", text.as_bytes()]);
            prop_assert!(loaded.starts_with(b"$40"), "{} {}", text, shown(&loaded));
        }
    }
}
