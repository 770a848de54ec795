//! What INFO asks about clients, subscriptions, tracking and scripts, gathered when it asks. Not
//! here: counters (`stats`), and how it is printed (`command::info`).

use super::blocking::Wait;
use super::core::Core;
use super::pubsub::Kind;
use crate::base::memory;

/// About the clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientFigures {
    /// The longest request in the making, bytes.
    pub largest_input: usize,
    /// The largest output that is waiting, as its limits count it, bytes.
    pub largest_output: usize,
    pub blocked: usize,
    pub blocked_with_timeout: usize,
    /// Those with CLIENT TRACKING on.
    pub tracking: usize,
    /// What all of their buffers hold, bytes.
    pub buffers: u64,
}

/// About channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PubSubFigures {
    pub channels: usize,
    pub patterns: usize,
    pub shard_channels: usize,
}

/// About CLIENT TRACKING.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingFigures {
    pub keys: usize,
    pub items: usize,
    pub prefixes: usize,
}

/// About scripts; the script host notes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LuaFigures {
    /// What Lua holds, bytes.
    pub memory: u64,
    /// Cached scripts, and the bytes of their sources.
    pub scripts: usize,
    pub script_bytes: u64,
    pub libraries: usize,
    pub functions: usize,
}

impl Core {
    /// About the clients.
    pub fn client_figures(&self) -> ClientFigures {
        let mut figures =
            ClientFigures { tracking: self.tracking.client_count(), ..ClientFigures::default() };
        for (_, session) in self.clients.iter() {
            figures.largest_input = figures.largest_input.max(session.input_len);
            figures.largest_output = figures.largest_output.max(session.outbox.piece_memory());
            figures.blocked += usize::from(session.waits());
            let timed = matches!(session.wait, Some(Wait::Replicas { until: Some(_), .. }));
            figures.blocked_with_timeout += usize::from(timed);
            figures.buffers += (session.input_len + session.outbox.memory()) as u64;
        }
        figures
    }

    /// About channels.
    pub fn pubsub_figures(&self) -> PubSubFigures {
        PubSubFigures {
            channels: self.pubsub.active_count(Kind::Channel),
            patterns: self.pubsub.active_count(Kind::Pattern),
            shard_channels: self.pubsub.active_count(Kind::Shard),
        }
    }

    /// About CLIENT TRACKING.
    pub fn tracking_figures(&self) -> TrackingFigures {
        let (keys, items, prefixes) = self.tracking.counts();
        TrackingFigures { keys, items, prefixes }
    }

    /// Remembers the most memory that was seen in use.
    pub fn note_memory(&mut self) {
        self.peak_memory = self.peak_memory.max(memory::allocated());
    }
}
