//! What the allocator knows: memory in use, memory held, and giving back what is free. Not here:
//! what the system knows (`process`), and which program uses this allocator (`main` does; a
//! program that embeds the server chooses its own, and is told zeros here).

use std::sync::LazyLock;
use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};
use tikv_jemalloc_ctl::{background_thread, epoch, epoch_mib, stats};

/// The allocator, as INFO names it.
pub const ALLOCATOR: &str = "jemalloc-5.3.1";

/// The figures' places, looked up once: by name each reading would parse it.
struct Places {
    epoch: epoch_mib,
    allocated: stats::allocated_mib,
    active: stats::active_mib,
    resident: stats::resident_mib,
}

static PLACES: LazyLock<Option<Places>> = LazyLock::new(|| {
    Some(Places {
        epoch: epoch::mib().ok()?,
        allocated: stats::allocated::mib().ok()?,
        active: stats::active::mib().ok()?,
        resident: stats::resident::mib().ok()?,
    })
});

/// The allocator's figures, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// In use by the process.
    pub allocated: u64,
    /// In pages that hold anything in use.
    pub active: u64,
    /// In pages that the system has given and not got back.
    pub resident: u64,
}

/// All figures of now.
pub fn figures() -> Figures {
    let Some(places) = &*PLACES else { return Figures::default() };
    // The figures are kept from the last time that the epoch was moved.
    if places.epoch.advance().is_err() {
        return Figures::default();
    }
    let bytes = |read: Result<usize, tikv_jemalloc_ctl::Error>| read.unwrap_or(0) as u64;
    Figures {
        allocated: bytes(places.allocated.read()),
        active: bytes(places.active.read()),
        resident: bytes(places.resident.read()),
    }
}

thread_local! {
    static COUNTERS: Option<(ThreadLocal<u64>, ThreadLocal<u64>)> =
        allocatedp::read().ok().zip(deallocatedp::read().ok());
}

/// Bytes that the calling thread has allocated and not freed. A server is one thread, so this is its
/// memory: read in a nanosecond, where the allocator's figures must be collected first. Zero where
/// the program uses another allocator.
#[inline]
pub fn allocated() -> u64 {
    COUNTERS
        .with(|counters| counters.map_or(0, |(allocated, freed)| allocated.get().saturating_sub(freed.get())))
}

/// Has a thread of the allocator's own give freed pages back to the system, soon and without holding
/// up the server. For the process that owns its allocator; after a fork, where threads end.
pub fn purge_in_background() {
    // Where the platform has no such thread, pages go back while memory is allocated and freed.
    let _ = background_thread::write(true);
}

/// Gives what is free back to the system at once. For after a mass deletion: by itself the
/// allocator does it late, and never while the process is idle.
pub fn purge() {
    let none = std::ptr::null_mut();
    // 4096 stands for all arenas. Where the program uses another allocator, this does nothing.
    // SAFETY: the name ends with a NUL; it takes no value and returns none.
    unsafe { tikv_jemalloc_sys::mallctl(c"arena.4096.purge".as_ptr(), none, none.cast(), none, 0) };
}

/// The allocator's own report about itself, in its own words.
pub fn report() -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to a vector cannot fail.
    let _ = tikv_jemalloc_ctl::stats_print::stats_print(&mut text, Default::default());
    text
}
