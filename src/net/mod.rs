//! Room `net`: sockets. Bytes in, bytes out. A task a connection awaits readiness and then works
//! synchronously; nothing here knows a command.

pub mod batch;
pub mod busy;
pub mod connection;
pub mod listen;
pub mod socket;

use crate::engine::{Door, Engine};
use connection::Conn;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::Notify;

/// How much one read takes at most. Also the size of the one read buffer that all connections
/// share: an idle connection holds none.
pub const READ_SIZE: usize = 64 * 1024;

/// What the tasks of one server share.
pub struct Shared {
    pub engine: RefCell<Engine>,
    /// By the client's place in the registry.
    pub conns: RefCell<Vec<Option<Rc<Conn>>>>,
    pub listeners: RefCell<Vec<Rc<listen::Listener>>>,
    buffers: RefCell<Buffers>,
    /// The cron sleeps until there is something to do.
    pub cron_sleeps: Cell<bool>,
    pub cron: Notify,
    /// SHUTDOWN or a signal came.
    pub stop: Notify,
    pub stopping: Cell<bool>,
}

#[derive(Default)]
struct Buffers {
    read: Vec<Box<[u8]>>,
    out: Vec<Vec<u8>>,
}

/// A buffer above this goes back to the allocator instead of the pool.
const POOLED_MAX: usize = 256 * 1024;

impl Shared {
    /// Around `engine`, with nothing connected.
    pub fn new(engine: Engine) -> Rc<Self> {
        Rc::new(Shared {
            engine: RefCell::new(engine),
            conns: RefCell::default(),
            listeners: RefCell::default(),
            buffers: RefCell::default(),
            cron_sleeps: Cell::new(false),
            cron: Notify::new(),
            stop: Notify::new(),
            stopping: Cell::new(false),
        })
    }

    fn take_read_buffer(&self) -> Box<[u8]> {
        let pooled = self.buffers.borrow_mut().read.pop();
        pooled.unwrap_or_else(|| vec![0; READ_SIZE].into_boxed_slice())
    }

    fn give_read_buffer(&self, buffer: Box<[u8]>) {
        self.buffers.borrow_mut().read.push(buffer);
    }

    fn take_out_buffer(&self) -> Vec<u8> {
        self.buffers.borrow_mut().out.pop().unwrap_or_default()
    }

    fn give_out_buffer(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= POOLED_MAX {
            buffer.clear();
            self.buffers.borrow_mut().out.push(buffer);
        }
    }

    /// After a turn: has those looked at whom the turn concerned, and the cron and the stop.
    pub fn after_turn(&self, door: &mut dyn Door) {
        let core = door.core();
        core.broadcast_changes();
        if core.clients.has_woken() {
            let conns = self.conns.borrow();
            for place in core.clients.take_woken() {
                if let Some(Some(conn)) = conns.get(place) {
                    conn.wake();
                }
            }
        }
        if (self.cron_sleeps.get() && core.needs_cron()) || core.cron_is_late {
            core.cron_is_late = false;
            self.cron_sleeps.set(false);
            self.cron.notify_one();
        }
        if core.shutdown.is_some() && !self.stopping.replace(true) {
            self.stop.notify_one();
        }
    }
}
