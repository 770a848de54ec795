//! A lock as the book knows it: its hold, those that are over, those who wait; and a deed done to it.
//! Not here: how they change (`book`), how a deed is made out (`observe`).

use super::shelf::Spot;
use super::view;
use super::words::{Call, Key, Words};
use crate::base::clock::UnixMs;
use crate::engine::spec::LockPart;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::rc::Rc;

/// A client, shared by all that tells of it.
pub type Who = Rc<view::Who>;

/// One holder's time with a lock.
#[derive(Clone, Debug)]
pub struct Hold {
    /// `None`: nobody that the book saw taking it.
    pub who: Option<Who>,
    /// Its token, and the command that took it.
    pub words: Words,
    pub since: UnixMs,
    pub deadline: Option<UnixMs>,
    pub renewals: u64,
    pub refused: u64,
    /// The request in which it was taken: what a script or a transaction does is one.
    pub unit: u64,
    /// Its own token was refused meanwhile: the holder did not hear that it holds the lock.
    pub unheard: bool,
    /// How many requests the holder's connection had sent by then.
    pub requests: u64,
}

impl Hold {
    /// One that begins, by a request that is not known.
    pub fn new(who: Option<Who>, words: Words, since: UnixMs, deadline: Option<UnixMs>) -> Hold {
        Hold { who, words, since, deadline, renewals: 0, refused: 0, unit: 0, unheard: false, requests: 0 }
    }
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
    /// Given back by its holder at once, with nothing done in between: an attempt that had to be
    /// won elsewhere too, and was not.
    pub given_up: bool,
}

/// Attempts of one client that are remembered.
pub const ATTEMPTS: usize = 9;

/// Somebody who was refused, and when of late.
#[derive(Debug)]
pub struct Waiter {
    pub who: Who,
    /// The latest attempts, the oldest first.
    pub at: SmallVec<[UnixMs; ATTEMPTS]>,
    /// What it tried first.
    pub words: Words,
}

/// A key that is a lock.
#[derive(Debug)]
pub struct Lock {
    pub db: usize,
    pub key: Key,
    pub hold: Option<Hold>,
    /// The latest last.
    pub past: VecDeque<Past>,
    /// One is the rule.
    pub waiters: SmallVec<[Waiter; 1]>,
    /// The last request that did anything to it.
    pub unit: u64,
    /// Named by lock-pattern, not learnt.
    pub(super) named: bool,
}

impl Lock {
    /// One of which nothing is known yet.
    pub fn new(db: usize, key: &[u8], named: bool) -> Lock {
        Lock {
            db,
            key: Key::from_slice(key),
            hold: None,
            past: VecDeque::new(),
            waiters: SmallVec::new(),
            unit: 0,
            named,
        }
    }

    /// Becomes another, in the same memory.
    pub fn renew(&mut self, db: usize, key: &[u8], named: bool) {
        self.db = db;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.hold = None;
        self.past.clear();
        self.waiters.clear();
        self.unit = 0;
        self.named = named;
    }

    /// Its token, while it is held.
    pub fn token(&self) -> Option<&[u8]> {
        self.hold.as_ref().map(|hold| hold.words.token())
    }
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
    /// Where the book has the key.
    pub spot: Spot,
    pub who: Option<Who>,
    pub did: Did,
    /// What the key holds after it, or what was offered.
    pub token: &'a [u8],
    pub deadline: Option<UnixMs>,
    pub part: LockPart,
    /// Who did it had compared the value with its own, in the same moment.
    pub verified: bool,
    pub call: Call<'a>,
    /// How many requests its client has sent so far.
    pub requests: u64,
    /// Time goes on by itself: what happens at equal distances does so roughly.
    pub time_runs: bool,
    /// The client's library retries at a fixed pace and says so (`lib-name`).
    pub paced_library: bool,
}
