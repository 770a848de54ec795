//! `Book`: the locks that are known, who holds them, and the ring of what happened. Bounded by
//! lock-history-len in events, in keys and in findings. Not here: how a command's deed is made out
//! (`observe`), what is a mistake (`findings`).

use super::findings::{self, Found, Mistake, Sight, Tokens};
use super::guard::Guard;
use super::hold::{Deed, Did, End, Hold, Lock, Past, Who};
use super::shelf::{Shelf, Spot};
use super::view::{self, Finding, What};
use super::words::{Key, Words};
use crate::base::clock::UnixMs;
use crate::base::glob;
use crate::engine::clients::Clients;
use crate::engine::session::Session;
use std::collections::VecDeque;
use std::rc::Rc;

/// Former holds that a lock remembers: enough to know a latecomer, and a token that comes again.
const PAST_MAX: usize = 8;

/// What `LockEvent` tells, in one piece: writing one down allocates nothing.
pub(super) struct Event {
    pub(super) at: UnixMs,
    pub(super) what: What,
    pub(super) db: usize,
    pub(super) key: Key,
    pub(super) who: Option<Who>,
    pub(super) words: Words,
    pub(super) deadline: Option<UnixMs>,
    pub(super) chapter: u32,
}

/// The book.
pub struct Book {
    pub(super) len: usize,
    pattern: Vec<u8>,
    pub(super) locks: Shelf,
    pub(super) events: VecDeque<Event>,
    pub(super) findings: Vec<Finding>,
    /// Findings that there was no room for.
    pub lost_findings: u64,
    /// Holds without a deadline: what a client's end is looked at for.
    undated: usize,
    tokens: Tokens,
    pub(super) guards: Vec<Guard>,
    known: Vec<Option<Who>>,
    /// By the client's place: its id, and how many of its requests were answered by an error.
    failed: Vec<(u64, u64)>,
    /// The number of the request that runs.
    pub unit: u64,
    /// How many KEYLATCH RESETs there were.
    pub(super) chapter: u32,
}

impl Book {
    /// An empty book of `len` events.
    pub fn new(len: usize, pattern: Vec<u8>) -> Book {
        Book {
            len,
            pattern,
            locks: Shelf::default(),
            events: VecDeque::new(),
            findings: Vec::new(),
            lost_findings: 0,
            undated: 0,
            tokens: Tokens::default(),
            guards: Vec::new(),
            known: Vec::new(),
            failed: Vec::new(),
            unit: 0,
            chapter: 0,
        }
    }

    pub(super) fn reconfigure(&mut self, len: usize, pattern: Vec<u8>) {
        self.len = len;
        self.pattern = pattern;
        while self.events.len() > len {
            self.events.pop_front();
        }
        for lock in self.locks.shrink(len) {
            Self::count_out(&mut self.undated, &lock);
        }
    }

    /// Whether lock-pattern names `key`.
    pub fn names(&self, key: &[u8]) -> bool {
        !self.pattern.is_empty() && glob::matches(&self.pattern, key, false)
    }

    /// Whether keys are locks by their names alone.
    pub fn has_pattern(&self) -> bool {
        !self.pattern.is_empty()
    }

    /// Where `key` is, if it is known.
    #[inline]
    pub fn seek(&self, db: usize, key: &[u8]) -> Spot {
        self.locks.seek(db, key)
    }

    /// The lock `key`, if it is known, sought before.
    #[inline]
    pub fn at(&self, spot: Spot, db: usize, key: &[u8]) -> Option<&Lock> {
        self.locks.at(spot, db, key)
    }

    /// The lock `key`, if it is known.
    pub fn find(&self, db: usize, key: &[u8]) -> Option<&Lock> {
        self.at(self.seek(db, key), db, key)
    }

    /// Whether `key` may become a lock: with a pattern only what it names does.
    pub fn may_learn(&self, key: &[u8]) -> bool {
        self.pattern.is_empty() || self.names(key)
    }

