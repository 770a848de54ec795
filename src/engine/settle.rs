//! The only consumer of `Effects`: what follows from changes. Watches, notifications and tracking
//! hang here, and nowhere else.

use super::core::Core;
use crate::keyspace::{Change, Class, Event};

impl Core {
    /// Lets what happened take effect, in order.
    pub fn settle(&mut self) {
        let mut changes = std::mem::take(&mut self.effects.changes);
        // What a script did is told in broadcast mode to its caller as well, NOLOOP or not, as in Redis.
        let by = self.clients.running().filter(|_| self.script.is_none());
        let mut flushed = false;
        for change in changes.drain(..) {
            match change {
                Change::Flushed { db, old } => {
                    flushed = true;
                    self.break_watches_flushed(db, &old);
                    self.note_flushed(db);
                    if !old.is_empty() {
                        self.reaper.push_back(old);
                    }
                }
                Change::Key { db, key, event, touched } => {
                    let expired = event == Event::EXPIRED;
                    if touched {
                        self.break_watches(db, &key, expired);
                    }
                    if touched && !expired && self.tracking.is_used() {
                        self.invalidate(&key, by);
                    }
                    self.notify(db, &key, event);
                    if expired && self.tracking.is_used() {
                        self.invalidate(&key, None);
                    }
                }
                Change::Swapped(a, b) => {
                    self.break_watches_swapped(a, b);
                    if let Some(book) = &mut self.book {
                        book.swapped(a, b);
                    }
                }
            }
        }
        if flushed {
            self.invalidate_all();
        }
        // The emptied vector goes back, so that its memory is used again.
        if self.effects.changes.is_empty() {
            self.effects.changes = changes;
        }
    }

    /// Publishes what was done to `key`, if notify-keyspace-events asks for it.
    fn notify(&mut self, db: usize, key: &[u8], event: Event) {
        let classes = self.effects.classes;
        if event.class.0 & classes == 0 || !self.pubsub.anyone_listens() {
            return;
        }
        if classes & Class::KEYSPACE.0 != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(&channel, event.name.as_bytes());
        }
        if classes & Class::KEYEVENT.0 != 0 {
            let channel = format!("__keyevent@{db}__:{}", event.name);
            self.publish(channel.as_bytes(), key);
        }
    }

    /// Changes are kept one by one only while somebody wants them.
    pub fn update_interest(&mut self) {
        let published = self.effects.classes & (Class::KEYSPACE.0 | Class::KEYEVENT.0) != 0;
        self.effects.listening = !self.watches.is_empty()
            || self.tracking.is_used()
            || (published && self.pubsub.anyone_listens());
    }
}
