//! What a command did to locks, made out by looking at its keys before and after it. Not here: what
//! is kept of it (`book`), what is wrong with it (`findings`).
//!
//! Nothing is looked at but keys that are locks, or that the command would make one: a SET without
//! NX costs one lookup in the book, a GET nothing. An expiry is noted when somebody looks next, at
//! the moment of the deadline.

use super::book::Book;
use super::findings;
use super::hold::{Deed, Did, Lock};
use super::shelf::Spot;
use super::words::Call;
use crate::base::clock::UnixMs;
use crate::engine::core::{Core, Origin};
use crate::engine::keys;
use crate::engine::spec::{Arity, Find, Flags, Group, Handler, LockPart};
use crate::engine::table::Command;
use crate::engine::watch::Watched;
use crate::keyspace::Keyspace;
use crate::resp::Args;
use smallvec::SmallVec;

/// A key as it was before the command that runs.
struct Before {
    /// Which argument it is.
    at: usize,
    /// Where the book has it.
    spot: Spot,
    existed: bool,
    deadline: Option<UnixMs>,
    /// It held what the book says, so that a change can be told.
    held: bool,
}

/// A key that a script, or a transaction's client, has looked at before it acts.
struct Looked {
    db: usize,
    key: Box<[u8]>,
    existed: bool,
    /// The value itself was read.
    value: bool,
    /// Nothing was asked but whether it is there.
    presence: bool,
}

/// What is known of the request that runs.
#[derive(Default)]
pub struct Watcher {
    before: SmallVec<[Before; 2]>,
    /// What the command asks for.
    options: Conditions,
    /// Changes to the data before the command.
    dirty: u64,
    looked: Vec<Looked>,
    /// What clients read while they watched it: the client's place, the database, the key.
    read_under_watch: Vec<(usize, usize, Box<[u8]>)>,
}

/// Reads under a watch that are remembered, over all clients.
const READS_MAX: usize = 10_000;

/// What the options of a command that stores, removes or renews ask for.
#[derive(Clone, Copy, Default)]
struct Conditions {
    /// NX.
    new: bool,
    /// IFEQ or IFDEQ.
    equal: bool,
    /// Any other condition that can keep it from acting.
    other: bool,
    /// The argument that the value is compared with.
    compare: Option<usize>,
}

fn conditions(command: &Command, args: &Args<'_>) -> Conditions {
    let mut found = Conditions::default();
    let find = command.spec.keys.first().map(|keys| keys.find);
    let mut at = match (command.spec.lock, find) {
        (LockPart::StoreNew, _) => {
            found.new = true;
            return found;
        }
        (LockPart::RemoveIf, _) if args.len() == 3 => {
            found.equal = true;
            found.compare = Some(2);
            return found;
        }
        (LockPart::RemoveIf, _) => 2,
        (LockPart::Renew, _) => 3,
        (LockPart::Store, Some(Find::KeyNum(..))) => {
            2 + 2 * args
                .int(1)
                .ok()
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(0)
                .min(args.len())
        }
        (LockPart::Store, Some(Find::Range(0, ..))) if matches!(command.spec.arity, Arity::AtLeast(_)) => 3,
        _ => return found,
    };
    while at < args.len() {
        let is = |word| args.is(at, word);
        if is("ifeq") || is("ifdeq") {
            found.equal = true;
            found.compare = Some(at + 1);
            at += 1;
        } else if is("ifne") || is("ifdne") {
            found.other = true;
            at += 1;
        } else if is("nx") && command.spec.lock == LockPart::Store {
            found.new = true;
        } else if is("nx") || is("xx") || is("gt") || is("lt") {
            found.other = true;
        } else if is("ex") || is("px") || is("exat") || is("pxat") {
            at += 1;
        }
        at += 1;
    }
    found
}

/// The one argument that is a key, whatever the others are.
fn single_key(command: &Command) -> Option<usize> {
    let one = matches!(command.spec.keys, [keys] if matches!(keys.find, Find::Range(0, ..)));
    command.first_key.filter(|_| one)
}

/// The arguments that are keys.
fn key_places(command: &Command, args: &Args<'_>) -> SmallVec<[usize; 4]> {
    match single_key(command) {
        Some(at) if at < args.len() => SmallVec::from_slice(&[at]),
        _ if command.spec.keys.is_empty() => SmallVec::new(),
        _ => keys::of(command.spec, args).into_iter().flatten().map(|key| key.at).collect(),
    }
}

/// The value and the deadline of a key that is there.
fn look<'k>(
    keyspace: &'k Keyspace,
    db: usize,
    key: &[u8],
    now: UnixMs,
) -> Option<(&'k [u8], Option<UnixMs>)> {
    let db = keyspace.db(db);
    let slot = db.find(key);
    if !slot.is_some() {
        return None;
    }
    let deadline = db.deadline(slot);
    deadline.is_none_or(|deadline| deadline > now).then(|| (db.value(slot), deadline))
}

