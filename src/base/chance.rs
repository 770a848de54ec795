//! The only source of randomness: a seeded generator, and the seeds a process starts with.
//! Not here: Lua's `math.random`, which must give Redis's own numbers (`script`).

#![allow(clippy::disallowed_methods)] // this is the one place

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

/// A seeded generator. A test gives the seed and reproduces its run by it.
#[derive(Clone, Debug)]
pub struct Chance(SmallRng);

impl Chance {
    /// The generator that `seed` determines.
    pub fn from_seed(seed: u64) -> Self {
        Chance(SmallRng::seed_from_u64(seed))
    }

    /// A generator seeded by the operating system.
    pub fn from_system() -> Self {
        Chance(SmallRng::seed_from_u64(rand::rng().next_u64()))
    }

    /// A uniform number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.random_range(0..bound) }
    }

    /// A uniform 64-bit number.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// True with `probability`, 0 to 1.
    pub fn happens(&mut self, probability: f64) -> bool {
        // Drawn even where the answer is certain, so that a rule's odds do not shift later draws.
        ((self.bits() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// `n` random lower-case hexadecimal digits (run ids and the like).
    pub fn hex(&mut self, n: usize) -> String {
        (0..n).map(|_| char::from(b"0123456789abcdef"[self.below(16) as usize])).collect()
    }

    /// `n` hexadecimal digits that make a password: from the system's generator, since those of a
    /// seeded one could be foretold from what it has given before.
    pub fn secret_hex(n: usize) -> String {
        let mut system = rand::rng();
        (0..n).map(|_| char::from(b"0123456789abcdef"[(system.next_u64() & 15) as usize])).collect()
    }
}
