//! Deadlines: setting, dropping and asking for them. Not here: deadlines that come with a value
//! (`string`), their options (`options`), what happens when one passes (`keyspace`).

use super::options::{ExpireOptions, From, Unit, absolute};
use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, LockPart, Spec};
use crate::keyspace::{Access, Event};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

/// What the entries that set a deadline have in common.
const EXPIRE: Spec = Spec {
    group: Group::Generic,
    arity: Arity::AtLeast(3),
    flags: Flags::WRITE.or(Flags::FAST),
    keys: &[KeySpec::one(1, &["RW", "update"])],
    lock: LockPart::Renew,
    history: &[
        ("7.0.0", "`NX`, `XX`, `GT` and `LT`."),
        ("keylatch", "`IFEQ`, an extension that no other server has: only while the value is this one."),
    ],
    ..Spec::NONE
};

/// What the entries that ask for one have in common.
const TTL: Spec = Spec {
    group: Group::Generic,
    synopsis: "key",
    arity: Arity::Exactly(2),
    flags: Flags::READONLY.or(Flags::FAST),
    keys: &[KeySpec::one(1, &["RO", "access"])],
    ..Spec::NONE
};

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "expire",
        summary: "Lets a key live for so many seconds from now.",
        synopsis: "key seconds [NX | XX | GT | LT] [IFEQ match-value]",
        handler: Handler::Keys(|k, a, r| expire(k, a, r, Unit::Seconds, From::Now, "expire")),
        ..EXPIRE
    },
    Spec {
        name: "pexpire",
        since: "2.6.0",
        summary: "Lets a key live for so many milliseconds from now.",
        synopsis: "key milliseconds [NX | XX | GT | LT] [IFEQ match-value]",
        handler: Handler::Keys(|k, a, r| expire(k, a, r, Unit::Millis, From::Now, "pexpire")),
        ..EXPIRE
    },
    Spec {
        name: "expireat",
        since: "1.2.0",
        summary: "Lets a key live until a second of Unix time.",
        synopsis: "key unix-time-seconds [NX | XX | GT | LT] [IFEQ match-value]",
        handler: Handler::Keys(|k, a, r| expire(k, a, r, Unit::Seconds, From::Epoch, "expireat")),
        ..EXPIRE
    },
    Spec {
        name: "pexpireat",
        since: "2.6.0",
        summary: "Lets a key live until a millisecond of Unix time.",
        synopsis: "key unix-time-milliseconds [NX | XX | GT | LT] [IFEQ match-value]",
        handler: Handler::Keys(|k, a, r| expire(k, a, r, Unit::Millis, From::Epoch, "pexpireat")),
        ..EXPIRE
    },
    Spec {
        name: "ttl",
        summary: "Tells how many seconds a key has still to live; -1: no deadline, -2: no key.",
        tips: &["nondeterministic_output"],
        history: &[("2.8.0", "-2 where there is no key.")],
        handler: Handler::Keys(|k, a, r| ttl(k, a, r, Unit::Seconds, From::Now)),
        ..TTL
    },
    Spec {
        name: "pttl",
        since: "2.6.0",
        summary: "Tells how many milliseconds a key has still to live; -1: no deadline, -2: no key.",
        tips: &["nondeterministic_output"],
        history: &[("2.8.0", "-2 where there is no key.")],
        handler: Handler::Keys(|k, a, r| ttl(k, a, r, Unit::Millis, From::Now)),
        ..TTL
    },
    Spec {
        name: "expiretime",
        since: "7.0.0",
        summary: "Tells at which second of Unix time a key ends; -1: no deadline, -2: no key.",
        handler: Handler::Keys(|k, a, r| ttl(k, a, r, Unit::Seconds, From::Epoch)),
        ..TTL
    },
    Spec {
        name: "pexpiretime",
        since: "7.0.0",
        summary: "Tells at which millisecond of Unix time a key ends; -1: no deadline, -2: no key.",
        handler: Handler::Keys(|k, a, r| ttl(k, a, r, Unit::Millis, From::Epoch)),
        ..TTL
    },
    Spec {
        name: "persist",
        since: "2.2.0",
        summary: "Drops a key's deadline.",
        synopsis: "key",
        arity: Arity::Exactly(2),
        history: &[],
        handler: Handler::Keys(persist),
        ..EXPIRE
    },
];

