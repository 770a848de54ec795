//! The active expire cycle: removes keys past their deadline that nobody asks for. Not here: lazy
//! expiry (`access`), and when the cycle runs (`engine::tick`).
//!
//! The policy is that of Redis's slow cycle, with one thing changed.
//!
//! - In each database in turn, take a sample of the keys that carry a deadline, each drawn at
//!   random, and remove those that are due. If more of the sample was stale than is tolerated
//!   (10 % at effort 1, 1 % at effort 10), there are more like them: sample again.
//! - The cycle stops when its budget is spent. If it was finding more than is tolerated it is *behind*,
//!   says so, and is to be run again as soon as the clients have had their turn. The next run begins with the next database, so that
//!   one with a flood of stale keys does not hold up the others.
//! - Changed: the tolerated share is halved by each sample that held a stale key, down to 0.2 %, and
//!   doubled by each run that finds none. Redis, behind a flood, stops where a tenth of all keys is
//!   stale and leaves that tenth to chance; here the flood is followed to its end. To measure a small
//!   share takes a large sample: it holds about two stale keys at the share that is tolerated.
//! - Where no more keys carry a deadline than the sample would hold, they are looked at one by one,
//!   so that the last stale key goes for certain.

use super::access::{Access, Limits};
use super::event::Effects;
use super::{Keyspace, Slot};
use crate::base::chance::Chance;
use crate::base::clock::{Stopwatch, UnixMs};

/// What one run of the cycle may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// So many keys looked at; for tests, which want the same on every run.
    Keys(usize),
    /// So many microseconds. A run may end some keys later.
    Micros(u64),
}

/// Keys between two looks at the stopwatch: some ten microseconds where all are stale.
const KEYS_A_LOOK: usize = 16;

/// Where the tolerated share stops shrinking, per mille.
const TOLERATED_MIN: u32 = 2;

/// A run in service never takes longer, so that no client waits long beside it.
const SLICE_MICROS: u64 = 500;

/// How hard the cycle tries, from active-expire-effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The least sample.
    sample: usize,
    /// The share of stale keys at which it rests, per mille.
    tolerated: u32,
    /// The share of CPU time that it takes while it is not behind, percent.
    cpu_percent: u64,
}

impl Effort {
    /// From active-expire-effort, 1 to 10. The steps are Redis's.
    pub fn new(effort: u32) -> Self {
        let more = effort.clamp(1, 10) - 1;
        Effort {
            sample: 20 + 5 * more as usize,
            tolerated: (10 - more) * 10,
            cpu_percent: 25 + 2 * u64::from(more),
        }
    }

    /// What one run in service may spend where `hz` of them are made in a second.
    pub fn budget(self, hz: u32) -> Budget {
        let share = self.cpu_percent * 10_000 / u64::from(hz.max(1));
        Budget::Micros(share.min(SLICE_MICROS))
    }

    /// The sample's size where `tolerated` per mille are.
    fn window(self, tolerated: u32) -> usize {
        self.sample.max((2 * 1000 / tolerated) as usize)
    }
}

/// What one run leaves to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    next_db: usize,
    /// The share of stale keys that is tolerated now, per mille; `None`: what the effort says.
    tolerated: Option<u32>,
}

/// What a run has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleReport {
    /// Keys looked at.
    pub sampled: usize,
    /// Keys removed.
    pub expired: usize,
    /// The budget ran out while more was stale than is tolerated: to be run again soon.
    pub behind: bool,
}

impl CycleReport {
    /// The share of stale keys among those looked at, if there were any.
    pub fn stale_share(&self) -> Option<f64> {
        (self.sampled > 0).then(|| self.expired as f64 / self.sampled as f64)
    }
}

/// One run: removes keys that are due at `now` within `budget`. Each is recorded as expired.
pub fn cycle(
    keyspace: &mut Keyspace,
    now: UnixMs,
    budget: Budget,
    effort: Effort,
    progress: &mut Progress,
    chance: &mut Chance,
    effects: &mut Effects,
) -> CycleReport {
    let mut run = Run {
        budget,
        watch: Stopwatch::start(),
        effort,
        tolerated: progress.tolerated.unwrap_or(effort.tolerated).min(effort.tolerated),
        report: CycleReport::default(),
    };
    let count = keyspace.count();
    let limits = Limits::NONE;
    let first = progress.next_db;
    let mut spent = false;
    for turn in 0..count {
        let db = (first + turn) % count;
        if keyspace.db(db).volatile_len() == 0 {
            continue;
        }
        let mut keys = Access::new(keyspace, db, now, chance, effects, limits);
        if run.database(&mut keys).is_err() {
            spent = true;
            // Spent on a sample that found little is no reason to hurry: a large sample may need more
            // than one budget, and would never be done.
            let CycleReport { sampled, expired, .. } = run.report;
            run.report.behind = expired as u64 * 1000 > u64::from(run.tolerated) * sampled as u64;
            progress.next_db = (db + 1) % count;
            break;
        }
    }
    progress.tolerated = match (run.report.expired, spent) {
        (0, true) => progress.tolerated,
        (0, false) => Some(run.tolerated * 2).filter(|&tolerated| tolerated < effort.tolerated),
        (_, true) => Some(halved(run.tolerated)),
        (_, false) => Some(run.tolerated),
    };
    run.report
}

