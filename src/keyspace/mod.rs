//! Room `keyspace`: keys, their deadlines, and what changed. Nothing here knows a client, a
//! command or the protocol; `now` and chance are handed in.

pub mod access;
mod chunked;
pub mod db;
pub mod event;
pub mod expire;
mod index;
mod record;

pub use access::{Access, Ttl};
pub use db::{Db, Encoding, Slot};
pub use event::{Change, Class, Effects, Event};

/// The numbered databases.
pub struct Keyspace {
    dbs: Vec<Db>,
    hash_seed: u64,
}

impl Keyspace {
    /// `count` empty databases whose hashes are keyed by `hash_seed`.
    pub fn new(count: usize, hash_seed: u64) -> Self {
        Keyspace { dbs: (0..count).map(|_| Db::new(hash_seed)).collect(), hash_seed }
    }

    /// How many databases there are.
    pub fn count(&self) -> usize {
        self.dbs.len()
    }

    /// Database `index`, which must be below `count()`.
    pub fn db(&self, index: usize) -> &Db {
        &self.dbs[index]
    }

    /// The same, to change it. Only for `access`, `expire` and the embedding API's set-up.
    pub fn db_mut(&mut self, index: usize) -> &mut Db {
        &mut self.dbs[index]
    }

    /// Keys the hashes of databases that are emptied from here on by `seed`.
    pub fn set_hash_seed(&mut self, seed: u64) {
        self.hash_seed = seed;
    }

    /// Takes a database's content out, leaving it empty.
    pub fn take(&mut self, index: usize) -> Db {
        std::mem::replace(&mut self.dbs[index], Db::new(self.hash_seed))
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.dbs.swap(a, b);
    }
}
