//! The only consumer of `Effects`: what follows from changes. Watches, notifications and tracking
//! hang here, and nowhere else.

use super::core::Core;
use crate::keyspace::{Change, Event};

impl Core {
    /// Lets what happened take effect, in order.
    pub fn settle(&mut self) {
        let mut changes = std::mem::take(&mut self.effects.changes);
        for change in changes.drain(..) {
            match change {
                Change::Flushed { db, old } => {
                    self.break_watches_flushed(db, &old);
                    if !old.is_empty() {
                        self.reaper.push_back(old);
                    }
                }
                Change::Key { db, key, event, touched } => {
                    if touched {
                        self.break_watches(db, &key, event == Event::EXPIRED);
                    }
                }
                Change::Swapped(a, b) => self.break_watches_swapped(a, b),
            }
        }
        // The emptied vector goes back, so that its memory is used again.
        if self.effects.changes.is_empty() {
            self.effects.changes = changes;
        }
    }
}
