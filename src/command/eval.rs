//! EVAL and its kin, SCRIPT, FCALL and FUNCTION: what they take. The host runs them
//! (`script`), by way of the engine. Not here: Lua.

use super::help;
use crate::base::error::CommandError;
use crate::engine::spec::{
    Arity, Context, Flags, Group, Handler, Key, KeySpec, Outcome, ScriptRequest, Spec,
};
use crate::resp::{Args, Reply};
use crate::script::say_function_stats;

type Answer = Result<Outcome, CommandError>;

const RUN: Flags = Flags::NOSCRIPT
    .or(Flags::STALE)
    .or(Flags::SKIP_MONITOR)
    .or(Flags::MAY_REPLICATE)
    .or(Flags::NO_MANDATORY_KEYS)
    .or(Flags::MOVABLE_KEYS);
const RUN_RO: Flags = Flags::NOSCRIPT
    .or(Flags::READONLY)
    .or(Flags::STALE)
    .or(Flags::SKIP_MONITOR)
    .or(Flags::NO_MANDATORY_KEYS)
    .or(Flags::MOVABLE_KEYS);

const COUNTED: KeySpec = KeySpec::counted(2, &["RW", "access", "update"]);
const COUNTED_RO: KeySpec = KeySpec::counted(2, &["RO", "access"]);
const KEYS: &[KeySpec] = &[KeySpec { notes: "The script decides what it does with them", ..COUNTED }];
const KEYS_RO: &[KeySpec] = &[KeySpec { notes: "The script decides what it reads of them", ..COUNTED_RO }];

