//! The only reader of time: wall-clock milliseconds for deadlines, and a stopwatch for
//! durations. Not here: timers (tokio's, in `net`) and what is due when (`keyspace::expire`).
#![allow(clippy::disallowed_methods)] // this is the one place

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An absolute time: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMs(pub i64);

impl UnixMs {
    /// Milliseconds from `now` until `self`; negative when it is past. Saturates.
    pub fn since(self, now: UnixMs) -> i64 {
        self.0.saturating_sub(now.0)
    }
}

/// Where "now" comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The operating system's wall clock.
    System,
    /// The system's, so many microseconds ahead (or behind): a clock that was moved and runs on.
    Shifted(i64),
    /// A clock that stands at this absolute time, microseconds since the Unix epoch, until it is
    /// moved. It may be moved back.
    Manual(i64),
}

impl Clock {
    /// Absolute time in milliseconds.
    pub fn now(&self) -> UnixMs {
        UnixMs(self.now_micros().div_euclid(1000))
    }

    /// Absolute time in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> i64 {
        match self {
            Clock::System => system_micros(),
            Clock::Shifted(ahead) => system_micros().saturating_add(*ahead),
            Clock::Manual(us) => *us,
        }
    }

    /// Whether it goes on by itself.
    pub fn runs(&self) -> bool {
        !matches!(self, Clock::Manual(_))
    }

    /// Moves it to `us`, absolute microseconds; a running clock runs on from there.
    pub fn set_micros(&mut self, us: i64) {
        *self =
            if self.runs() { Clock::Shifted(us.saturating_sub(system_micros())) } else { Clock::Manual(us) };
    }

    /// Makes it stand where it is.
    pub fn freeze(&mut self) {
        *self = Clock::Manual(self.now_micros());
    }

    /// Lets it run on from where it stands.
    pub fn resume(&mut self) {
        if let Clock::Manual(us) = *self {
            *self = Clock::Shifted(us.saturating_sub(system_micros()));
        }
    }

    /// Moves it by `ms`, which may be negative.
    pub fn advance(&mut self, ms: i64) {
        self.set_micros(self.now_micros().saturating_add(ms.saturating_mul(1000)));
    }
}

fn system_micros() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Measures a duration on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Microseconds since the start.
    pub fn micros(self) -> u64 {
        let elapsed = self.0.elapsed();
        elapsed.as_secs() * 1_000_000 + u64::from(elapsed.subsec_micros()) // wraps in 500,000 years
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// For so long a turn trusts its reading of the wall clock, microseconds: the time that a step of
/// the system's clock may go unnoticed.
const TRUSTED: u64 = 50_000;

/// One turn of the event loop. The wall clock is read once in a while and a stopwatch gives the
/// rest: a turn costs one reading, and so does each of its commands, whose end is the next one's
/// beginning.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The clock as it was when it was read.
    clock: Clock,
    /// What it said, absolute microseconds.
    read: i64,
    moves: bool,
    /// Runs since then.
    watch: Stopwatch,
    lap: u64,
}

impl Turn {
    /// Begins a turn now.
    pub fn begin(clock: &Clock) -> Self {
        let moves = clock.runs();
        Turn { clock: *clock, read: clock.now_micros(), moves, watch: Stopwatch::start(), lap: 0 }
    }

    /// Begins the next turn now, of the same clock or another.
    #[inline]
    pub fn next(&mut self, clock: &Clock) {
        let elapsed = self.watch.micros();
        if elapsed < TRUSTED && self.clock == *clock {
            self.lap = elapsed;
        } else {
            *self = Turn::begin(clock);
        }
    }

    /// Microseconds since the last lap, or since the beginning.
    #[inline]
    pub fn lap(&mut self) -> u64 {
        let elapsed = self.watch.micros();
        let lap = elapsed - self.lap;
        self.lap = elapsed;
        lap
    }

    /// Microseconds since the last lap, without beginning another.
    pub fn since_lap(&self) -> u64 {
        self.watch.micros() - self.lap
    }

    /// The moment of the last lap in absolute microseconds; a manual clock's moment stands.
    #[inline]
    pub fn micros(&self) -> i64 {
        if self.moves { self.read + self.lap as i64 } else { self.read }
    }

    /// The same in milliseconds.
    #[inline]
    pub fn now(&self) -> UnixMs {
        UnixMs(self.micros().div_euclid(1000))
    }
}