impl Core {
    /// Before a command runs.
    #[inline(never)]
    pub(in crate::engine) fn look_at_locks(
        &mut self,
        client: usize,
        command: &'static Command,
        args: &Args<'_>,
        origin: Origin,
    ) {
        let now = self.now();
        let db = self.clients.get(client).db;
        let Some(book) = self.book.as_deref_mut() else { return };
        let watcher = &mut self.lock_watcher;
        if origin == Origin::Client {
            if self.script.is_some() {
                return; // a visitor while a script overruns: what the script has seen stays
            }
            book.unit += 1;
            watcher.looked.clear();
            if command.has(Flags::RUNS_QUEUE) && !watcher.read_under_watch.is_empty() {
                watcher.begin_transaction(client, &self.clients.get(client).watched);
            }
        }
        watcher.before.clear();
        watcher.dirty = self.effects.dirty - self.effects.expired;
        if !command.has(Flags::WRITE) || !matches!(command.spec.handler, Handler::Keys(_)) {
            return;
        }
        let part = command.spec.lock;
        let stores = matches!(part, LockPart::Store | LockPart::StoreNew);
        if origin == Origin::Client && !book.has_pattern() {
            // The most frequent case: one key that is no lock, and no option that could make it one.
            let plain = !stores || (part == LockPart::Store && args.len() <= 3);
            if plain && single_key(command).is_some_and(|at| !book.seek(db, args.get(at)).is_known()) {
                return;
            }
        }
        watcher.options = conditions(command, args);
        let takes = stores && watcher.options.new;
        for at in key_places(command, args) {
            let key = args.get(at);
            let spot = book.seek(db, key);
            let known = spot.is_known();
            if !known {
                let scripted = stores && origin != Origin::Client && watcher.saw_it_missing(db, key);
                let named = stores && book.has_pattern() && book.names(key);
                if !(named || ((takes || scripted) && book.may_learn(key))) {
                    continue;
                }
            }
            let is = look(&self.keyspace, db, key, now);
            if known {
                book.reconcile(spot, db, key, now, is);
            }
            watcher.before.push(Before {
                at,
                spot,
                existed: is.is_some(),
                deadline: is.and_then(|(_, deadline)| deadline),
                held: known && book.at(spot, db, key).is_some_and(|lock| lock.hold.is_some()),
            });
        }
    }