    /// A lock that is known no more is not looked at either.
    fn count_out(undated: &mut usize, lock: &Lock) {
        *undated -= usize::from(lock.hold.as_ref().is_some_and(|hold| hold.deadline.is_none()));
    }

    /// `key` turned out to be something else, a counter or a list of bytes.
    pub fn forget(&mut self, db: usize, key: &[u8]) {
        if self.find(db, key).is_some_and(|lock| !lock.named) {
            if let Some(lock) = self.locks.remove(db, key) {
                Self::count_out(&mut self.undated, &lock);
            }
            self.events.retain(|event| event.db != db || *event.key != *key || event.chapter != self.chapter);
        }
    }

    /// The client at `place`, as it is now.
    pub fn who(&mut self, clients: &Clients, place: usize) -> Who {
        let session: &Session = clients.get(place);
        if self.known.len() <= place {
            self.known.resize(place + 1, None);
        }
        match &self.known[place] {
            Some(who) if who.id == session.id && who.name == session.name => who.clone(),
            _ => {
                let who = Rc::new(view::Who {
                    id: session.id,
                    name: session.name.clone(),
                    addr: session.addr.clone(),
                });
                self.known[place] = Some(who.clone());
                who
            }
        }
    }

    /// A request of the client at `place` was answered by an error.
    pub fn note_failure(&mut self, clients: &Clients, place: usize) {
        if self.failed.len() <= place {
            self.failed.resize(place + 1, (0, 0));
        }
        let (id, count) = self.failed[place];
        let own = clients.get(place).id;
        self.failed[place] = (own, if id == own { count + 1 } else { 1 });
    }

    /// How many requests of the client at `place` did something: EVALSHA, NOSCRIPT, EVAL is one.
    pub fn requests(&self, clients: &Clients, place: usize) -> u64 {
        let session = clients.get(place);
        let failed =
            self.failed.get(place).filter(|(id, _)| *id == session.id).map_or(0, |(_, count)| *count);
        session.commands.saturating_sub(failed)
    }

