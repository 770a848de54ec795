//! The registry of clients. Not here: their sockets (`net`), one client's state (`session`).

use super::session::{Closing, Session};
use crate::base::clock::UnixMs;
use std::collections::HashMap;
use std::rc::Rc;

/// Who is connected.
#[derive(Default)]
pub struct Clients {
    sessions: slab::Slab<Session>,
    by_id: HashMap<u64, usize>,
    last_id: u64,
    /// Clients that `net` must look at after this turn: bytes to write, or a close.
    woken: Vec<usize>,
    /// Whose command is running: what is sent to it meanwhile comes after its reply.
    running: Option<usize>,
    /// That.
    pushes: Vec<u8>,
}

impl Clients {
    /// Takes a new client in; returns its place.
    pub fn add(&mut self, addr: String, laddr: String, now: UnixMs) -> usize {
        self.last_id += 1;
        let at = self.sessions.insert(Session::new(self.last_id, addr, laddr, now));
        self.by_id.insert(self.last_id, at);
        at
    }

    /// Forgets the client at `at`.
    pub fn remove(&mut self, at: usize) -> Session {
        let session = self.sessions.remove(at);
        self.by_id.remove(&session.id);
        session
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The client at `at`, who is connected.
    #[inline]
    pub fn get(&self, at: usize) -> &Session {
        &self.sessions[at]
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> &mut Session {
        &mut self.sessions[at]
    }

    /// The place of the client whose id is `id`.
    pub fn find(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// All of them with their places, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Session)> {
        self.sessions.iter()
    }

    /// The places, the oldest client first, as CLIENT LIST shows them.
    pub fn by_age(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self.sessions.iter().map(|(at, _)| at).collect();
        places.sort_by_key(|&at| self.sessions[at].id);
        places
    }

    /// Ends the client at `at` without further replies.
    pub fn kill(&mut self, at: usize) {
        self.sessions[at].closing = Closing::Now;
        self.wake(at);
    }

    /// Has `net` look at the client at `at` after this turn.
    pub fn wake(&mut self, at: usize) {
        if !std::mem::replace(&mut self.sessions[at].woken, true) {
            self.woken.push(at);
        }
    }

    /// Whose command is running.
    #[inline]
    pub fn running(&self) -> Option<usize> {
        self.running
    }

    /// Whether the client at `at` is on its way out and gets nothing any more.
    #[inline]
    pub fn is_going(&self, at: usize) -> bool {
        self.sessions[at].closing == Closing::Now
    }

    /// Sends `bytes` to the client at `at`, beside its own replies.
    pub fn send(&mut self, at: usize, bytes: &[u8]) {
        if !self.keeps_back(at, bytes) {
            self.sessions[at].outbox.add(bytes);
            self.wake(at);
        }
    }

    /// The same with what others are sent too.
    pub fn send_shared(&mut self, at: usize, bytes: &Rc<Vec<u8>>) {
        if !self.keeps_back(at, bytes) {
            self.sessions[at].outbox.add_shared(bytes);
            self.wake(at);
        }
    }

    /// Takes `bytes` over if their time has not come: behind the reply of the command that runs, or
    /// at the end of a fault.
    fn keeps_back(&mut self, at: usize, bytes: &[u8]) -> bool {
        if self.running == Some(at) {
            self.pushes.extend_from_slice(bytes);
            return true;
        }
        self.sessions[at].mark.as_mut().is_some_and(|mark| mark.takes(bytes))
    }

    /// The client at `at` begins a request; returns whose was running (a script's caller).
    #[inline]
    pub fn begin(&mut self, at: usize) -> Option<usize> {
        self.running.replace(at)
    }

    /// Its request has ended: what was sent to it meanwhile goes behind its reply.
    #[inline]
    pub fn end(&mut self, before: Option<usize>, out: &mut Vec<u8>) {
        self.running = before;
        if !self.pushes.is_empty() {
            out.append(&mut self.pushes);
        }
    }

    /// Whether somebody must be looked at.
    #[inline]
    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Those who must be looked at; some may be gone already.
    pub fn take_woken(&mut self) -> Vec<usize> {
        let woken = std::mem::take(&mut self.woken);
        for &at in &woken {
            if let Some(session) = self.sessions.get_mut(at) {
                session.woken = false;
            }
        }
        woken
    }

    /// Whether there is a client at `at`.
    pub fn contains(&self, at: usize) -> bool {
        self.sessions.contains(at)
    }
}
