//! Channels, patterns and shard channels: who listens to what, and how a message reaches them. Not
//! here: the commands (`command::pubsub`), and which messages a change makes (`settle`).

use super::core::Core;
use crate::base::glob;
use crate::resp::{Protocol, Reply, RespWriter};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Channel,
    Pattern,
    /// A channel of its own world: SPUBLISH and SSUBSCRIBE.
    Shard,
}

/// What one client listens to, of each kind in the order in which it asked.
#[derive(Debug, Default)]
struct Own {
    lists: [Vec<Rc<[u8]>>; 3],
}

/// Who listens to what.
#[derive(Debug, Default)]
pub struct PubSub {
    channels: HashMap<Rc<[u8]>, BTreeSet<usize>>,
    shards: HashMap<Rc<[u8]>, BTreeSet<usize>>,
    /// In order, so that a client whose patterns match several times always gets the same order.
    patterns: BTreeMap<Rc<[u8]>, BTreeSet<usize>>,
    clients: HashMap<usize, Own>,
}

impl PubSub {
    /// Whether a message on a plain channel could reach anybody.
    #[inline]
    pub fn anyone_listens(&self) -> bool {
        !self.channels.is_empty() || !self.patterns.is_empty()
    }

    /// Has `client` listen; tells whether it did not before.
    fn add(&mut self, client: usize, kind: Kind, name: &[u8]) -> bool {
        if self.listeners(kind, name).is_some_and(|listeners| listeners.contains(&client)) {
            return false;
        }
        let known = match kind {
            Kind::Channel => self.channels.get_key_value(name),
            Kind::Shard => self.shards.get_key_value(name),
            Kind::Pattern => self.patterns.get_key_value(name),
        };
        let name: Rc<[u8]> = known.map_or_else(|| name.into(), |(name, _)| name.clone());
        let listeners = match kind {
            Kind::Channel => self.channels.entry(name.clone()).or_default(),
            Kind::Shard => self.shards.entry(name.clone()).or_default(),
            Kind::Pattern => self.patterns.entry(name.clone()).or_default(),
        };
        listeners.insert(client);
        self.clients.entry(client).or_default().lists[kind as usize].push(name);
        true
    }

    /// Has `client` listen no more; tells whether it did.
    fn remove(&mut self, client: usize, kind: Kind, name: &[u8]) -> bool {
        let list = self.clients.get_mut(&client).map(|own| &mut own.lists[kind as usize]);
        let Some(list) = list else { return false };
        let Some(at) = list.iter().rposition(|own| **own == *name) else { return false };
        list.remove(at);
        self.leave(client, kind, name);
        true
    }

    fn leave(&mut self, client: usize, kind: Kind, name: &[u8]) {
        fn is_last(listeners: Option<&mut BTreeSet<usize>>, client: usize) -> bool {
            listeners.is_some_and(|listeners| listeners.remove(&client) && listeners.is_empty())
        }
        match kind {
            Kind::Channel if is_last(self.channels.get_mut(name), client) => {
                self.channels.remove(name);
            }
            Kind::Shard if is_last(self.shards.get_mut(name), client) => {
                self.shards.remove(name);
            }
            Kind::Pattern if is_last(self.patterns.get_mut(name), client) => {
                self.patterns.remove(name);
            }
            _ => {}
        }
        if self.clients.get(&client).is_some_and(|own| own.lists.iter().all(Vec::is_empty)) {
            self.clients.remove(&client);
        }
    }

    /// What `client` listens to of `kind`, in the order in which it asked.
    pub fn names(&self, client: usize, kind: Kind) -> &[Rc<[u8]>] {
        self.clients.get(&client).map_or(&[], |own| &own.lists[kind as usize])
    }

    /// To how many of `kind` `client` listens.
    pub fn count(&self, client: usize, kind: Kind) -> usize {
        self.names(client, kind).len()
    }

    fn listeners(&self, kind: Kind, name: &[u8]) -> Option<&BTreeSet<usize>> {
        match kind {
            Kind::Channel => self.channels.get(name),
            Kind::Shard => self.shards.get(name),
            Kind::Pattern => self.patterns.get(name),
        }
    }

    /// How many listen to `name`.
    pub fn listener_count(&self, kind: Kind, name: &[u8]) -> usize {
        self.listeners(kind, name).map_or(0, BTreeSet::len)
    }

    /// The names of `kind` that somebody listens to.
    pub fn active(&self, kind: Kind) -> Vec<&[u8]> {
        match kind {
            Kind::Channel => self.channels.keys().map(|name| &**name).collect(),
            Kind::Shard => self.shards.keys().map(|name| &**name).collect(),
            Kind::Pattern => self.patterns.keys().map(|name| &**name).collect(),
        }
    }

