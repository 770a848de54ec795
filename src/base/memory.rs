//! What the allocator knows. (Being written.)

/// The allocator, as INFO names it.
pub const ALLOCATOR: &str = "jemalloc-5.3.0";

/// Bytes that the process has allocated.
pub fn allocated() -> u64 {
    0
}
