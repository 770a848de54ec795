//! Random Lua values, JSON texts, MessagePack bytes and struct formats, drawn from a seed: both
//! servers encode, decode and go round, and must give the same. Not here: fixed cases (`corpus`).

use crate::common::draw::Draw;
use crate::common::{Client, resp};
use crate::{number, pair, shown};

/// Shows any value as text: types, exact numbers, tables in the order of `next`.
const SHOW: &str = "
local function show(v, depth)
  local t = type(v)
  if t == 'number' then return string.format('%.17g', v) end
  if t == 'string' then return string.format('%q', v) end
  if t == 'function' then return t end
  if t ~= 'table' then return tostring(v) end
  if depth > 30 then return '...' end
  local parts = {}
  for k, x in next, v do parts[#parts + 1] = show(k, depth + 1) .. '=' .. show(x, depth + 1) end
  return '{' .. table.concat(parts, ',') .. '}'
end
local function all(...)
  local parts = {}
  for i = 1, select('#', ...) do parts[i] = show((select(i, ...)), 0) end
  return table.concat(parts, ' ')
end
";

/// What is done with a drawn input; `V` stands for values in Lua, ARGV[1] for bytes.
const WITH_VALUES: &[&str] = &[
    "return all(pcall(cjson.encode, V))",
    "return all(pcall(function() return cjson.decode(cjson.encode(V)) end))",
    "return all(pcall(function() return cjson.encode(cjson.decode(cjson.encode(V))) end))",
    "return all(pcall(cmsgpack.pack, V, V))",
    "return all(pcall(function() return cmsgpack.unpack(cmsgpack.pack(V, V, V)) end))",
    "local j = cjson.new() j.encode_sparse_array(true, 1, 3) j.encode_invalid_numbers('null') \
     j.encode_number_precision(5) return all(pcall(j.encode, V))",
    "local j = cjson.new() j.encode_invalid_numbers(true) j.encode_max_depth(3) return all(pcall(j.encode, V))",
    "return V",
    "redis.setresp(3) return V",
    "return all(pcall(bit.bxor, V, 3))",
    "return all(pcall(bit.tohex, V, V))",
    "return all(pcall(string.format, '%d %s %g', V, V, V))",
    "return all(pcall(redis.sha1hex, V))",
    "return all(V)",
];

const WITH_JSON: &[&str] = &[
    "return all(pcall(cjson.decode, ARGV[1]))",
    "local j = cjson.new() j.decode_invalid_numbers(false) j.decode_max_depth(3) return all(pcall(j.decode, ARGV[1]))",
    "return all(pcall(function() return cjson.encode(cjson.decode(ARGV[1])) end))",
    "return cjson.decode(ARGV[1])",
];

const WITH_MSGPACK: &[&str] = &[
    "return all(pcall(cmsgpack.unpack, ARGV[1]))",
    "return all(pcall(cmsgpack.unpack_one, ARGV[1], #ARGV[1] % 3))",
    "return all(pcall(cmsgpack.unpack_limit, ARGV[1], 2, 1))",
    "return all(pcall(function() return cmsgpack.pack(cmsgpack.unpack(ARGV[1])) end))",
];

/// Sorting of `T`'s bytes, by order functions that contradict themselves as well.
const WITH_ORDERS: &[&str] = &[
    "nil",
    "function(a, b) return a > b end",
    "function(a, b) return a <= b end",
    "function(a, b) return true end",
    "function(a, b) return (a * 7 + b * 3) % 5 < 2 end",
    "function(a, b) return a % 3 < b % 3 end",
    "function() end",
    "function(a, b) if a == 98 then error('no b') end return a < b end",
    "5",
];

/// `T` and `P` stand for a text and a pattern.
const WITH_PATTERNS: &[&str] = &[
    "return all(pcall(string.find, T, P))",
    "return all(pcall(string.find, T, P, 3))",
    "return all(pcall(string.find, T, P, -2, true))",
    "return all(pcall(string.match, T, P))",
    "return all(pcall(string.match, T, P, 2))",
    "return all(pcall(string.gsub, T, P, '<%0%1%%>'))",
    "return all(pcall(string.gsub, T, P, '%2', 2))",
    "return all(pcall(string.gsub, T, P, function(...) return all(...) end))",
    "return all(pcall(string.gsub, T, P, {a = 'A', b = false, [1] = 'one', ab = 2}))",
    "return all(pcall(function() local t = {} for a, b in string.gmatch(T, P) do t[#t + 1] = all(a, b) end return t end))",
];

struct Case {
    script: String,
    argument: Vec<u8>,
    /// A table may be a key in it, whose place among the others follows from its address.
    any_order: bool,
}

impl Case {
    fn drawn(seed: u64) -> Case {
        let mut draw = Draw::new(seed);
        let kind = draw.below(6);
        let (body, argument) = match kind {
            0 => {
                let mut body = String::new();
                for (i, part) in draw.pick(WITH_VALUES).split('V').enumerate() {
                    if i > 0 {
                        value(&mut draw, 0, &mut body);
                    }
                    body.push_str(part);
                }
                (body, Vec::new())
            }
            1 => (draw.pick(WITH_JSON).to_owned(), json(&mut draw)),
            2 => (draw.pick(WITH_MSGPACK).to_owned(), msgpack(&mut draw)),
            3 => packing(&mut draw),
            4 => {
                let (order, text) =
                    (draw.pick(WITH_ORDERS), (0..draw.below(60)).map(|_| draw.below(256) as u8).collect());
                let body = format!(
                    "local calls, order = 0, {order} local t = {{}} for i = 1, #ARGV[1] do t[i] = ARGV[1]:byte(i) end                      local function f(a, b) calls = calls + 1 return order(a, b) end                      local ok, e = pcall(table.sort, t, type(order) == 'function' and f or order)                      return all(ok, e, calls, table.concat(t, ' '))"
                );
                (body, text)
            }
            _ => {
                let mut body = draw.pick(WITH_PATTERNS).to_owned();
                for (place, what) in [("T", text(&mut draw)), ("P", pattern(&mut draw))] {
                    // The names stand between brackets, commas and blanks alone.
                    body = body.replace(&format!("{place},"), &format!("{what},"));
                    body = body.replace(&format!(" {place})"), &format!(" {what})"));
                }
                (body, Vec::new())
            }
        };
        Case { script: format!("{SHOW}{body}"), argument, any_order: kind == 2 }
    }

    fn same(&self, a: &[u8], b: &[u8]) -> bool {
        let sorted = |reply: &[u8]| {
            let mut bytes = reply.to_vec();
            bytes.sort_unstable();
            bytes
        };
        a == b || (self.any_order && sorted(a) == sorted(b))
    }
}

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "127",
    "128",
    "-32",
    "-33",
    "-128",
    "-129",
    "255",
    "256",
    "65535",
    "65536",
    "-32769",
    "2^31",
    "2^31-1",
    "-2^31",
    "-2^31-1",
    "2^32",
    "2^32-1",
    "2^53",
    "2^53+2",
    "-2^53",
    "2^62",
    "2^63",
    "-2^63",
    "2^64",
    "1e15",
    "1e14",
    "99999999999999",
    "123456789012345",
    "1e100",
    "-1e100",
    "0.1",
    "0.5",
    "-0.5",
    "1.5",
    "1/3",
    "1e-7",
    "1e-310",
    "3.0",
    "1/0",
    "-1/0",
    "0/0",
    "12345.678",
    "16777217",
    "-0.0",
    "1e300",
];

