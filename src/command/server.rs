//! The server itself: TIME, SHUTDOWN, and MODULE, which has none to list. Not here: CONFIG, INFO and DEBUG, which have files of their
//! own, and the way a stop is carried out (`server`).

use super::help;
use crate::base::error::CommandError;
use crate::engine::core::Shutdown;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "time",
        group: Group::Server,
        since: "2.6.0",
        summary: "Gives the server's time: seconds of Unix time, and microseconds of the second.",
        arity: Arity::Exactly(1),
        flags: Flags::LOADING.or(Flags::STALE).or(Flags::FAST),
        tips: &["nondeterministic_output"],
        handler: Handler::Server(time),
        ..Spec::NONE
    },
    Spec {
        name: "shutdown",
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(1), since nothing is saved",
        summary: "Stops the server. There is nothing to save.",
        synopsis: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        arity: Arity::AtLeast(1),
        flags: Flags::ADMIN
            .or(Flags::NOSCRIPT)
            .or(Flags::LOADING)
            .or(Flags::STALE)
            .or(Flags::NO_MULTI)
            .or(Flags::ALLOW_BUSY),
        history: &[("7.0.0", "NOW, FORCE and ABORT.")],
        handler: Handler::Server(shutdown),
        ..Spec::NONE
    },
    Spec {
        name: "module",
        group: Group::Server,
        since: "4.0.0",
        complexity: "Depends on subcommand.",
        summary: "Holds the commands about modules, of which there are none.",
        arity: Arity::AtLeast(2),
        subcommands: &[
            Spec {
                name: "list",
                complexity: "O(N) where N is the number of loaded modules.",
                summary: "Lists the modules: none.",
                arity: Arity::Exactly(2),
                flags: Flags::ADMIN.or(Flags::NOSCRIPT),
                tips: &["nondeterministic_output_order"],
                handler: Handler::Server(|_, _, reply| {
                    reply.array(0);
                    Ok(Outcome::Done)
                }),
                ..MODULE
            },
            Spec {
                name: "load",
                synopsis: "path [arg [arg ...]]",
                summary: "Would load a module.",
                arity: Arity::AtLeast(3),
                ..MODULE
            },
            Spec {
                name: "loadex",
                since: "7.0.0",
                synopsis: "path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]",
                summary: "Would load a module and configure it.",
                arity: Arity::AtLeast(3),
                ..MODULE
            },
            Spec {
                name: "unload",
                synopsis: "name",
                summary: "Would unload a module.",
                arity: Arity::Exactly(3),
                handler: Handler::Server(|_, _, _| {
                    Err(CommandError::fixed("ERR Error unloading module: no such module with that name"))
                }),
                ..MODULE
            },
            help::entry(Group::Server, "5.0.0"),
        ],
        ..Spec::NONE
    },
];

/// What would change the list of modules: refused, as Redis refuses a file that is no module.
const MODULE: Spec = Spec {
    group: Group::Server,
    since: "4.0.0",
    flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING).or(Flags::MODULES),
    handler: Handler::Server(load_module),
    ..Spec::NONE
};

fn load_module(_: &mut Context<'_>, args: &Args<'_>, _: &mut dyn Reply) -> Answer {
    tracing::warn!("Module {} failed to load: keylatch loads no modules", args.get(2).escape_ascii());
    Err(CommandError::fixed("ERR Error loading the extension. Please check the server logs."))
}

fn time(ctx: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let micros = ctx.core.turn.micros();
    reply.array(2);
    reply.text(&micros.div_euclid(1_000_000).to_string());
    reply.text(&micros.rem_euclid(1_000_000).to_string());
    Ok(Outcome::Done)
}

/// What SHUTDOWN's words say.
#[derive(Default)]
struct Words {
    save: bool,
    nosave: bool,
    now: bool,
    force: bool,
    abort: bool,
}

fn shutdown(ctx: &mut Context<'_>, args: &Args<'_>, _: &mut dyn Reply) -> Answer {
    let mut words = Words::default();
    for at in 1..args.len() {
        match args.get(at).to_ascii_lowercase().as_slice() {
            b"save" => words.save = true,
            b"nosave" => words.nosave = true,
            b"now" => words.now = true,
            b"force" => words.force = true,
            b"abort" => words.abort = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    if (words.save && words.nosave) || (words.abort && args.len() > 2) {
        return Err(CommandError::Syntax);
    }
    if words.abort {
        // A stop takes no time here, so there is never one to call off.
        return Err(CommandError::fixed("ERR No shutdown in progress."));
    }
    if let Some(run) = &ctx.core.script
        && run.running.timed_out
        && !words.nosave
    {
        return Err(CommandError::Busy);
    }
    if words.save && !words.force {
        return Err(CommandError::fixed(
            "ERR keylatch keeps its data in memory only and can't save it: use SHUTDOWN NOSAVE",
        ));
    }
    tracing::info!("User requested shutdown...");
    ctx.core.shutdown = Some(Shutdown { now: words.now });
    Ok(Outcome::Close)
}
