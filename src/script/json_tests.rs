//! `cjson` as a script meets it. Every answer was asked of redis-server 7.0.15; far more of them are
//! compared in `tests/scripting`.

use super::tests::Bench;

/// What `return EXPRESSION` answers; an error without its tail and position.
fn answer(bench: &mut Bench, expression: &str) -> String {
    bench.error(&format!("return {expression}")).replace("-ERR user_script:1: ", "-")
}

fn check(bench: &mut Bench, cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        assert_eq!(answer(bench, expression), *expected, "{expression}");
    }
}

#[test]
fn values_become_json() {
    check(
        &mut Bench::new(),
        &[
            ("cjson.encode({1, 'a', true})", "$12\r\n[1,\"a\",true]"),
            (
                "cjson.encode('\"\\\\/\\127\\0\\b\\t\\n\\f\\r\\27')",
                "$36\r\n\"\\\"\\\\\\/\\u007f\\u0000\\b\\t\\n\\f\\r\\u001b\"",
            ),
            ("cjson.encode({})", "$2\r\n{}"),
            ("cjson.encode({{}})", "$4\r\n[{}]"),
            ("cjson.encode(cjson.null)", "$4\r\nnull"),
            ("cjson.encode({[1]=1,[2]=2,[4]=4})", "$12\r\n[1,2,null,4]"),
            ("cjson.encode({[0]=1})", "$7\r\n{\"0\":1}"),
            ("cjson.encode({[2^31]=1})", "$16\r\n{\"2147483648\":1}"),
            ("cjson.encode(-0)", "$2\r\n-0"),
            ("cjson.encode(123456789012345678)", "$19\r\n1.2345678901235e+17"),
            ("cjson.encode({[11]=1})", "-Cannot serialise table: excessively sparse array"),
            ("cjson.encode({[true]=1})", "-Cannot serialise boolean: table key must be a number or string"),
            ("cjson.encode({f=string.len})", "-Cannot serialise function: type not supported"),
            ("cjson.encode(string)", "-Cannot serialise function: type not supported"),
            ("cjson.encode(1/0)", "-Cannot serialise number: must not be NaN or Inf"),
            ("cjson.encode(1,2)", "-bad argument #1 to 'encode' (expected 1 argument)"),
        ],
    );
}

#[test]
fn json_becomes_values() {
    check(
        &mut Bench::new(),
        &[
            ("cjson.decode(' [1, 2.9 ,\"x\",{}]')", "*4\r\n:1\r\n:2\r\n$1\r\nx\r\n*0"),
            ("cjson.decode('{\"a\":1,\"a\":2}').a", ":2"),
            ("cjson.decode('\"\\\\uD83D\\\\uDE00\\\\u00e9\"')", "$6\r\n😀é"),
            ("cjson.decode('[null]')[1] == cjson.null", ":1"),
            ("tostring(cjson.decode('-Infinity'))", "$4\r\n-inf"),
            ("tostring(cjson.decode('+0x1p3'))", "$1\r\n8"),
            ("cjson.decode('[1]\\0rest')", "*1\r\n:1"),
            ("cjson.decode('')", "-Expected value but found T_END at character 1"),
            ("cjson.decode('[1,]')", "-Expected value but found T_ARR_END at character 4"),
            ("cjson.decode('[1 2]')", "-Expected comma or array end but found T_NUMBER at character 4"),
            ("cjson.decode('{\"a\" 1}')", "-Expected colon but found T_NUMBER at character 6"),
            ("cjson.decode('{1:1}')", "-Expected object key string but found T_NUMBER at character 2"),
            ("cjson.decode('1 2')", "-Expected the end but found T_NUMBER at character 3"),
            ("cjson.decode('\"ab\\\\x\"')", "-Expected value but found invalid escape code at character 4"),
            (
                "cjson.decode('\"\\\\uDE00\"')",
                "-Expected value but found invalid unicode escape code at character 2",
            ),
            ("cjson.decode('\"abc')", "-Expected value but found unexpected end of string at character 5"),
            ("cjson.decode('-x')", "-Expected value but found invalid number at character 1"),
            ("cjson.decode('\\0\"a\"')", "-JSON parser does not support UTF-16 or UTF-32"),
        ],
    );
}