/// A value as Lua writes it.
fn value(draw: &mut Draw, depth: usize, out: &mut String) {
    match draw.below(if depth < 4 { 12 } else { 7 }) {
        0 => out.push_str(draw.pick(&["true", "false", "nil", "cjson.null", "string.len"])),
        1 | 2 => out.push_str(draw.pick(NUMBERS)),
        3 => out.push_str(&draw.between(-100_000, 100_000).to_string()),
        4..=6 => string(draw, 300, out),
        7 | 8 => {
            out.push('{');
            for _ in 0..draw.below(6) {
                value(draw, depth + 1, out);
                out.push(',');
            }
            out.push('}');
        }
        9 | 10 => {
            out.push('{');
            for _ in 0..draw.below(5) {
                out.push('[');
                if draw.chance(60) {
                    string(draw, 6, out);
                } else {
                    out.push_str(draw.pick(&[
                        "1", "2", "3", "10", "11", "0", "-1", "1.5", "2^31", "2^40", "1e15", "true",
                    ]));
                }
                out.push_str("]=");
                value(draw, depth + 1, out);
                out.push(',');
            }
            out.push('}');
        }
        _ => {
            let kind = draw.pick(&["double", "map", "set", "ok", "err", "big_number", "verbatim_string"]);
            out.push_str(&format!("{{{kind}="));
            value(draw, depth + 1, out);
            out.push('}');
        }
    }
}

