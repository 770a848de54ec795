//! `Event`: every name a change can have, with its notification class; `Effects`: what the
//! command that is running has done. Not here: what follows from it (`engine::settle`).

use super::db::{Db, Slot};

/// The notification classes of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class(pub u16);

impl Class {
    /// None: nobody is notified.
    pub const NONE: Class = Class(0);
    /// `K`: publish on `__keyspace@<db>__:<key>`.
    pub const KEYSPACE: Class = Class(1);
    /// `E`: publish on `__keyevent@<db>__:<event>`.
    pub const KEYEVENT: Class = Class(1 << 1);
    /// `g`: commands of any type (DEL, EXPIRE, RENAME, …).
    pub const GENERIC: Class = Class(1 << 2);
    /// `$`: string commands.
    pub const STRING: Class = Class(1 << 3);
    /// `x`: a key expired.
    pub const EXPIRED: Class = Class(1 << 8);
    /// `e`: a key was evicted.
    pub const EVICTED: Class = Class(1 << 9);
    /// `m`: a read missed.
    pub const KEY_MISS: Class = Class(1 << 11);
    /// `n`: a key is new.
    pub const NEW: Class = Class(1 << 14);
}

/// What was done to a key: the name that notifications give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The name, as subscribers see it.
    pub name: &'static str,
    /// Its class.
    pub class: Class,
}

macro_rules! events {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $class:ident;)*) => {
        impl Event { $($(#[$doc])* pub const $id: Event = Event { name: $name, class: Class::$class };)* }
    };
}

events! {
    SET = "set", STRING;
    SETRANGE = "setrange", STRING;
    SETBIT = "setbit", STRING;
    APPEND = "append", STRING;
    INCRBY = "incrby", STRING;
    DECRBY = "decrby", STRING;
    INCRBYFLOAT = "incrbyfloat", STRING;
    PFADD = "pfadd", STRING;
    DEL = "del", GENERIC;
    EXPIRE = "expire", GENERIC;
    PERSIST = "persist", GENERIC;
    RENAME_FROM = "rename_from", GENERIC;
    RENAME_TO = "rename_to", GENERIC;
    MOVE_FROM = "move_from", GENERIC;
    MOVE_TO = "move_to", GENERIC;
    COPY_TO = "copy_to", GENERIC;
    RESTORE = "restore", GENERIC;
    EXPIRED = "expired", EXPIRED;
    EVICTED = "evicted", EVICTED;
    /// A change that Redis gives no name (PFCOUNT keeps its count): it breaks watches, no more.
    UNNAMED = "", NONE;
    /// A key came into being.
    NEW = "new", NEW;
    /// A read found nothing.
    KEY_MISS = "keymiss", KEY_MISS;
}

/// One thing that happened, in order.
#[derive(Debug)]
pub enum Change {
    /// A key changed, or a name that follows a change (`expire` after `set`).
    Key {
        /// Which database.
        db: usize,
        /// Which key.
        key: Box<[u8]>,
        /// What was done.
        event: Event,
        /// Whether the key itself changed (watches break, tracking invalidates), or this is
        /// only one more name for a change that was already recorded, or a miss.
        touched: bool,
    },
    /// A database was emptied. Its old content comes along: watches need to know which keys were
    /// there, and dropping it is the reaper's work.
    Flushed {
        /// Which database.
        db: usize,
        /// What it held.
        old: Box<Db>,
    },
    /// Two databases changed places.
    Swapped(usize, usize),
}

/// What the running command has done. Only counts while nobody listens.
#[derive(Debug, Default)]
pub struct Effects {
    /// Whether anybody wants to hear of single changes (watches, notifications, tracking,
    /// lock history).
    pub listening: bool,
    /// Which notification classes anyone hears; misses and new keys are recorded by it.
    pub classes: u16,
    /// Changes in order; empty while nobody listens.
    pub changes: Vec<Change>,
    /// Modifications of the data since the start (`rdb_changes_since_last_save`).
    pub dirty: u64,
    /// Keys removed because their deadline had passed.
    pub expired: u64,
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
}

impl Effects {
    /// Notes a change of `key`.
    #[inline]
    pub fn record(&mut self, db: usize, key: &[u8], event: Event) {
        self.dirty += 1;
        self.touch(db, key, event);
    }

    /// Notes a change of `key` that is part of one already counted.
    #[inline]
    pub fn touch(&mut self, db: usize, key: &[u8], event: Event) {
        if self.listening {
            self.changes.push(Change::Key { db, key: key.into(), event, touched: true });
        }
    }

    /// Notes one more name for what was done to `key`.
    #[inline]
    pub fn also(&mut self, db: usize, key: &[u8], event: Event) {
        if self.listening && (event.class.0 & self.classes) != 0 {
            self.changes.push(Change::Key { db, key: key.into(), event, touched: false });
        }
    }
}

const _: () = assert!(std::mem::size_of::<Slot>() <= 16);