const SCRIPT: Spec =
    Spec { group: Group::Scripting, complexity: "Depends on the script that is executed.", ..Spec::NONE };

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "eval",
        since: "2.6.0",
        summary: "Runs a Lua script, as one moment.",
        synopsis: "script numkeys [key [key ...]] [arg [arg ...]]",
        arity: Arity::AtLeast(3),
        flags: RUN,
        key_reader: Some(keys_by_count),
        keys: KEYS,
        handler: Handler::Server(|_, args, _| eval(args, false, false)),
        ..SCRIPT
    },
    Spec {
        name: "eval_ro",
        since: "7.0.0",
        summary: "Runs a Lua script that may only read.",
        synopsis: "script numkeys [key [key ...]] [arg [arg ...]]",
        arity: Arity::AtLeast(3),
        flags: RUN_RO,
        key_reader: Some(keys_by_count),
        keys: KEYS_RO,
        handler: Handler::Server(|_, args, _| eval(args, false, true)),
        ..SCRIPT
    },
    Spec {
        name: "evalsha",
        since: "2.6.0",
        summary: "Runs a Lua script that the server has, by its SHA1.",
        synopsis: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        arity: Arity::AtLeast(3),
        flags: RUN,
        key_reader: Some(keys_by_count),
        keys: &[COUNTED],
        handler: Handler::Server(|_, args, _| eval(args, true, false)),
        ..SCRIPT
    },
    Spec {
        name: "evalsha_ro",
        since: "7.0.0",
        summary: "Runs a Lua script that the server has and that may only read, by its SHA1.",
        synopsis: "sha1 numkeys [key [key ...]] [arg [arg ...]]",
        arity: Arity::AtLeast(3),
        flags: RUN_RO,
        key_reader: Some(keys_by_count),
        keys: &[COUNTED_RO],
        handler: Handler::Server(|_, args, _| eval(args, true, true)),
        ..SCRIPT
    },
    Spec {
        name: "fcall",
        since: "7.0.0",
        summary: "Calls a function of a loaded library.",
        synopsis: "function numkeys [key [key ...]] [arg [arg ...]]",
        complexity: "Depends on the function that is executed.",
        arity: Arity::AtLeast(3),
        flags: RUN,
        key_reader: Some(keys_by_count),
        keys: KEYS,
        handler: Handler::Server(|_, _, _| fcall(false)),
        ..SCRIPT
    },
    Spec {
        name: "fcall_ro",
        since: "7.0.0",
        summary: "Calls a function of a loaded library that may only read.",
        synopsis: "function numkeys [key [key ...]] [arg [arg ...]]",
        complexity: "Depends on the function that is executed.",
        arity: Arity::AtLeast(3),
        flags: RUN_RO,
        key_reader: Some(keys_by_count),
        keys: KEYS_RO,
        handler: Handler::Server(|_, _, _| fcall(true)),
        ..SCRIPT
    },
    Spec {
        name: "script",
        since: "2.6.0",
        summary: "A container for the commands about cached scripts.",
        complexity: "Depends on subcommand.",
        arity: Arity::AtLeast(2),
        subcommands: &[
            Spec {
                name: "debug",
                since: "3.2.0",
                summary: "Sets the mode of the script debugger, which only a debugging client may.",
                synopsis: "<YES | SYNC | NO>",
                complexity: "O(1)",
                arity: Arity::Exactly(3),
                flags: Flags::NOSCRIPT,
                handler: Handler::Server(debug),
                ..SCRIPT
            },
            Spec {
                name: "exists",
                since: "2.6.0",
                summary: "Tells which scripts the server has.",
                synopsis: "sha1 [sha1 ...]",
                complexity: "O(N) in the number of scripts asked for",
                arity: Arity::AtLeast(3),
                flags: Flags::NOSCRIPT,
                tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
                handler: Handler::Server(|_, _, _| Ok(Outcome::Script(ScriptRequest::Exists))),
                ..SCRIPT
            },
            Spec {
                name: "flush",
                since: "2.6.0",
                summary: "Forgets all scripts.",
                synopsis: "[ASYNC | SYNC]",
                complexity: "O(N) in the number of scripts",
                arity: Arity::AtLeast(2),
                flags: Flags::NOSCRIPT,
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                history: &[("6.2.0", "Takes ASYNC and SYNC.")],
                handler: Handler::Server(flush),
                ..SCRIPT
            },
            Spec {
                name: "kill",
                since: "2.6.0",
                summary: "Ends the script that is running, if it has not written.",
                complexity: "O(1)",
                arity: Arity::Exactly(2),
                flags: Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
                tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
                handler: Handler::Server(|ctx, _, reply| kill(ctx, reply, false)),
                ..SCRIPT
            },
            Spec {
                name: "load",
                since: "2.6.0",
                summary: "Has the server keep a script, and tells its SHA1.",
                synopsis: "script",
                complexity: "O(N) in the length of the script",
                arity: Arity::Exactly(3),
                flags: Flags::NOSCRIPT.or(Flags::STALE),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                handler: Handler::Server(|_, _, _| Ok(Outcome::Script(ScriptRequest::Load))),
                ..SCRIPT
            },
            Spec {
                name: "show",
                since: "8.1.0",
                summary: "Gives a script's text back by its SHA1.",
                synopsis: "sha1",
                complexity: "O(1)",
                arity: Arity::Exactly(3),
                flags: Flags::NOSCRIPT,
                handler: Handler::Server(|_, _, _| Ok(Outcome::Script(ScriptRequest::Show))),
                ..SCRIPT
            },
            help::entry(Group::Scripting, "5.0.0"),
        ],
        ..SCRIPT
    },
    Spec {
        name: "function",
        since: "7.0.0",
        summary: "A container for the commands about libraries of functions.",
        complexity: "Depends on subcommand.",
        arity: Arity::AtLeast(2),
        subcommands: &[
            Spec {
                name: "delete",
                summary: "Deletes a library and its functions.",
                synopsis: "library-name",
                complexity: "O(1)",
                arity: Arity::Exactly(3),
                flags: Flags::WRITE.or(Flags::NOSCRIPT),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                handler: Handler::Server(|_, _, _| function("delete")),
                ..FUNCTION
            },
            Spec {
                name: "dump",
                summary: "Gives all libraries as one binary payload.",
                complexity: "O(N) in the number of functions",
                arity: Arity::Exactly(2),
                flags: Flags::NOSCRIPT,
                handler: Handler::Server(|_, _, _| function("dump")),
                ..FUNCTION
            },
            Spec {
                name: "flush",
                summary: "Deletes all libraries.",
                synopsis: "[ASYNC | SYNC]",
                complexity: "O(N) in the number of functions",
                arity: Arity::AtLeast(2),
                flags: Flags::WRITE.or(Flags::NOSCRIPT),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                handler: Handler::Server(|_, _, _| function("flush")),
                ..FUNCTION
            },
            Spec {
                name: "kill",
                summary: "Ends the function that is running, if it has not written.",
                complexity: "O(1)",
                arity: Arity::Exactly(2),
                flags: Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
                tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
                handler: Handler::Server(|ctx, _, reply| kill(ctx, reply, true)),
                ..FUNCTION
            },
            Spec {
                name: "list",
                summary: "Lists the libraries and their functions.",
                synopsis: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
                complexity: "O(N) in the number of functions",
                arity: Arity::AtLeast(2),
                flags: Flags::NOSCRIPT,
                tips: &["nondeterministic_output_order"],
                handler: Handler::Server(|_, _, _| function("list")),
                ..FUNCTION
            },
            Spec {
                name: "load",
                summary: "Creates a library.",
                synopsis: "[REPLACE] function-code",
                complexity: "O(1) (considering compilation time is redundant)",
                arity: Arity::AtLeast(3),
                flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::NOSCRIPT),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                handler: Handler::Server(|_, _, _| function("load")),
                ..FUNCTION
            },
            Spec {
                name: "restore",
                summary: "Creates the libraries of a payload.",
                synopsis: "serialized-value [FLUSH | APPEND | REPLACE]",
                complexity: "O(N) in the number of functions in the payload",
                arity: Arity::AtLeast(3),
                flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::NOSCRIPT),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                handler: Handler::Server(|_, _, _| function("restore")),
                ..FUNCTION
            },
            Spec {
                name: "stats",
                summary: "Tells what is running and how many libraries there are.",
                complexity: "O(1)",
                arity: Arity::Exactly(2),
                flags: Flags::NOSCRIPT.or(Flags::ALLOW_BUSY),
                tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
                handler: Handler::Server(stats),
                ..FUNCTION
            },
            help::entry(Group::Scripting, "7.0.0"),
        ],
        ..SCRIPT
    },
];

