//! A histogram of durations with a bounded error: what INFO latencystats and LATENCY HISTOGRAM are
//! read from. Not here: what is measured.
//!
//! Values are kept to seven significant bits, so the error is below 1 %: up to 127 each microsecond
//! has a place, above that each power of two is cut into 64. Past a second all are the same, as in
//! Redis. The places are set aside with the first value.

/// Up to here each value has its own place.
const EXACT: u64 = 128;
/// Places for each power of two above.
const STEPS: u64 = 64;
/// The largest value that is told apart, microseconds.
const LARGEST: u64 = 1_000_000;
const PLACES: usize = place(LARGEST) + 1;

/// A histogram of microseconds.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// By place; empty as long as there is no value.
    counts: Box<[u64]>,
    total: u64,
}

/// Where `micros` is counted.
const fn place(micros: u64) -> usize {
    if micros < EXACT {
        return micros as usize;
    }
    // The power of two above 64 that the value begins with: 1 for 128..256, and so on.
    let power = micros.ilog2() as u64 - 6;
    (EXACT + (power - 1) * STEPS + ((micros >> power) - STEPS)) as usize
}

/// The largest value that is counted at `place`.
const fn largest_at(place: usize) -> u64 {
    let place = place as u64;
    if place < EXACT {
        return place;
    }
    let power = (place - EXACT) / STEPS + 1;
    let step = (place - EXACT) % STEPS + STEPS;
    ((step + 1) << power) - 1
}

impl Histogram {
    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, micros: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; PLACES].into();
        }
        self.counts[place(micros.min(LARGEST))] += 1;
        self.total += 1;
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The duration, microseconds, that `percent` of all do not exceed; 0 without any.
    pub fn percentile(&self, percent: f64) -> f64 {
        let wanted = ((percent / 100.0 * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return largest_at(place) as f64;
            }
        }
        0.0
    }

    /// How many were at most each power of two, up to the first that covers all; powers that add
    /// nothing are left out, as LATENCY HISTOGRAM does.
    pub fn cumulative_powers_of_two(&self) -> Vec<(u64, u64)> {
        let mut powers = Vec::new();
        let (mut seen, mut place) = (0, 0);
        for bound in (0..=20).map(|power| 1_u64 << power) {
            let before = seen;
            while place < self.counts.len() && largest_at(place) <= bound.max(1) {
                seen += self.counts[place];
                place += 1;
            }
            if seen > before {
                powers.push((bound, seen));
            }
        }
        if seen < self.total {
            powers.push((1 << 20, self.total));
        }
        powers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_a_small_set() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(50.0), 0.0);
        (1..=100).for_each(|micros| histogram.record(micros));
        assert_eq!(histogram.percentile(50.0), 50.0);
        assert_eq!(histogram.percentile(99.9), 100.0);
        assert_eq!(histogram.percentile(0.0), 1.0);
        assert_eq!(histogram.count(), 100);
        assert_eq!(
            histogram.cumulative_powers_of_two(),
            [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (64, 64), (128, 100)]
        );
    }

    proptest! {
        #[test]
        fn a_value_comes_back_within_a_hundredth(micros in 0..LARGEST) {
            let mut histogram = Histogram::default();
            histogram.record(micros);
            let back = histogram.percentile(50.0);
            prop_assert!(back >= micros as f64 && back <= micros as f64 * 1.016 + 1.0, "{micros} {back}");
        }
    }
}
