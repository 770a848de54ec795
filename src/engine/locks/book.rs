//! `Book`: the locks that are known, who holds them, and the ring of what happened. Bounded by
//! lock-history-len in events, in keys and in findings. Not here: how a command's deed is made out
//! (`observe`), what is a mistake (`findings`).

use super::findings::{self, Found, Mistake, Sight, Tokens};
use super::guard::Guard;
use super::hold::{Deed, Did, End, Hold, Key, Lock, Past, Who};
use super::view::{self, Finding, What};
use crate::base::clock::UnixMs;
use crate::base::glob;
use crate::engine::clients::Clients;
use crate::engine::session::Session;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Former holds that a lock remembers: enough to know a latecomer, and a token that comes again.
const PAST_MAX: usize = 8;

/// What `LockEvent` tells, sharing what many have in common.
pub(super) struct Event {
    pub(super) at: UnixMs,
    pub(super) what: What,
    pub(super) db: usize,
    pub(super) key: Key,
    pub(super) who: Option<Who>,
    pub(super) token: Key,
    pub(super) deadline: Option<UnixMs>,
    pub(super) command: Rc<str>,
    pub(super) chapter: u32,
}

/// The book.
pub struct Book {
    pub(super) len: usize,
    pattern: Vec<u8>,
    pub(super) dbs: Vec<HashMap<Key, Lock, ahash::RandomState>>,
    /// The keys in the order in which they were learnt, for forgetting.
    order: VecDeque<(usize, Key)>,
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
            dbs: Vec::new(),
            order: VecDeque::new(),
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
        self.make_room_for_keys();
    }

    /// Whether lock-pattern names `key`.
    pub fn names(&self, key: &[u8]) -> bool {
        !self.pattern.is_empty() && glob::matches(&self.pattern, key, false)
    }

    /// Whether keys are locks by their names alone.
    pub fn has_pattern(&self) -> bool {
        !self.pattern.is_empty()
    }

    /// The lock `key`, if it is known.
    #[inline]
    pub fn find(&self, db: usize, key: &[u8]) -> Option<&Lock> {
        self.dbs.get(db)?.get(key)
    }

    /// Whether `key` may become a lock: with a pattern only what it names does.
    pub fn may_learn(&self, key: &[u8]) -> bool {
        self.pattern.is_empty() || self.names(key)
    }

    fn learn(&mut self, db: usize, key: &[u8]) -> Key {
        if let Some(lock) = self.find(db, key) {
            return lock.key.clone();
        }
        let name: Key = key.into();
        let named = self.names(key);
        if self.dbs.len() <= db {
            self.dbs.resize_with(db + 1, || HashMap::with_hasher(ahash::RandomState::with_seeds(1, 2, 3, 4)));
        }
        let lock = Lock {
            db,
            key: name.clone(),
            hold: None,
            past: VecDeque::new(),
            waiters: Vec::new(),
            unit: 0,
            named,
        };
        self.dbs[db].insert(name.clone(), lock);
        self.order.push_back((db, name.clone()));
        self.make_room_for_keys();
        name
    }

    /// Forgets the oldest keys past the bound; those that are held have a second chance.
    fn make_room_for_keys(&mut self) {
        let mut spared = 0;
        while self.order.len() > self.len {
            let Some((db, key)) = self.order.pop_front() else { return };
            let held = self.find(db, &key).is_some_and(|lock| lock.hold.is_some());
            if held && spared < 2 {
                spared += 1;
                self.order.push_back((db, key));
            } else {
                self.drop_lock(db, &key);
            }
        }
    }

    fn drop_lock(&mut self, db: usize, key: &[u8]) {
        let lock = self.dbs.get_mut(db).and_then(|locks| locks.remove(key));
        if let Some(Lock { hold: Some(Hold { deadline: None, .. }), .. }) = lock {
            self.undated -= 1;
        }
    }

    /// `key` turned out to be something else, a counter or a list of bytes.
    pub fn forget(&mut self, db: usize, key: &[u8]) {
        if self.find(db, key).is_some_and(|lock| !lock.named) {
            self.drop_lock(db, key);
            self.order.retain(|(of, name)| *of != db || **name != *key);
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
        db: usize,
        key: &[u8],
        now: UnixMs,
        now_held: Option<(&[u8], Option<UnixMs>)>,
    ) {
        let chapter = self.chapter;
        let Some(lock) = self.dbs.get_mut(db).and_then(|locks| locks.get_mut(key)) else { return };
        let Some(hold) = &mut lock.hold else { return };
        let event = |what, at, hold: &Hold, token: Key, deadline| Event {
            at,
            what,
            db,
            key: lock.key.clone(),
            who: hold.who.clone(),
            token,
            deadline,
            command: "".into(),
            chapter,
        };
        let noted = match now_held {
            Some((value, deadline)) if value == &*hold.token => {
                if hold.deadline != deadline {
                    self.undated += usize::from(deadline.is_none());
                    self.undated -= usize::from(hold.deadline.is_none());
                    hold.deadline = deadline;
                }
                return;
            }
            Some((value, deadline)) => {
                let token: Key = value.into();
                let event =
                    Event { who: None, ..event(What::Overwritten, now, hold, token.clone(), deadline) };
                Self::end_hold(&mut self.undated, lock, now, End::Lost);
                self.undated += usize::from(deadline.is_none());
                lock.hold = Some(Hold {
                    who: None,
                    token,
                    since: now,
                    deadline,
                    renewals: 0,
                    refused: 0,
                    unit: 0,
                    command: "".into(),
                    unheard: false,
                    requests: 0,
                });
                event
            }
            None => {
                let (what, at, end) = match hold.deadline {
                    Some(deadline) => (What::Expired, deadline.min(now), End::Expired),
                    None => (What::Released, now, End::Lost),
                };
                let event = event(what, at, hold, hold.token.clone(), None);
                Self::end_hold(&mut self.undated, lock, at, end);
                event
            }
        };
        self.push(noted);
    }

    /// Whose hold it is that has passed its deadline at `now`, in every database, unsorted.
    pub fn held_keys(&self) -> Vec<(usize, Key)> {
        let all = self.dbs.iter().flat_map(HashMap::values);
        all.filter(|lock| lock.hold.is_some()).map(|lock| (lock.db, lock.key.clone())).collect()
    }

    /// Notes what a command did to one key: first what is wrong with it, then the deed itself.
    pub fn note(&mut self, deed: &Deed<'_>) {
        let key = self.learn(deed.db, deed.key);
        let (unit, chapter) = (self.unit, self.chapter);
        let Some(lock) = self.dbs[deed.db].get_mut(&key) else { return };
        if deed.did == Did::Refused {
            findings::remember_refusal(lock, deed);
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
        let token: Key = match (&lock.hold, deed.did) {
            (Some(hold), Did::Renewed | Did::Removed) => hold.token.clone(),
            _ => deed.token.into(),
        };
        let mut event = Event {
            at: deed.at,
            what: What::Acquired,
            db: deed.db,
            key: key.clone(),
            who: deed.who.clone(),
            token: token.clone(),
            deadline: deed.deadline,
            command: deed.command.clone(),
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
                lock.hold = Some(Hold {
                    who: deed.who.clone().filter(|_| !usurped || deed.deadline.is_some()),
                    token,
                    since: deed.at,
                    deadline: deed.deadline,
                    renewals: 0,
                    refused: 0,
                    unit,
                    command: deed.command.clone(),
                    unheard: false,
                    requests: deed.requests,
                });
            }
            Did::Refused => {
                event.what = What::Refused;
                if let Some(hold) = &mut lock.hold {
                    hold.refused += 1;
                    hold.unheard |= *hold.token == *deed.token;
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
                self.add_all(deed.at, deed.db, &key, deed.who.as_ref(), found);
                return;
            }
        }
        self.push(event);
        self.add_all(deed.at, deed.db, &key, deed.who.as_ref(), found);
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
                && known.key == key
                && known.client.id == client.id
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
        for lock in self.dbs.iter().flat_map(HashMap::values) {
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
                let found_one = findings::no_deadline(hold, client.is_some());
                found.push((lock.db, lock.key.clone(), hold.who.clone(), found_one));
            }
        }
        found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        for (db, key, who, found) in found {
            self.add(now, db, &key, who.as_ref(), found);
        }
    }

    /// Database `db` was emptied by `who`.
    pub fn flushed(&mut self, db: usize, now: UnixMs, who: Option<&Who>, command: &Rc<str>) {
        self.note_undated(now, None);
        let Some(locks) = self.dbs.get_mut(db) else { return };
        let mut gone: Vec<Event> = Vec::new();
        for lock in locks.values_mut() {
            let Some(hold) = &lock.hold else { continue };
            gone.push(Event {
                at: now,
                what: What::Released,
                db,
                key: lock.key.clone(),
                who: who.cloned(),
                token: hold.token.clone(),
                deadline: None,
                command: command.clone(),
                chapter: self.chapter,
            });
            // Nobody loses anything that a clean-up takes away.
            Self::end_hold(&mut self.undated, lock, now, End::Released);
        }
        // What comes after has nothing to do with what was before.
        locks.values_mut().for_each(|lock| lock.past.clear());
        self.tokens = Tokens::default();
        gone.sort_by(|a, b| a.key.cmp(&b.key));
        gone.into_iter().for_each(|event| self.push(event));
    }

    /// Databases `a` and `b` have changed places.
    pub fn swapped(&mut self, a: usize, b: usize) {
        let needed = a.max(b) + 1;
        if self.dbs.len() < needed {
            self.dbs.resize_with(needed, || HashMap::with_hasher(ahash::RandomState::with_seeds(1, 2, 3, 4)));
        }
        self.dbs.swap(a, b);
        for db in [a, b] {
            self.dbs[db].values_mut().for_each(|lock| lock.db = db);
        }
        for (db, _) in &mut self.order {
            *db = if *db == a {
                b
            } else if *db == b {
                a
            } else {
                *db
            };
        }
    }

    /// KEYLATCH RESET: nothing is known any more; what was seen stays for the report of the end.
    pub fn turn_page(&mut self, now: UnixMs) {
        self.note_undated(now, None);
        self.dbs.clear();
        self.order.clear();
        self.undated = 0;
        self.tokens = Tokens::default();
        self.guards.clear();
        self.chapter += 1;
    }
}
