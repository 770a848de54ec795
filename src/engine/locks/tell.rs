//! What the book tells, by value. Not here: how it is kept (`book`), how it is said
//! (`command::locks`, `report`).

use super::book::{Book, Event};
use super::view::{Finding, HeldLock, LockEvent};
use crate::base::glob;

impl Book {
    /// The locks that are held, whose keys match `pattern`, by key.
    pub fn held(&self, pattern: &[u8]) -> Vec<HeldLock> {
        let mut held: Vec<HeldLock> = self
            .locks
            .iter()
            .filter(|lock| glob::matches(pattern, &lock.key, false) || pattern == b"*")
            .filter_map(|lock| {
                let hold = lock.hold.as_ref()?;
                Some(HeldLock {
                    db: lock.db,
                    key: lock.key.to_vec(),
                    token: hold.words.token().to_vec(),
                    holder: hold.who.as_deref().cloned().unwrap_or_default(),
                    since: hold.since.0,
                    deadline: hold.deadline.map(|at| at.0),
                    renewals: hold.renewals,
                    refused: hold.refused,
                })
            })
            .collect();
        held.sort_by(|a, b| (a.db, &a.key).cmp(&(b.db, &b.key)));
        held
    }

    /// What happened, the oldest first; `key`: to that alone, since the last KEYLATCH RESET.
    pub fn events(&self, key: Option<(usize, &[u8])>) -> Vec<LockEvent> {
        let meant = |event: &&Event| match key {
            Some((db, key)) => event.chapter == self.chapter && event.db == db && *event.key == *key,
            None => true,
        };
        let told = |event: &Event| LockEvent {
            at: event.at.0,
            what: event.what,
            db: event.db,
            key: event.key.to_vec(),
            client: event.who.as_deref().cloned().unwrap_or_default(),
            token: event.words.token().to_vec(),
            deadline: event.deadline.map(|at| at.0),
            command: event.words.command(&event.key),
            chapter: event.chapter,
        };
        self.events.iter().filter(meant).map(told).collect()
    }

    /// The mistakes that were seen, in order; `all`: those before the last KEYLATCH RESET as well.
    pub fn findings(&self, all: bool) -> Vec<Finding> {
        let meant = |finding: &&Finding| all || finding.chapter == self.chapter;
        self.findings.iter().filter(meant).cloned().collect()
    }

    /// Forgets the findings since the last KEYLATCH RESET: they have been seen.
    pub fn drop_findings(&mut self) {
        let chapter = self.chapter;
        self.findings.retain(|finding| finding.chapter != chapter);
    }

    /// How many KEYLATCH RESETs there were.
    pub fn chapter(&self) -> u32 {
        self.chapter
    }

    /// How many events are kept at most.
    pub fn len_max(&self) -> usize {
        self.len
    }
}
