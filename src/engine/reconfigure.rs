//! What a changed parameter changes: in the core here, in sockets and log by what the server gave.
//! Not here: the parameters themselves (`config`), and who asked (`command::config`).

use super::core::Core;
use crate::base::process;
use crate::config::Hooks;

/// What the server around the core does on a change that the core cannot make: listen elsewhere,
/// log at another level, go to another directory. An `Err` is said to whoever asked.
pub type Outside = Box<dyn FnMut(&mut Core, Hooks) -> Result<(), String>>;

/// What the core leaves to `Outside`.
const OUTSIDE: [Hooks; 3] = [Hooks::DIR, Hooks::LISTEN, Hooks::LOG_LEVEL];

impl Core {
    /// Puts into effect what `hooks` names, from the parameters of now. `Err`: which of them
    /// failed, and why; those after it were not tried.
    pub fn reconfigure(&mut self, hooks: Hooks) -> Result<(), (Hooks, String)> {
        // First what can fail, so that least is to be taken back.
        if hooks.has(Hooks::MAX_CLIENTS) {
            let room = process::make_room_for_clients(self.config.maxclients);
            if room < self.config.maxclients {
                let reason = format!(
                    "The operating system is not able to handle the specified number of clients, try with {room}"
                );
                return Err((Hooks::MAX_CLIENTS, reason));
            }
        }
        if let Some(mut outside) = self.outside.take() {
            let tried = OUTSIDE
                .into_iter()
                .filter(|hook| hooks.has(*hook))
                .try_for_each(|hook| outside(self, hook).map_err(|reason| (hook, reason)));
            self.outside = Some(outside);
            tried?;
        }
        if hooks.has(Hooks::PASSWORD) && self.config.requirepass.is_empty() {
            // Who was asked for a password is asked no more. A new one is asked of new clients only.
            for place in self.clients.by_age() {
                self.clients.get_mut(place).authenticated = true;
            }
        }
        if hooks.has(Hooks::LATENCY) && !self.config.latency_tracking {
            self.stats.forget_times();
        }
        if hooks.has(Hooks::SLOWLOG) {
            self.note_thresholds();
            self.slowlog.truncate(self.config.slowlog_max_len);
        }
        if hooks.has(Hooks::TRACKING) && self.tracking_is_over() {
            self.limit_tracking();
        }
        if hooks.has(Hooks::LOCKS) {
            self.reopen_book();
        }
        if hooks.has(Hooks::NOTIFY) {
            self.effects.classes = self.config.notify_keyspace_events.0;
            self.update_interest();
        }
        Ok(())
    }

    /// CONFIG RESETSTAT.
    pub fn reset_statistics(&mut self) {
        self.stats.reset();
        self.effects.hits = 0;
        self.effects.misses = 0;
        self.effects.expired = 0;
    }
}