    /// After it has run, and `failed` or not.
    #[inline(never)]
    pub(in crate::engine) fn note_in_book(
        &mut self,
        client: usize,
        command: &'static Command,
        args: &Args<'_>,
        origin: Origin,
        failed: bool,
    ) {
        if self.script.is_some() && origin == Origin::Client {
            return;
        }
        let is_keys = matches!(command.spec.handler, Handler::Keys(_));
        // A write of what is no lock: most commands end here.
        if is_keys && command.has(Flags::WRITE) && !failed && self.lock_watcher.before.is_empty() {
            if self.book.as_ref().is_some_and(|book| !book.guards.is_empty()) {
                self.note_guarded(client, command, args, origin);
            }
            return;
        }
        let now = self.now();
        let db = self.clients.get(client).db;
        let call = Call { command, args: *args, origin };
        let Some(book) = self.book.as_deref_mut() else { return };
        let watcher = &mut self.lock_watcher;
        let requests = book.requests(&self.clients, client);
        if failed {
            watcher.before.clear();
            if origin == Origin::Client {
                book.note_failure(&self.clients, client);
            }
        } else if is_keys && command.has(Flags::READONLY) {
            let watches = origin == Origin::Client && !self.clients.get(client).watched.is_empty();
            if origin == Origin::Script || watches {
                let access = command.spec.keys.first().is_some_and(|keys| keys.flags.contains(&"access"));
                let value = command.spec.group == Group::String && access;
                for at in key_places(command, args) {
                    let key = args.get(at);
                    let existed = look(&self.keyspace, db, key, now).is_some();
                    if origin == Origin::Script {
                        watcher.looked.push(Looked {
                            db,
                            key: key.into(),
                            existed,
                            value,
                            presence: !access,
                        });
                    } else if value && watcher.read_under_watch.len() < READS_MAX {
                        watcher.read_under_watch.push((client, db, key.into()));
                    }
                }
            }
            if command.spec.lock == LockPart::Walk {
                let who = book.who(&self.clients, client);
                let found = findings::keys_walk(&who, &call);
                book.add(now, db, args.get(1), Some(&who), found);
            }
            return;
        }
        let paced_library = self.clients.get(client).lib_name.starts_with(b"redis-py");
        let dirty = self.effects.dirty - self.effects.expired;
        let acted = dirty != watcher.dirty;
        if !watcher.before.is_empty() {
            let before = std::mem::take(&mut watcher.before);
            let options = watcher.options;
            let who = book.who(&self.clients, client);
            for was in &before {
                let key = args.get(was.at);
                let compared = origin != Origin::Client && watcher.compared(db, key);
                let (did, token, deadline) = if was.existed && !acted && options.new {
                    // Refused: the key is as it was, and need not be looked at again.
                    let offered = args.try_get(was.at + 1).unwrap_or_default();
                    (Did::Refused, offered, was.deadline)
                } else {
                    let is = look(&self.keyspace, db, key, now);
                    let lock = book.at(was.spot, db, key);
                    let step = Step { call: &call, options: &options, was, is, lock, acted, compared };
                    match step.did(book, key) {
                        Made::Lock(did) => {
                            let (value, deadline) = is.unwrap_or_default();
                            (did, value, deadline)
                        }
                        Made::Counter => {
                            book.forget(db, key);
                            continue;
                        }
                        Made::Nothing => continue,
                    }
                };
                book.note(&Deed {
                    at: now,
                    db,
                    key,
                    spot: was.spot,
                    who: Some(who.clone()),
                    did,
                    token,
                    deadline,
                    part: command.spec.lock,
                    verified: compared || options.equal,
                    call,
                    requests,
                    time_runs: self.clock.runs(),
                    paced_library,
                });
            }
        }
        let guarded = is_keys && !failed && !book.guards.is_empty();
        // A script that compared and let it be: its caller may have come too late.
        if !is_keys && origin != Origin::Script && !failed && !watcher.looked.is_empty() {
            let looked = std::mem::take(&mut watcher.looked);
            let who = book.who(&self.clients, client);
            for seen in &looked {
                let spot = book.seek(seen.db, &seen.key);
                let lock = book.at(spot, seen.db, &seen.key);
                let untouched = lock.is_some_and(|lock| lock.unit != book.unit);
                // It looked if the lock was free, and it was not.
                let refused = seen.presence && seen.existed;
                if !untouched || !(seen.value || refused) {
                    continue;
                }
                let is = look(&self.keyspace, seen.db, &seen.key, now);
                book.reconcile(spot, seen.db, &seen.key, now, is);
                book.note(&Deed {
                    at: now,
                    db: seen.db,
                    key: &seen.key,
                    spot,
                    who: Some(who.clone()),
                    did: if refused { Did::Refused } else { Did::Missed },
                    token: b"",
                    deadline: None,
                    part: LockPart::None,
                    verified: true,
                    call,
                    requests,
                    time_runs: self.clock.runs(),
                    paced_library,
                });
            }
        }
        if guarded {
            self.note_guarded(client, command, args, origin);
        }
    }

    /// A write, while GUARD has named what is written under which lock.
    #[cold]
    fn note_guarded(&mut self, client: usize, command: &Command, args: &Args<'_>, origin: Origin) {
        if self.effects.dirty - self.effects.expired == self.lock_watcher.dirty {
            return; // refused, or nothing to be done
        }
        let covered = |at: &usize| {
            let guards = self.book.iter().flat_map(|book| &book.guards);
            guards.into_iter().any(|guard| guard.covers(args.get(*at)))
        };
        let places: SmallVec<[usize; 4]> = key_places(command, args).into_iter().filter(covered).collect();
        if places.is_empty() {
            return;
        }
        self.refresh_book();
        let now = self.now();
        let db = self.clients.get(client).db;
        let Some(book) = self.book.as_deref_mut() else { return };
        let who = book.who(&self.clients, client);
        let call = Call { command, args: *args, origin };
        for at in places {
            let compared = |lock: &[u8]| self.lock_watcher.compared(db, lock);
            book.check_guards(now, db, args.get(at), &who, &call, compared);
        }
    }

    /// Brings every lock that is held up to this moment.
    pub(super) fn refresh_book(&mut self) {
        let now = self.now();
        let Some(book) = self.book.as_deref_mut() else { return };
        let mut held = book.held_keys();
        // In the order of their deadlines, as it happened.
        held.sort_by_cached_key(|(db, key)| {
            let lock = book.find(*db, key).and_then(|lock| lock.hold.as_ref());
            (lock.and_then(|hold| hold.deadline), *db, key.clone())
        });
        for (db, key) in held {
            book.reconcile(book.seek(db, &key), db, &key, now, look(&self.keyspace, db, &key, now));
        }
    }

