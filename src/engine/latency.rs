//! Events that took longer than latency-monitor-threshold, as LATENCY shows them. Not here: the
//! histograms of each command (`stats`), and the command (`command::latency`).

use super::core::Core;
use crate::base::clock::UnixMs;
use std::collections::{BTreeMap, VecDeque};

/// Samples kept of each event.
const SAMPLES_MAX: usize = 160;

/// The worst of an event within one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Seconds of Unix time.
    pub at: i64,
    pub ms: u64,
}

/// What is kept of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The oldest first.
    pub samples: VecDeque<Sample>,
    /// The worst since the start, milliseconds.
    pub worst_ms: u64,
}

/// What is kept of all.
#[derive(Debug, Default)]
pub struct LatencyEvents {
    events: BTreeMap<&'static str, Event>,
}

impl LatencyEvents {
    /// All events by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.events.iter().map(|(name, event)| (*name, event))
    }

    /// The event called `name`.
    pub fn find(&self, name: &[u8]) -> Option<(&'static str, &Event)> {
        self.iter().find(|(own, _)| own.as_bytes() == name)
    }

    /// Forgets all; tells how many there were.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.events).len()
    }

    /// Forgets one; tells whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let known = self.find(name).map(|(name, _)| name);
        known.is_some_and(|name| self.events.remove(name).is_some())
    }

    fn add(&mut self, name: &'static str, now: UnixMs, ms: u64) {
        let event = self.events.entry(name).or_default();
        event.worst_ms = event.worst_ms.max(ms);
        let at = now.0.div_euclid(1000);
        match event.samples.back_mut() {
            Some(last) if last.at == at => last.ms = last.ms.max(ms),
            _ => {
                if event.samples.len() == SAMPLES_MAX {
                    event.samples.pop_front();
                }
                event.samples.push_back(Sample { at, ms });
            }
        }
    }
}

impl Core {
    /// Notes that `event` took `micros`, if that is long enough.
    #[inline]
    pub(super) fn note_latency(&mut self, event: &'static str, micros: u64) {
        let threshold = self.config.latency_monitor_threshold;
        if threshold > 0 && micros / 1000 >= threshold {
            let now = self.now();
            self.latency.add(event, now, micros / 1000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeps_its_worst_and_old_ones_go() {
        let mut events = LatencyEvents::default();
        for second in 0..200 {
            events.add("command", UnixMs(second * 1000), 5);
            events.add("command", UnixMs(second * 1000 + 900), 7);
            events.add("command", UnixMs(second * 1000 + 999), 6);
        }
        let (_, event) = events.find(b"command").expect("an event");
        assert_eq!(event.samples.len(), SAMPLES_MAX);
        assert_eq!(event.samples.front(), Some(&Sample { at: 40, ms: 7 }));
        assert_eq!((events.remove(b"command"), events.remove(b"command")), (true, false));
    }
}