    fn push(&mut self, event: Event) {
        if self.events.len() >= self.len {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The hold of `lock` is over; what is to be known of it stays.
    fn end_hold(undated: &mut usize, lock: &mut Lock, at: UnixMs, end: End) {
        if let Some(hold) = lock.hold.take() {
            *undated -= usize::from(hold.deadline.is_none());
            if lock.past.len() == PAST_MAX {
                lock.past.pop_front();
            }
            lock.past.push_back(Past { hold, ended: at, end, given_up: false });
            lock.waiters.clear();
        }
    }

    /// Brings the lock `key` into step with what the keyspace has: `now_held` is its value and
    /// deadline. What passed its deadline, or was changed by no command, is noted.
    pub fn reconcile(
        &mut self,
        spot: Spot,
        db: usize,
        key: &[u8],
        now: UnixMs,
        now_held: Option<(&[u8], Option<UnixMs>)>,
    ) {
        let Some(lock) = self.locks.at_mut(spot, db, key) else { return };
        let Some(hold) = &mut lock.hold else { return };
        let mut event = Event {
            at: now,
            what: What::Overwritten,
            db,
            key: Key::new(),
            who: None,
            words: Words::silent(b""),
            deadline: None,
            chapter: self.chapter,
        };
        match now_held {
            Some((value, deadline)) if value == hold.words.token() => {
                if hold.deadline != deadline {
                    self.undated += usize::from(deadline.is_none());
                    self.undated -= usize::from(hold.deadline.is_none());
                    hold.deadline = deadline;
                }
                return;
            }
            Some((value, deadline)) => {
                event.words = Words::silent(value);
                event.deadline = deadline;
                Self::end_hold(&mut self.undated, lock, now, End::Lost);
                self.undated += usize::from(deadline.is_none());
                lock.hold = Some(Hold::new(None, event.words.clone(), now, deadline));
            }
            None => {
                let end;
                (event.what, event.at, end) = match hold.deadline {
                    Some(deadline) => (What::Expired, deadline.min(now), End::Expired),
                    None => (What::Released, now, End::Lost),
                };
                event.who = hold.who.clone();
                event.words = Words::silent(hold.words.token());
                Self::end_hold(&mut self.undated, lock, event.at, end);
            }
        }
        event.key = Key::from_slice(key);
        self.push(event);
    }

    /// Whose hold it is that has passed its deadline at `now`, in every database, unsorted.
    pub fn held_keys(&self) -> Vec<(usize, Key)> {
        let held = self.locks.iter().filter(|lock| lock.hold.is_some());
        held.map(|lock| (lock.db, lock.key.clone())).collect()
    }

    /// Notes what a command did to one key: first what is wrong with it, then the deed itself.
    pub fn note(&mut self, deed: &Deed<'_>) {
        let (unit, chapter) = (self.unit, self.chapter);
        let (db, key) = (deed.db, deed.key);
        if self.locks.at(deed.spot, db, key).is_none() {
            let (named, undated) = (self.names(key), &mut self.undated);
            self.locks.put(deed.spot, db, key, named, self.len, |lock| Self::count_out(undated, lock));
        }
        let Some(lock) = self.locks.at_mut(deed.spot, db, key) else { return };
        let words = match (&lock.hold, deed.did) {
            (Some(hold), Did::Renewed | Did::Removed) => Words::new(hold.words.token(), key, &deed.call),
            _ => Words::new(deed.token, key, &deed.call),
        };
        if deed.did == Did::Refused {
            findings::remember_refusal(lock, deed, &words);
        }
        let sight = Sight { lock, deed, unit };
        let mut found: Vec<Found> =
            findings::DETECTORS.iter().filter_map(|detector| detector(&sight)).collect();
        if deed.did == Did::Acquired
            && let Some(shared) = self.tokens.take(&sight)
        {
            found.push(shared);
        }
        lock.unit = unit;
        let mut event = Event {
            at: deed.at,
            what: What::Acquired,
            db,
            key: Key::from_slice(key),
            who: deed.who.clone(),
            words,
            deadline: deed.deadline,
            chapter,
        };
        match deed.did {
            Did::Acquired | Did::Overwritten => {
                if deed.did == Did::Overwritten {
                    event.what = What::Overwritten;
                }
                Self::end_hold(&mut self.undated, lock, deed.at, End::Lost);
                self.undated += usize::from(deed.deadline.is_none());
                lock.waiters.clear();
                // What is put over another's lock, and has no deadline, was hardly meant as one.
                let usurped = found.iter().any(|found| found.mistake == Mistake::ForeignRelease);
                let who = deed.who.clone().filter(|_| !usurped || deed.deadline.is_some());
                let new = Hold::new(who, event.words.clone(), deed.at, deed.deadline);
                lock.hold = Some(Hold { unit, requests: deed.requests, ..new });
            }
            Did::Refused => {
                event.what = What::Refused;
                if let Some(hold) = &mut lock.hold {
                    hold.refused += 1;
                    hold.unheard |= hold.words.token() == deed.token;
                }
            }
            Did::Renewed => {
                event.what = What::Renewed;
                if let Some(hold) = &mut lock.hold {
                    hold.renewals += 1;
                    self.undated += usize::from(deed.deadline.is_none());
                    self.undated -= usize::from(hold.deadline.is_none());
                    hold.deadline = deed.deadline;
                }
            }
            Did::Removed => {
                event.what = What::Released;
                event.deadline = None;
                let own = match (&lock.hold, &deed.who) {
                    (Some(Hold { who: Some(holder), .. }), Some(who)) => holder.is(who),
                    _ => true,
                };
                let end = if own || deed.verified { End::Released } else { End::Lost };
                Self::end_hold(&mut self.undated, lock, deed.at, end);
                if let Some(past) = lock.past.back_mut() {
                    let at_once = deed.requests == past.hold.requests + 1;
                    past.given_up = deed.verified && at_once && past.hold.who == deed.who;
                }
            }
            Did::Missed => {
                self.add_all(deed.at, db, key, deed.who.as_ref(), found);
                return;
            }
        }
        self.push(event);
        self.add_all(deed.at, db, key, deed.who.as_ref(), found);
    }

    fn add_all(&mut self, at: UnixMs, db: usize, key: &[u8], who: Option<&Who>, found: Vec<Found>) {
        for found in found {
            self.add(at, db, key, who, found);
        }
    }

    /// Writes a finding down; the same mistake by the same client on the same key is counted.
    pub fn add(&mut self, at: UnixMs, db: usize, key: &[u8], who: Option<&Who>, found: Found) {
        let client = who.map(|who| view::Who::clone(who)).unwrap_or_default();
        let chapter = self.chapter;
        let full = self.findings.len() >= findings::FINDINGS_MAX;
        let same = self.findings.iter_mut().find(|known| {
            known.mistake == found.mistake
                && known.chapter == chapter
                && known.db == db
                && known.client.id == client.id
                && known.key == key
        });
        match same {
            Some(known) => {
                known.times += 1;
                known.at = at.0;
                known.commands = found.commands;
                known.detail = found.detail;
            }
            None if full => self.lost_findings += 1,
            None => self.findings.push(Finding {
                mistake: found.mistake,
                db,
                key: key.to_vec(),
                client,
                at: at.0,
                times: 1,
                commands: found.commands,
                detail: found.detail,
                chapter,
            }),
        }
    }

    /// `client` has hung up, or with `None` the test is over: what is held without a deadline now
    /// stays for ever.
    pub fn note_undated(&mut self, now: UnixMs, client: Option<u64>) {
        if self.undated == 0 {
            return;
        }
        let mut found: Vec<(usize, Key, Option<Who>, Found)> = Vec::new();
        for lock in self.locks.iter() {
            let Some(hold) = &lock.hold else { continue };
            let meant = client.is_none_or(|id| hold.who.as_ref().is_some_and(|who| who.id == id));
            // Whom the book never saw taking it may not have meant a lock.
            if !meant || hold.deadline.is_some() || hold.who.is_none() {
                continue;
            }
            let known = self.findings.iter().any(|known| {
                known.mistake == Mistake::NoDeadline
                    && known.chapter == self.chapter
                    && known.key == *lock.key
                    && known.db == lock.db
                    && Some(known.client.id) == hold.who.as_ref().map(|who| who.id)
            });
            if !known {
                let found_one = findings::no_deadline(hold, &lock.key, client.is_some());
                found.push((lock.db, lock.key.clone(), hold.who.clone(), found_one));
            }
        }
        found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        for (db, key, who, found) in found {
            self.add(now, db, &key, who.as_ref(), found);
        }
    }

    /// Database `db` was emptied by `who`.
    pub fn flushed(&mut self, db: usize, now: UnixMs, who: Option<&Who>, command: &str) {
        self.note_undated(now, None);
        let mut gone: Vec<Event> = Vec::new();
        for lock in self.locks.iter_mut().filter(|lock| lock.db == db) {
            if let Some(token) = lock.token() {
                gone.push(Event {
                    at: now,
                    what: What::Released,
                    db,
                    key: lock.key.clone(),
                    who: who.cloned(),
                    words: Words::one(token, command.as_bytes()),
                    deadline: None,
                    chapter: self.chapter,
                });
            }
            // Nobody loses anything that a clean-up takes away.
            Self::end_hold(&mut self.undated, lock, now, End::Released);
            // What comes after has nothing to do with what was before.
            lock.past.clear();
        }
        self.tokens = Tokens::default();
        gone.sort_by(|a, b| a.key.cmp(&b.key));
        gone.into_iter().for_each(|event| self.push(event));
    }

    /// Databases `a` and `b` have changed places.
    pub fn swapped(&mut self, a: usize, b: usize) {
        self.locks.swap(a, b);
    }

    /// KEYLATCH RESET: nothing is known any more; what was seen stays for the report of the end.
    pub fn turn_page(&mut self, now: UnixMs) {
        self.note_undated(now, None);
        self.locks = Shelf::default();
        self.undated = 0;
        self.tokens = Tokens::default();
        self.guards.clear();
        self.chapter += 1;
    }
}
