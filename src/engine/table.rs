//! `Table`: the entries joined, numbered and found by name. Not here: the entries themselves
//! (`command::*`) and what is said about them (`command::introspect`).

use super::spec::{Arity, Begin, Find, Flags, Handler, Spec};
use crate::base::error::CommandError;
use crate::resp::Args;
use std::collections::HashMap;

/// An entry at its place in the table: a command or a subcommand.
pub struct Command {
    /// Its number: statistics are kept by it.
    pub id: usize,
    pub spec: &'static Spec,
    /// The container's number.
    pub parent: Option<usize>,
    /// `get`, or `config|get`.
    pub full_name: String,
    /// Where the first key stands, if always at the same place.
    pub first_key: Option<usize>,
    /// The subcommands' numbers, in the entry's order.
    pub children: Vec<usize>,
}

impl Command {
    /// Whether all of `flags` are set.
    #[inline]
    pub fn has(&self, flags: Flags) -> bool {
        self.spec.flags.has(flags)
    }

    /// Whether argument `i` is a password or the like.
    pub fn is_secret(&self, args: &Args<'_>, i: usize) -> bool {
        self.spec.secret.is_some_and(|secret| secret(args, i))
    }
}

/// All commands.
pub struct Table {
    commands: Vec<Command>,
    by_name: HashMap<&'static str, usize, ahash::RandomState>,
    by_sub: HashMap<(usize, &'static str), usize, ahash::RandomState>,
    /// By `Quick`: one look for nearly every request.
    quick: Box<[(Quick, u16)]>,
}

/// Places of the quick table; a name whose place is taken is found by `by_name`.
const QUICK: usize = 1 << 11;

/// A name of at most 16 letters as two words, in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Quick(u64, u64);

impl Quick {
    /// `None`: too long or too short to be worth it. Bit 5 makes a letter small; it makes some
    /// other bytes look like letters too, hence the second look at what was found (`find`).
    #[inline]
    fn of(name: &[u8]) -> Option<Quick> {
        const SMALL: u64 = 0x2020_2020_2020_2020;
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) | SMALL;
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes)) | SMALL;
        Some(match name.len() {
            3 => Quick(u64::from_le_bytes([name[0], name[1], name[2], 0, 0, 0, 0, 0]) | SMALL, 3),
            4..=7 => Quick(half(name.first_chunk()?), half(name.last_chunk()?) << 3 | name.len() as u64),
            8..=16 => Quick(word(name.first_chunk()?), word(name.last_chunk()?) ^ name.len() as u64),
            _ => return None,
        })
    }

    #[inline]
    fn place(self) -> usize {
        let product = u128::from(self.0 ^ 0x9E37_79B9_7F4A_7C15) * u128::from(self.1 ^ 0xD1B5_4A32_D192_ED03);
        (product >> 53) as usize % QUICK
    }
}

/// No command's name is longer.
const NAME_MAX: usize = 32;

