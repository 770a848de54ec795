//! `Out`: what a library function writes its result into, counted against the script's memory, and
//! through which a long one lets the server breathe. Not here: the formats (`json`, `msgpack`, …).

use super::host;
use super::lua::{Raise, Shared, State, ffi, push, push_str, shared};

/// Steps between two looks at the time.
const STEPS: u32 = 1 << 12;

/// Raises Lua's own error for want of memory, the one that calls no handler.
pub(super) unsafe fn out_of_memory(l: State) -> Raise {
    unsafe {
        // No allocator has that much, so this does not come back.
        ffi::lua_newuserdata(l, usize::MAX >> 2);
        push_str(l, "not enough memory");
    }
    Raise
}

/// Counts the steps of a loop that a script can make long: now and then the server serves others, and
/// may find that the script is to end.
pub(super) struct Steps {
    l: State,
    left: u32,
}

impl Steps {
    /// SAFETY: `l` is a state of a VM that `lua::open` made, and outlives the value.
    pub unsafe fn new(l: State) -> Steps {
        Steps { l, left: STEPS }
    }

    /// One step. Nothing of `Shared` is borrowed meanwhile.
    #[inline]
    pub fn step(&mut self) -> Result<(), Raise> {
        self.left -= 1;
        if self.left > 0 { Ok(()) } else { self.look_around() }
    }

    #[cold]
    fn look_around(&mut self) -> Result<(), Raise> {
        self.left = STEPS;
        // SAFETY: `new`'s promise.
        unsafe { host::look_around(self.l) }.map(|_| ())
    }
}

/// The VM's scratch buffer while one function of a library runs. The buffer belongs to `Shared`, so that
/// an error that jumps over the function loses nothing.
pub(super) struct Out {
    l: State,
    shared: *mut Shared,
    /// The most bytes that may be written.
    room: usize,
    steps: Steps,
}

impl Out {
    /// Begins an empty result.
    ///
    /// SAFETY: `l` is a state of a VM that `lua::open` made, and outlives the value. No other `Out`
    /// is in use.
    pub unsafe fn new(l: State) -> Out {
        let shared: *mut Shared = unsafe { shared(l) };
        // SAFETY: the VM's `Shared`, alive as long as the VM.
        let room = unsafe {
            (*shared).scratch.clear();
            (*shared).memory.limit.saturating_sub((*shared).memory.used)
        };
        Out { l, shared, room, steps: unsafe { Steps::new(l) } }
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        // SAFETY: `new`'s promise; nobody else holds a reference to the field while this one lives.
        unsafe { &mut (*self.shared).scratch }
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as in `buffer`.
        unsafe { &(*self.shared).scratch }
    }

    /// Drops what was written.
    pub fn clear(&mut self) {
        self.buffer().clear();
    }

    /// Room for `n` more bytes, or the script's memory does not allow it.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> Result<(), Raise> {
        let buffer = self.buffer();
        if n <= buffer.capacity() - buffer.len() { Ok(()) } else { self.grow(n) }
    }

    #[cold]
    fn grow(&mut self, n: usize) -> Result<(), Raise> {
        let room = self.room;
        let buffer = self.buffer();
        let len = buffer.len().saturating_add(n);
        if len > room {
            // SAFETY: `new`'s promise.
            return Err(unsafe { out_of_memory(self.l) });
        }
        let wanted = len.max(buffer.capacity() * 2).max(64).min(room);
        buffer.reserve_exact(wanted - buffer.len());
        Ok(())
    }

    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Raise> {
        self.reserve(bytes.len())?;
        self.buffer().extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    pub fn byte(&mut self, byte: u8) -> Result<(), Raise> {
        self.reserve(1)?;
        self.buffer().push(byte);
        Ok(())
    }
    /// `n` times `byte`.
    pub fn fill(&mut self, byte: u8, n: usize) -> Result<(), Raise> {
        self.reserve(n)?;
        let len = self.buffer().len();
        self.buffer().resize(len + n, byte);
        Ok(())
    }

    /// Pushes what was written as a string.
    ///
    /// SAFETY: there is a slot for it.
    pub unsafe fn push(&self) {
        unsafe { push(self.l, self.bytes()) }
    }

    /// One step (see `Steps`).
    #[inline]
    pub fn step(&mut self) -> Result<(), Raise> {
        self.steps.step()
    }
}
