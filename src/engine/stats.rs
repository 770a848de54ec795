//! Counters: a command's, an error's, the server's. Not here: what is printed of them (`command::info`).

use crate::base::histogram::Histogram;
use std::collections::BTreeMap;

/// What is counted of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    pub calls: u64,
    pub micros: u64,
    /// Refused before it ran.
    pub rejected: u64,
    /// Ran and answered an error.
    pub failed: u64,
}

/// What is counted of the server.
#[derive(Debug, Default)]
pub struct Stats {
    /// By the command's number in the table.
    pub commands: Vec<CommandStats>,
    /// How long each took, by the command's number; kept while latency-tracking is on.
    pub times: Vec<Histogram>,
    /// By the error's code.
    pub errors: BTreeMap<String, u64>,
    pub error_replies: u64,
    pub commands_processed: u64,
    pub connections_received: u64,
    pub connections_rejected: u64,
    pub net_input: u64,
    pub net_output: u64,
    pub expired_stale_share: f64,
    pub expire_cycle_micros: u64,
    pub expire_cap_reached: u64,
    pub output_limit_disconnections: u64,
    pub query_limit_disconnections: u64,
    pub reads: u64,
    pub writes: u64,
    pub unexpected_errors: u64,
    ops: Rate,
    input: Rate,
    output: Rate,
}

impl Stats {
    /// Nothing counted yet, for `commands` entries.
    pub fn new(commands: usize) -> Self {
        Stats {
            commands: vec![CommandStats::default(); commands],
            times: vec![Histogram::default(); commands],
            ..Stats::default()
        }
    }

    /// Forgets all (CONFIG RESETSTAT).
    pub fn reset(&mut self) {
        *self = Stats::new(self.commands.len());
    }

    /// Drops the histograms (`latency-tracking no`).
    pub fn forget_times(&mut self) {
        self.times.fill(Histogram::default());
    }

    /// Counts an error reply by its code.
    pub fn error(&mut self, code: &str) {
        self.error_replies += 1;
        // Redis stops telling codes apart at 128 of them, lest a script fill the memory.
        if let Some(n) = self.errors.get_mut(code) {
            *n += 1;
        } else if self.errors.len() < 128 {
            self.errors.insert(code.to_owned(), 1);
        }
    }

    /// Notes how far the counter of commands stands at `now_ms`.
    #[inline]
    pub fn sample(&mut self, now_ms: i64) {
        if self.ops.sample(now_ms, self.commands_processed) {
            self.input.sample(now_ms, self.net_input);
            self.output.sample(now_ms, self.net_output);
        }
    }

    /// Bytes received and sent per second over the last samples.
    pub fn bytes_per_second(&self, now_ms: i64) -> (u64, u64) {
        (self.input.per_second(now_ms, self.net_input), self.output.per_second(now_ms, self.net_output))
    }

    /// Commands per second over the last samples.
    pub fn ops_per_second(&self, now_ms: i64) -> u64 {
        self.ops.per_second(now_ms, self.commands_processed)
    }
}

/// A counter's rate over about the last second and a half, without a timer: a sample is taken when
/// there is work.
#[derive(Debug, Default)]
struct Rate {
    samples: [(i64, u64); 16],
    next: usize,
}

impl Rate {
    /// Tells whether it was time for a sample.
    fn sample(&mut self, now_ms: i64, value: u64) -> bool {
        let newest = self.samples[(self.next + 15) % 16].0;
        if now_ms - newest < 100 {
            return false;
        }
        self.samples[self.next] = (now_ms, value);
        self.next = (self.next + 1) % 16;
        true
    }

    fn per_second(&self, now_ms: i64, value: u64) -> u64 {
        let recent = self.samples.iter().filter(|(at, _)| now_ms - at <= 1600 && *at > 0);
        let Some((at, then)) = recent.min_by_key(|(at, _)| *at) else { return 0 };
        let ms = (now_ms - at).max(1) as u64;
        value.saturating_sub(*then) * 1000 / ms
    }
}
