//! Transcripts of several clients against an engine in memory, for what one client sees of another.
//! Not here: transcripts of the key commands alone (`testing`), sockets (tests/).
//!
//! `A> GET k` has client A send a command (quotes as in redis-cli); the lines under it are what every
//! client is sent then, `A: …`, with blanks where the wire has CR LF. `@advance 10` moves the clock by
//! so many milliseconds, `@tick` runs the background work, `@leave A` ends a connection. The clock
//! stands at 1,000,000 ms.

use super::table::table;
use crate::base::chance::Chance;
use crate::base::clock::Clock;
use crate::base::words;
use crate::config::Config;
use crate::engine::core::Core;
use crate::engine::{Door, Engine, Flow};
use crate::resp::Args;
use std::collections::BTreeMap;

/// An engine and its clients, by their letter.
pub struct Room {
    pub engine: Engine,
    places: BTreeMap<char, usize>,
    /// Requests that are to be made again.
    postponed: Vec<(char, Vec<Vec<u8>>)>,
}

impl Room {
    /// With these parameters.
    pub fn new(params: &[(&str, &str)]) -> Room {
        let mut config = Config::default();
        for (name, value) in params {
            config.preset(name, value).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let core = Core::new(config, table(), Clock::Manual(1_000_000_000), Chance::from_seed(1));
        Room { engine: Engine::new(core), places: BTreeMap::new(), postponed: Vec::new() }
    }

    /// The core, to look at.
    pub fn core(&mut self) -> &mut Core {
        self.engine.core()
    }

    /// The place of client `letter`, who comes in when first named.
    pub fn place(&mut self, letter: char) -> usize {
        if let Some(&place) = self.places.get(&letter) {
            return place;
        }
        let core = self.engine.core();
        let now = core.now();
        let place = core.clients.add(format!("10.0.0.1:{}", letter as u32), "10.0.0.2:6379".into(), now);
        self.places.insert(letter, place);
        place
    }

    fn request(&mut self, letter: char, request: Vec<Vec<u8>>, said: &mut BTreeMap<char, Vec<u8>>) {
        let place = self.place(letter);
        let parts: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        self.engine.core().begin_turn();
        let flow = self.engine.execute(place, &Args::new(&parts), &mut out);
        said.entry(letter).or_default().extend(out);
        if flow == Flow::Retry {
            self.postponed.push((letter, request));
        }
    }

    /// The end of a turn: whose wait is over is served, then what was sent is collected.
    fn end_turn(&mut self, said: &mut BTreeMap<char, Vec<u8>>) {
        for (letter, request) in std::mem::take(&mut self.postponed) {
            let place = self.place(letter);
            if self.engine.core().clients.get(place).waits() {
                self.postponed.push((letter, request));
            } else {
                self.request(letter, request, said);
            }
        }
        let core = self.engine.core();
        core.broadcast_changes();
        core.clients.take_woken();
        for (&letter, &place) in &self.places {
            let sent = core.clients.get_mut(place).outbox.take();
            said.entry(letter).or_default().extend(sent);
        }
    }

    /// Takes one step; returns what each client was sent then.
    pub fn step(&mut self, line: &str) -> Vec<String> {
        let mut said = BTreeMap::new();
        if let Some(ms) = line.strip_prefix("@advance ") {
            self.core().advance(ms.parse().unwrap_or_else(|_| panic!("{line}")));
        } else if line == "@tick" {
            self.core().tick();
        } else if let Some(letter) = line.strip_prefix("@leave ") {
            self.postponed.retain(|(waiting, _)| !letter.starts_with(*waiting));
            let place = letter.chars().next().and_then(|letter| self.places.remove(&letter));
            self.core().disconnect(place.unwrap_or_else(|| panic!("{line}")));
        } else {
            let (letter, command) = line.split_once("> ").unwrap_or_else(|| panic!("not a step: {line}"));
            let letter = letter.chars().next().unwrap_or_else(|| panic!("no client: {line}"));
            let words = words::split(command.as_bytes()).unwrap_or_else(|| panic!("quotes in {line}"));
            self.request(letter, words, &mut said);
        }
        self.end_turn(&mut said);
        said.iter()
            .filter(|(_, bytes)| !bytes.is_empty())
            .map(|(letter, bytes)| {
                let text = String::from_utf8_lossy(bytes).replace("\r\n", " ");
                format!("{letter}: {}", text.trim_end())
            })
            .collect()
    }

    /// Runs a transcript.
    pub fn check(&mut self, transcript: &str) {
        let mut lines = transcript.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        while let Some(line) = lines.next() {
            let got = self.step(line);
            let mut want = Vec::new();
            while let Some(line) = lines.next_if(|line| line.get(1..3) == Some(": ")) {
                want.push(line);
            }
            assert_eq!(got, want, "{line}");
        }
    }
}

/// Runs a transcript on a new engine with default parameters.
pub fn check(transcript: &str) {
    Room::new(&[]).check(transcript);
}