/// A string of `most` bytes at most. Keys stay below 32: of longer ones Redis's Lua takes other bytes
/// for the hash, so that another order follows.
fn string(draw: &mut Draw, most: usize, out: &mut String) {
    out.push('\'');
    let len = if draw.chance(4) { draw.pick(&[31, 32, 255, 256, 300]).min(most) } else { draw.below(6) };
    for _ in 0..len {
        match draw.below(10) {
            0 => out.push_str(&format!("\\{:03}", draw.below(256))),
            1 => out.push_str(draw.pick(&["\\n", "\\\\", "\\'", "\\\"", "/", "\\127", "\\000", "é"])),
            2 => out.push(char::from(b'0' + draw.below(10) as u8)),
            _ => out.push(char::from(b'a' + draw.below(26) as u8)),
        }
    }
    out.push('\'');
}

/// JSON, often almost.
fn json(draw: &mut Draw) -> Vec<u8> {
    let mut text = Vec::new();
    json_value(draw, 0, &mut text);
    if draw.chance(40) {
        spoil(draw, &mut text, b"{}[],:\"\\ntf0-1eE.+ui\0\xff \n\t");
    }
    text
}

fn json_value(draw: &mut Draw, depth: usize, out: &mut Vec<u8>) {
    let blank = |draw: &mut Draw, out: &mut Vec<u8>| {
        if draw.chance(15) {
            out.extend_from_slice(draw.pick(&[&b" "[..], b"\n", b"\t", b"\r\n"]));
        }
    };
    blank(draw, out);
    match draw.below(if depth < 5 { 10 } else { 6 }) {
        0 => out.extend_from_slice(draw.pick(&[
            &b"true"[..],
            b"false",
            b"null",
            b"nan",
            b"Infinity",
            b"-inf",
            b"NULL",
        ])),
        1 | 2 => out.extend_from_slice(draw.pick(&[
            &b"0"[..],
            b"-0",
            b"1",
            b"01",
            b"-1.5",
            b"1e5",
            b"1E-3",
            b"0x1F",
            b"1.",
            b".5",
            b"+3",
            b"1e400",
            b"-",
            b"1e",
            b"123456789012345678901234567890",
            b"0.1",
            b"4.9e-324",
            b"9007199254740993",
            b"1_0",
            b"1e5e5",
        ])),
        3 => out.extend_from_slice(draw.between(-9_999_999, 9_999_999).to_string().as_bytes()),
        4 | 5 => json_string(draw, out),
        6 | 7 => {
            out.push(b'[');
            for i in 0..draw.below(5) {
                if i > 0 {
                    out.push(b',');
                }
                json_value(draw, depth + 1, out);
            }
            out.push(b']');
        }
        _ => {
            out.push(b'{');
            for i in 0..draw.below(4) {
                if i > 0 {
                    out.push(b',');
                }
                json_string(draw, out);
                blank(draw, out);
                out.push(b':');
                json_value(draw, depth + 1, out);
            }
            out.push(b'}');
        }
    }
    blank(draw, out);
}

fn json_string(draw: &mut Draw, out: &mut Vec<u8>) {
    out.push(b'"');
    for _ in 0..draw.below(6) {
        match draw.below(8) {
            0 => out.extend_from_slice(draw.pick(&[
                &b"\\n"[..],
                b"\\\"",
                b"\\/",
                b"\\\\",
                b"\\b",
                b"\\q",
                b"\\t",
            ])),
            1 => out.extend_from_slice(draw.pick(&[
                &b"\\u00e9"[..],
                b"\\u0000",
                b"\\ud83d\\ude00",
                b"\\uD83D",
                b"\\ude00",
                b"\\u20AC",
                b"\\u12",
                b"\\uffff",
            ])),
            2 => out.push(draw.below(256) as u8),
            _ => out.push(b'a' + draw.below(26) as u8),
        }
    }
    out.push(b'"');
}

