//! A cluster of one node: which slot a key belongs to, and requests whose keys belong to several.
//! Not here: CLUSTER (`command::cluster`).

use super::core::Core;
use super::keys;
use super::spec::Flags;
use super::table::Command;
use crate::base::crc16::crc16;
use crate::base::error::CommandError;
use crate::resp::Args;
use smallvec::SmallVec;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// The slot of `key`: of what stands between its first `{` and the next `}`, if that is anything.
pub fn slot(key: &[u8]) -> u16 {
    let tag = memchr::memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        let len = memchr::memchr(b'}', rest)?;
        (len > 0).then(|| &rest[..len])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// Which slots the keys of a request belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// It names no key.
    None,
    One(u16),
    Several,
}

impl Slots {
    fn and(self, slot: u16) -> Slots {
        match self {
            Slots::None => Slots::One(slot),
            Slots::One(one) if one == slot => self,
            _ => Slots::Several,
        }
    }
}

/// The slots of the keys that `command` is given.
pub fn slots(command: &Command, args: &Args<'_>) -> Slots {
    let keys = keys::of(command.spec, args).unwrap_or_default();
    keys.iter().fold(Slots::None, |slots, key| slots.and(slot(args.get(key.at))))
}

impl Core {
    /// Whether the keys of `client`'s request belong to more than one slot; those of its whole
    /// transaction if that is to be run.
    #[cold]
    pub(super) fn crosses_slots(&self, client: usize, command: &Command, args: &Args<'_>) -> bool {
        let queue = self.clients.get(client).queue.as_ref();
        let Some(queue) = queue.filter(|_| command.has(Flags::RUNS_QUEUE)) else {
            return slots(command, args) == Slots::Several;
        };
        let mut all = Slots::None;
        for queued in &queue.commands {
            let parts: SmallVec<[&[u8]; 8]> = queued.args.iter().map(|arg| &arg[..]).collect();
            match slots(self.table.get(queued.command), &Args::new(&parts)) {
                Slots::None => {}
                Slots::One(slot) => all = all.and(slot),
                Slots::Several => all = Slots::Several,
            }
        }
        all == Slots::Several
    }

    /// Refuses a script's command in a cluster: one whose keys belong to several slots always, one
    /// that leaves the slot of those before it unless the script may.
    #[cold]
    pub(super) fn check_script_slot(
        &mut self,
        command: &Command,
        args: &Args<'_>,
    ) -> Result<(), CommandError> {
        let Some(run) = &mut self.script else { return Ok(()) };
        match slots(command, args) {
            Slots::None => Ok(()),
            Slots::Several => {
                Err(CommandError::fixed("ERR Script attempted to access a non local key in a cluster node"))
            }
            // A script that declares nothing may do as 6.2's did.
            Slots::One(_) if run.running.allow_cross_slot || !run.running.has_flags => Ok(()),
            Slots::One(slot) if *run.slot.get_or_insert(slot) == slot => Ok(()),
            Slots::One(_) => Err(CommandError::fixed(
                "ERR Script attempted to access keys that do not hash to the same slot",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn the_tag_decides() {
        assert_eq!(slot(b"foo{bar}"), 5061);
        assert_eq!(slot(b"{}a"), 10875);
        assert_eq!(slot(b"{x}a"), slot(b"b{x}{y}"));
        assert_ne!(slot(b"a{x"), slot(b"x"));
    }
}