fn expire(
    keys: &mut Access<'_>,
    args: &Args<'_>,
    reply: &mut dyn Reply,
    unit: Unit,
    from: From,
    name: &'static str,
) -> Answer {
    let options = ExpireOptions::parse(args, 3)?;
    let deadline = absolute(args.int(2)?, unit, from, keys.now()).ok_or(CommandError::InvalidExpire(name))?;
    let key = args.get(1);
    let slot = keys.find(key);
    let allowed =
        slot.is_some() && options.is_meant(keys.value(slot)) && options.allow(keys.deadline(slot), deadline);
    if allowed && deadline <= keys.now() {
        keys.remove(slot, key, Event::DEL);
    } else if allowed {
        keys.set_deadline(slot, key, Some(deadline), Event::EXPIRE);
    }
    reply.integer(i64::from(allowed));
    Ok(())
}

fn ttl(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply, unit: Unit, from: From) -> Answer {
    let slot = keys.peek(args.get(1));
    let answer = match slot.is_some().then(|| keys.deadline(slot)) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => {
            let millis = match from {
                From::Now => deadline.since(keys.now()).max(0),
                From::Epoch => deadline.0.max(0),
            };
            match unit {
                Unit::Millis => millis,
                // Rounded, not cut: a fresh `EX 10` reads 10.
                Unit::Seconds => millis.saturating_add(500) / 1000,
            }
        }
    };
    reply.integer(answer);
    Ok(())
}

fn persist(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let key = args.get(1);
    let slot = keys.find(key);
    let volatile = slot.is_some() && keys.deadline(slot).is_some();
    if volatile {
        keys.set_deadline(slot, key, None, Event::PERSIST);
    }
    reply.integer(i64::from(volatile));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn deadlines() {
        check(
            r#"
            > EXPIRE k 10
            (integer) 0
            > TTL k
            (integer) -2
            > SET k v
            OK
            > TTL k
            (integer) -1
            > EXPIRE k 10
            (integer) 1
            ~ expire
            > EXPIRETIME k
            (integer) 1010
            > PEXPIRETIME k
            (integer) 1010000
            @advance 8501
            > TTL k
            (integer) 1
            > PTTL k
            (integer) 1499
            > PERSIST k
            (integer) 1
            ~ persist
            > PERSIST k
            (integer) 0
            > PEXPIRE k -1
            (integer) 1
            ~ del
            > EXISTS k
            (integer) 0
            "#,
        );
    }

    #[test]
    fn conditions() {
        check(
            r#"
            > SET k v
            OK
            > EXPIRE k 10 XX
            (integer) 0
            > EXPIRE k 10 GT
            (integer) 0
            > EXPIRE k 10 LT
            (integer) 1
            > EXPIRE k 20 NX
            (integer) 0
            > EXPIRE k 10 GT
            (integer) 0
            > EXPIRE k 20 XX GT
            (integer) 1
            > EXPIRE k 20 LT
            (integer) 0
            > EXPIRE k 1 NX XX
            (error) ERR NX and XX, GT or LT options at the same time are not compatible
            > EXPIRE k 1 GT LT
            (error) ERR GT and LT options at the same time are not compatible
            > EXPIRE k 1 AB
            (error) ERR Unsupported option AB
            > EXPIRE k 9223372036854775807
            (error) ERR invalid expire time in 'expire' command
            > PEXPIREAT k 9223372036854775807
            (integer) 1
            "#,
        );
    }
}
