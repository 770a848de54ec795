//! SORT and SORT_RO. Lists, sets and sorted sets are not kept here, so what is left is what they
//! say of a missing key and of a string. Not here: anything that sorts.

use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Begin, Find, Flags, Group, Handler, Key, KeySpec, Spec};
use crate::keyspace::{Access, Event};
use crate::resp::{Args, Reply};

type Answer = Result<(), CommandError>;

const SORTED: KeySpec = KeySpec::one(1, &["RO", "access"]);
const BY_AND_GET: KeySpec = KeySpec {
    begin: Begin::Unknown,
    find: Find::Unknown,
    flags: &["RO", "access"],
    notes: "BY's and GET's keys have names made of the elements, which only the sort knows",
};
const STORE: KeySpec = KeySpec {
    begin: Begin::Unknown,
    find: Find::Unknown,
    flags: &["OW", "update"],
    notes: "STORE's key, wherever among the options STORE stands",
};

const COMPLEXITY: &str = "O(1), since there is nothing that could be sorted";

/// The entries.
pub const COMMANDS: &[Spec] = &[
    Spec {
        name: "sort",
        group: Group::Sorting,
        since: "1.0.0",
        complexity: COMPLEXITY,
        summary: "Sorts a list, set or sorted set. There are none here: a missing key is an empty one.",
        synopsis: "key [BY by-pattern] [LIMIT offset count] [GET get-pattern [GET get-pattern ...]] \
                   [ASC | DESC] [ALPHA] [STORE destination]",
        arity: Arity::AtLeast(2),
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
        keys: &[SORTED, BY_AND_GET, STORE],
        key_reader: Some(keys_of_sort),
        acl: &["set", "sortedset", "list", "dangerous"],
        handler: Handler::Keys(sort),
        ..Spec::NONE
    },
    Spec {
        name: "sort_ro",
        group: Group::Sorting,
        since: "7.0.0",
        complexity: COMPLEXITY,
        summary: "SORT without STORE.",
        synopsis: "key [BY by-pattern] [LIMIT offset count] [GET get-pattern [GET get-pattern ...]] \
                   [ASC | DESC] [ALPHA]",
        arity: Arity::AtLeast(2),
        flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
        keys: &[SORTED, BY_AND_GET],
        key_reader: Some(|_| vec![Key { at: 1, flags: SORTED.flags }]),
        acl: &["set", "sortedset", "list", "dangerous"],
        handler: Handler::Keys(sort_ro),
        ..Spec::NONE
    },
];

/// What is sorted, and the last STORE's key.
fn keys_of_sort(args: &Args<'_>) -> Vec<Key> {
    let mut keys = vec![Key { at: 1, flags: SORTED.flags }];
    let mut at = 2;
    while at < args.len() {
        if args.is(at, "limit") {
            at += 2;
        } else if args.is(at, "get") || args.is(at, "by") {
            at += 1;
        } else if args.is(at, "store") && at + 1 < args.len() {
            keys.truncate(1);
            keys.push(Key { at: at + 1, flags: STORE.flags });
        }
        at += 1;
    }
    keys
}

/// Checks the options; gives where the destination's name stands.
fn destination(args: &Args<'_>, read_only: bool) -> Result<Option<usize>, CommandError> {
    let mut destination = None;
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        if args.is(at, "asc") || args.is(at, "desc") || args.is(at, "alpha") {
        } else if args.is(at, "limit") && left >= 2 {
            args.int(at + 1)?;
            args.int(at + 2)?;
            at += 2;
        } else if !read_only && args.is(at, "store") && left >= 1 {
            at += 1;
            destination = Some(at);
        } else if (args.is(at, "by") || args.is(at, "get")) && left >= 1 {
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    Ok(destination)
}

fn refuse_string(keys: &mut Access<'_>, key: &[u8]) -> Answer {
    if keys.look(key).is_some() { Err(CommandError::WrongType) } else { Ok(()) }
}

fn sort(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    let destination = destination(args, false)?;
    refuse_string(keys, args.get(1))?;
    let Some(destination) = destination else {
        reply.array(0);
        return Ok(());
    };
    // An empty result removes what was there.
    let slot = keys.find(args.get(destination));
    if slot.is_some() {
        keys.remove(slot, args.get(destination), Event::DEL);
    }
    reply.integer(0);
    Ok(())
}

fn sort_ro(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Answer {
    destination(args, true)?;
    refuse_string(keys, args.get(1))?;
    reply.array(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn what_is_left() {
        check(
            r#"
            > SORT none
            (empty array)
            > SORT none BY w* LIMIT 0 1 GET # GET o* DESC ALPHA
            (empty array)
            > SORT_RO none ASC
            (empty array)
            > SET k v
            OK
            > SORT k
            (error) WRONGTYPE Operation against a key holding the wrong kind of value
            > SORT_RO k
            (error) WRONGTYPE Operation against a key holding the wrong kind of value
            > SORT k NONSENSE
            (error) ERR syntax error
            > SORT k LIMIT 0
            (error) ERR syntax error
            > SORT k LIMIT x 0
            (error) ERR value is not an integer or out of range
            > SORT k BY
            (error) ERR syntax error
            > SORT_RO k STORE d
            (error) ERR syntax error
            > SET d v
            OK
            > SORT none STORE d
            (integer) 0
            ~ del
            > SORT none STORE d
            (integer) 0
            ~
            > EXISTS d
            (integer) 0
            "#,
        );
    }
}
