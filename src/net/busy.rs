//! Serving others while a script overruns: every connection is looked at without the runtime, and
//! the core alone answers (`admit` lets through what the table allows then).

use super::Shared;
use crate::engine::core::{Breather, Core};
use crate::engine::session::Closing;
use std::rc::{Rc, Weak};

/// What the core calls every so often while a script overruns.
pub fn breather(shared: &Rc<Shared>) -> Breather {
    let shared = Rc::downgrade(shared);
    Box::new(move |core| breathe(&shared, core))
}

fn breathe(shared: &Weak<Shared>, core: &mut Core) {
    let Some(shared) = shared.upgrade() else { return };
    let listeners = shared.listeners.borrow().clone();
    for listener in listeners {
        listener.accept(&shared, core);
    }
    let conns: Vec<_> = shared.conns.borrow().iter().flatten().cloned().collect();
    for conn in conns {
        // The caller's own connection is in use further up.
        let Ok(mut state) = conn.state.try_borrow_mut() else { continue };
        if core.clients.get(conn.place).closing != Closing::No {
            continue;
        }
        match conn.receive(&mut state, core, &shared) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => core.clients.get_mut(conn.place).closing = Closing::Now,
        }
        core.clients.wake(conn.place);
    }
    shared.after_turn(core);
}
