//! `Outbox`: the bytes that a client is still to be sent. A flat buffer while they are few, then a
//! list of pieces: what waits is never copied again however much comes behind it, and a piece goes
//! back to the allocator as soon as it is written. And how much of it a client may leave unread. Not
//! here: the socket (`net`).

use super::core::Core;
use super::session::Closing;
use std::collections::VecDeque;
use std::rc::Rc;

/// What the flat buffer holds at most, and the least room of a piece, as in Redis.
const FLAT: usize = 16 * 1024;

/// From so many bytes on, many clients' outboxes share what is sent to all of them.
const SHARED_FROM: usize = 16 * 1024;

/// Bytes that wait, in one run.
#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(Rc<Vec<u8>>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }

    /// What it counts for. A shared one counts in full with each who waits for it: whether the
    /// others have read it is not this client's merit.
    fn room(&self) -> usize {
        size_of::<Piece>()
            + match self {
                Piece::Own(bytes) => bytes.capacity(),
                Piece::Shared(bytes) => bytes.len(),
            }
    }
}

/// What waits to be written to one client. One that waits for nothing holds no memory.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The first bytes, while they fit; `pieces` come behind it.
    flat: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// How much of the first run, the flat one or else the first piece, has been written.
    sent: usize,
    /// The sum of what waits.
    len: usize,
    /// What the pieces count for.
    room: usize,
}

impl Outbox {
    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many of them wait in the flat buffer (`obl`).
    pub fn flat_len(&self) -> usize {
        if self.flat.is_empty() { 0 } else { self.flat.len() - self.sent }
    }

    /// How many pieces there are behind it (`oll`).
    pub fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    /// What the pieces take (`omem`), which is what limits go by; the flat buffer is free, as in
    /// Redis.
    pub fn piece_memory(&self) -> usize {
        self.room
    }

    /// What all of it takes.
    pub fn memory(&self) -> usize {
        self.flat.capacity() + self.room
    }

    /// Puts `bytes` behind what waits.
    pub fn add(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len();
        if self.pieces.is_empty() && self.flat.len() + bytes.len() <= FLAT {
            self.flat.extend_from_slice(bytes);
            return;
        }
        if let Some(Piece::Own(last)) = self.pieces.back_mut() {
            let (fits, rest) = bytes.split_at(bytes.len().min(last.capacity() - last.len()));
            last.extend_from_slice(fits);
            bytes = rest;
        }
        if !bytes.is_empty() {
            let mut piece = Vec::with_capacity(bytes.len().max(FLAT));
            piece.extend_from_slice(bytes);
            self.put(Piece::Own(piece));
        }
    }

    /// Puts `bytes`, but for the first `from` of them, behind what waits, and keeps the buffer they
    /// are in if most of it is theirs. Else it is left as it was.
    pub fn add_buffer(&mut self, bytes: &mut Vec<u8>, from: usize) {
        let rest = bytes.len() - from;
        if rest < FLAT || rest < bytes.capacity() / 2 {
            return self.add(&bytes[from..]);
        }
        self.len += rest;
        if self.is_at_piece() && from > 0 {
            self.sent = from;
        } else {
            bytes.drain(..from);
        }
        self.put(Piece::Own(std::mem::take(bytes)));
    }

    /// Puts `bytes`, which others are sent too, behind what waits.
    pub fn add_shared(&mut self, bytes: &Rc<Vec<u8>>) {
        if bytes.len() < SHARED_FROM {
            return self.add(bytes);
        }
        self.len += bytes.len();
        self.put(Piece::Shared(Rc::clone(bytes)));
    }

    /// Whether the next piece would be the first run.
    fn is_at_piece(&self) -> bool {
        self.flat.is_empty() && self.pieces.is_empty()
    }

    fn put(&mut self, piece: Piece) {
        self.room += piece.room();
        self.pieces.push_back(piece);
    }

    /// What waits, run by run.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let flat = Some(&*self.flat).filter(|flat| !flat.is_empty());
        let runs = flat.into_iter().chain(self.pieces.iter().map(Piece::bytes));
        runs.enumerate().map(|(i, run)| if i == 0 { &run[self.sent..] } else { run })
    }

    /// `n` bytes of what waits have been written. What held them is given back at once.
    pub fn wrote(&mut self, n: usize) {
        self.len -= n;
        self.sent += n;
        if !self.flat.is_empty() {
            if self.sent < self.flat.len() {
                return;
            }
            self.sent -= self.flat.len();
            self.flat = Vec::new();
        }
        while let Some(first) = self.pieces.front()
            && self.sent >= first.bytes().len()
        {
            self.sent -= first.bytes().len();
            self.room -= first.room();
            self.pieces.pop_front();
        }
        if self.pieces.is_empty() {
            self.pieces = VecDeque::new();
        }
    }

    /// Takes all that waits out, as if it had been written.
    pub fn take(&mut self) -> Vec<u8> {
        let bytes = self.runs().collect::<Vec<_>>().concat();
        self.wrote(bytes.len());
        bytes
    }
}

