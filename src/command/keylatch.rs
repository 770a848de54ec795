//! KEYLATCH: what a test asks of its double and no Redis has. Guarded by enable-test-commands. An
//! extension of ours. Not here: what is done (`engine`), the same from Rust (`embed`).

use super::{help, locks};
use crate::base::chance::Chance;
use crate::base::clock::UnixMs;
use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, ScriptRequest, Spec};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const FLAGS: Flags =
    Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE).or(Flags::TEST).or(Flags::EXTENSION);

/// What its subcommands have in common.
pub const SUB: Spec = Spec { group: Group::Server, since: "7.2.4", flags: FLAGS, ..Spec::NONE };

/// The entries.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "keylatch",
    summary: "A container for what the test double offers beyond Redis.",
    complexity: "Depends on subcommand.",
    arity: Arity::AtLeast(2),
    flags: Flags::TEST.or(Flags::EXTENSION),
    subcommands: &[
        Spec {
            name: "clock",
            summary: "Freezes, sets, moves or frees the server's time, or tells it.",
            complexity: "O(N) in the number of keys when the time moves",
            synopsis: "<FREEZE [unix-time-milliseconds] | SET unix-time-milliseconds | ADVANCE milliseconds | RESUME | GET>",
            arity: Arity::AtLeast(3),
            handler: Handler::Server(clock),
            ..SUB
        },
        Spec {
            name: "fault",
            summary: "Has requests and replies go wrong by rules, and lists or removes the rules.",
            complexity: "O(N) in the number of rules",
            synopsis: super::fault::SYNOPSIS,
            arity: Arity::AtLeast(3),
            handler: Handler::Server(super::fault::fault),
            ..SUB
        },
        Spec {
            name: "seed",
            summary: "Makes all that is random follow from a number.",
            synopsis: "seed",
            arity: Arity::Exactly(3),
            handler: Handler::Server(seed),
            ..SUB
        },
        Spec {
            name: "reset",
            summary: "Puts everything back as it was at the start; connections stay.",
            complexity: "O(1): what was there is dropped in the background",
            arity: Arity::Exactly(2),
            handler: Handler::Server(reset),
            ..SUB
        },
        Spec {
            name: "nodes",
            summary: "Lists the addresses of all servers of this process that were started together.",
            complexity: "O(N) in their number",
            arity: Arity::Exactly(2),
            handler: Handler::Server(nodes),
            ..SUB
        },
        locks::LOCKS,
        locks::HISTORY,
        locks::FINDINGS,
        locks::GUARD,
        locks::REPORT,
        help::entry(Group::Server, "7.2.4"),
    ],
    ..SUB
}];

/// An absolute time in milliseconds that has microseconds too.
fn moment(args: &Args<'_>, at: usize) -> Result<UnixMs, CommandError> {
    let ms = args.int(at)?;
    if (0..=i64::MAX / 1000).contains(&ms) { Ok(UnixMs(ms)) } else { Err(CommandError::OutOfRange) }
}

fn clock(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let core = &mut *ctx.core;
    match args.len() {
        3 if args.is(2, "get") => {}
        3 if args.is(2, "resume") => core.clock.resume(),
        3 if args.is(2, "freeze") => core.clock.freeze(),
        4 if args.is(2, "freeze") => {
            let at = moment(args, 3)?;
            core.clock.freeze();
            core.move_clock(at);
        }
        4 if args.is(2, "set") => core.move_clock(moment(args, 3)?),
        4 if args.is(2, "advance") => {
            let ms = args.int(3)?;
            let now = core.now().0;
            if !(0..=i64::MAX / 1000).contains(&now.saturating_add(ms)) {
                return Err(CommandError::OutOfRange);
            }
            core.advance(ms);
        }
        _ => return Err(CommandError::Syntax),
    }
    core.begin_turn();
    reply.integer(core.now().0);
    Ok(Outcome::Done)
}

fn seed(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let seed = args.int(2)?;
    ctx.core.reseed(Chance::from_seed(seed as u64));
    reply.ok();
    Ok(Outcome::Done)
}

fn nodes(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let identity = &ctx.core.identity;
    reply.array(identity.nodes.len());
    for address in identity.nodes.iter() {
        reply.bulk(address.as_bytes());
    }
    Ok(Outcome::Done)
}

fn reset(ctx: &mut Context<'_>, _args: &Args<'_>, _reply: &mut dyn Reply) -> Answer {
    ctx.core
        .reset()
        .map_err(|(_, reason)| CommandError::Line(format!("ERR KEYLATCH RESET failed: {reason}").into()))?;
    Ok(Outcome::Script(ScriptRequest::Reset))
}
