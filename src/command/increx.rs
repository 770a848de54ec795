//! INCREX of Redis 8.8: a counter with bounds and a deadline, in one step. Not here: the plain
//! counters (`counter`).

use super::options::{Lifetime, lifetime};
use crate::base::error::CommandError;
use crate::base::extended::Extended;
use crate::base::number;
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, LockPart, Spec};
use crate::keyspace::{Access, Encoding, Event, Slot, Ttl};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "increx",
    group: Group::String,
    since: "8.8.0",
    summary: "Adds to a number, within bounds, and sets its deadline: a rate limiter in one step.",
    synopsis: "key [BYFLOAT increment | BYINT increment] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] \
               [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | \
               PERSIST] [ENX]",
    arity: Arity::AtLeast(2),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
    keys: &[KeySpec::one(1, &["RW", "access", "update"])],
    lock: LockPart::Count,
    handler: Handler::Keys(increx),
    ..Spec::NONE
}];

/// The options as typed. Each may come once.
#[derive(Default)]
struct Options<'a> {
    by_int: Option<&'a [u8]>,
    by_float: Option<&'a [u8]>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturate: bool,
    lifetime: Option<Lifetime<'a>>,
    persist: bool,
    /// Only where the key has no deadline yet.
    only_new: bool,
}

impl<'a> Options<'a> {
    fn parse(args: &Args<'a>) -> Result<Self, CommandError> {
        let mut options = Options::default();
        let mut i = 2;
        while i < args.len() {
            if let Some(new) = lifetime(args, i) {
                once(options.lifetime.replace(new).is_some())?;
                i += 2;
                continue;
            }
            let words = [
                ("byint", &mut options.by_int),
                ("byfloat", &mut options.by_float),
                ("lbound", &mut options.lower),
                ("ubound", &mut options.upper),
            ];
            if let Some((_, value)) = words.into_iter().find(|(word, _)| args.is(i, word)) {
                let new = args.try_get(i + 1).ok_or(CommandError::Syntax)?;
                once(value.replace(new).is_some())?;
                i += 2;
                continue;
            }
            let words = [
                ("saturate", &mut options.saturate),
                ("persist", &mut options.persist),
                ("enx", &mut options.only_new),
            ];
            let (_, flag) =
                words.into_iter().find(|(word, _)| args.is(i, word)).ok_or(CommandError::Syntax)?;
            once(std::mem::replace(flag, true))?;
            i += 1;
        }
        once(options.by_int.is_some() && options.by_float.is_some())?;
        once(options.persist && (options.lifetime.is_some() || options.only_new))?;
        if options.only_new && options.lifetime.is_none() {
            return Err(CommandError::fixed("ERR ENX flag requires an expiration"));
        }
        Ok(options)
    }
}

/// Refuses what was said before, or excludes what was.
fn once(said: bool) -> Answer {
    if said { Err(CommandError::Syntax) } else { Ok(()) }
}

const CROSSED: CommandError = CommandError::fixed("ERR LBOUND can't be greater than UBOUND");

/// What comes of the numbers: the new value and what was added, or that nothing may change.
struct Sum<N> {
    new: N,
    added: N,
    changes: bool,
}

/// Whole numbers. A sum beyond 64 bits is beyond the bounds, wherever they are.
fn whole(current: &[u8], options: &Options<'_>) -> Result<Sum<i64>, CommandError> {
    let read = |text: Option<&[u8]>, default, refusal| match text {
        None => Ok(default),
        Some(text) => number::parse_i64(text).ok_or(CommandError::fixed(refusal)),
    };
    let by = read(options.by_int, 1, "ERR Increment is not an integer or out of range")?;
    let lower = read(options.lower, i64::MIN, "ERR LBOUND is not an integer or out of range")?;
    let upper = read(options.upper, i64::MAX, "ERR UBOUND is not an integer or out of range")?;
    if lower > upper {
        return Err(CROSSED);
    }
    let old = number::parse_i64(current).ok_or(CommandError::NotAnInteger)?;
    let sum = i128::from(old) + i128::from(by);
    let fitting = sum.clamp(i128::from(lower), i128::from(upper));
    if fitting != sum && !options.saturate {
        return Ok(Sum { new: old, added: 0, changes: false });
    }
    // It lies between two numbers of 64 bits.
    let new = fitting as i64;
    Ok(Sum { new, added: new.saturating_sub(old), changes: true })
}

