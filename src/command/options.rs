//! Option grammars that families share: lifetimes (EX, PX, EXAT, PXAT), conditions on existence.
//! Relative times become absolute here, once, with the overflow check. Not here: options of one
//! command alone.

use super::matching::Match;
use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::base::number;
use crate::keyspace::Ttl;
use crate::resp::Args;

/// The unit of a time as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Millis,
}

/// From where a time as typed counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Now,
    Epoch,
}

/// A deadline as typed: not read yet, since Redis reads it after other things can have failed.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime<'a> {
    pub amount: &'a [u8],
    pub unit: Unit,
    pub from: From,
}

impl Lifetime<'_> {
    /// The absolute time. Only what lies after the epoch is taken; `command` is named otherwise.
    pub fn deadline(&self, now: UnixMs, command: &'static str) -> Result<UnixMs, CommandError> {
        let amount = number::parse_i64(self.amount).ok_or(CommandError::NotAnInteger)?;
        if amount <= 0 {
            return Err(CommandError::InvalidExpire(command));
        }
        absolute(amount, self.unit, self.from, now).ok_or(CommandError::InvalidExpire(command))
    }

    /// The same words, whatever the amount.
    fn is_like(&self, other: &Lifetime<'_>) -> bool {
        self.unit == other.unit && self.from == other.from
    }
}

/// A time as typed on the absolute scale; `None`: it does not fit.
pub fn absolute(amount: i64, unit: Unit, from: From, now: UnixMs) -> Option<UnixMs> {
    let millis = match unit {
        Unit::Seconds => amount.checked_mul(1000)?,
        Unit::Millis => amount,
    };
    match from {
        From::Now => millis.checked_add(now.0).map(UnixMs),
        From::Epoch => Some(UnixMs(millis)),
    }
}

/// Reads `EX|PX|EXAT|PXAT amount` at argument `i`; `None`: another word stands there, or nothing
/// behind it.
pub fn lifetime<'a>(args: &Args<'a>, i: usize) -> Option<Lifetime<'a>> {
    let (unit, from) = if args.is(i, "px") {
        (Unit::Millis, From::Now)
    } else if args.is(i, "ex") {
        (Unit::Seconds, From::Now)
    } else if args.is(i, "pxat") {
        (Unit::Millis, From::Epoch)
    } else if args.is(i, "exat") {
        (Unit::Seconds, From::Epoch)
    } else {
        return None;
    };
    args.try_get(i + 1).map(|amount| Lifetime { amount, unit, from })
}

/// What an option says about the deadline.
#[derive(Clone, Copy, Debug, Default)]
pub enum Expiry<'a> {
    #[default]
    Unsaid,
    At(Lifetime<'a>),
    /// KEEPTTL.
    Keep,
    /// PERSIST.
    Persist,
}

impl<'a> Expiry<'a> {
    /// Reads a lifetime at argument `i`. `Ok(None)`: there is none; `Ok(Some(next))`: go on at
    /// `next`. The same word may come twice (the last counts), two different ones may not.
    fn lifetime(&mut self, args: &Args<'a>, i: usize) -> Result<Option<usize>, CommandError> {
        let Some(new) = lifetime(args, i) else { return Ok(None) };
        match self {
            Expiry::Unsaid => {}
            Expiry::At(old) if old.is_like(&new) => {}
            _ => return Err(CommandError::Syntax),
        }
        *self = Expiry::At(new);
        Ok(Some(i + 2))
    }

    /// What becomes of the deadline when a value is stored.
    pub fn ttl(&self, now: UnixMs, command: &'static str) -> Result<Ttl, CommandError> {
        Ok(match self {
            Expiry::Unsaid | Expiry::Persist => Ttl::Clear,
            Expiry::Keep => Ttl::Keep,
            Expiry::At(lifetime) => Ttl::At(lifetime.deadline(now, command)?),
        })
    }
}

/// Under which condition SET stores.
#[derive(Clone, Copy, Debug)]
pub enum Condition<'a> {
    /// NX: the key is not there.
    Absent,
    /// XX: it is.
    Present,
    /// IFEQ and its like: its value is, or is not, this.
    Value(Match<'a>),
}

impl Condition<'_> {
    /// Whether a key with `current` as its value meets it; `None`: there is no key.
    pub fn met(self, current: Option<&[u8]>) -> Result<bool, CommandError> {
        match self {
            Condition::Absent => Ok(current.is_none()),
            Condition::Present => Ok(current.is_some()),
            Condition::Value(value) => value.met(current),
        }
    }

    /// The same word, whatever the value behind it.
    fn is_like(&self, other: &Condition<'_>) -> bool {
        use std::mem::discriminant;
        match (self, other) {
            (Condition::Value(a), Condition::Value(b)) => discriminant(a) == discriminant(b),
            _ => discriminant(self) == discriminant(other),
        }
    }
}

/// SET's options.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetOptions<'a> {
    pub condition: Option<Condition<'a>>,
    /// GET: the old value is the answer.
    pub get: bool,
    pub expiry: Expiry<'a>,
}