/// A few bytes changed, taken out or put in.
fn spoil(draw: &mut Draw, text: &mut Vec<u8>, with: &[u8]) {
    for _ in 0..1 + draw.below(3) {
        let at = draw.below(text.len() + 1);
        match draw.below(4) {
            0 if at < text.len() => text[at] = draw.pick(with),
            1 if at < text.len() => drop(text.remove(at)),
            2 => text.truncate(at),
            _ => text.insert(at, draw.pick(with)),
        }
    }
}

/// MessagePack, often almost.
fn msgpack(draw: &mut Draw) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..draw.below(4) {
        msgpack_value(draw, 0, &mut bytes);
    }
    if draw.chance(40) {
        spoil(
            draw,
            &mut bytes,
            &[0x00, 0x7f, 0x81, 0x91, 0xa3, 0xc0, 0xc1, 0xc7, 0xca, 0xcf, 0xd3, 0xd9, 0xdc, 0xdf, 0xff],
        );
    }
    bytes
}

fn msgpack_value(draw: &mut Draw, depth: usize, out: &mut Vec<u8>) {
    let noise = |draw: &mut Draw, n: usize, out: &mut Vec<u8>| {
        for _ in 0..n {
            out.push(draw.pick(&[0, 0, 1, 0x7f, 0x80, 0xff, 0x3f, 0x40]));
        }
    };
    match draw.below(if depth < 5 { 10 } else { 6 }) {
        0 => out.push(draw.pick(&[0x00, 0x05, 0x7f, 0xe0, 0xff, 0xc0, 0xc2, 0xc3])),
        1..=3 => {
            let (head, n) = draw.pick(&[
                (0xcc, 1),
                (0xcd, 2),
                (0xce, 4),
                (0xcf, 8),
                (0xd0, 1),
                (0xd1, 2),
                (0xd2, 4),
                (0xd3, 8),
                (0xca, 4),
                (0xcb, 8),
            ]);
            out.push(head);
            noise(draw, n, out);
        }
        4 | 5 => {
            let len = draw.below(8);
            match draw.below(4) {
                0 => out.push(0xa0 | len as u8),
                1 => out.extend_from_slice(&[0xd9, len as u8]),
                2 => out.extend_from_slice(&[0xda, 0, len as u8]),
                _ => out.extend_from_slice(&[0xdb, 0, 0, 0, len as u8]),
            }
            noise(draw, len, out);
        }
        6 | 7 => {
            let len = draw.below(5);
            match draw.below(3) {
                0 => out.push(0x90 | len as u8),
                1 => out.extend_from_slice(&[0xdc, 0, len as u8]),
                _ => out.extend_from_slice(&[0xdd, 0, 0, 0, len as u8]),
            }
            (0..len).for_each(|_| msgpack_value(draw, depth + 1, out));
        }
        _ => {
            let len = draw.below(4);
            match draw.below(3) {
                0 => out.push(0x80 | len as u8),
                1 => out.extend_from_slice(&[0xde, 0, len as u8]),
                _ => out.extend_from_slice(&[0xdf, 0, 0, 0, len as u8]),
            }
            for _ in 0..len {
                // No table as a key: its place among the others would follow from its address.
                msgpack_value(draw, 5, out);
                msgpack_value(draw, depth + 1, out);
            }
        }
    }
}

