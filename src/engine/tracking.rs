//! CLIENT TRACKING: which client has read which key, or listens to which prefix, and how it hears
//! that a key has changed. Not here: the command (`command::tracking`), and what a change is.
//!
//! A client in the usual mode is entered in a table under each key that it reads, and struck out
//! with the first invalidation. In broadcast mode nothing is remembered: a change is noted under
//! each prefix that it matches, and told at the end of the turn, all changes of a prefix together.

use super::core::Core;
use super::keys;
use super::spec::Flags;
use super::table::Command;
use crate::base::chance::Chance;
use crate::resp::{Args, Protocol, Reply, RespWriter};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// Where a RESP2 client hears of changed keys.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Which reads are entered in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    /// All.
    #[default]
    All,
    /// Those behind CLIENT CACHING YES.
    OptIn,
    /// All but those behind CLIENT CACHING NO.
    OptOut,
}

/// What a tracking client asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracker {
    /// The client that is told in its place.
    pub redirect: Option<u64>,
    /// That one was not there when it was to be told.
    pub redirect_broken: bool,
    pub broadcast: bool,
    pub choice: Choice,
    /// CLIENT CACHING was given for the next command.
    pub caching: bool,
    /// Its own changes are not told.
    pub no_loop: bool,
    /// In broadcast mode: what it listens to.
    pub prefixes: BTreeSet<Box<[u8]>>,
}

/// What a prefix's listeners are to hear at the end of the turn.
#[derive(Debug, Default)]
struct Prefix {
    clients: BTreeSet<usize>,
    /// The keys, each with the id of the client that changed it last, if it was one.
    changed: BTreeMap<Box<[u8]>, Option<u64>>,
}

/// Who has read what.
#[derive(Debug, Default)]
pub struct Tracking {
    /// How many clients track.
    clients: usize,
    places: HashMap<Rc<[u8]>, usize>,
    /// Dense, so that one can be chosen at random. Client ids: an id is never used twice.
    keys: Vec<(Rc<[u8]>, BTreeSet<u64>)>,
    /// Ids in all of `keys`.
    items: usize,
    prefixes: BTreeMap<Box<[u8]>, Prefix>,
    /// Some prefix has something to tell.
    pending: bool,
}

impl Tracking {
    /// Whether a change could concern anybody.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.clients > 0 || !self.keys.is_empty()
    }

    /// Clients that track.
    pub fn client_count(&self) -> usize {
        self.clients
    }

    /// Keys in the table, client ids under them, prefixes listened to.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.keys.len(), self.items, self.prefixes.len())
    }

    fn enter(&mut self, key: &[u8], id: u64) {
        let place = self.places.get(key).copied().unwrap_or_else(|| {
            let key: Rc<[u8]> = key.into();
            self.places.insert(key.clone(), self.keys.len());
            self.keys.push((key, BTreeSet::new()));
            self.keys.len() - 1
        });
        self.items += usize::from(self.keys[place].1.insert(id));
    }

    /// Takes `key` out of the table; returns who has read it.
    fn strike(&mut self, key: &[u8]) -> BTreeSet<u64> {
        let Some(place) = self.places.remove(key) else { return BTreeSet::new() };
        let (_, ids) = self.keys.swap_remove(place);
        if let Some((moved, _)) = self.keys.get(place) {
            self.places.insert(moved.clone(), place);
        }
        self.items -= ids.len();
        ids
    }

    /// A key of the table, by chance.
    fn any(&self, chance: &mut Chance) -> Option<Rc<[u8]>> {
        let place = chance.below(self.keys.len() as u64) as usize;
        self.keys.get(place).map(|(key, _)| key.clone())
    }

    fn note_changed(&mut self, key: &[u8], by: Option<u64>) {
        for (prefix, noted) in &mut self.prefixes {
            if key.starts_with(prefix) {
                noted.changed.insert(key.into(), by);
                self.pending = true;
            }
        }
    }
}

/// What is told: the keys, or that all are gone.
enum News<'a> {
    Keys(&'a [&'a [u8]]),
    All,
}

impl Core {
    /// CLIENT TRACKING ON: `client` tracks as `tracker` says, whose prefixes add to what it had.
    pub fn track(&mut self, client: usize, mut tracker: Tracker) {
        let old = self.clients.get_mut(client).tracker.take();
        self.tracking.clients += usize::from(old.is_none());
        // What CLIENT CACHING has said of the next command outlives new options, as in Redis.
        tracker.caching = old.as_ref().is_some_and(|old| old.caching);
        if tracker.broadcast {
            if tracker.prefixes.is_empty() {
                tracker.prefixes.insert(Box::default());
            }
            tracker.prefixes.extend(old.map(|old| old.prefixes).unwrap_or_default());
            for prefix in &tracker.prefixes {
                self.tracking.prefixes.entry(prefix.clone()).or_default().clients.insert(client);
            }
        }
        self.clients.get_mut(client).tracker = Some(Box::new(tracker));
        self.note_special();
        self.update_interest();
    }

    /// CLIENT TRACKING OFF, or the client's end.
    pub fn untrack(&mut self, client: usize) {
        let Some(tracker) = self.clients.get_mut(client).tracker.take() else { return };
        self.tracking.clients -= 1;
        for prefix in &tracker.prefixes {
            if let Some(listened) = self.tracking.prefixes.get_mut(prefix) {
                listened.clients.remove(&client);
                if listened.clients.is_empty() {
                    self.tracking.prefixes.remove(prefix);
                }
            }
        }
        self.note_special();
        self.update_interest();
    }

