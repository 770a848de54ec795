//! CONFIG: GET, SET, REWRITE, RESETSTAT, HELP. Not here: the parameters (`config::params`), and
//! what a changed one changes (`engine::reconfigure`).

use super::help;
use crate::base::error::CommandError;
use crate::config::Config;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

type Answer = Result<Outcome, CommandError>;

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE);

/// The entries.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "config",
    group: Group::Server,
    since: "2.0.0",
    complexity: "Depends on subcommand.",
    summary: "Reads and changes the server's parameters.",
    arity: Arity::AtLeast(2),
    subcommands: &[
        Spec {
            name: "get",
            group: Group::Server,
            since: "2.0.0",
            complexity: "O(N) when N is the number of configuration parameters provided",
            summary: "Gives the parameters whose names match, with their values.",
            synopsis: "parameter [parameter ...]",
            arity: Arity::AtLeast(3),
            flags: ADMIN,
            history: &[("7.0.0", "Takes several patterns in one call.")],
            handler: Handler::Server(get),
            ..Spec::NONE
        },
        Spec {
            name: "set",
            group: Group::Server,
            since: "2.0.0",
            complexity: "O(N) when N is the number of configuration parameters provided",
            summary: "Changes parameters: all that are named, or none.",
            synopsis: "parameter value [parameter value ...]",
            arity: Arity::AtLeast(4),
            flags: ADMIN,
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            history: &[("7.0.0", "Takes several parameters in one call.")],
            secret: Some(|args, i| i > 2 && i % 2 == 1 && crate::config::is_secret(args.get(i - 1))),
            handler: Handler::Server(set),
            ..Spec::NONE
        },
        Spec {
            name: "resetstat",
            group: Group::Server,
            since: "2.0.0",
            summary: "Sets the counters that INFO shows back to nothing.",
            arity: Arity::Exactly(2),
            flags: ADMIN,
            handler: Handler::Server(resetstat),
            ..Spec::NONE
        },
        Spec {
            name: "rewrite",
            group: Group::Server,
            since: "2.8.0",
            summary: "Writes the parameters of now into the file the server was started with.",
            arity: Arity::Exactly(2),
            flags: ADMIN,
            handler: Handler::Server(rewrite),
            ..Spec::NONE
        },
        help::entry(Group::Server, "5.0.0"),
    ],
    ..Spec::NONE
}];

fn get(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let found = ctx.core.config.get(args.rest(2));
    reply.map(found.len());
    for (name, value) in &found {
        reply.bulk(name);
        reply.bulk(value);
    }
    Ok(Outcome::Done)
}

fn set(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> = args.rest(2).chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let local = ctx.core.clients.get(ctx.client).local;
    let trusted = ctx.core.config.enable_protected_configs.allows(local);
    let applied = ctx.core.config.set(&pairs, trusted)?;
    if let Err((hook, mut reason)) = ctx.core.reconfigure(applied.hooks) {
        let name = applied.name_for(hook);
        if name == "bind" {
            reason = "Failed to bind to specified addresses.".to_owned();
        }
        let hooks = applied.hooks;
        ctx.core.config = *applied.before;
        // What was put into effect before the failure goes back as well.
        let _ = ctx.core.reconfigure(hooks.without(hook));
        return Err(Config::set_failed(name, &reason));
    }
    reply.ok();
    Ok(Outcome::Done)
}

fn resetstat(ctx: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.reset_statistics();
    reply.ok();
    Ok(Outcome::Done)
}

fn rewrite(ctx: &mut Context<'_>, _: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    ctx.core.config.rewrite()?;
    tracing::info!("CONFIG REWRITE executed with success.");
    reply.ok();
    Ok(Outcome::Done)
}
