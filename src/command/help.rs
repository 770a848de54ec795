//! HELP of a container command, made from its subcommands' entries. Not here: COMMAND DOCS
//! (`introspect`).

use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

/// The entry of a container's HELP. Put it last: it is listed last.
pub const fn entry(group: Group, since: &'static str) -> Spec {
    Spec {
        name: "help",
        group,
        since,
        summary: "Prints this help.",
        arity: Arity::Exactly(2),
        flags: Flags::LOADING.or(Flags::STALE),
        handler: Handler::Server(help),
        ..Spec::NONE
    }
}

/// As every container of Redis does it: a headline, then two lines for each subcommand.
pub fn help(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Result<Outcome, CommandError> {
    let table = ctx.core.table;
    let container = table.resolve(args)?.parent.map(|id| table.get(id));
    let Some(container) = container.or_else(|| table.find(args.get(0))) else {
        return Err(CommandError::Syntax);
    };
    let name = container.spec.name.to_ascii_uppercase();
    let mut lines = vec![format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for sub in container.spec.subcommands {
        let mut line = sub.name.to_ascii_uppercase();
        if !sub.synopsis.is_empty() {
            line.push(' ');
            line.push_str(sub.synopsis);
        }
        lines.push(line);
        lines.push(format!("    {}", sub.summary));
    }
    reply.array(lines.len());
    for line in &lines {
        reply.simple(line.as_bytes());
    }
    Ok(Outcome::Done)
}

/// What a container says of a subcommand with too many arguments.
pub fn wrong(args: &Args<'_>) -> CommandError {
    let container = String::from_utf8_lossy(args.get(0)).to_ascii_uppercase();
    let sub = args.get(1);
    let mut line = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    line.extend_from_slice(&sub[..sub.len().min(128)]);
    line.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    CommandError::Bytes(line)
}
