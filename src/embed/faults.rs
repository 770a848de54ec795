//! An embedded server's faults: what KEYLATCH FAULT does, from Rust. Not here: the rules
//! (`engine::faults`).

use super::Server;
use crate::engine::Door;
pub use crate::engine::faults::{Action, Nonsense, Numbered, Phase, Rule};

/// Has an embedded server's requests and replies go wrong.
#[derive(Clone, Copy, Debug)]
pub struct FaultsHandle<'s>(&'s Server);

impl Server {
    /// The rules of what goes wrong.
    ///
    /// ```
    /// use keylatch::faults::{Action, Phase, Rule};
    /// use std::io::{Read, Write};
    ///
    /// let server = keylatch::Server::start()?;
    /// // The next SET takes effect, but its reply is lost with the connection.
    /// let lost = server.faults().add(Rule::new(Action::Drop).on(Phase::After).command("set").times(1))?;
    ///
    /// let mut client = std::net::TcpStream::connect(server.addr())?;
    /// client.write_all(b"SET lock:order:1 token NX PX 30000\r\n")?;
    /// let mut reply = Vec::new();
    /// client.read_to_end(&mut reply)?;
    ///
    /// assert!(reply.is_empty());
    /// assert_eq!(server.get("lock:order:1").as_deref(), Some(&b"token"[..]));
    /// assert_eq!(server.faults().list()[0].struck, 1);
    /// assert!(server.faults().remove(lost));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn faults(&self) -> FaultsHandle<'_> {
        FaultsHandle(self)
    }
}

impl FaultsHandle<'_> {
    /// Puts a rule behind those in force; returns its id. `Err`: it makes no sense, such as one that
    /// cuts off a reply before there is any.
    pub fn add(&self, rule: Rule) -> Result<u64, Nonsense> {
        self.0.with(|engine| engine.core().add_fault(rule))
    }

    /// The rules in force, in order, with how often each matched and struck.
    pub fn list(&self) -> Vec<Numbered> {
        self.0.with(|engine| engine.core().trouble.rules().rules().to_vec())
    }

    /// Takes the rule with this id out; tells whether it was there. What it has brought about goes on.
    pub fn remove(&self, id: u64) -> bool {
        self.0.with(move |engine| engine.core().remove_fault(id))
    }

    /// Takes all rules out, and ends the delays, stalls and split replies that are under way. Tells
    /// how many rules there were.
    pub fn clear(&self) -> usize {
        self.0.with(|engine| engine.core().clear_faults())
    }
}
