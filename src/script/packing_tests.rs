//! `struct` and `cmsgpack` as a script meets them. Every answer was asked of redis-server 7.0.15; far
//! more of them are compared in `tests/scripting`.

use super::tests::Bench;

/// What `return EXPRESSION` answers, as Lua writes a string; an error without its tail and position.
fn check(cases: &[(&str, &str)]) {
    let mut bench = Bench::new();
    for (expression, expected) in cases {
        let out = bench.run(&[b"eval", format!("return {expression}").as_bytes(), b"0"]);
        let out = out.escape_ascii().to_string();
        let out = out.split(" script: ").next().unwrap_or_default().replace("user_script:1: ", "");
        let out = out.trim_end_matches("\\r\\n").replace("\\r\\n", " ");
        assert_eq!(out.replace("\\'", "'"), *expected, "{expression}");
    }
}

#[test]
fn structures_are_packed_and_unpacked() {
    check(&[
        ("struct.pack('>h<hh', 1, 1, 65537)", r"$6 \x00\x01\x01\x00\x01\x00"),
        ("struct.pack('!bi', 1, 2)", r"$8 \x01\x00\x00\x00\x02\x00\x00\x00"),
        ("struct.pack('!2bi3', 1, 2)", r"$5 \x01\x00\x02\x00\x00"),
        ("struct.pack('i16', -1)", r"$16 \xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"),
        ("struct.pack('>f', 1.5)..struct.pack('>d', 1.5)", r"$12 ?\xc0\x00\x00?\xf8\x00\x00\x00\x00\x00\x00"),
        (
            "struct.pack('I8i8', 2^63, -1e300)",
            r"$16 \x00\x00\x00\x00\x00\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00\x80",
        ),
        ("struct.pack('sc2c0', 'ab', 'cde', 'fg')", r"$7 ab\x00cdfg"),
        ("struct.pack('c4', 'abc')", "-ERR bad argument #3 to 'pack' (string too short)"),
        ("struct.pack('ii', 1)", "-ERR bad argument #3 to 'pack' (number expected, got nil)"),
        ("struct.pack('z')", "-ERR bad argument #1 to 'pack' (invalid format option 'z')"),
        ("struct.pack('!3')", "-ERR alignment 3 is not a power of 2"),
        ("struct.pack('i33', 1)", "-ERR integral size 33 is larger than limit of 32"),
        ("struct.pack('c2147483648', 1)", "-ERR integral size overflow"),
        ("struct.size('!bhlLTfdiI')", ":56"),
        ("struct.size('c2147483647c2147483647c2147483647')", ":6442450941"),
        ("struct.size('s')", "-ERR bad argument #1 to 'size' (option 's' has no fixed size)"),
        ("{struct.unpack('bhi', '\\1\\2\\0\\3\\0\\0\\0')}", "*4 :1 :2 :3 :8"),
        ("{struct.unpack('>i9', string.rep('\\255', 8)..'\\1')}", "*2 :-127 :10"),
        ("{struct.unpack('Bc0', '\\2abc')}", "*2 $2 ab :4"),
        ("{struct.unpack('bc0', '\\255abc')}", "-ERR bad argument #2 to 'unpack' (data string too short)"),
        ("{struct.unpack('s', 'ab\\0c', 2)}", "*2 $1 b :4"),
        ("{struct.unpack('s', 'abc')}", "-ERR unfinished string in data"),
        ("{struct.unpack('c0', 'abc')}", "-ERR format 'c0' needs a previous size"),
        ("{struct.unpack('b', 'abc', 0)}", "-ERR bad argument #3 to 'unpack' (offset must be 1 or greater)"),
        ("{struct.unpack('b', 'abc', -1)}", "-ERR bad argument #2 to 'unpack' (data string too short)"),
        (
            "{struct.unpack('c2147483647', 'abc', 2^62)}",
            "-ERR bad argument #2 to 'unpack' (data string too short)",
        ),
        ("select('#', struct.unpack(string.rep('b', 7997), string.rep('a', 8000)))", ":7998"),
        (
            "select('#', struct.unpack(string.rep('b', 7998), string.rep('a', 8000)))",
            "-ERR stack overflow (too many results)",
        ),
    ]);
}

#[test]
fn values_become_messagepack() {
    check(&[
        (
            "cmsgpack.pack(1, 128, 256, 2^16, 2^32)",
            r"$20 \x01\xcc\x80\xcd\x01\x00\xce\x00\x01\x00\x00\xcf\x00\x00\x00\x01\x00\x00\x00\x00",
        ),
        ("cmsgpack.pack(-32, -33, -129)", r"$6 \xe0\xd0\xdf\xd1\xff\x7f"),
        ("cmsgpack.pack(1.5, 0.1)", r"$14 \xca?\xc0\x00\x00\xcb?\xb9\x99\x99\x99\x99\x99\x9a"),
        ("cmsgpack.pack(nil, true, false, string.len)", r"$4 \xc0\xc3\xc2\xc0"),
        (
            "cmsgpack.pack({1, 2}, {a = 1}, {[1] = 1, [3] = 3}, {})",
            r"$13 \x92\x01\x02\x81\xa1a\x01\x82\x01\x01\x03\x03\x90",
        ),
        ("#cmsgpack.pack(string.rep('a', 31), string.rep('a', 255), string.rep('a', 256))", ":548"),
        ("(function() local t = {} t[1] = t return #cmsgpack.pack(t) end)()", ":17"),
        ("cmsgpack.pack()", "-ERR bad argument #0 to 'pack' (MessagePack pack needs input.)"),
    ]);
}

#[test]
fn messagepack_becomes_values() {
    check(&[
        ("{cmsgpack.unpack('\\1\\224\\163abc\\146\\1\\2')}", "*4 :1 :-32 $3 abc *2 :1 :2"),
        ("{cmsgpack.unpack_one('\\1\\2\\3', 1)}", "*2 :2 :2"),
        ("{cmsgpack.unpack_limit('\\1\\2\\3', 2, 1)}", "*3 :-1 :2 :3"),
        ("{cmsgpack.unpack_one('\\1\\2\\3', 4)}", "-ERR Start offset 4 greater than input length 3."),
        (
            "{cmsgpack.unpack_one('\\1\\2\\3', -1)}",
            "-ERR Invalid request to unpack with offset of -1 and limit of 3.",
        ),
        ("cmsgpack.unpack('\\221\\255\\255\\255\\255')", "-ERR Missing bytes in input."),
        ("cmsgpack.unpack('\\193')", "-ERR Bad data format in input."),
        ("cmsgpack.unpack('\\129\\192\\1')", "-ERR table index is nil"),
        ("#cmsgpack.unpack(string.rep('\\145', 3999)..'\\1')", ":1"),
        (
            "cmsgpack.unpack(string.rep('\\145', 100000))",
            "-ERR stack overflow (in function mp_decode_to_lua_array)",
        ),
        (
            "cmsgpack.unpack(string.rep('\\129\\1', 100000))",
            "-ERR stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
        ),
    ]);
}

#[test]
fn a_table_that_unfolds_is_out_of_memory() {
    let mut bench = Bench::new();
    bench.core.memory_limit = 4 << 20;
    let script = "local t = {} for _ = 1, 15 do t = {t, t, t, t} end return cmsgpack.pack(t)";
    assert!(bench.error(script).contains("not enough memory"));
    assert_eq!(bench.eval("return cmsgpack.pack(1)"), "$1\r\n\u{1}\r\n");
}
