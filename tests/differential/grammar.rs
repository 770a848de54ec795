//! One grammar of valid and invalid commands over a small pool of keys: the words it is made of, and
//! how a right command is bent into a wrong one. Not here: the commands themselves (`keys.rs`,
//! `serving.rs`, `scripts.rs`).

use crate::check::Check;
use crate::common::draw::Draw;

pub type Bytes = Vec<u8>;

/// One command of a stream.
#[derive(Clone)]
pub struct Step {
    /// Which of the stream's connections sends it.
    pub connection: usize,
    pub args: Vec<Bytes>,
    pub check: Check,
}

/// How many databases a stream uses.
const DATABASES: i64 = 3;

const KEYS: &[&[u8]] = &[
    b"k",
    b"k2",
    b"k3",
    b"lock:a",
    b"lock:b",
    b"lock:order:1001",
    b"n",
    b"f",
    b"",
    b"a b",
    b"\x00\xff",
    b"{t}x",
    b"h*llo",
    b"Hello",
];

const VALUES: &[&[u8]] = &[
    b"v",
    b"token-abc123",
    b"clientA-9f8e",
    b"",
    b"hello world",
    b"0",
    b"1",
    b"10",
    b"-7",
    b"12345",
    b"3.14",
    b"1e3",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"007",
    b"+5",
    b" 1",
    b"1 ",
    b"line\r\nbreak",
    b"\x00\x01\xfe\xff",
    b"0123456789012345678901234567890123456789abcd",
    b"0123456789012345678901234567890123456789abcde",
    b"10000",
    b"9999",
    b"inf",
    b"nan",
    b"-0",
    b"0.1",
    b"1.5",
    b"\"quoted\"",
    b"100000000000000000000000",
];

const INTEGERS: &[&[u8]] = &[
    b"1",
    b"2",
    b"-1",
    b"0",
    b"10",
    b"100",
    b"-100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775806",
    b"-9223372036854775807",
];

const BAD_INTEGERS: &[&[u8]] = &[
    b"",
    b"abc",
    b"1.0",
    b"1e3",
    b" 1",
    b"1 ",
    b"+1",
    b"01",
    b"-0",
    b"9223372036854775808",
    b"0x10",
    b"\x00",
];

const FLOATS: &[&[u8]] = &[
    b"1",
    b"0.1",
    b"-0.1",
    b"1.5",
    b"3.0e3",
    b"-1e-5",
    b"1e10",
    b"0.3",
    b"10.25",
    b"100",
    b"-5",
    b"1e17",
    b"123456.789",
    b"2.5e-3",
    b"0",
];

const BAD_FLOATS: &[&[u8]] =
    &[b"", b"abc", b"nan", b"1.5x", b" 1", b"1 ", b"1e400", b"inf", b"-inf", b"1e5000"];

/// What a wrong argument looks like. No small positive number is among them: as a time to live it
/// would run out between the two servers.
const JUNK: &[&[u8]] = &[
    b"",
    b"FOO",
    b"-1",
    b"0",
    b"abc",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"1.5",
    b"NX",
    b"GET",
    b"EX",
    b"\x00",
    b"*",
];

/// What the productions draw from.
pub struct Grammar {
    pub draw: Draw,
    /// Absolute time at which the stream was made, in seconds: deadlines keep away from it.
    pub now: i64,
}

impl Grammar {
    pub fn key(&mut self) -> Bytes {
        self.draw.pick(KEYS).to_vec()
    }

    pub fn value(&mut self) -> Bytes {
        if self.draw.chance(2) {
            let n = [100, 1000, 20_000][self.draw.below(3)];
            return vec![b'x'; n];
        }
        self.draw.pick(VALUES).to_vec()
    }

    pub fn integer(&mut self) -> Bytes {
        if self.draw.chance(8) {
            self.draw.pick(BAD_INTEGERS).to_vec()
        } else if self.draw.chance(50) {
            self.draw.between(-20, 20).to_string().into()
        } else {
            self.draw.pick(INTEGERS).to_vec()
        }
    }

    pub fn float(&mut self) -> Bytes {
        let from = if self.draw.chance(10) { BAD_FLOATS } else { FLOATS };
        self.draw.pick(from).to_vec()
    }

    /// A relative time: far enough ahead not to pass while the test runs, and drawn from a range so
    /// wide that no two are compared while a millisecond decides.
    pub fn relative(&mut self, unit: i64) -> Bytes {
        match self.draw.below(20) {
            0 => self.draw.pick(BAD_INTEGERS).to_vec(),
            1 => self.draw.pick(&[&b"0"[..], b"-1", b"-100", b"-9223372036854775808"]).to_vec(),
            2 => self
                .draw
                .pick(&[&b"9223372036854775807"[..], b"9223372036854775", b"10000000000000000"])
                .to_vec(),
            _ => (self.draw.between(100_000, 90_000_000) * unit / 1000).to_string().into(),
        }
    }