/// Numbers with a fraction, as INCRBYFLOAT reckons.
fn fractional(current: &[u8], options: &Options<'_>) -> Result<Sum<Extended>, CommandError> {
    let read = |text: &[u8], refusal| Extended::parse(text).ok_or(CommandError::fixed(refusal));
    let by = read(options.by_float.unwrap_or(b"1"), "ERR Increment is not a valid float")?;
    let lower = options.lower.map(|text| read(text, "ERR LBOUND is not a valid float")).transpose()?;
    let upper = options.upper.map(|text| read(text, "ERR UBOUND is not a valid float")).transpose()?;
    if lower.is_some_and(|lower| upper.is_some_and(|upper| upper.is_below(lower))) {
        return Err(CROSSED);
    }
    let old = Extended::parse(current).ok_or(CommandError::NotAFloat)?;
    let sum = old.plus(by).filter(Extended::is_finite).ok_or(CommandError::NanOrInfinity)?;
    let fitting = match (lower, upper) {
        (Some(lower), _) if sum.is_below(lower) => lower,
        (_, Some(upper)) if upper.is_below(sum) => upper,
        _ => sum,
    };
    if fitting == sum {
        return Ok(Sum { new: sum, added: by, changes: true });
    }
    let applied = fitting.plus(old.negated()).filter(|_| options.saturate);
    let nothing = old.plus(old.negated()).ok_or(CommandError::NanOrInfinity)?;
    Ok(match applied {
        Some(added) => Sum { new: fitting, added, changes: true },
        None => Sum { new: old, added: nothing, changes: false },
    })
}

fn increx(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let options = Options::parse(args)?;
    let deadline = match &options.lifetime {
        None => None,
        Some(lifetime) => Some(lifetime.deadline(keys.now(), "increx")?),
    };
    let key = args.get(1);
    let slot = keys.find(key);
    let current = if slot.is_some() { keys.value(slot) } else { b"0" };
    let had_deadline = slot.is_some() && keys.deadline(slot).is_some();
    let ttl = match deadline {
        Some(_) if options.only_new && had_deadline => Ttl::Keep,
        Some(deadline) => Ttl::At(deadline),
        None if options.persist => Ttl::Clear,
        None => Ttl::Keep,
    };
    if options.by_float.is_none() {
        let sum = whole(current, &options)?;
        if sum.changes {
            let text = itoa::Buffer::new().format(sum.new).to_owned();
            store(keys, slot, key, Stored { text, ttl, had_deadline, event: Event::INCRBY });
        }
        reply.array(2);
        reply.integer(sum.new);
        reply.integer(sum.added);
        return Ok(());
    }
    let sum = fractional(current, &options)?;
    let (new, added) = (sum.new.to_string(), sum.added.to_string());
    if sum.changes {
        let text = new.clone();
        store(keys, slot, key, Stored { text, ttl, had_deadline, event: Event::INCRBYFLOAT });
    }
    reply.array(2);
    for text in [new, added] {
        match text.parse() {
            Ok(x) if reply.is_resp3() => reply.double(x),
            _ => reply.text(&text),
        }
    }
    Ok(())
}

struct Stored {
    text: String,
    ttl: Ttl,
    had_deadline: bool,
    event: Event,
}

