//! What a parameter's value can be: how it is read from words and how it is printed. Not here:
//! which parameters there are (`params.rs`), and files (`file.rs`).

use std::borrow::Cow;
use std::path::PathBuf;

use crate::base::number;

/// Why a value is refused, in the words that CONFIG SET and the start both use.
pub type Refusal = Cow<'static, str>;

const WRONG_COUNT: Refusal = Cow::Borrowed("wrong number of arguments");

/// A parameter's kind, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `yes` or `no`.
    YesNo,
    /// Known to Redis, but only `no` can be had; the text says why.
    OnlyNo(&'static str),
    /// An integer within bounds.
    Int(i64, i64),
    /// Bytes, with an optional unit, within bounds.
    Memory(u64, u64),
    /// An octal number up to this.
    Octal(u32),
    /// Any bytes.
    Text,
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// Its own syntax, possibly of several words, which this names.
    Words(&'static str),
}

impl Kind {
    /// Whether a file's line may give it several words (and CONFIG SET splits its value at blanks).
    pub fn takes_words(&self) -> bool {
        matches!(self, Kind::Words(_))
    }

    /// For the documentation.
    pub fn describe(&self) -> String {
        match self {
            Kind::YesNo => "yes or no".into(),
            Kind::OnlyNo(_) => "no".into(),
            Kind::Int(min, max) => match (*min, *max) {
                (min, i64::MAX) => format!("integer from {min}"),
                (min, max) => format!("integer, {min} to {max}"),
            },
            Kind::Memory(0, _) => "bytes (k, kb, m, mb, g, gb)".into(),
            Kind::Memory(min, _) => format!("bytes (k, kb, m, mb, g, gb), from {min}"),
            Kind::Octal(max) => format!("octal number up to {max:o}"),
            Kind::Text => "text".into(),
            Kind::Choice(words) => words.join(", "),
            Kind::Words(syntax) => (*syntax).into(),
        }
    }

    /// Whether `words` fit this kind. For parameters without a field of their own.
    pub fn check(&self, words: &[&[u8]]) -> Result<(), Refusal> {
        match self {
            Kind::YesNo | Kind::OnlyNo(_) => bool::read(self, words, &false).map(drop),
            Kind::Int(..) => i64::read(self, words, &0).map(drop),
            Kind::Memory(..) | Kind::Octal(_) => u64::read(self, words, &0).map(drop),
            Kind::Choice(names) => choose(names, words).map(drop),
            Kind::Text => single(words).map(drop),
            Kind::Words(_) => Ok(()),
        }
    }
}

/// A field's type: from words, and back to text.
pub trait Value: Sized {
    /// Reads it; `old` is what it is now, for values that are given piece by piece.
    fn read(kind: &Kind, words: &[&[u8]], old: &Self) -> Result<Self, Refusal>;
    /// As CONFIG GET prints it.
    fn print(&self, kind: &Kind) -> Vec<u8>;
}

pub fn single<'a>(words: &[&'a [u8]]) -> Result<&'a [u8], Refusal> {
    match words {
        [word] => Ok(word),
        _ => Err(WRONG_COUNT),
    }
}

impl Value for bool {
    fn read(kind: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        let word = single(words)?;
        if word.eq_ignore_ascii_case(b"no") {
            return Ok(false);
        }
        if !word.eq_ignore_ascii_case(b"yes") {
            return Err("argument must be 'yes' or 'no'".into());
        }
        match kind {
            Kind::OnlyNo(why) => Err((*why).into()),
            _ => Ok(true),
        }
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        if *self { b"yes".to_vec() } else { b"no".to_vec() }
    }
}

