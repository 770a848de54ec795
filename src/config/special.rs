//! Parameters with a syntax of their own: addresses, output limits, notification classes, save
//! points, percentiles, a version. Not here: plain kinds (`value.rs`).

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::value::{Kind, Refusal, Value, memory, single};
use crate::base::number;

/// The addresses to listen on, as written: `*`, `-::*`, `127.0.0.1`. A leading `-` says that it
/// may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind(pub Vec<String>);

impl Value for Bind {
    fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        if words.len() > 16 {
            return Err("Too many bind addresses specified.".into());
        }
        // One empty word: listen nowhere by TCP.
        if matches!(words, [b""]) {
            return Ok(Bind(Vec::new()));
        }
        Ok(Bind(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()))
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        self.0.join(" ").into_bytes()
    }
}

/// A directory that is there, absolute; empty: where the process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(pub PathBuf);

impl Value for Directory {
    fn read(_: &Kind, words: &[&[u8]], old: &Self) -> Result<Self, Refusal> {
        let word = single(words)?;
        if word.is_empty() {
            return Ok(Directory(PathBuf::new()));
        }
        let path = old.0.join(std::ffi::OsStr::from_bytes(word));
        let refuse = |error: &std::io::Error| Refusal::from(crate::base::process::os_reason(error));
        let path = path.canonicalize().map_err(|error| refuse(&error))?;
        // What chdir would say of a file.
        std::fs::read_dir(&path).map_err(|error| refuse(&error))?;
        Ok(Directory(path))
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        let here = if self.0.as_os_str().is_empty() { std::env::current_dir().ok() } else { None };
        here.as_ref().unwrap_or(&self.0).as_os_str().as_bytes().to_vec()
    }
}

/// What may wait in one client's output buffer before the client is cut off. Bytes; 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// Past it the client goes at once.
    pub hard: u64,
    /// Past it for `soft_seconds` on end it goes, too.
    pub soft: u64,
    pub soft_seconds: u64,
}

/// The limits of each class of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    pub normal: OutputLimit,
    /// Kept and printed; there are no replicas.
    pub replica: OutputLimit,
    pub pubsub: OutputLimit,
}

impl OutputLimits {
    /// No limit for anybody.
    pub(super) const NONE: OutputLimits = {
        let none = OutputLimit { hard: 0, soft: 0, soft_seconds: 0 };
        OutputLimits { normal: none, replica: none, pubsub: none }
    };

    /// Each class with the name that CONFIG GET gives it.
    pub fn classes(&self) -> [(&'static str, OutputLimit); 3] {
        [("normal", self.normal), ("slave", self.replica), ("pubsub", self.pubsub)]
    }
}

impl Value for OutputLimits {
    fn read(_: &Kind, words: &[&[u8]], old: &Self) -> Result<Self, Refusal> {
        if !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        let mut limits = *old;
        for class in words.chunks_exact(4) {
            let target = match class[0].to_ascii_lowercase().as_slice() {
                b"normal" => &mut limits.normal,
                b"slave" | b"replica" => &mut limits.replica,
                b"pubsub" => &mut limits.pubsub,
                _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
            };
            let seconds = number::parse_i64(class[3]).and_then(|n| u64::try_from(n).ok());
            let (Some(hard), Some(soft), Some(soft_seconds)) = (memory(class[1]), memory(class[2]), seconds)
            else {
                return Err(
                    "Error in hard, soft or soft_seconds setting in buffer limit configuration.".into()
                );
            };
            *target = OutputLimit { hard, soft, soft_seconds };
        }
        Ok(limits)
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        let print =
            |(name, l): (&str, OutputLimit)| format!("{name} {} {} {}", l.hard, l.soft, l.soft_seconds);
        self.classes().map(print).join(" ").into_bytes()
    }
}

/// Which notifications are published: the bits of `keyspace::event::Class`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NotifyClasses(pub u16);

impl NotifyClasses {
    /// `A`: all of the classes but misses and new keys.
    const ALL: u16 = 0b0010_0111_1111_1100;
    const KEYSPACE: u16 = 1;
    const KEYEVENT: u16 = 1 << 1;
    const KEY_MISS: u16 = 1 << 11;
    const NEW: u16 = 1 << 14;