fn halved(tolerated: u32) -> u32 {
    (tolerated / 2).max(TOLERATED_MIN)
}

/// The budget is spent.
struct Spent;

struct Run {
    budget: Budget,
    watch: Stopwatch,
    effort: Effort,
    tolerated: u32,
    report: CycleReport,
}

impl Run {
    /// Samples one database until no more than the tolerated share is stale.
    fn database(&mut self, keys: &mut Access<'_>) -> Result<(), Spent> {
        loop {
            let (volatile, tolerated) = (keys.db().volatile_len(), self.tolerated);
            let window = self.effort.window(tolerated);
            if volatile <= window {
                // Downwards: what moves into the place of a removed one has been looked at.
                return (0..volatile).rev().try_for_each(|place| self.look(keys, place).map(drop));
            }
            let mut stale = 0;
            for _ in 0..window {
                // More than a window of keys before, so at least one is left.
                let place = keys.chance.below(keys.db().volatile_len() as u64) as usize;
                stale += u32::from(self.look(keys, place)?);
            }
            if stale > 0 {
                self.tolerated = halved(tolerated);
            }
            if u64::from(stale) * 1000 <= u64::from(tolerated) * window as u64 {
                return Ok(());
            }
        }
    }

    /// Looks at one place of the volatile set; tells whether its key was due, and is gone.
    #[inline]
    fn look(&mut self, keys: &mut Access<'_>, place: usize) -> Result<bool, Spent> {
        match self.budget {
            Budget::Keys(most) if self.report.sampled >= most => return Err(Spent),
            Budget::Micros(most)
                if self.report.sampled % KEYS_A_LOOK == KEYS_A_LOOK - 1 && self.watch.micros() >= most =>
            {
                return Err(Spent);
            }
            _ => {}
        }
        self.report.sampled += 1;
        let slot: Slot = keys.db().nth_volatile(place);
        let due = keys.expire_if_due(slot);
        self.report.expired += usize::from(due);
        Ok(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Change, Encoding, Event};

    const NOW: UnixMs = UnixMs(1_000_000);

    struct Bench {
        keyspace: Keyspace,
        chance: Chance,
        effects: Effects,
        progress: Progress,
    }

    impl Bench {
        fn new(dbs: usize) -> Self {
            Bench {
                keyspace: Keyspace::new(dbs, 1),
                chance: Chance::from_seed(1),
                effects: Effects::default(),
                progress: Progress::default(),
            }
        }

        fn fill(&mut self, db: usize, prefix: &str, n: usize, deadline: Option<UnixMs>) {
            let db = self.keyspace.db_mut(db);
            for i in 0..n {
                let key = format!("{prefix}:{i}");
                let slot = db.find(key.as_bytes());
                db.put(slot, key.as_bytes(), b"token", Encoding::Auto, deadline, UnixMs(0));
            }
        }

        fn run(&mut self, now: UnixMs, budget: Budget, effort: u32) -> CycleReport {
            let (chance, effects) = (&mut self.chance, &mut self.effects);
            let effort = Effort::new(effort);
            cycle(&mut self.keyspace, now, budget, effort, &mut self.progress, chance, effects)
        }

        fn len(&self) -> usize {
            (0..self.keyspace.count()).map(|db| self.keyspace.db(db).len()).sum()
        }
    }

    #[test]
    fn a_key_goes_at_its_deadline_and_not_before() {
        let mut bench = Bench::new(2);
        bench.fill(1, "lock", 1, Some(NOW));
        let before = bench.run(UnixMs(NOW.0 - 1), Budget::Keys(100), 1);
        assert_eq!(before, CycleReport { sampled: 1, expired: 0, behind: false });
        let at = bench.run(NOW, Budget::Keys(100), 1);
        assert_eq!(at, CycleReport { sampled: 1, expired: 1, behind: false });
        assert_eq!(bench.len(), 0);
        assert_eq!(bench.run(NOW, Budget::Keys(100), 1), CycleReport::default());
    }

    #[test]
    fn each_is_recorded_once_through_the_common_door() {
        let mut bench = Bench::new(3);
        bench.effects.listening = true;
        bench.fill(0, "a", 500, Some(NOW));
        bench.fill(2, "c", 300, Some(NOW));
        bench.fill(2, "stays", 50, Some(UnixMs(NOW.0 + 1)));
        bench.fill(2, "always", 50, None);
        for _ in 0..1000 {
            bench.run(NOW, Budget::Keys(64), 1);
        }
        assert_eq!(bench.len(), 100);
        assert_eq!((bench.effects.expired, bench.effects.dirty), (800, 0));
        let mut heard: Vec<_> = bench
            .effects
            .changes
            .iter()
            .map(|change| match change {
                Change::Key { db, key, event, touched: true } => {
                    assert_eq!(*event, Event::EXPIRED);
                    (*db, key.clone())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        heard.sort();
        heard.dedup();
        assert_eq!(heard.len(), 800);
        (0..3).for_each(|db| bench.keyspace.db(db).check().unwrap());
    }

    #[test]
    fn the_budget_bounds_a_run_and_says_that_it_did() {
        let mut bench = Bench::new(1);
        bench.fill(0, "lock", 10_000, Some(NOW));
        let report = bench.run(NOW, Budget::Keys(100), 1);
        assert_eq!(report, CycleReport { sampled: 100, expired: 100, behind: true });
        let report = bench.run(NOW, Budget::Micros(0), 1);
        assert!(report.behind && report.sampled < KEYS_A_LOOK, "{report:?}");
    }

    #[test]
    fn a_flood_in_one_database_does_not_hold_up_another() {
        let mut bench = Bench::new(16);
        bench.fill(3, "flood", 20_000, Some(NOW));
        bench.fill(9, "lock", 5, Some(NOW));
        bench.run(NOW, Budget::Keys(100), 1);
        bench.run(NOW, Budget::Keys(100), 1);
        assert_eq!(bench.keyspace.db(9).len(), 0);
    }

    #[test]
    fn nothing_due_costs_one_sample() {
        let mut bench = Bench::new(1);
        bench.fill(0, "lock", 10_000, Some(UnixMs(NOW.0 + 1)));
        bench.fill(0, "always", 10_000, None);
        let report = bench.run(NOW, Budget::Keys(1000), 1);
        assert_eq!(report, CycleReport { sampled: 20, expired: 0, behind: false });
        assert_eq!(bench.run(NOW, Budget::Keys(1000), 10).sampled, 200);
    }

    /// Runs as service does: again at once while behind, else at the next tick. Returns the ticks.
    fn sweep(bench: &mut Bench, left_at_most: usize) -> usize {
        for tick in 1..100 {
            let runs = (0..10_000).take_while(|_| bench.run(NOW, Budget::Keys(2000), 1).behind).count();
            assert!(runs < 10_000, "the cycle never rests");
            if bench.len() <= left_at_most {
                return tick;
            }
        }
        panic!("{} of {left_at_most} are left", bench.len());
    }

    #[test]
    fn a_flood_is_followed_to_its_end() {
        // Alone, among as many that stay, and as a twentieth of all: below what is tolerated.
        for (flood, stay, ticks) in [(100_000, 0, 1), (100_000, 100_000, 5), (5_000, 95_000, 25)] {
            let mut bench = Bench::new(1);
            bench.fill(0, "flood", flood, Some(NOW));
            bench.fill(0, "stays", stay, Some(UnixMs(NOW.0 + 1)));
            // Down to a hundredth of the flood, or to the share at which shrinking ends.
            let took = sweep(&mut bench, stay + (flood / 100).max((flood + stay) * 3 / 1000));
            assert!(took <= ticks, "{flood} among {stay}: {took} ticks");
            bench.keyspace.db(0).check().unwrap();
        }
    }

    #[test]
    fn the_tolerated_share_comes_back() {
        let mut bench = Bench::new(1);
        bench.fill(0, "flood", 5_000, Some(NOW));
        bench.fill(0, "stays", 5_000, Some(UnixMs(NOW.0 + 1)));
        bench.run(NOW, Budget::Keys(2000), 1);
        assert_eq!(bench.progress.tolerated, Some(TOLERATED_MIN));
        sweep(&mut bench, 5_000);
        for _ in 0..1000 {
            bench.run(NOW, Budget::Keys(2000), 1);
        }
        assert_eq!(bench.progress.tolerated, None);
        assert_eq!(bench.run(NOW, Budget::Keys(2000), 1).sampled, 20);
    }

    #[test]
    fn effort_and_hz_set_the_budget() {
        assert_eq!(Effort::new(1), Effort { sample: 20, tolerated: 100, cpu_percent: 25 });
        assert_eq!(Effort::new(10), Effort { sample: 65, tolerated: 10, cpu_percent: 43 });
        assert_eq!(Effort::new(1).budget(10), Budget::Micros(500));
        assert_eq!(Effort::new(1).budget(1000), Budget::Micros(250));
    }
}