#[test]
fn settings_stay_until_the_scripts_are_flushed() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        &[
            ("cjson.encode_max_depth(3)", ":3"),
            ("cjson.encode({{{}}})", "$6\r\n[[{}]]"),
            ("cjson.encode({{{{}}}})", "-Cannot serialise, excessive nesting (4)"),
            ("cjson.encode_number_precision(3)", ":3"),
            ("cjson.encode({1.2345, 1000})", "$12\r\n[1.23,1e+03]"),
            ("cjson.encode_invalid_numbers('null')", "$4\r\nnull"),
            ("cjson.encode({0/0, 1/0})", "$11\r\n[null,null]"),
            ("cjson.new().encode(1.2345)", "$6\r\n1.2345"),
            ("cjson.decode_invalid_numbers('off')", "$-1"),
            ("cjson.decode('01')", "-Expected value but found invalid number at character 1"),
            ("{cjson.encode_sparse_array(true, 0)}", "*3\r\n:1\r\n:0\r\n:10"),
            (
                "cjson.encode_number_precision(15)",
                "-bad argument #1 to 'encode_number_precision' (expected integer between 1 and 14)",
            ),
            (
                "cjson.encode_sparse_array(nil, 1, -1)",
                "-bad argument #1 to 'encode_sparse_array' (expected integer between 0 and 2147483647)",
            ),
            (
                "cjson.encode_keep_buffer('x')",
                "-bad argument #1 to 'encode_keep_buffer' (invalid option 'x')",
            ),
            (
                "cjson.encode_max_depth(1, 2)",
                "-bad argument #2 to 'encode_max_depth' (found too many arguments)",
            ),
        ],
    );
    assert_eq!(bench.run(&[b"script", b"flush"]), b"+OK\r\n");
    check(
        &mut bench,
        &[("cjson.encode_max_depth()", ":1000"), ("cjson.encode({1.2345, 1000})", "$13\r\n[1.2345,1000]")],
    );
}

#[test]
fn depth_ends_where_luas_stack_ends() {
    let mut bench = Bench::new();
    check(
        &mut bench,
        &[
            ("cjson.encode_max_depth(2^31-1) + cjson.decode_max_depth(2^31-1)", ":4294967294"),
            (
                "(function() local t={} t[1]=t return cjson.encode(t) end)()",
                "-Cannot serialise, excessive nesting (7998)",
            ),
            (
                "(function() local t={} t.x=t return cjson.encode(t) end)()",
                "-Cannot serialise, excessive nesting (4000)",
            ),
            (
                "cjson.decode(string.rep('[',100000))",
                "-Found too many nested data structures (7999) at character 7999",
            ),
            (
                "cjson.decode(string.rep('{\"a\":',100000))",
                "-Found too many nested data structures (4000) at character 19996",
            ),
        ],
    );
}

#[test]
fn a_result_that_is_too_large_is_out_of_memory() {
    let mut bench = Bench::new();
    bench.core.memory_limit = 4 << 20;
    // Thirty tables, each twice in the next: 2^30 items.
    let script = "local t = {} for _ = 1, 30 do t = {t, t} end return cjson.encode(t)";
    assert!(bench.error(script).contains("not enough memory"), "{}", bench.error(script));
    let hole = "cjson.encode_sparse_array(false, 0) return cjson.encode({[2^31-1]=1})";
    assert!(bench.error(hole).contains("not enough memory"));
    assert_eq!(bench.eval("return cjson.encode({1})"), "$3\r\n[1]\r\n");
    assert!(bench.host.shared.scratch.capacity() <= 1 << 16);
}

#[test]
fn a_long_encoding_can_be_killed() {
    let mut bench = Bench::new();
    bench.core.memory_limit = 1 << 30;
    bench.core.kill_after = Some(3);
    let script = "local t = {} for _ = 1, 40 do t = {t, t} end pcall(cjson.encode, t) return 1";
    assert_eq!(bench.error(script), "-ERR Script killed by user with SCRIPT KILL...");
}