impl Table {
    /// Joins the families. Panics on a name that stands twice: that is a fault of the table, and
    /// found by its own test.
    pub fn new(families: &[&'static [Spec]]) -> Self {
        let state = ahash::RandomState::with_seeds(1, 2, 3, 4); // names are ours: nothing to guard
        let mut table = Table {
            commands: Vec::new(),
            by_name: HashMap::with_hasher(state.clone()),
            by_sub: HashMap::with_hasher(state),
            quick: vec![(Quick::default(), 0); QUICK].into_boxed_slice(),
        };
        for spec in families.iter().flat_map(|family| family.iter()) {
            let id = table.add(spec, None, spec.name.to_owned());
            assert!(table.by_name.insert(spec.name, id).is_none(), "{} stands twice", spec.name);
            if let Some(quick) = Quick::of(spec.name.as_bytes())
                && table.quick[quick.place()].0 == Quick::default()
            {
                table.quick[quick.place()] = (quick, id as u16); // some hundred entries
            }
            for sub in spec.subcommands {
                let child = table.add(sub, Some(id), format!("{}|{}", spec.name, sub.name));
                assert!(table.by_sub.insert((id, sub.name), child).is_none(), "{} twice", sub.name);
                table.commands[id].children.push(child);
            }
        }
        table
    }

    fn add(&mut self, spec: &'static Spec, parent: Option<usize>, full_name: String) -> usize {
        let id = self.commands.len();
        let first_key = spec.keys.first().and_then(|keys| match (keys.begin, keys.find) {
            (Begin::Index(at), Find::Range(..)) => Some(at),
            (Begin::Index(at), Find::KeyNum(_, first, _)) => Some(at + first),
            _ => None,
        });
        self.commands.push(Command { id, spec, parent, full_name, first_key, children: Vec::new() });
        id
    }

    /// All entries, subcommands behind their container.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    /// Entry number `id`.
    pub fn get(&self, id: usize) -> &Command {
        &self.commands[id]
    }

    /// The command called `name`, in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Command> {
        if let Some(quick) = Quick::of(name) {
            let (there, id) = self.quick[quick.place()];
            let command = &self.commands[usize::from(id)];
            if there == quick && command.spec.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(command);
            }
        }
        self.find_any(name)
    }

    /// Whether `find` needs but one look for it.
    #[cfg(test)]
    pub fn is_quick(&self, name: &[u8]) -> bool {
        let quick = Quick::of(name).map(|quick| self.quick[quick.place()]);
        quick.is_some_and(|(_, id)| self.commands[usize::from(id)].spec.name.as_bytes() == name)
    }

    fn find_any(&self, name: &[u8]) -> Option<&Command> {
        let mut folded = [0; NAME_MAX];
        let id = *self.by_name.get(fold(name, &mut folded)?)?;
        Some(&self.commands[id])
    }

    /// `container`'s subcommand called `name`, in any case.
    pub fn find_sub(&self, container: &Command, name: &[u8]) -> Option<&Command> {
        let mut folded = [0; NAME_MAX];
        let id = *self.by_sub.get(&(container.id, fold(name, &mut folded)?))?;
        Some(&self.commands[id])
    }

    /// The entry by its full name, `get` or `config|get`.
    pub fn find_full(&self, name: &[u8]) -> Option<&Command> {
        match memchr::memchr(b'|', name) {
            None => self.find(name),
            Some(at) => self.find_sub(self.find(&name[..at])?, &name[at + 1..]),
        }
    }

    /// The entry that a request asks for. Arity is not checked here.
    #[inline]
    pub fn resolve(&self, args: &Args<'_>) -> Result<&Command, CommandError> {
        let Some(command) = self.find(args.get(0)) else { return Err(unknown(args)) };
        if command.children.is_empty() || args.len() < 2 {
            return Ok(command);
        }
        self.find_sub(command, args.get(1)).ok_or_else(|| CommandError::UnknownSubcommand {
            sub: args.get(1).to_vec(),
            container: command.spec.name,
        })
    }
}

impl Command {
    /// Whether `len` arguments, the name included, are what the entry wants.
    #[inline]
    pub fn arity_fits(&self, len: usize) -> bool {
        match self.spec.arity {
            Arity::Exactly(n) => len == n,
            Arity::AtLeast(n) => len >= n,
        }
    }

    /// The refusal where it does not fit; a bare container lacks its subcommand.
    #[inline]
    pub fn check_arity(&self, len: usize) -> Result<(), CommandError> {
        let bare = len == 1 && matches!(self.spec.handler, Handler::Container);
        if self.arity_fits(len) && !bare {
            return Ok(());
        }
        Err(CommandError::WrongArity(self.full_name.clone()))
    }
}

#[cold]
fn unknown(args: &Args<'_>) -> CommandError {
    CommandError::UnknownCommand {
        name: args.get(0).to_vec(),
        args: args.rest(1).iter().take(64).map(|arg| arg[..arg.len().min(128)].to_vec()).collect(),
    }
}

/// `name` in lower case, if it can be a command's name at all.
#[inline]
fn fold<'a>(name: &[u8], into: &'a mut [u8; NAME_MAX]) -> Option<&'a str> {
    let folded = into.get_mut(..name.len())?;
    for (to, from) in folded.iter_mut().zip(name) {
        *to = from.to_ascii_lowercase();
    }
    std::str::from_utf8(folded).ok()
}