impl Core {
    /// Ends `client` where more waits for it than its class may leave unread
    /// (client-output-buffer-limit): at once past the hard limit, past the soft one after a while.
    pub fn check_output(&mut self, client: usize) {
        let now = self.now();
        let limits = &self.config.client_output_buffer_limit;
        let session = self.clients.get_mut(client);
        let limit = if session.subscriptions > 0 { limits.pubsub } else { limits.normal };
        let waiting = session.outbox.piece_memory() as u64;
        let past_soft = limit.soft > 0 && waiting >= limit.soft;
        let since = *session.soft_limit_since.get_or_insert(now);
        if !past_soft {
            session.soft_limit_since = None;
        }
        let for_too_long = past_soft && now.since(since) >= limit.soft_seconds as i64 * 1000;
        if (limit.hard > 0 && waiting >= limit.hard) || for_too_long {
            tracing::warn!(id = session.id, "Client closed for overcoming of output buffer limits.");
            session.closing = Closing::Now;
            self.clients.wake(client);
            self.stats.output_limit_disconnections += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Add(usize),
        Buffer { len: usize, from: usize, spare: usize },
        Shared(usize),
        Wrote(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step =
            prop_oneof![
                (0..40_000usize).prop_map(Step::Add),
                (0..40usize).prop_map(Step::Add),
                (0..90_000usize, 0..90_000usize, 0..90_000usize)
                    .prop_map(|(len, from, spare)| Step::Buffer { len, from: from.min(len), spare }),
                (0..40_000usize).prop_map(Step::Shared),
                (0..100_000usize).prop_map(Step::Wrote),
            ];
        prop::collection::vec(step, 1..60)
    }

    /// Bytes that tell where they belong.
    fn fresh(made: &mut u64, n: usize) -> Vec<u8> {
        (0..n)
            .map(|_| {
                *made += 1;
                (*made % 251) as u8
            })
            .collect()
    }

    proptest! {
        #[test]
        fn bytes_leave_as_they_came(steps in steps()) {
            let (mut outbox, mut model, mut made) = (Outbox::default(), Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Add(n) => {
                        let bytes = fresh(&mut made, n);
                        model.extend_from_slice(&bytes);
                        outbox.add(&bytes);
                    }
                    Step::Buffer { len, from, spare } => {
                        let mut bytes = fresh(&mut made, len);
                        bytes.reserve_exact(spare);
                        model.extend_from_slice(&bytes[from..]);
                        outbox.add_buffer(&mut bytes, from);
                    }
                    Step::Shared(n) => {
                        let bytes = Rc::new(fresh(&mut made, n));
                        model.extend_from_slice(&bytes);
                        outbox.add_shared(&bytes);
                    }
                    Step::Wrote(n) => {
                        let n = n.min(model.len());
                        model.drain(..n);
                        outbox.wrote(n);
                    }
                }
                let runs: Vec<&[u8]> = outbox.runs().collect();
                prop_assert!(runs.iter().all(|run| !run.is_empty()));
                prop_assert_eq!(runs.concat(), &*model);
                prop_assert_eq!(outbox.len(), model.len());
                let pieces: usize = outbox.pieces.iter().map(Piece::room).sum();
                prop_assert_eq!(outbox.piece_memory(), pieces);
                prop_assert!(!model.is_empty() || outbox.memory() == 0);
            }
        }
    }

    #[test]
    fn small_output_is_flat_and_large_output_is_pieces() {
        let mut outbox = Outbox::default();
        outbox.add(&[b'a'; FLAT]);
        assert_eq!((outbox.flat_len(), outbox.piece_count(), outbox.piece_memory()), (FLAT, 0, 0));
        outbox.add(b"b");
        outbox.add(b"b");
        assert_eq!((outbox.flat_len(), outbox.piece_count()), (FLAT, 1));
        assert_eq!(outbox.piece_memory(), FLAT + size_of::<Piece>());
        outbox.wrote(FLAT + 1);
        assert_eq!((outbox.flat_len(), outbox.piece_count(), outbox.len()), (0, 1, 1));
    }

    #[test]
    fn a_large_buffer_and_a_shared_one_are_not_copied() {
        let mut outbox = Outbox::default();
        let mut reply = vec![b'r'; 100_000];
        let at = reply.as_ptr();
        outbox.add_buffer(&mut reply, 10_000);
        assert!(reply.is_empty());
        let message = Rc::new(vec![b'm'; 100_000]);
        outbox.add_shared(&message);
        let runs: Vec<*const u8> = outbox.runs().map(<[u8]>::as_ptr).collect();
        assert_eq!(runs, [at.wrapping_add(10_000), message.as_ptr()]);
        outbox.wrote(190_000);
        assert_eq!(Rc::strong_count(&message), 1);
    }
}