    /// `client` has run `command`: what it read is entered in the table.
    pub(super) fn remember_read(&mut self, client: usize, command: &'static Command, args: &Args<'_>) {
        let session = self.clients.get(client);
        let Some(tracker) = &session.tracker else { return };
        let wanted = match tracker.choice {
            Choice::All => true,
            Choice::OptIn => tracker.caching,
            Choice::OptOut => !tracker.caching,
        };
        // A script itself reads nothing: its commands do.
        let reads = command.has(Flags::READONLY) && !command.has(Flags::SKIP_MONITOR);
        if tracker.broadcast || !wanted || !reads {
            return;
        }
        let id = session.id;
        for key in keys::of(command.spec, args).unwrap_or_default() {
            self.tracking.enter(args.get(key.at), id);
        }
    }

    /// Whether the table is larger than tracking-table-max-keys lets it be.
    #[inline]
    pub(super) fn tracking_is_over(&self) -> bool {
        let most = self.config.tracking_table_max_keys;
        self.tracking.keys.len() as u64 > most && most > 0
    }

    /// Takes keys out of the table, whichever, until it is as small as that.
    #[cold]
    pub(super) fn limit_tracking(&mut self) {
        while self.tracking_is_over() {
            let Some(key) = self.tracking.any(&mut self.chance) else { return };
            self.invalidate_read(&key);
        }
    }

    /// `key` has changed. `by`: the client that did it; `None`: its deadline did.
    pub(super) fn invalidate(&mut self, key: &[u8], by: Option<usize>) {
        if !self.tracking.prefixes.is_empty() {
            let by = by.map(|client| self.clients.get(client).id);
            self.tracking.note_changed(key, by);
        }
        self.invalidate_read(key);
    }

    /// Tells those who have read `key`.
    fn invalidate_read(&mut self, key: &[u8]) {
        let running = self.clients.running();
        for id in self.tracking.strike(key) {
            let Some(client) = self.clients.find(id) else { continue };
            let Some(tracker) = &self.clients.get(client).tracker else { continue };
            let own = tracker.no_loop && running == Some(client);
            if !tracker.broadcast && !own {
                self.tell(client, &News::Keys(&[key]));
            }
        }
    }

    /// All keys of some database, or of all, are gone.
    pub(super) fn invalidate_all(&mut self) {
        if !self.tracking.is_used() {
            return;
        }
        for client in self.clients.by_age() {
            if self.clients.get(client).tracker.is_some() {
                self.tell(client, &News::All);
            }
        }
        self.tracking.places.clear();
        self.tracking.keys.clear();
        self.tracking.items = 0;
    }

    /// The end of a turn: tells in broadcast mode what has changed.
    #[inline]
    pub fn broadcast_changes(&mut self) {
        if self.tracking.pending {
            self.tell_broadcast();
        }
    }

    #[cold]
    fn tell_broadcast(&mut self) {
        self.tracking.pending = false;
        let mut told = Vec::new();
        for prefix in self.tracking.prefixes.values_mut().filter(|prefix| !prefix.changed.is_empty()) {
            let clients: Vec<usize> = prefix.clients.iter().copied().collect();
            told.push((clients, std::mem::take(&mut prefix.changed)));
        }
        for (clients, changed) in told {
            for client in clients {
                let session = self.clients.get(client);
                let no_loop = session.tracker.as_ref().is_some_and(|tracker| tracker.no_loop);
                let own = |by: &Option<u64>| no_loop && *by == Some(session.id);
                let keys: Vec<&[u8]> =
                    changed.iter().filter(|(_, by)| !own(by)).map(|(key, _)| &**key).collect();
                if !keys.is_empty() {
                    self.tell(client, &News::Keys(&keys));
                }
            }
        }
    }

    /// Tells `client`, or the one that it named in its place.
    fn tell(&mut self, client: usize, news: &News<'_>) {
        let session = self.clients.get_mut(client);
        let Some(tracker) = &mut session.tracker else { return };
        let mut bytes = Vec::new();
        let Some(id) = tracker.redirect else {
            if session.protocol == Protocol::Resp3 {
                write_news(&mut bytes, Protocol::Resp3, Protocol::Resp3, news);
                self.push(client, &bytes);
            }
            return;
        };
        let Some(target) = self.clients.find(id) else { return self.tell_broken(client, id) };
        let listener = self.clients.get(target);
        // Without RESP3 only a subscriber can be told anything unasked.
        if listener.protocol == Protocol::Resp3 || listener.subscriptions > 0 {
            let own = self.clients.get(client).protocol;
            write_news(&mut bytes, listener.protocol, own, news);
            self.push(target, &bytes);
        }
    }

    /// Tells `client` that the one it named is gone.
    fn tell_broken(&mut self, client: usize, id: u64) {
        let session = self.clients.get_mut(client);
        if let Some(tracker) = &mut session.tracker {
            tracker.redirect_broken = true;
        }
        if session.protocol == Protocol::Resp3 {
            let mut bytes = Vec::new();
            let mut writer = RespWriter::new(&mut bytes, Protocol::Resp3);
            writer.push(2);
            writer.bulk(b"tracking-redir-broken");
            writer.integer(id.cast_signed());
            self.push(client, &bytes);
        }
    }
}

/// `own`: what the tracking client itself speaks; Redis writes the null of a flush in that, to whomever
/// it is sent.
fn write_news(bytes: &mut Vec<u8>, protocol: Protocol, own: Protocol, news: &News<'_>) {
    let mut writer = RespWriter::new(bytes, protocol);
    if protocol == Protocol::Resp3 {
        writer.push(2);
        writer.bulk(b"invalidate");
    } else {
        writer.push(3);
        writer.bulk(b"message");
        writer.bulk(CHANNEL);
    }
    match news {
        News::All => RespWriter::new(bytes, own).null(),
        News::Keys(keys) => {
            writer.array(keys.len());
            keys.iter().for_each(|key| writer.bulk(key));
        }
    }
}