    /// A database was emptied.
    pub(in crate::engine) fn note_flushed(&mut self, db: usize) {
        let now = self.now();
        if let Some(book) = self.book.as_deref_mut() {
            let who = self.clients.running().map(|client| book.who(&self.clients, client));
            let name = self.clients.running().and_then(|client| self.clients.get(client).last_command);
            let command = name.map_or(String::new(), |id| self.table.get(id).full_name.to_ascii_uppercase());
            book.flushed(db, now, who.as_ref(), &command);
        }
    }

    /// The client at `place` has gone.
    pub(in crate::engine) fn note_departure(&mut self, place: usize) {
        if self.book.is_none() {
            return;
        }
        self.lock_watcher.read_under_watch.retain(|(client, ..)| *client != place);
        let now = self.now();
        let id = self.clients.get(place).id;
        if let Some(book) = self.book.as_deref_mut() {
            book.note_undated(now, Some(id));
        }
    }

    /// KEYLATCH RESET: a new page.
    pub(in crate::engine) fn turn_page_of_book(&mut self) {
        self.refresh_book();
        let now = self.now();
        if let Some(book) = self.book.as_deref_mut() {
            book.turn_page(now);
        }
        self.lock_watcher = Watcher::default();
    }
}

impl Watcher {
    /// What `client` read while it watched it is compared as well as in a script: its transaction
    /// does not run where it has changed.
    fn begin_transaction(&mut self, client: usize, watched: &[Watched]) {
        for (reader, db, key) in std::mem::take(&mut self.read_under_watch) {
            if reader != client {
                self.read_under_watch.push((reader, db, key));
            } else if watched.iter().any(|watched| watched.db == db && watched.key == key) {
                self.looked.push(Looked { db, key, existed: true, value: true, presence: false });
            }
        }
    }

    fn compared(&self, db: usize, key: &[u8]) -> bool {
        self.looked.iter().any(|seen| seen.value && seen.db == db && *seen.key == *key)
    }

    fn saw_it_missing(&self, db: usize, key: &[u8]) -> bool {
        self.looked.iter().any(|seen| !seen.existed && seen.db == db && *seen.key == *key)
    }
}

/// One key before and after.
struct Step<'a> {
    call: &'a Call<'a>,
    options: &'a Conditions,
    was: &'a Before,
    is: Option<(&'a [u8], Option<UnixMs>)>,
    /// What the book has of it.
    lock: Option<&'a Lock>,
    acted: bool,
    compared: bool,
}

/// What became of a key.
enum Made {
    Lock(Did),
    /// It is none: it counts.
    Counter,
    Nothing,
}

impl From<Option<Did>> for Made {
    fn from(did: Option<Did>) -> Made {
        did.map_or(Made::Nothing, Made::Lock)
    }
}

impl Step<'_> {
    /// What was done to `key` as a lock.
    fn did(&self, book: &Book, key: &[u8]) -> Made {
        let part = self.call.command.spec.lock;
        let stores = matches!(part, LockPart::Store | LockPart::StoreNew);
        let did = match (self.was.existed, self.is) {
            (false, None) => {
                let meant = match part {
                    LockPart::Remove | LockPart::RemoveIf | LockPart::Renew => true,
                    // With XX or its like it was to renew what is there.
                    LockPart::Store => self.options.equal || self.options.other,
                    _ => false,
                };
                (meant && self.lock.is_some()).then_some(Did::Missed)
            }
            (false, Some((_, deadline))) => {
                // A script that found it missing must give it a deadline to make a lock of it.
                let scripted = self.call.origin != Origin::Client && deadline.is_some();
                let meant = self.options.new || scripted || self.lock.is_some() || book.names(key);
                (stores && meant).then_some(Did::Acquired)
            }
            (true, None) => self.was.held.then_some(Did::Removed),
            (true, Some((value, deadline))) => {
                if !self.acted {
                    return self.unchanged(value).into();
                }
                let same = self.lock.and_then(Lock::token) == Some(value);
                if same && (deadline != self.was.deadline || matches!(part, LockPart::Renew) || stores) {
                    return Made::Lock(Did::Renewed);
                }
                if same {
                    return Made::Nothing;
                }
                if part == LockPart::Count {
                    return if self.was.held { Made::Counter } else { Made::Nothing };
                }
                // By a value of its own, another key's (RENAME, COPY), or in part (APPEND, SETBIT).
                (stores || self.was.held).then_some(Did::Overwritten)
            }
        };
        did.into()
    }

    /// The key is as it was: the command meant another's lock.
    fn unchanged(&self, value: &[u8]) -> Option<Did> {
        let wanted = self.options.compare.and_then(|at| self.call.args.try_get(at));
        let other = wanted.is_some_and(|wanted| wanted != value);
        (self.options.equal && other && self.lock.is_some() && !self.compared).then_some(Did::Missed)
    }
}
