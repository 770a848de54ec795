//! What a Rust test sees of locks: who holds what, what happened, which mistakes were made. Not
//! here: how it is known (`engine::locks`), the server's life (`embed`).

use crate::embed::{Builder, Server};
use crate::engine::Door;
use crate::engine::locks::guard::Guard;
use crate::engine::locks::view::{Finding, HeldLock, LockEvent};

impl Builder {
    /// `lock-pattern`: which keys are locks; without it those that a conditional write has taken.
    #[must_use]
    pub fn lock_pattern(self, glob: &str) -> Self {
        self.param("lock-pattern", glob)
    }

    /// `lock-report`: where a page with the locks' timeline is written when the server is dropped.
    #[must_use]
    pub fn lock_report(self, path: impl AsRef<std::path::Path>) -> Self {
        self.param("lock-report", path.as_ref().display())
    }
}

impl Server {
    /// The locks that are held, of all databases, by key. Empty with `lock_history(0)`, as are the
    /// other two.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// let server = keylatch::Server::builder().frozen_at(1_700_000_000_000).start()?;
    /// let mut client = std::net::TcpStream::connect(server.addr())?;
    /// client.write_all(b"SET lock:a token NX PX 5000\r\n")?;
    /// client.read_exact(&mut [0; 5])?; // +OK
    /// let locks = server.locks();
    /// assert_eq!(locks[0].key, b"lock:a");
    /// assert_eq!(locks[0].token, b"token");
    /// assert_eq!(locks[0].deadline, Some(1_700_000_005_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn locks(&self) -> Vec<HeldLock> {
        self.with(|engine| engine.core().open_book().map(|book| book.held(b"*")).unwrap_or_default())
    }

    /// What happened to the lock `key` of database 0, the oldest first.
    pub fn lock_history(&self, key: impl AsRef<[u8]>) -> Vec<LockEvent> {
        let key = key.as_ref().to_vec();
        self.with(move |engine| {
            engine.core().open_book().map(|book| book.events(Some((0, &key)))).unwrap_or_default()
        })
    }

    /// The mistakes that were seen since the start, or the last KEYLATCH RESET. Asking counts as the
    /// end of the test: a lock that is held without a deadline now is one.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// use keylatch::Mistake;
    /// let server = keylatch::Server::start()?;
    /// let mut client = std::net::TcpStream::connect(server.addr())?;
    /// client.write_all(b"SET lock:a token NX PX 5000\r\nDEL lock:a\r\n")?;
    /// client.read_exact(&mut [0; 9])?; // +OK, :1
    /// let findings = server.findings();
    /// assert_eq!(findings[0].mistake, Mistake::BareDelete);
    /// assert_eq!(findings[0].commands, ["SET lock:a token NX PX 5000", "DEL lock:a"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn findings(&self) -> Vec<Finding> {
        self.with(|engine| engine.core().findings(false).unwrap_or_default())
    }

    /// What matches `data` is written under the lock that matches `lock`: where each glob has one
    /// `*`, the two stand for the same text. For `Mistake::ExpiredOwnerWrite`.
    pub fn guard(&self, lock: &str, data: &str) {
        let guard = Guard { lock: lock.into(), data: data.into() };
        self.with(move |engine| {
            if let Ok(book) = engine.core().open_book() {
                book.add_guard(guard);
            }
        });
    }
}