/// A struct format with what it is used on.
fn packing(draw: &mut Draw) -> (String, Vec<u8>) {
    let (mut format, mut values) = (String::new(), Vec::new());
    for _ in 0..draw.below(8) {
        match draw.below(12) {
            0 => format.push_str(draw.pick(&["<", ">", " ", "!", "!1", "!2", "!4", "!8", "!16"])),
            1 => format.push('x'),
            2 => {
                format.push_str(draw.pick(&["s", "c", "c2", "c0", "c5"]));
                values.push("'some text'".to_owned());
            }
            3 => {
                format.push_str(draw.pick(&["f", "d"]));
                values.push(draw.pick(NUMBERS).to_owned());
            }
            4 if draw.chance(30) => {
                format.push_str(draw.pick(&["z", "i33", "!3", "c2147483648", "=", "9", "\\200"]))
            }
            5 => {
                format.push_str(&format!("{}{}", draw.pick(&["i", "I"]), draw.below(20)));
                values.push(draw.pick(NUMBERS).to_owned());
            }
            _ => {
                format.push_str(draw.pick(&["b", "B", "h", "H", "l", "L", "T", "i", "I"]));
                values.push(draw.pick(NUMBERS).to_owned());
            }
        }
    }
    if draw.chance(10) {
        values.pop();
    }
    let given: String = values.iter().map(|value| format!(", {value}")).collect();
    let body = match draw.below(4) {
        0 => format!("return all(pcall(struct.pack, '{format}'{given}))"),
        1 => format!("return all(pcall(struct.unpack, '{format}', ARGV[1], {}))", draw.between(-1, 6)),
        2 => format!("return all(pcall(struct.size, '{format}'))"),
        _ => format!(
            "return all(pcall(function() return struct.unpack('{format}', struct.pack('{format}'{given})) end))"
        ),
    };
    let data = (0..draw.below(60)).map(|_| draw.pick(&[0, 1, 2, 3, 0x7f, 0x80, 0xff, b'a'])).collect();
    (body, data)
}

fn text(draw: &mut Draw) -> String {
    let parts =
        ["a", "a", "b", "b", "ab", "1", "_", " ", "(", ")", ".", "-", "\\000", "\\255", "A", "]", "^"];
    format!("'{}'", (0..draw.below(12)).map(|_| draw.pick(&parts)).collect::<String>())
}

fn pattern(draw: &mut Draw) -> String {
    let parts = [
        "a",
        "b",
        "a",
        "b",
        ".",
        "%a",
        "%d",
        "%A",
        "%w",
        "%s",
        "%p",
        "%x",
        "%z",
        "%.",
        "%(",
        "[ab]",
        "[^a]",
        "[a-b]",
        "[%a_]",
        "[]]",
        "[^]a]",
        "[a%]",
        "[",
        "*",
        "+",
        "-",
        "?",
        "*",
        "?",
        "(",
        ")",
        "(",
        ")",
        "()",
        "%1",
        "%2",
        "%b()",
        "%bab",
        "%b",
        "%f[%a]",
        "%f[^a]",
        "%f",
        "%",
        "$",
        "^",
        "[a-]",
        "[%z-\\255]",
        "\\000",
    ];
    let start = if draw.chance(15) { "^" } else { "" };
    let end = if draw.chance(15) { "$" } else { "" };
    let middle: String = (0..draw.below(8)).map(|_| draw.pick(&parts)).collect();
    format!("'{start}{middle}{end}'")
}

fn ask(client: &mut Client, case: &Case) -> Vec<u8> {
    client.raw(&resp::request(&[b"EVAL", case.script.as_bytes(), b"0", &case.argument]));
    client.frame().unwrap_or_else(|| b"(no reply)".to_vec())
}

#[test]
fn random_values_and_formats_give_the_same_on_both_servers() {
    let (ours, theirs) = pair();
    let (mut ours, mut theirs) = (ours.client(), theirs.client());
    let first = number("KEYLATCH_SCRIPT_SEED", 20_261_202);
    let mut differences = 0;
    for seed in first..first + number("KEYLATCH_SCRIPT_CASES", 4_000) {
        if seed % 500 == 0 {
            for client in [&mut ours, &mut theirs] {
                client.say("SCRIPT FLUSH");
                client.say(if seed % 1000 == 0 { "HELLO 3" } else { "HELLO 2" });
            }
        }
        let case = Case::drawn(seed);
        let (a, b) = (ask(&mut ours, &case), ask(&mut theirs, &case));
        if !case.same(&a, &b) {
            differences += 1;
            eprintln!("seed {seed}: {}", case.script.trim_start_matches(SHOW));
            eprintln!("  ARGV[1]:  {}", shown(&case.argument));
            eprintln!("  keylatch: {}\n  redis:    {}", shown(&a), shown(&b));
            assert!(differences < 10, "differences, shown above");
        }
    }
    assert_eq!(differences, 0, "differences, shown above");
}
