//! Requests that are cut ahead of their run, so that what their lookups will touch can be brought
//! into the cache together. Not here: the run (`connection`).

use crate::resp::Args;
use crate::resp::request::{Limits, Parser, ProtocolError, Step};
use smallvec::SmallVec;

/// How many requests are cut ahead: about as many cache misses as a core has under way at once.
pub const AHEAD: usize = 16;

/// What ended the cutting.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The batch is full.
    Full,
    /// The next request is not complete.
    Need,
    /// The last request is an inline one: its arguments are in the parser.
    Inline,
    /// What follows is no request.
    Broken(ProtocolError),
}

/// Some whole requests of a buffer.
pub struct Batch<'d> {
    words: SmallVec<[&'d [u8]; 64]>,
    /// Where each request ends: in `words`, and in the buffer.
    ends: SmallVec<[(usize, usize); AHEAD]>,
}

impl<'d> Batch<'d> {
    /// Cuts up to `most` requests out of `data`, from `start` on.
    pub fn cut(
        parser: &mut Parser,
        data: &'d [u8],
        start: usize,
        limits: &Limits,
        most: usize,
    ) -> (Self, End) {
        let mut batch = Batch { words: SmallVec::new(), ends: SmallVec::new() };
        let mut at = start;
        while batch.ends.len() < most {
            match parser.next(&data[at..], limits) {
                Ok(Step::Need) => return (batch, End::Need),
                Ok(Step::Skip { consumed }) => {
                    at += consumed;
                    batch.ends.push((batch.words.len(), at));
                }
                Ok(Step::Request { consumed }) => {
                    let inline = parser.is_inline();
                    if !inline {
                        batch
                            .words
                            .extend(parser.spans().iter().map(|&(from, len)| &data[at + from..][..len]));
                    }
                    at += consumed;
                    batch.ends.push((batch.words.len(), at));
                    if inline {
                        return (batch, End::Inline);
                    }
                }
                Err(error) => return (batch, End::Broken(error)),
            }
        }
        (batch, End::Full)
    }

    /// How many requests there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Request `i`'s arguments, if it has any here, and where it ends in the buffer.
    #[inline]
    pub fn get(&self, i: usize) -> (&[&'d [u8]], usize) {
        let from = if i == 0 { 0 } else { self.ends[i - 1].0 };
        let (to, end) = self.ends[i];
        (&self.words[from..to], end)
    }

    /// The requests that have arguments here.
    pub fn requests(&self) -> impl Iterator<Item = Args<'_>> {
        (0..self.count()).map(|i| self.get(i).0).filter(|words| !words.is_empty()).map(Args::new)
    }
}
