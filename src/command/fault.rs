//! KEYLATCH FAULT: the rules of what goes wrong, as a test writes, reads and removes them. Not here:
//! what they mean (`engine::faults`) and what they do (`engine::striking`).

use crate::base::error::CommandError;
use crate::base::number;
use crate::engine::faults::{Action, Numbered, Phase, Rule};
use crate::engine::spec::{Context, Outcome};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

/// What the entry shows.
pub(super) const SYNOPSIS: &str = "<ADD [ON <BEFORE | AFTER>] [COMMAND command-glob] [KEY key-glob] \
[CLIENT name-glob] [SKIP count] [TIMES count] [PROBABILITY probability] <ERROR text | DELAY milliseconds | \
STALL milliseconds | DROP | HANG | TRUNCATE bytes | SPLIT bytes | EXPIRE-FIRST> | LIST | REMOVE id | CLEAR>";

pub(super) fn fault(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let core = &mut *ctx.core;
    match args.len() {
        4.. if args.is(2, "add") => {
            let id = core.add_fault(read(args)?).map_err(|nonsense| {
                let text = nonsense.to_string();
                let (first, rest) = text.split_at(1);
                CommandError::Line(format!("ERR {}{rest}", first.to_ascii_uppercase()).into())
            })?;
            reply.integer(id.cast_signed());
        }
        3 if args.is(2, "list") => {
            let rules = core.trouble.rules().rules();
            reply.array(rules.len());
            rules.iter().for_each(|rule| say(rule, reply));
        }
        4 if args.is(2, "remove") => {
            let id = u64::try_from(args.int(3)?).ok();
            reply.integer(i64::from(id.is_some_and(|id| core.remove_fault(id))));
        }
        3 if args.is(2, "clear") => reply.integer(core.clear_faults() as i64),
        _ => return Err(CommandError::Syntax),
    }
    Ok(Outcome::Done)
}

/// The rule that FAULT ADD describes. Options and action may come in any order, each once.
fn read(args: &Args<'_>) -> Result<Rule, CommandError> {
    let mut found = Found::default();
    let mut words = args.rest(3).iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or(CommandError::Syntax);
        match word.to_ascii_lowercase().as_slice() {
            b"on" => put(&mut found.phase, phase(value()?)?)?,
            b"command" => put(&mut found.command, value()?)?,
            b"key" => put(&mut found.key, value()?)?,
            b"client" => put(&mut found.client, value()?)?,
            b"skip" => put(&mut found.skip, amount(value()?)?)?,
            b"times" => put(&mut found.times, amount(value()?)?)?,
            b"probability" => {
                let odds = number::parse_f64(value()?);
                put(&mut found.probability, odds.ok_or(CommandError::NotAFloat)?)?;
            }
            b"error" => put(&mut found.action, Action::Error(value()?.to_vec()))?,
            b"delay" => put(&mut found.action, Action::Delay(amount(value()?)?))?,
            b"stall" => put(&mut found.action, Action::Stall(amount(value()?)?))?,
            b"drop" => put(&mut found.action, Action::Drop)?,
            b"hang" => put(&mut found.action, Action::Hang)?,
            b"truncate" => put(&mut found.action, Action::Truncate(bytes(value()?)?))?,
            b"split" => put(&mut found.action, Action::Split(bytes(value()?)?))?,
            b"expire-first" => put(&mut found.action, Action::ExpireFirst)?,
            _ => return Err(CommandError::Syntax),
        }
    }
    let action = found.action.ok_or(CommandError::Syntax)?;
    let rule = Rule::new(action).probability(found.probability.unwrap_or(1.0));
    Ok(Rule {
        phase: found.phase.unwrap_or(rule.phase),
        command: found.command.map(<[u8]>::to_vec),
        key: found.key.map(<[u8]>::to_vec),
        client: found.client.map(<[u8]>::to_vec),
        skip: found.skip.unwrap_or(0),
        times: found.times,
        ..rule
    })
}

/// What has been read so far.
#[derive(Default)]
struct Found<'a> {
    phase: Option<Phase>,
    command: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    client: Option<&'a [u8]>,
    skip: Option<u64>,
    times: Option<u64>,
    probability: Option<f64>,
    action: Option<Action>,
}

/// Notes what was said, which was not said before.
fn put<T>(place: &mut Option<T>, value: T) -> Result<(), CommandError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(CommandError::Syntax),
    }
}

fn phase(word: &[u8]) -> Result<Phase, CommandError> {
    match word.to_ascii_lowercase().as_slice() {
        b"before" => Ok(Phase::Before),
        b"after" => Ok(Phase::After),
        _ => Err(CommandError::fixed("ERR KEYLATCH FAULT ADD ON must be BEFORE or AFTER")),
    }
}

/// A number that is not negative.
fn amount(word: &[u8]) -> Result<u64, CommandError> {
    let n = number::parse_i64(word).ok_or(CommandError::NotAnInteger)?;
    u64::try_from(n).map_err(|_| CommandError::MustBePositive)
}

fn bytes(word: &[u8]) -> Result<usize, CommandError> {
    usize::try_from(amount(word)?).map_err(|_| CommandError::OutOfRange)
}

/// A rule as a map of what it says and what it did; what it leaves open is null.
fn say(numbered: &Numbered, reply: &mut dyn Reply) {
    let Numbered { id, rule, matched, struck } = numbered;
    reply.map(11);
    reply.text("id");
    reply.integer(id.cast_signed());
    reply.text("on");
    reply.text(if rule.phase == Phase::Before { "before" } else { "after" });
    for (name, glob) in [("command", &rule.command), ("key", &rule.key), ("client", &rule.client)] {
        reply.text(name);
        reply.bulk_or_null(glob.as_deref());
    }
    reply.text("skip");
    reply.integer(rule.skip.cast_signed());
    reply.text("times");
    match rule.times {
        Some(times) => reply.integer(times.cast_signed()),
        None => reply.null(),
    }
    reply.text("probability");
    reply.double(rule.probability);
    reply.text("action");
    let words = rule.action.words();
    reply.array(words.len());
    words.iter().for_each(|word| reply.bulk(word));
    reply.text("matched");
    reply.integer(matched.cast_signed());
    reply.text("struck");
    reply.integer(struck.cast_signed());
}
