//! `Book`: the locks that are known, who holds them, and the ring of what happened. Bounded by
//! lock-history-len in events, in keys and in findings. Not here: how a command's deed is made out
//! (`observe`), what is a mistake (`findings`).

use super::findings::{self, Found, Guard, Mistake, Sight, Tokens};
use super::view::{self, Finding, HeldLock, LockEvent, What};
use crate::base::clock::UnixMs;
use crate::base::glob;
use crate::engine::clients::Clients;
use crate::engine::session::Session;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// A client, shared by all that tells of it.
pub type Who = Rc<view::Who>;
/// A key, shared by the lock and its events.
pub type Key = Rc<[u8]>;

/// Former holds that a lock remembers: enough to know a latecomer, and a token that comes again.
const PAST_MAX: usize = 8;

/// One holder's time with a lock.
#[derive(Clone, Debug)]
pub struct Hold {
    /// `None`: nobody that the book saw taking it.
    pub who: Option<Who>,
    pub token: Key,
    pub since: UnixMs,
    pub deadline: Option<UnixMs>,
    pub renewals: u64,
    pub refused: u64,
    /// The request in which it was taken: what a script or a transaction does is one.
    pub unit: u64,
    /// The command that took it.
    pub command: Rc<str>,
    /// Its own token was refused meanwhile: the holder did not hear that it holds the lock.
    pub unheard: bool,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By a command that removed it.
    Released,
    /// By its deadline.
    Expired,
    /// Another's value took its place, or another removed it.
    Lost,
}

/// A hold that is over.
#[derive(Clone, Debug)]
pub struct Past {
    pub hold: Hold,
    pub ended: UnixMs,
    pub end: End,
}

/// Somebody who was refused, and when of late.
#[derive(Debug)]
pub struct Waiter {
    pub who: Who,
    pub since: UnixMs,
    /// The latest attempts, the oldest first.
    pub at: VecDeque<UnixMs>,
    pub commands: Rc<str>,
}

/// A key that is a lock.
#[derive(Debug)]
pub struct Lock {
    pub db: usize,
    pub key: Key,
    pub hold: Option<Hold>,
    /// The latest last.
    pub past: VecDeque<Past>,
    pub waiters: Vec<Waiter>,
    /// The last request that did anything to it.
    pub unit: u64,
    /// Named by lock-pattern, not learnt.
    named: bool,
}

/// What became of a lock by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    Acquired,
    Refused,
    Renewed,
    Removed,
    Overwritten,
    /// It was meant for a lock that is gone, or another's, and changed nothing.
    Missed,
}

/// What a command did to one key.
pub struct Deed<'a> {
    pub at: UnixMs,
    pub db: usize,
    pub key: &'a [u8],
    pub who: Option<Who>,
    pub did: Did,
    /// What the key holds after it, or what was offered.
    pub token: &'a [u8],
    pub deadline: Option<UnixMs>,
    pub part: crate::engine::spec::LockPart,
    /// Who did it had compared the value with its own, in the same moment.
    pub verified: bool,
    pub command: Rc<str>,
    pub args: &'a [&'a [u8]],
    /// Time goes on by itself: what happens at equal distances does so roughly.
    pub time_runs: bool,
    /// The client's library retries at a fixed pace and says so (`lib-name`).
    pub paced_library: bool,
}

struct Event {
    at: UnixMs,
    what: What,
    db: usize,
    key: Key,
    who: Option<Who>,
    token: Key,
    deadline: Option<UnixMs>,
    command: Rc<str>,
    chapter: u32,
}

/// The book.
pub struct Book {
    len: usize,
    pattern: Vec<u8>,
    dbs: Vec<HashMap<Key, Lock, ahash::RandomState>>,
    /// The keys in the order in which they were learnt, for forgetting.
    order: VecDeque<(usize, Key)>,
    events: VecDeque<Event>,
    findings: Vec<Finding>,
    /// Findings that there was no room for.
    pub lost_findings: u64,
    /// Holds without a deadline: what a client's end is looked at for.
    undated: usize,
    tokens: Tokens,
    pub guards: Vec<Guard>,
    known: Vec<Option<Who>>,
    /// The number of the request that runs.
    pub unit: u64,
    /// How many KEYLATCH RESETs there were.
    chapter: u32,
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
            if held && spared < 16 {
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
            lock.past.push_back(Past { hold, ended: at, end });
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
                lock.hold = Some(Hold {
                    who: deed.who.clone(),
                    token,
                    since: deed.at,
                    deadline: deed.deadline,
                    renewals: 0,
                    refused: 0,
                    unit,
                    command: deed.command.clone(),
                    unheard: false,
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

    /// The locks that are held, whose keys match `pattern`, by key.
    pub fn held(&self, pattern: &[u8]) -> Vec<HeldLock> {
        let mut held: Vec<HeldLock> = self
            .dbs
            .iter()
            .flat_map(HashMap::values)
            .filter(|lock| glob::matches(pattern, &lock.key, false) || pattern == b"*")
            .filter_map(|lock| {
                let hold = lock.hold.as_ref()?;
                Some(HeldLock {
                    db: lock.db,
                    key: lock.key.to_vec(),
                    token: hold.token.to_vec(),
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
            token: event.token.to_vec(),
            deadline: event.deadline.map(|at| at.0),
            command: event.command.to_string(),
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

impl Book {
    /// `who` wrote `data`: was it under a lock that it has lost? `compared`: the same script had
    /// looked at that lock.
    pub fn check_guards(
        &mut self,
        now: UnixMs,
        db: usize,
        data: &[u8],
        who: &Who,
        command: &str,
        compared: impl Fn(&[u8]) -> bool,
    ) {
        let guards: Vec<&Guard> = self.guards.iter().filter(|guard| guard.covers(data)).collect();
        if guards.is_empty() {
            return;
        }
        // Locks are looked at as they are now, not as they were when somebody looked last.
        let Some(locks) = self.dbs.get(db) else { return };
        let meant = || locks.values().filter(|lock| guards.iter().any(|guard| guard.is_for(&lock.key, data)));
        if meant().any(|lock| compared(&lock.key)) {
            return;
        }
        if let Some(found) = findings::expired_owner_write(who, now, meant(), command) {
            self.add(now, db, data, Some(who), found);
        }
    }
}
