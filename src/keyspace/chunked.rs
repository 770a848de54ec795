//! `Chunked<T>`: a vector in fixed chunks. Growing never copies what is there, shrinking gives
//! whole chunks back. Not here: what the elements mean (`db`, `index`).

/// A vector of chunks of about 64 KiB. The longest copy that growing makes is that of the list of
/// chunks: 8 bytes for some thousand elements.
pub struct Chunked<T> {
    /// All but the last one in use are full. At most one behind it is kept empty, so that a length
    /// that swings about a chunk's edge (or about zero: one lock, taken and released) does not
    /// allocate each time.
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Chunked<T> {
    /// Elements in a chunk: the largest power of two with which it stays within 64 KiB.
    const CHUNK: usize = {
        let fit = (64 << 10) / size_of::<T>();
        if fit.is_power_of_two() { fit } else { fit.next_power_of_two() / 2 }
    };
    const SHIFT: u32 = Self::CHUNK.trailing_zeros();
    const MASK: usize = Self::CHUNK - 1;

    /// Empty; allocates nothing.
    pub const fn new() -> Self {
        Chunked { chunks: Vec::new(), len: 0 }
    }

    /// How many elements there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The element at `at`, which must be below `len()`.
    #[inline]
    pub fn get(&self, at: usize) -> &T {
        &self.chunks[at >> Self::SHIFT][at & Self::MASK]
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at >> Self::SHIFT][at & Self::MASK]
    }

    /// Appends one.
    #[inline]
    pub fn push(&mut self, element: T) {
        let chunk = self.len >> Self::SHIFT;
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(Self::CHUNK));
        }
        self.chunks[chunk].push(element);
        self.len += 1;
    }

    /// Takes the last one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        let chunk = last >> Self::SHIFT;
        let element = self.chunks[chunk].pop();
        self.len = last;
        if self.chunks.len() > chunk + 1 && self.chunks[chunk].is_empty() {
            self.chunks.truncate(chunk + 1);
            if self.chunks.capacity() > 64 && self.chunks.len() * 4 < self.chunks.capacity() {
                self.chunks.shrink_to(self.chunks.len() * 2);
            }
        }
        element
    }

    /// Takes the one at `at`, which must be below `len()`; the last one moves to its place.
    #[inline]
    pub fn swap_remove(&mut self, at: usize) -> T {
        let last = self.pop().expect("the caller knows an element's position");
        if at == self.len { last } else { std::mem::replace(self.get_mut(at), last) }
    }

    /// Drops the last chunk whole. For elements that own nothing. Tells whether there was one.
    pub fn drop_chunk(&mut self) -> bool {
        let dropped = self.chunks.pop();
        self.len -= dropped.as_ref().map_or(0, Vec::len);
        dropped.is_some()
    }
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Chunked;

    #[test]
    fn a_chunk_is_a_power_of_two_within_64_kib() {
        assert_eq!(Chunked::<u32>::CHUNK, 16384);
        assert_eq!(Chunked::<[u64; 3]>::CHUNK, 2048);
        assert_eq!(Chunked::<[u64; 8]>::CHUNK, 1024);
    }

    #[test]
    fn keeps_order_across_chunks_and_gives_them_back() {
        let n = Chunked::<u32>::CHUNK * 5 + 7;
        let mut all = Chunked::new();
        for i in 0..n {
            all.push(i as u32);
        }
        assert_eq!(all.chunks.len(), 6);
        assert!((0..n).all(|i| *all.get(i) == i as u32));
        assert_eq!(all.swap_remove(3), 3);
        assert_eq!(*all.get(3), n as u32 - 1);
        while all.len() > 1 {
            all.pop();
        }
        assert_eq!(all.chunks.len(), 2);
        assert_eq!(all.pop(), Some(0));
        assert_eq!(all.chunks.len(), 1);
        assert_eq!(all.pop(), None);
    }

    #[test]
    fn swinging_about_an_edge_keeps_the_spare_chunk() {
        let n = Chunked::<u32>::CHUNK;
        let mut all = Chunked::new();
        (0..n + 1).for_each(|i| all.push(i as u32));
        all.pop();
        assert_eq!(all.chunks.len(), 2);
        all.push(1);
        assert_eq!(all.len(), n + 1);
    }
}
