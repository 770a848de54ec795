//! Strings as bits, numbers, sketches and payloads: the rest of what Redis 7.0 does with a string
//! key. Not here: whole values (`keys.rs`).

use crate::grammar::{Bytes, Grammar};
use crate::keys::{Made, exact};

const NAMES: &[&str] = &[
    "SETBIT",
    "SETBIT",
    "GETBIT",
    "BITCOUNT",
    "BITPOS",
    "BITOP",
    "BITFIELD",
    "BITFIELD",
    "BITFIELD_RO",
    "LCS",
    "PFADD",
    "PFCOUNT",
    "PFMERGE",
    "PFDEBUG",
    "DUMP",
    "RESTORE",
    "SORT",
    "SORT_RO",
];

/// Payloads: three right ones, one with a wrong sum, one cut short. None of a newer version, which
/// only keylatch takes.
const PAYLOADS: &[&[u8]] = &[
    b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb",
    b"\x00\xc3\t\x1e\x01aa\xe0\x11\x00\x01aa\n\x00Es|\xbb+d{\xbb",
    b"\x00\x00\n\x00]\x9b\\@\x0f\x7f\xa2\xda",
    b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbc",
    b"\x00\xc0\n",
];

/// One command.
pub fn any(g: &mut Grammar) -> Made {
    let name = g.draw.pick(NAMES);
    let mut args = vec![g.word(name), g.key()];
    match name {
        "SETBIT" => args.extend([offset(g), g.draw.pick(&[&b"0"[..], b"1", b"1", b"2"]).to_vec()]),
        "GETBIT" => args.push(offset(g)),
        "BITCOUNT" | "BITPOS" => {
            if name == "BITPOS" {
                args.push(g.draw.pick(&[&b"0"[..], b"1", b"2"]).to_vec());
            }
            for _ in 0..g.draw.below(3) {
                args.push(g.integer());
            }
            if g.draw.chance(40) {
                args.push(g.draw.pick(&[&b"BIT"[..], b"BYTE", b"bit", b"WORD"]).to_vec());
            }
        }
        "BITOP" => {
            args[1] = g.draw.pick(&[&b"AND"[..], b"OR", b"xor", b"NOT", b"NAND"]).to_vec();
            args.push(g.key());
            args.extend(g.several(3, Grammar::key));
        }
        "BITFIELD" | "BITFIELD_RO" => {
            for _ in 0..g.draw.below(4) {
                field(g, &mut args);
            }
        }
        "LCS" => {
            args.push(g.key());
            for _ in 0..g.draw.below(3) {
                let word = g.draw.pick(&["LEN", "IDX", "IDX", "WITHMATCHLEN", "MINMATCHLEN"]);
                args.push(g.word(word));
                if word == "MINMATCHLEN" {
                    args.push(g.integer());
                }
            }
        }
        "PFADD" => {
            let n = [0, 1, 3, 40, 400][g.draw.below(5)];
            args.extend((0..n).map(|_| g.draw.between(0, 5000).to_string().into_bytes()));
        }
        "PFCOUNT" | "PFMERGE" => {
            for _ in 0..g.draw.below(3) {
                args.push(g.key());
            }
        }
        "PFDEBUG" => {
            let word = g.draw.pick(&["ENCODING", "DECODE", "TODENSE", "NONSENSE"]);
            args.insert(1, g.word(word));
        }
        "RESTORE" => {
            let ttl = g.draw.pick(&[&b"0"[..], b"0", b"100000000", b"-1", b"x", b"9223372036854775807"]);
            args.extend([ttl.to_vec(), g.draw.pick(PAYLOADS).to_vec()]);
            for _ in 0..g.draw.below(3) {
                let word = g.draw.pick(&["REPLACE", "REPLACE", "ABSTTL", "IDLETIME", "FREQ"]);
                args.push(g.word(word));
                if matches!(word, "IDLETIME" | "FREQ") {
                    args.push(g.integer());
                }
            }
        }
        "SORT" | "SORT_RO" => {
            for _ in 0..g.draw.below(3) {
                sorting(g, &mut args);
            }
        }
        _ => {}
    }
    // A bent RESTORE or a bent offset could set a deadline that passes, or take half a gigabyte.
    let bendable = !matches!(name, "RESTORE" | "SETBIT" | "BITFIELD");
    let (args, check, _) = exact(args);
    (args, check, bendable)
}

/// A bit's offset: near, or so far that it is refused. One just below the limit would be right,
/// and would make the test slow.
fn offset(g: &mut Grammar) -> Bytes {
    let far = [&b"4294967296"[..], b"9223372036854775807", b"9223372036854775808", b"-1", b"#1", b"abc"];
    match g.draw.below(6) {
        0 => g.draw.pick(&far).to_vec(),
        _ => g.draw.between(0, 500).to_string().into(),
    }
}

fn field(g: &mut Grammar, args: &mut Vec<Bytes>) {
    if g.draw.chance(25) {
        let kind = g.draw.pick(&["WRAP", "SAT", "FAIL", "SAT", "FAIL", "NONE"]);
        args.extend([g.word("OVERFLOW"), g.word(kind)]);
        return;
    }
    let name = g.draw.pick(&["GET", "SET", "INCRBY"]);
    let width = [1, 2, 3, 5, 8, 13, 16, 32, 33, 63, 64, 65, 0][g.draw.below(13)];
    let sign = g.draw.pick(&["u", "i"]);
    let place = match g.draw.below(4) {
        0 => format!("#{}", g.draw.between(0, 20)).into(),
        _ => offset(g),
    };
    args.extend([g.word(name), format!("{sign}{width}").into(), place]);
    if name != "GET" {
        args.push(g.integer());
    }
}

fn sorting(g: &mut Grammar, args: &mut Vec<Bytes>) {
    let word = g.draw.pick(&["ASC", "DESC", "ALPHA", "LIMIT", "BY", "GET", "STORE"]);
    args.push(g.word(word));
    match word {
        "LIMIT" => args.extend([g.integer(), g.integer()]),
        "BY" | "GET" => args.push(g.pattern()),
        "STORE" => args.push(g.key()),
        _ => {}
    }
}
