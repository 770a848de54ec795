//! Compiled scripts by SHA1. Those that EVAL brought are dropped least recently used past a bound;
//! those that SCRIPT LOAD brought stay. Not here: compiling and running (`host`).

use super::plan::Plan;
use ahash::RandomState;
use std::collections::HashMap;
use std::ffi::c_int;

/// How many scripts of EVAL are kept, as newer Redis does (7.4: 500).
pub(super) const EVAL_SCRIPTS_MAX: usize = 500;

pub(super) type Sha = [u8; 40];

/// What a script's shebang allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptFlags {
    /// There was a shebang.
    pub given: bool,
    pub no_writes: bool,
    pub allow_oom: bool,
    pub allow_cross_slot: bool,
}

pub(super) struct Script {
    pub sha: Sha,
    pub body: Box<[u8]>,
    pub flags: ScriptFlags,
    /// The compiled chunk's place in Lua's registry.
    pub reference: c_int,
    /// How it runs without Lua, if it can.
    pub plan: Option<Plan>,
    /// SCRIPT LOADed: never dropped.
    kept: bool,
    /// Neighbours in the order of use; only while not `kept`.
    newer: Option<u32>,
    older: Option<u32>,
}

/// The compiled scripts.
pub(super) struct Cache {
    index: HashMap<Sha, u32, RandomState>,
    scripts: slab::Slab<Script>,
    newest: Option<u32>,
    oldest: Option<u32>,
    /// How many are not `kept`.
    passing: usize,
    /// Bytes of the bodies.
    bytes: usize,
    /// Scripts dropped to make room.
    pub evicted: u64,
}

impl Cache {
    pub fn new() -> Cache {
        Cache {
            index: HashMap::with_hasher(RandomState::new()),
            scripts: slab::Slab::new(),
            newest: None,
            oldest: None,
            passing: 0,
            bytes: 0,
            evicted: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Bytes that bodies and entries take, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes + self.scripts.len() * (size_of::<Script>() + 48)
    }

    /// Finds a script and notes its use.
    pub fn find(&mut self, sha: &Sha) -> Option<u32> {
        let at = *self.index.get(sha)?;
        if !self.scripts[at as usize].kept && self.newest != Some(at) {
            self.unlink(at);
            self.link_newest(at);
        }
        Some(at)
    }

    /// Whether it is there; not a use.
    pub fn has(&self, sha: &Sha) -> bool {
        self.index.contains_key(sha)
    }

    pub fn get(&self, at: u32) -> &Script {
        &self.scripts[at as usize]
    }

    /// From now on the script stays.
    pub fn keep(&mut self, at: u32) {
        if !self.scripts[at as usize].kept {
            self.unlink(at);
            self.passing -= 1;
            self.scripts[at as usize].kept = true;
        }
    }

    /// Adds a script that is not there. Gives its place, and the reference of the script that had
    /// to make room.
    pub fn add(
        &mut self,
        sha: Sha,
        body: &[u8],
        flags: ScriptFlags,
        reference: c_int,
        plan: Option<Plan>,
        kept: bool,
    ) -> (u32, Option<c_int>) {
        let mut dropped = None;
        if !kept
            && self.passing >= EVAL_SCRIPTS_MAX
            && let Some(oldest) = self.oldest
        {
            self.unlink(oldest);
            let old = self.scripts.remove(oldest as usize);
            self.index.remove(&old.sha);
            self.bytes -= old.body.len();
            self.passing -= 1;
            self.evicted += 1;
            dropped = Some(old.reference);
        }
        self.bytes += body.len();
        let script =
            Script { sha, body: body.into(), flags, reference, plan, kept, newer: None, older: None };
        let at = self.scripts.insert(script) as u32;
        self.index.insert(sha, at);
        if !kept {
            self.passing += 1;
            self.link_newest(at);
        }
        (at, dropped)
    }

    /// Drops all; gives their references.
    pub fn clear(&mut self) -> Vec<c_int> {
        let references = self.scripts.iter().map(|(_, script)| script.reference).collect();
        let evicted = self.evicted;
        *self = Cache::new();
        self.evicted = evicted;
        references
    }

    fn link_newest(&mut self, at: u32) {
        let before = self.newest.replace(at);
        self.scripts[at as usize].older = before;
        self.scripts[at as usize].newer = None;
        match before {
            Some(before) => self.scripts[before as usize].newer = Some(at),
            None => self.oldest = Some(at),
        }
    }

    fn unlink(&mut self, at: u32) {
        let (newer, older) = (self.scripts[at as usize].newer, self.scripts[at as usize].older);
        match newer {
            Some(newer) => self.scripts[newer as usize].older = older,
            None => self.newest = older,
        }
        match older {
            Some(older) => self.scripts[older as usize].newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(n: usize) -> Sha {
        let mut sha = [b'0'; 40];
        sha[..8].copy_from_slice(format!("{n:08}").as_bytes());
        sha
    }

    #[test]
    fn the_least_recently_used_goes_and_loaded_ones_stay() {
        let mut cache = Cache::new();
        cache.add(sha(9_999), b"", ScriptFlags::default(), 0, None, true);
        for n in 0..EVAL_SCRIPTS_MAX {
            assert_eq!(cache.add(sha(n), b"x", ScriptFlags::default(), n as c_int, None, false).1, None);
        }
        cache.find(&sha(0));
        assert_eq!(cache.add(sha(7_000), b"", ScriptFlags::default(), 0, None, false).1, Some(1));
        assert!(cache.has(&sha(0)) && !cache.has(&sha(1)) && cache.has(&sha(9_999)));
        let two = cache.find(&sha(2)).unwrap();
        cache.keep(two);
        assert_eq!(cache.add(sha(7_001), b"", ScriptFlags::default(), 0, None, false).1, None);
        assert_eq!(cache.add(sha(7_002), b"", ScriptFlags::default(), 0, None, false).1, Some(3));
        assert_eq!(cache.len(), EVAL_SCRIPTS_MAX + 2);
        assert_eq!(cache.clear().len(), EVAL_SCRIPTS_MAX + 2);
        assert_eq!(cache.len(), 0);
    }
}
