//! What the book tells, by value: the same for a client, for a Rust test and for the report. Not
//! here: how it is kept (`book`), how it is said (`command::locks`, `report`).

use super::findings::Mistake;

/// A client as it was when it did what is told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// As CLIENT ID tells; 0: nobody that the book knows.
    pub id: u64,
    /// As CLIENT SETNAME set it.
    pub name: Vec<u8>,
    /// `ip:port`, or a socket's path.
    pub addr: String,
}

impl Who {
    /// Whether both are one user of locks: the same connection, or connections of the same name.
    pub fn is(&self, other: &Who) -> bool {
        self.id == other.id || (!self.name.is_empty() && self.name == other.name)
    }
}

/// A lock that is held. Times are absolute Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    pub db: usize,
    pub key: Vec<u8>,
    /// The value: what tells one holder from another.
    pub token: Vec<u8>,
    pub holder: Who,
    pub since: i64,
    /// `None`: it has none, and stays until somebody removes it.
    pub deadline: Option<i64>,
    /// How often the holder has put the deadline off.
    pub renewals: u64,
    /// How many attempts were refused meanwhile.
    pub refused: u64,
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Acquired,
    Refused,
    Renewed,
    Released,
    Expired,
    /// Its value was replaced: it is another's from then on.
    Overwritten,
}

impl What {
    /// In the words of KEYLATCH HISTORY.
    pub fn name(self) -> &'static str {
        match self {
            What::Acquired => "acquired",
            What::Refused => "refused",
            What::Renewed => "renewed",
            What::Released => "released",
            What::Expired => "expired",
            What::Overwritten => "overwritten",
        }
    }
}

/// One thing that happened to a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockEvent {
    /// Absolute Unix milliseconds.
    pub at: i64,
    pub what: What,
    pub db: usize,
    pub key: Vec<u8>,
    /// Whose deed it was; of an expiry, whose lock it was.
    pub client: Who,
    /// The token that was offered, or that the lock had.
    pub token: Vec<u8>,
    /// Until when the lock is to be held, absolute; `None`: no deadline, or held no more.
    pub deadline: Option<i64>,
    /// The command, as it could be typed; empty: none (an expiry).
    pub command: String,
    /// How many KEYLATCH RESETs came before it.
    pub chapter: u32,
}

/// A mistake that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub mistake: Mistake,
    pub db: usize,
    /// The lock; of `expired-owner-write`, what was written; of `keys-walk`, the pattern.
    pub key: Vec<u8>,
    pub client: Who,
    /// When it was seen last, absolute Unix milliseconds.
    pub at: i64,
    /// How often, by this client on this key.
    pub times: u64,
    /// What shows it, in order.
    pub commands: Vec<String>,
    /// What happened, in a sentence.
    pub detail: String,
    /// How many KEYLATCH RESETs came before it.
    pub chapter: u32,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.mistake.name(), shown(&self.key), self.detail)?;
        if self.times > 1 {
            write!(f, " ({} times)", self.times)?;
        }
        for command in &self.commands {
            write!(f, "\n    {command}")?;
        }
        write!(f, "\n    instead: {}", self.mistake.instead())
    }
}

/// Any bytes as text: what is no UTF-8, and what no terminal should be sent, as `\xNN`; `\` is
/// doubled, so that no two texts look the same.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\u{2028}' || c == '\u{2029}' {
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer).bytes().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
            } else {
                text.push(c);
                if c == '\\' {
                    text.push(c);
                }
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn any_bytes_can_be_shown() {
        assert_eq!(shown("lock:ä 🔒<b>".as_bytes()), "lock:ä 🔒<b>");
        assert_eq!(shown(b"\xff\x00a\\\n\x1b[1m"), "\\xff\\x00a\\\\\\x0a\\x1b[1m");
        assert_eq!(shown("\u{2028}".as_bytes()), "\\xe2\\x80\\xa8");
    }
}
