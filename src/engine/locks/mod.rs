//! The book of locks: who holds what, what happened to it, and the mistakes that were seen. Kept by
//! looking at keys before and after each command (`observe`), so that no handler says anything for
//! it. Not here: what clients ask of it (`command::locks`), and the same from Rust (`embed`).
//!
//! A key is a lock once a conditional write has taken it (SET NX, SETNX, a script that looked for
//! the key before it stored a value with a deadline), or where `lock-pattern` names it. A key that is
//! counted up is none.

pub mod book;
pub mod findings;
pub mod guard;
pub mod hold;
pub mod observe;
pub mod report;
pub mod shelf;
mod tell;
pub mod view;
pub mod words;

use super::core::Core;
use crate::base::error::CommandError;
use crate::config::Config;
use book::Book;

/// Events that are kept where nobody says how many.
pub const DEFAULT_LEN: u64 = 10_000;

/// How many events `config` asks for.
fn wanted_len(config: &Config) -> usize {
    let unasked = if config.lock_report.as_os_str().is_empty() { 0 } else { DEFAULT_LEN };
    let len = if config.lock_history_len > 0 { config.lock_history_len } else { unasked };
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// The book that `config` asks for, if any.
pub fn of(config: &Config) -> Option<Box<Book>> {
    let len = wanted_len(config);
    (len > 0).then(|| Box::new(Book::new(len, config.lock_pattern.clone())))
}

impl Core {
    /// lock-history-len or lock-pattern has changed.
    pub(super) fn reopen_book(&mut self) {
        let len = wanted_len(&self.config);
        match &mut self.book {
            Some(_) if len == 0 => self.book = None,
            Some(book) => book.reconfigure(len, self.config.lock_pattern.clone()),
            None => self.book = of(&self.config),
        }
        self.note_special();
    }

    /// The book, brought up to this moment; where none is kept, an error that says how to have one.
    pub fn open_book(&mut self) -> Result<&mut Book, CommandError> {
        self.refresh_book();
        self.book.as_deref_mut().ok_or(CommandError::fixed(
            "ERR No history of locks is kept: set lock-history-len to how many events are to be kept \
             (CONFIG SET lock-history-len 10000)",
        ))
    }
}

impl Core {
    /// The mistakes that were seen; being asked for them counts as the end of a test, so a lock
    /// that is held without a deadline now is one. `all`: those before the last KEYLATCH RESET too.
    pub fn findings(&mut self, all: bool) -> Result<Vec<view::Finding>, CommandError> {
        let now = self.now();
        let book = self.open_book()?;
        book.note_undated(now, None);
        Ok(book.findings(all))
    }
}