impl<'a> SetOptions<'a> {
    /// Reads the options from argument `i` on.
    pub fn parse(args: &Args<'a>, mut i: usize) -> Result<Self, CommandError> {
        let mut options = SetOptions::default();
        while i < args.len() {
            if args.is(i, "nx") {
                options.require(Condition::Absent)?;
            } else if args.is(i, "xx") {
                options.require(Condition::Present)?;
            } else if let Some(value) = Match::read(args, i) {
                options.require(Condition::Value(value))?;
                i += 1;
            } else if args.is(i, "get") {
                options.get = true;
            } else if args.is(i, "keepttl") {
                match options.expiry {
                    Expiry::Unsaid | Expiry::Keep => options.expiry = Expiry::Keep,
                    _ => return Err(CommandError::Syntax),
                }
            } else if let Some(next) = options.expiry.lifetime(args, i)? {
                i = next;
                continue;
            } else {
                return Err(CommandError::Syntax);
            }
            i += 1;
        }
        Ok(options)
    }

    /// The same condition may be said twice (the last counts), two different ones not.
    fn require(&mut self, condition: Condition<'a>) -> Result<(), CommandError> {
        if self.condition.replace(condition).is_some_and(|old| !old.is_like(&condition)) {
            return Err(CommandError::Syntax);
        }
        Ok(())
    }
}

/// GETEX's options from argument `i` on.
pub fn getex<'a>(args: &Args<'a>, mut i: usize) -> Result<Expiry<'a>, CommandError> {
    let mut expiry = Expiry::Unsaid;
    while i < args.len() {
        if args.is(i, "persist") {
            match expiry {
                Expiry::Unsaid | Expiry::Persist => expiry = Expiry::Persist,
                _ => return Err(CommandError::Syntax),
            }
            i += 1;
        } else {
            i = expiry.lifetime(args, i)?.ok_or(CommandError::Syntax)?;
        }
    }
    Ok(expiry)
}

/// When EXPIRE and its like change a deadline. A key without one counts as living for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpireOptions<'a> {
    /// IFEQ, an extension of ours: the value that the key must have.
    value: Option<&'a [u8]>,
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl<'a> ExpireOptions<'a> {
    /// Reads the options from argument `i` on.
    pub fn parse(args: &Args<'a>, i: usize) -> Result<Self, CommandError> {
        let mut options = ExpireOptions::default();
        let mut words = args.rest(i).iter();
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => options.nx = true,
                b"xx" => options.xx = true,
                b"gt" => options.gt = true,
                b"lt" => options.lt = true,
                // Without a value it is the word that no server knows.
                b"ifeq" if !words.as_slice().is_empty() => options.value = words.next().copied(),
                _ => {
                    // A C string there: it ends at a NUL.
                    let word = word.split(|&b| b == 0).next().unwrap_or_default();
                    return Err(CommandError::Bytes([b"ERR Unsupported option ", word].concat()));
                }
            }
        }
        if options.nx && (options.xx || options.gt || options.lt) {
            return Err(CommandError::fixed(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if options.gt && options.lt {
            return Err(CommandError::fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(options)
    }

    /// Whether a key whose value is `current` is the one that was meant.
    pub fn is_meant(self, current: &[u8]) -> bool {
        self.value.is_none_or(|value| value == current)
    }

    /// Whether `new` may take the place of `current`.
    pub fn allow(self, current: Option<UnixMs>, new: UnixMs) -> bool {
        match current {
            Some(current) => !(self.nx || self.gt && new <= current || self.lt && new >= current),
            None => !(self.xx || self.gt),
        }
    }
}

/// The database that argument `i` names; `unreadable` is said where it is not a number.
pub fn database(args: &Args<'_>, i: usize, count: usize) -> Result<usize, CommandError> {
    let index = int32(args, i, None)?;
    usize::try_from(index).ok().filter(|&index| index < count).ok_or(CommandError::DbIndexOutOfRange)
}

/// Argument `i` as a 32-bit integer; `instead` takes the place of both usual errors.
pub fn int32(args: &Args<'_>, i: usize, instead: Option<CommandError>) -> Result<i32, CommandError> {
    let read = args.int(i).and_then(|n| {
        i32::try_from(n).map_err(|_| {
            CommandError::fixed("ERR value is out of range, value must between -2147483648 and 2147483647")
        })
    });
    read.map_err(|usual| instead.unwrap_or(usual))
}

/// Argument `i`, milliseconds from now, as an absolute time.
pub fn timeout_ms(args: &Args<'_>, i: usize, now: UnixMs) -> Result<UnixMs, CommandError> {
    let ms = number::parse_i64(args.get(i))
        .ok_or(CommandError::fixed("ERR timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(CommandError::fixed("ERR timeout is negative"));
    }
    now.0.checked_add(ms).map(UnixMs).ok_or(CommandError::fixed("ERR timeout is out of range"))
}
