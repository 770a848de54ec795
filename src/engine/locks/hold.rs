//! A lock as the book knows it: its hold, those that are over, those who wait; and a deed done to it.
//! Not here: how they change (`book`), how a deed is made out (`observe`).

use super::view;
use crate::base::clock::UnixMs;
use crate::engine::spec::LockPart;
use std::collections::VecDeque;
use std::rc::Rc;

/// A client, shared by all that tells of it.
pub type Who = Rc<view::Who>;
/// A key, shared by the lock and its events.
pub type Key = Rc<[u8]>;

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
    /// How many requests the holder's connection had sent by then.
    pub requests: u64,
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
    pub(super) named: bool,
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
    pub part: LockPart,
    /// Who did it had compared the value with its own, in the same moment.
    pub verified: bool,
    pub command: Rc<str>,
    /// How many requests its client has sent so far.
    pub requests: u64,
    pub args: &'a [&'a [u8]],
    /// Time goes on by itself: what happens at equal distances does so roughly.
    pub time_runs: bool,
    /// The client's library retries at a fixed pace and says so (`lib-name`).
    pub paced_library: bool,
}