    /// The letters that `A` stands for, in the order in which they are printed.
    const LETTERS: [(u8, u16); 10] = [
        (b'g', 1 << 2),
        (b'$', 1 << 3),
        (b'l', 1 << 4),
        (b's', 1 << 5),
        (b'h', 1 << 6),
        (b'z', 1 << 7),
        (b'x', 1 << 8),
        (b'e', 1 << 9),
        (b't', 1 << 10),
        (b'd', 1 << 13),
    ];
}

impl Value for NotifyClasses {
    fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        let mut bits = 0;
        for letter in single(words)? {
            bits |= match letter {
                b'A' => Self::ALL,
                b'K' => Self::KEYSPACE,
                b'E' => Self::KEYEVENT,
                b'm' => Self::KEY_MISS,
                b'n' => Self::NEW,
                _ => match Self::LETTERS.iter().find(|(l, _)| l == letter) {
                    Some((_, bit)) => *bit,
                    None => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
                },
            };
        }
        Ok(NotifyClasses(bits))
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        let mut text = Vec::new();
        if self.0 & Self::ALL == Self::ALL {
            text.push(b'A');
        } else {
            text.extend(Self::LETTERS.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(letter, _)| *letter));
            if self.0 & Self::NEW != 0 {
                text.push(b'n');
            }
        }
        for (letter, bit) in [(b'K', Self::KEYSPACE), (b'E', Self::KEYEVENT), (b'm', Self::KEY_MISS)] {
            if self.0 & bit != 0 {
                text.push(letter);
            }
        }
        text
    }
}

/// `save`: nothing is ever written to disk, so only the empty list of save points is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSave;

impl Value for NoSave {
    fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        if matches!(words, [] | [b""]) {
            return Ok(NoSave);
        }
        let numbers: Vec<_> = words.iter().map(|word| number::parse_i64(word)).collect();
        let sound = |pair: &[Option<i64>]| matches!(pair, [Some(1..), Some(0..)]);
        if numbers.len() % 2 != 0 || !numbers.chunks(2).all(sound) {
            return Err("Invalid save parameters".into());
        }
        Err("keylatch keeps its data in memory only: nothing but save \"\" can be had".into())
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        Vec::new()
    }
}

/// The percentiles of INFO latencystats.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles(pub Vec<f64>);

impl Value for Percentiles {
    fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        if matches!(words, [b""]) {
            return Ok(Percentiles(Vec::new()));
        }
        let mut list = Vec::new();
        for word in words {
            let number =
                number::parse_f64(word).ok_or("Invalid latency-tracking-info-percentiles parameters")?;
            if !(0.0..=100.0).contains(&number) {
                return Err(
                    "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into()
                );
            }
            list.push(number);
        }
        Ok(Percentiles(list))
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        self.0.iter().map(f64::to_string).collect::<Vec<_>>().join(" ").into_bytes()
    }
}

/// A version of Redis, `7.2.4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// As written.
    pub text: String,
    /// Major, minor, patch; comparable.
    pub parts: (u8, u8, u8),
}

impl Version {
    /// As one number, a byte for each part: `REDIS_VERSION_NUM`.
    pub fn number(&self) -> u32 {
        u32::from_be_bytes([0, self.parts.0, self.parts.1, self.parts.2])
    }
}

impl Value for Version {
    fn read(_: &Kind, words: &[&[u8]], _: &Self) -> Result<Self, Refusal> {
        let parse = |word: &[u8]| {
            let text = std::str::from_utf8(word).ok()?;
            let parts: Vec<u8> = text
                .split('.')
                .map(|part| u8::try_from(number::parse_i64(part.as_bytes())?).ok())
                .collect::<Option<_>>()?;
            match parts[..] {
                [major, minor, patch] if major >= 1 => {
                    Some(Version { text: text.into(), parts: (major, minor, patch) })
                }
                _ => None,
            }
        };
        parse(single(words)?).ok_or_else(|| "argument must be a version such as 7.2.4".into())
    }
    fn print(&self, _: &Kind) -> Vec<u8> {
        self.text.clone().into_bytes()
    }
}