    /// How many names of `kind` somebody listens to.
    pub fn active_count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel => self.channels.len(),
            Kind::Shard => self.shards.len(),
            Kind::Pattern => self.patterns.len(),
        }
    }
}

/// A message in both protocols, each written when the first listener speaks it.
struct Parcel<'a> {
    words: &'a [&'a [u8]],
    written: [Option<Rc<Vec<u8>>>; 2],
}

impl<'a> Parcel<'a> {
    fn new(words: &'a [&'a [u8]]) -> Self {
        Parcel { words, written: [None, None] }
    }

    fn bytes(&mut self, protocol: Protocol) -> &Rc<Vec<u8>> {
        self.written[usize::from(protocol == Protocol::Resp3)].get_or_insert_with(|| {
            let mut out = Vec::new();
            let mut writer = RespWriter::new(&mut out, protocol);
            writer.push(self.words.len());
            self.words.iter().for_each(|word| writer.bulk(word));
            Rc::new(out)
        })
    }
}

impl Core {
    /// Sends `bytes` to `client` beside its own replies. Nobody waits for it: if it leaves too much
    /// unread, it goes.
    pub fn push(&mut self, client: usize, bytes: &[u8]) {
        if !self.clients.is_going(client) {
            self.clients.send(client, bytes);
            self.check_output(client);
        }
    }

    /// The same with what others are sent too.
    fn push_shared(&mut self, client: usize, bytes: &Rc<Vec<u8>>) {
        if !self.clients.is_going(client) {
            self.clients.send_shared(client, bytes);
            self.check_output(client);
        }
    }

    /// Publishes `message`; returns how many it went to. A client with several matching patterns
    /// gets it, and counts, several times.
    pub fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        if !self.pubsub.anyone_listens() {
            return 0;
        }
        let mut reached = self.deliver(Kind::Channel, channel, &[b"message", channel, message]);
        let matching: Vec<Rc<[u8]>> = self
            .pubsub
            .patterns
            .keys()
            .filter(|pattern| glob::matches(pattern, channel, false))
            .cloned()
            .collect();
        for pattern in matching {
            reached += self.deliver(Kind::Pattern, &pattern, &[b"pmessage", &pattern, channel, message]);
        }
        reached
    }

    /// Publishes `message` on a shard channel; returns how many it went to.
    pub fn publish_to_shard(&mut self, channel: &[u8], message: &[u8]) -> usize {
        self.deliver(Kind::Shard, channel, &[b"smessage", channel, message])
    }

    fn deliver(&mut self, kind: Kind, name: &[u8], words: &[&[u8]]) -> usize {
        let Some(listeners) = self.pubsub.listeners(kind, name) else { return 0 };
        let listeners: Vec<usize> = listeners.iter().copied().collect();
        let mut parcel = Parcel::new(words);
        for &client in &listeners {
            let protocol = self.clients.get(client).protocol;
            self.push_shared(client, parcel.bytes(protocol));
        }
        listeners.len()
    }

    /// Has `client` listen to `name`; returns to how many it listens then, in the way that its
    /// confirmation counts.
    pub fn subscribe(&mut self, client: usize, kind: Kind, name: &[u8]) -> usize {
        if self.pubsub.add(client, kind, name) {
            self.clients.get_mut(client).subscriptions += 1;
            self.update_interest();
        }
        self.confirmed_count(client, kind)
    }

    /// Has `client` listen to `name` no more; returns to how many it listens then.
    pub fn unsubscribe(&mut self, client: usize, kind: Kind, name: &[u8]) -> usize {
        if self.pubsub.remove(client, kind, name) {
            self.clients.get_mut(client).subscriptions -= 1;
            self.update_interest();
        }
        self.confirmed_count(client, kind)
    }

    /// Plain channels and patterns are counted together, shard channels apart.
    pub fn confirmed_count(&self, client: usize, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.pubsub.count(client, Kind::Shard),
            _ => self.pubsub.count(client, Kind::Channel) + self.pubsub.count(client, Kind::Pattern),
        }
    }

    /// Has `client` listen to nothing any more.
    pub fn unsubscribe_from_all(&mut self, client: usize) {
        let Some(own) = self.pubsub.clients.remove(&client) else { return };
        for (kind, names) in [Kind::Channel, Kind::Pattern, Kind::Shard].into_iter().zip(own.lists) {
            names.iter().for_each(|name| self.pubsub.leave(client, kind, name));
        }
        self.clients.get_mut(client).subscriptions = 0;
        self.update_interest();
    }
}
