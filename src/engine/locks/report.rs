//! The report: all that the book knows as JSON, and as one page for a browser (`report.html`, which
//! draws what it is given here). Not here: when it is written (`server`, `command::locks`).

use super::view::{Finding, HeldLock, LockEvent, Who, shown};
use crate::base::error::CommandError;
use crate::engine::core::Core;
use serde_json::{Map, Value, json};
use std::fs;
use std::io;
use std::path::Path;

/// The page, with a mark where its data goes.
const PAGE: &str = include_str!("report.html");
const MARK: &str = "/*DATA*/";

fn who(who: &Who) -> Value {
    json!({ "id": who.id, "name": shown(&who.name), "addr": who.addr })
}

fn lock(lock: &HeldLock) -> Value {
    json!({
        "key": shown(&lock.key), "db": lock.db, "token": shown(&lock.token), "client": who(&lock.holder),
        "since": lock.since, "deadline": lock.deadline, "renewals": lock.renewals, "refused": lock.refused,
    })
}

fn event(event: &LockEvent) -> Value {
    json!({
        "event": event.what.name(), "at": event.at, "key": shown(&event.key), "db": event.db,
        "client": event.client.id, "token": shown(&event.token), "deadline": event.deadline,
        "command": event.command, "resets": event.chapter,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "finding": finding.mistake.name(), "at": finding.at, "key": shown(&finding.key), "db": finding.db,
        "client": who(&finding.client), "times": finding.times, "commands": finding.commands,
        "detail": finding.detail, "instead": finding.mistake.instead(), "resets": finding.chapter,
    })
}

impl Core {
    /// The report as JSON. Keys and tokens are text, with `\xNN` for what
    /// is no UTF-8. `all`: what was before the last KEYLATCH RESET as well, told apart by `resets`.
    pub fn lock_report(&mut self, all: bool) -> Result<Value, CommandError> {
        let now = self.now().0;
        let found = self.findings(all)?;
        let book = self.open_book()?;
        let chapter = book.chapter();
        let mut events = book.events(None);
        events.retain(|event| all || event.chapter == chapter);
        // The latest that is known of each: a name may have come later.
        let mut clients = Map::new();
        for client in events.iter().map(|event| &event.client).filter(|client| client.id > 0) {
            clients
                .insert(client.id.to_string(), json!({ "name": shown(&client.name), "addr": client.addr }));
        }
        let guards = book.guards.iter().map(|g| json!({ "lock": shown(&g.lock), "data": shown(&g.data) }));
        Ok(json!({
            "keylatch": env!("CARGO_PKG_VERSION"),
            "now": now,
            "resets": chapter,
            "kept": book.len_max(),
            "lost_findings": book.lost_findings,
            "guards": guards.collect::<Vec<_>>(),
            "clients": clients,
            "locks": book.held(b"*").iter().map(lock).collect::<Vec<_>>(),
            "events": events.iter().map(event).collect::<Vec<_>>(),
            "findings": found.iter().map(finding).collect::<Vec<_>>(),
        }))
    }

    /// Writes the page of the whole run to `path`.
    pub fn write_lock_page(&mut self, path: &Path) -> io::Result<()> {
        let report = self.lock_report(true).map_err(|_| io::Error::other("no history of locks was kept"))?;
        fs::write(path, page(&report))
    }
}

/// The page that shows `report`.
pub fn page(report: &Value) -> String {
    // `<` could end the element that the data stands in.
    PAGE.replacen(MARK, &report.to_string().replace('<', "\\u003c"), 1)
}

/// Whether a report can be written to `path` at the end; better said at the start.
pub fn check(path: &Path) -> Result<(), String> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    let opened = fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| {
        format!("lock-report {}: {}", path.display(), crate::base::process::os_reason(&error))
    })
}