const FUNCTION: Spec = Spec { since: "7.0.0", ..SCRIPT };

/// How many keys the call names, and that they are there.
fn count_keys(args: &Args<'_>) -> Result<usize, CommandError> {
    let keys = args.int(2)?;
    if keys > (args.len() - 3) as i64 {
        return Err(CommandError::TooManyKeys);
    }
    usize::try_from(keys).map_err(|_| CommandError::NegativeKeys)
}

/// COMMAND GETKEYS reads a count that is no number as far as it is one, as Redis does; the commands
/// themselves refuse it.
fn keys_by_count(args: &Args<'_>) -> Vec<Key> {
    let text = args.get(2).trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let count = std::str::from_utf8(&digits[..end]).ok().and_then(|digits| digits.parse::<usize>().ok());
    let count = count.filter(|&count| count <= args.len() - 3).unwrap_or(0);
    (3..3 + count).map(|at| Key { at, flags: &[] }).collect()
}

fn eval(args: &Args<'_>, by_sha: bool, read_only: bool) -> Answer {
    if by_sha && args.get(1).len() != 40 {
        return Err(CommandError::NoScript); // before the number of keys is looked at, as Redis does
    }
    let keys = count_keys(args)?;
    Ok(Outcome::Script(ScriptRequest::Eval { by_sha, read_only, keys }))
}

fn fcall(read_only: bool) -> Answer {
    Ok(Outcome::Script(ScriptRequest::Fcall { read_only }))
}

fn function(name: &'static str) -> Answer {
    Ok(Outcome::Script(ScriptRequest::Function(name)))
}

fn flush(_ctx: &mut Context<'_>, args: &Args<'_>, _reply: &mut dyn Reply) -> Answer {
    if args.len() == 2 || (args.len() == 3 && (args.is(2, "sync") || args.is(2, "async"))) {
        return Ok(Outcome::Script(ScriptRequest::Flush));
    }
    Err(CommandError::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"))
}

fn debug(_ctx: &mut Context<'_>, args: &Args<'_>, _reply: &mut dyn Reply) -> Answer {
    let known = ["yes", "sync", "no"].iter().any(|mode| args.is(2, mode));
    Err(CommandError::fixed(if known {
        "ERR SCRIPT DEBUG is not available: keylatch has no script debugger"
    } else {
        "ERR Use SCRIPT DEBUG YES/SYNC/NO"
    }))
}

fn kill(ctx: &mut Context<'_>, reply: &mut dyn Reply, function: bool) -> Answer {
    let Some(run) = &mut ctx.core.script else {
        return Err(CommandError::fixed("NOTBUSY No scripts in execution right now."));
    };
    if run.running.is_function != function {
        return Err(if run.running.is_function { CommandError::BusyFunction } else { CommandError::Busy });
    }
    if run.running.wrote {
        return Err(CommandError::fixed(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either \
             wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        ));
    }
    run.running.kill = true;
    reply.ok();
    Ok(Outcome::Done)
}

/// While a script runs, the host cannot be asked; its figures of before are in the core.
fn stats(ctx: &mut Context<'_>, _args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let Some(run) = &ctx.core.script else { return function("stats") };
    let running = &run.running;
    if !running.is_function {
        return Err(CommandError::Busy);
    }
    let millis = (run.turn.since_lap() / 1000) as i64;
    say_function_stats(Some((running, millis)), running.libraries, running.functions, reply);
    Ok(Outcome::Done)
}
