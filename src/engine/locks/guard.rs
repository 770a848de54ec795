//! GUARD: which keys are written under which locks, and who wrote without. Not here: the other
//! mistakes (`findings`).

use super::book::Book;
use super::findings::{Found, Mistake, named};
use super::hold::{End, Hold, Lock, Past, Who};
use super::view;
use super::words::Call;
use crate::base::clock::UnixMs;
use crate::base::glob;

/// Guards that are kept; more are refused.
const GUARDS_MAX: usize = 1000;

/// What a test said of a lock and of what is written under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub lock: Vec<u8>,
    pub data: Vec<u8>,
}

/// The text before and behind the one star of a glob that has nothing else special.
fn around_star(glob: &[u8]) -> Option<(&[u8], &[u8])> {
    let star = memchr::memchr(b'*', glob)?;
    let (before, behind) = (&glob[..star], &glob[star + 1..]);
    let plain = |part: &[u8]| memchr::memchr3(b'*', b'?', b'[', part).is_none() && !part.contains(&b'\\');
    (plain(before) && plain(behind)).then_some((before, behind))
}

impl Guard {
    /// Whether `data` is written under locks that this names.
    pub fn covers(&self, data: &[u8]) -> bool {
        glob::matches(&self.data, data, false)
    }

    /// Whether `lock` is one that `data` is written under: where each glob has one star, the two
    /// stand for the same text.
    pub fn is_for(&self, lock: &[u8], data: &[u8]) -> bool {
        match (around_star(&self.lock), around_star(&self.data)) {
            (Some((before, behind)), Some((data_before, data_behind))) => {
                let meant = data.strip_prefix(data_before).and_then(|rest| rest.strip_suffix(data_behind));
                lock.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind)) == meant
            }
            _ => glob::matches(&self.lock, lock, false),
        }
    }
}

/// What `who` wrote was guarded by `locks`: was one of them its own, and is none now?
pub fn expired_owner_write<'a>(
    who: &Who,
    at: UnixMs,
    locks: impl Iterator<Item = &'a Lock>,
    call: &Call<'_>,
) -> Option<Found> {
    let owns = |hold: &Hold| hold.who.as_ref().is_some_and(|holder| holder.is(who));
    let mut lost: Option<(&Lock, &Past)> = None;
    for lock in locks {
        if lock.hold.as_ref().is_some_and(owns) {
            return None;
        }
        let last = lock.past.iter().rev().find(|past| owns(&past.hold));
        if let Some(past) = last.filter(|past| past.end != End::Released) {
            lost = Some((lock, past));
        }
    }
    let (lock, past) = lost?;
    let detail = format!(
        "{} wrote it {} ms after its lock {} had {}",
        named(Some(who)),
        at.since(past.ended),
        view::shown(&lock.key),
        if past.end == End::Expired { "expired" } else { "been lost" },
    );
    let commands = vec![past.hold.words.command(&lock.key), call.text()];
    Some(Found { mistake: Mistake::ExpiredOwnerWrite, commands, detail })
}

impl Book {
    /// Remembers `guard`; false: there are too many.
    pub fn add_guard(&mut self, guard: Guard) -> bool {
        let known = self.guards.contains(&guard);
        let room = self.guards.len() < GUARDS_MAX;
        if !known && room {
            self.guards.push(guard);
        }
        known || room
    }

    /// `who` wrote `data`: was it under a lock that it has lost? `compared`: the same script had
    /// looked at that lock.
    pub fn check_guards(
        &mut self,
        now: UnixMs,
        db: usize,
        data: &[u8],
        who: &Who,
        call: &Call<'_>,
        compared: impl Fn(&[u8]) -> bool,
    ) {
        let guards: Vec<&Guard> = self.guards.iter().filter(|guard| guard.covers(data)).collect();
        if guards.is_empty() {
            return;
        }
        // Locks are looked at as they are now, not as they were when somebody looked last.
        let is_meant =
            |lock: &Lock| lock.db == db && guards.iter().any(|guard| guard.is_for(&lock.key, data));
        let meant = || self.locks.iter().filter(|lock| is_meant(lock));
        if meant().any(|lock| compared(&lock.key)) {
            return;
        }
        if let Some(found) = expired_owner_write(who, now, meant(), call) {
            self.add(now, db, data, Some(who), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_ties_what_the_stars_stand_for() {
        let guard = |lock: &str, data: &str| Guard { lock: lock.into(), data: data.into() };
        let tied = guard("lock:*", "order:*:total");
        assert!(tied.covers(b"order:7:total") && !tied.covers(b"order:7"));
        assert!(tied.is_for(b"lock:7", b"order:7:total"));
        assert!(!tied.is_for(b"lock:8", b"order:7:total"));
        let one = guard("lock:stock", "stock:*");
        assert!(one.is_for(b"lock:stock", b"stock:7") && !one.is_for(b"lock:other", b"stock:7"));
        assert!(guard("lock:?", "d:*").is_for(b"lock:8", b"d:7"));
    }
}
