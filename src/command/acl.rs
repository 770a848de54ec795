//! ACL as far as one user goes: `default`, who may do everything and whose password requirepass
//! sets. Not here: logging in (`connection`), which category a command is of (`introspect`).

use super::help;
use super::introspect::{CATEGORIES, categories};
use crate::base::chance::Chance;
use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};
use sha2::{Digest, Sha256};

type Answer = Result<Outcome, CommandError>;

/// The only user.
const USER: &str = "default";
/// What a password of GENPASS holds unless told otherwise, and at most.
const USUAL_BITS: i64 = 256;
const MOST_BITS: i64 = 4096;

const SUB: Spec = Spec {
    group: Group::Server,
    since: "6.0.0",
    arity: Arity::Exactly(2),
    flags: Flags::NOSCRIPT.or(Flags::LOADING).or(Flags::STALE),
    ..Spec::NONE
};
const ADMIN: Spec = Spec {
    complexity: "O(N). Where N is the number of configured users.",
    flags: Flags::ADMIN.or(SUB.flags),
    ..SUB
};

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "acl",
    group: Group::Server,
    since: "6.0.0",
    complexity: "Depends on subcommand.",
    summary: "Holds the commands about who may do what.",
    arity: Arity::AtLeast(2),
    subcommands: &[
        Spec {
            name: "cat",
            complexity: "O(1) since the categories and commands are a fixed set.",
            summary: "Lists the categories, or the commands of one.",
            synopsis: "[categoryname]",
            arity: Arity::AtLeast(2),
            handler: Handler::Server(cat),
            ..SUB
        },
        Spec {
            name: "genpass",
            complexity: "O(1)",
            summary: "Makes up a password of so many bits, 256 unless told otherwise.",
            synopsis: "[bits]",
            arity: Arity::AtLeast(2),
            handler: Handler::Server(genpass),
            ..SUB
        },
        Spec {
            name: "getuser",
            complexity: "O(N). Where N is the number of password, command and pattern rules that the user has.",
            summary: "Tells what a user may do.",
            synopsis: "username",
            arity: Arity::Exactly(3),
            history: &[
                ("6.2.0", "Tells the channels as well."),
                ("7.0.0", "Tells the selectors as well, and keys and channels as rules."),
            ],
            handler: Handler::Server(getuser),
            ..ADMIN
        },
        Spec {
            name: "list",
            summary: "Shows the users as a configuration file has them.",
            handler: Handler::Server(list),
            ..ADMIN
        },
        Spec {
            name: "users",
            summary: "Lists the users' names.",
            handler: Handler::Server(|_, _, reply| {
                reply.array(1);
                reply.text(USER);
                Ok(Outcome::Done)
            }),
            ..ADMIN
        },
        Spec {
            name: "whoami",
            complexity: "O(1)",
            summary: "Tells as which user the connection is logged in.",
            handler: Handler::Server(|_, _, reply| {
                reply.text(USER);
                Ok(Outcome::Done)
            }),
            ..SUB
        },
        help::entry(Group::Server, "6.0.0"),
    ],
    ..Spec::NONE
}];

fn cat(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let names: Vec<&str> = match args.rest(2) {
        [] => CATEGORIES.to_vec(),
        [wanted] => {
            let Some(wanted) = CATEGORIES.iter().find(|name| wanted.eq_ignore_ascii_case(name.as_bytes()))
            else {
                return Err(CommandError::Bytes([&b"ERR Unknown category '"[..], wanted, b"'"].concat()));
            };
            let all = ctx.core.table.all().iter();
            all.filter(|c| categories(c).contains(wanted)).map(|c| &*c.full_name).collect()
        }
        _ => return Err(help::wrong(args)),
    };
    reply.array(names.len());
    names.iter().for_each(|name| reply.text(name));
    Ok(Outcome::Done)
}

fn genpass(_ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let bits = match args.len() {
        2 => USUAL_BITS,
        3 => args.int(2)?,
        _ => return Err(help::wrong(args)),
    };
    if !(1..=MOST_BITS).contains(&bits) {
        return Err(CommandError::fixed(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
             up to 4096",
        ));
    }
    reply.text(&Chance::secret_hex((bits as usize).div_ceil(4)));
    Ok(Outcome::Done)
}

/// The password as ACL shows it; none if any will do.
fn password(ctx: &Context<'_>) -> Option<String> {
    let password = &ctx.core.config.requirepass;
    let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
    (!password.is_empty()).then(|| hex(&Sha256::digest(password)))
}

fn getuser(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    if args.get(2) != USER.as_bytes() {
        reply.null();
        return Ok(Outcome::Done);
    }
    let password = password(ctx);
    let flags: &[&str] = if password.is_some() { &["on"] } else { &["on", "nopass"] };
    reply.map(6);
    reply.text("flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.text(flag));
    reply.text("passwords");
    reply.array(usize::from(password.is_some()));
    password.iter().for_each(|password| reply.text(password));
    for (name, rules) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        reply.text(name);
        reply.text(rules);
    }
    reply.text("selectors");
    reply.array(0);
    Ok(Outcome::Done)
}

fn list(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let password = password(ctx).map_or("nopass".to_owned(), |password| format!("#{password}"));
    reply.array(1);
    reply.text(&format!("user {USER} on {password} ~* &* +@all"));
    Ok(Outcome::Done)
}