    /// An absolute time: well ahead or well past.
    pub fn absolute(&mut self, unit: i64) -> Bytes {
        match self.draw.below(16) {
            0 => self.draw.pick(BAD_INTEGERS).to_vec(),
            1 => self.draw.pick(&[&b"0"[..], b"-1", b"1", b"-9223372036854775808"]).to_vec(),
            2 => self
                .draw
                .pick(&[&b"9223372036854775807"[..], b"9223372036854775", b"10000000000000000"])
                .to_vec(),
            3 => ((self.now - self.draw.between(1000, 100_000)) * unit).to_string().into(),
            _ => {
                ((self.now * 1000 + self.draw.between(100_000, 90_000_000)) * unit / 1000).to_string().into()
            }
        }
    }

    pub fn database(&mut self) -> Bytes {
        if self.draw.chance(12) {
            self.draw.pick(&[&b"-1"[..], b"16", b"abc", b"15", b"", b"4294967296", b"0x1"]).to_vec()
        } else {
            self.draw.between(0, DATABASES - 1).to_string().into()
        }
    }

    pub fn pattern(&mut self) -> Bytes {
        self.draw
            .pick(&[
                &b"*"[..],
                b"lock:*",
                b"k?",
                b"*a*",
                b"h[ae]llo",
                b"[a-k]*",
                b"[^k]*",
                b"h\\*llo",
                b"",
                b"k",
                b"lock:[ab]",
                b"*:*:*",
                b"[",
                b"[k",
                b"\\",
                b"**",
                b"?",
                b"[z-a]*",
                b"{t}*",
                b"*\xff",
                b"H*",
            ])
            .to_vec()
    }

    /// `words` in a case as a person types it.
    pub fn word(&mut self, word: &str) -> Bytes {
        match self.draw.below(12) {
            0 => word.to_ascii_lowercase().into(),
            1 => word
                .char_indices()
                .map(|(i, c)| if i % 2 == 0 { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() })
                .collect::<String>()
                .into(),
            _ => word.into(),
        }
    }

    /// Between one and `most` of what `one` makes.
    pub fn several(&mut self, most: usize, one: fn(&mut Grammar) -> Bytes) -> Vec<Bytes> {
        let n = 1 + self.draw.below(most);
        (0..n).map(|_| one(self)).collect()
    }

    /// A command bent: an argument lost, doubled, added, exchanged or replaced.
    pub fn bend(&mut self, args: &[Bytes]) -> Vec<Bytes> {
        let mut bent = args.to_vec();
        let at = self.draw.below(bent.len());
        match self.draw.below(5) {
            0 if at > 0 => {
                bent.remove(at);
            }
            1 if at > 0 => bent.insert(at, bent[at].clone()),
            2 => bent.push(self.draw.pick(JUNK).to_vec()),
            3 if at > 1 => bent.swap(at, at - 1),
            _ if at > 0 => bent[at] = self.draw.pick(JUNK).to_vec(),
            _ => bent.truncate(1),
        }
        bent
    }
}

/// The stream that `seed` determines: `count` commands or a few more.
pub fn stream(seed: u64, now: i64, count: usize) -> Vec<Step> {
    let mut g = Grammar { draw: Draw::new(seed), now };
    let mut steps = Vec::with_capacity(count + 4);
    while steps.len() < count {
        crate::keys::any(&mut g, &mut steps);
    }
    steps
}

/// Whether a bent command could set a deadline that passes while the test runs: some small positive
/// number may have come to stand where a time belongs.
pub fn could_expire_soon(args: &[Bytes]) -> bool {
    let name = args[0].to_ascii_uppercase();
    let soon = match &name[..] {
        b"PSETEX" | b"PEXPIRE" => 100_000,
        b"SET" | b"GETEX" if args.iter().any(|a| a.eq_ignore_ascii_case(b"PX")) => 100_000,
        b"SET" | b"GETEX" | b"SETEX" | b"EXPIRE" => 100,
        _ => return false,
    };
    args.iter().skip(2).any(|arg| {
        let number = std::str::from_utf8(arg).ok().and_then(|s| s.parse::<i64>().ok());
        number.is_some_and(|n| (1..soon).contains(&n))
    })
}

/// Whether a command may put a key there whose deadline is past already. Redis keeps such a key
/// until somebody meets it, so the stream makes somebody meet it at once.
pub fn may_leave_stale(args: &[Bytes]) -> bool {
    let name = args[0].to_ascii_uppercase();
    name == b"SET" && args.iter().any(|a| matches!(&a.to_ascii_uppercase()[..], b"EXAT" | b"PXAT"))
}