/// Reads digits with an optional unit; `1k` is 1000, `1kb` 1024. What does not fit into 64 bits
/// is refused where a unit multiplies it (Redis wraps around there), and is the largest number
/// where none does, as in Redis. No digits at all are 0, as there.
pub fn memory(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
    let unit: u64 = match word[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    if digits >= 128 {
        return None;
    }
    let number = word[..digits]
        .iter()
        .try_fold(0_u64, |n, digit| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    match number {
        Some(number) => number.checked_mul(unit),
        None => (unit == 1).then_some(u64::MAX),
    }
}

/// Reads an integer of any of the numeric kinds, bounds included.
fn integer(kind: &Kind, words: &[&[u8]]) -> Result<i128, Refusal> {
    let word = single(words)?;
    let (number, min, max) = match *kind {
        Kind::Memory(min, max) => {
            let number = memory(word).ok_or("argument must be a memory value")?;
            (i128::from(number), i128::from(min), i128::from(max))
        }
        Kind::Octal(max) => {
            let number = std::str::from_utf8(word).ok().and_then(|w| i64::from_str_radix(w, 8).ok());
            let number = number.ok_or("argument couldn't be parsed as an octal number")?;
            if !(0..=i64::from(max)).contains(&number) {
                return Err(format!("argument must be between 0 and {max:o} inclusive").into());
            }
            return Ok(i128::from(number));
        }
        Kind::Int(min, max) => {
            let number = number::parse_i64(word).ok_or("argument couldn't be parsed into an integer")?;
            (i128::from(number), i128::from(min), i128::from(max))
        }
        _ => unreachable!("an integer's field has a numeric kind: the table's test checks it"),
    };
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(format!("argument must be between {min} and {max} inclusive").into())
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn read(kind: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
                let number = integer(kind, words)?;
                <$type>::try_from(number)
                    .map_err(|_| format!("argument must be at most {}", <$type>::MAX).into())
            }
            fn print(&self, kind: &Kind) -> Vec<u8> {
                match kind {
                    Kind::Octal(_) => format!("{self:o}").into_bytes(),
                    _ => self.to_string().into_bytes(),
                }
            }
        }
    )*};
}
integers!(u16 u32 u64 usize i64);

impl Value for Vec<u8> {
    fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        Ok(single(words)?.to_vec())
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        self.clone()
    }
}

/// Empty: none.
impl Value for PathBuf {
    fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        use std::os::unix::ffi::OsStrExt;
        Ok(PathBuf::from(std::ffi::OsStr::from_bytes(single(words)?)))
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt;
        self.as_os_str().as_bytes().to_vec()
    }
}

/// Finds the one word among `names`; gives its place.
pub fn choose(names: &[&str], words: &[&[u8]]) -> Result<usize, Refusal> {
    let refusal = || format!("argument(s) must be one of the following: {}", names.join(", ")).into();
    let [word] = words else { return Err(refusal()) };
    names.iter().position(|name| word.eq_ignore_ascii_case(name.as_bytes())).ok_or_else(refusal)
}

/// Declares an enum whose variants are a parameter's words.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),* }

        impl $name {
            /// The words, in order.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        impl Value for $name {
            fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
                const ALL: &[$name] = &[$($name::$variant),*];
                Ok(ALL[choose($name::WORDS, words)?])
            }
            fn print(&self, _: &Kind) -> Vec<u8> {
                self.word().into()
            }
        }
    )*};
}

choices! {
    /// How much is logged: each level with those after it.
    LogLevel { Debug = "debug", Verbose = "verbose", Notice = "notice", Warning = "warning" }
    /// What a log line looks like.
    LogFormat { Human = "human", Json = "json" }
    /// Who may use a guarded command.
    Allow {
        /// Nobody.
        No = "no",
        /// Whoever is allowed to call it.
        Yes = "yes",
        /// Connections from this machine.
        Local = "local",
    }
}

impl Allow {
    /// Whether a client may; `local`: it is connected from this machine.
    pub fn allows(self, local: bool) -> bool {
        match self {
            Allow::No => false,
            Allow::Local => local,
            Allow::Yes => true,
        }
    }
}

/// What to do at `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Commands that would take more memory are refused; nothing is evicted.
    NoEviction,
}

impl MemoryPolicy {
    /// Redis's words; only the last can be had.
    pub const WORDS: &'static [&'static str] = &[
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "noeviction",
    ];
}

impl Value for MemoryPolicy {
    fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        match MemoryPolicy::WORDS[choose(MemoryPolicy::WORDS, words)?] {
            "noeviction" => Ok(MemoryPolicy::NoEviction),
            _ => {
                Err("keylatch evicts nothing, since a lock must not vanish: only noeviction can be had"
                    .into())
            }
        }
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        b"noeviction".to_vec()
    }
}