fn store(keys: &mut Access<'_>, slot: Slot, key: &[u8], stored: Stored) {
    let Stored { text, ttl, had_deadline, event } = stored;
    if let Ttl::At(deadline) = ttl
        && deadline <= keys.now()
    {
        // Its time has passed already: the key is gone at once.
        if slot.is_some() {
            keys.remove(slot, key, Event::DEL);
        }
        return;
    }
    let encoding = if event == Event::INCRBY { Encoding::Auto } else { Encoding::Text };
    keys.put(slot, key, text.as_bytes(), encoding, ttl, event);
    match ttl {
        Ttl::At(_) => keys.also(key, Event::EXPIRE),
        Ttl::Clear if had_deadline => keys.also(key, Event::PERSIST),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn whole_numbers() {
        check(
            r#"
            > INCREX k
            1) (integer) 1
            2) (integer) 1
            ~ incrby
            > INCREX k BYINT 4 UBOUND 10
            1) (integer) 5
            2) (integer) 4
            > INCREX k BYINT 10 LBOUND 0 UBOUND 10 EX 100
            1) (integer) 5
            2) (integer) 0
            ~
            > TTL k
            (integer) -1
            > INCREX k BYINT 100 LBOUND 0 UBOUND 10 SATURATE EX 100
            1) (integer) 10
            2) (integer) 5
            ~ incrby expire
            > TTL k
            (integer) 100
            > INCREX k BYINT -100 LBOUND 0 SATURATE
            1) (integer) 0
            2) (integer) -10
            > TTL k
            (integer) 100
            > INCREX none BYINT 15 UBOUND 10
            1) (integer) 0
            2) (integer) 0
            > EXISTS none
            (integer) 0
            > SET k 9223372036854775800
            OK
            > INCREX k BYINT 9223372036854775800
            1) (integer) 9223372036854775800
            2) (integer) 0
            > INCREX k BYINT 9223372036854775800 SATURATE
            1) (integer) 9223372036854775807
            2) (integer) 7
            "#,
        );
    }

    #[test]
    fn deadlines() {
        check(
            r#"
            > INCREX k PX 500 ENX
            1) (integer) 1
            2) (integer) 1
            ~ incrby expire
            @advance 100
            > INCREX k PX 500 ENX
            1) (integer) 2
            2) (integer) 1
            ~ incrby
            > PTTL k
            (integer) 400
            > INCREX k EXAT 1 ENX
            1) (integer) 3
            2) (integer) 1
            > INCREX k PERSIST
            1) (integer) 4
            2) (integer) 1
            ~ incrby persist
            > INCREX k EXAT 1
            1) (integer) 5
            2) (integer) 1
            ~ del
            > EXISTS k
            (integer) 0
            "#,
        );
    }

    #[test]
    fn refusals() {
        check(
            r#"
            > INCREX k NONSENSE
            (error) ERR syntax error
            > INCREX k BYINT
            (error) ERR syntax error
            > INCREX k BYINT 1 BYFLOAT 1
            (error) ERR syntax error
            > INCREX k BYINT 1 BYINT 1
            (error) ERR syntax error
            > INCREX k EX 1 EX 1
            (error) ERR syntax error
            > INCREX k EX 1 PX 1
            (error) ERR syntax error
            > INCREX k EX 1 PERSIST
            (error) ERR syntax error
            > INCREX k PERSIST ENX
            (error) ERR syntax error
            > INCREX k ENX
            (error) ERR ENX flag requires an expiration
            > INCREX k EX 0
            (error) ERR invalid expire time in 'increx' command
            > INCREX k BYINT x
            (error) ERR Increment is not an integer or out of range
            > INCREX k BYFLOAT x
            (error) ERR Increment is not a valid float
            > INCREX k LBOUND 2 UBOUND 1
            (error) ERR LBOUND can't be greater than UBOUND
            > INCREX k BYFLOAT 1 LBOUND 1.5 UBOUND 1.25
            (error) ERR LBOUND can't be greater than UBOUND
            > SET k hello
            OK
            > INCREX k
            (error) ERR value is not an integer or out of range
            > INCREX k BYFLOAT 1
            (error) ERR value is not a valid float
            "#,
        );
    }

    #[test]
    fn fractions_are_stored_as_incrbyfloat_stores_them() {
        check(
            r#"
            > SET k 10.0
            OK
            > INCREX k BYFLOAT 0.1
            1) "10.1"
            2) "0.1"
            ~ incrbyfloat
            > GET k
            "10.1"
            > INCREX k BYFLOAT 10 UBOUND 15.5
            1) "10.1"
            2) "0"
            > INCREX k BYFLOAT 10 UBOUND 15.5 SATURATE
            1) "15.5"
            2) "5.4"
            > INCREX k BYFLOAT -20 LBOUND 5.5 SATURATE
            1) "5.5"
            2) "-10"
            "#,
        );
    }
}
