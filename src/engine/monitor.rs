//! MONITOR: what every command looks like to those who watch. Not here: the command
//! (`command::monitor`).

use super::core::{Core, Origin};
use super::spec::Flags;
use super::table::Command;
use crate::resp::Args;
use std::io::Write;

/// What stands in the place of a password.
pub const REDACTED: &[u8] = b"(redacted)";

impl Core {
    /// `client` is shown every command from now on.
    pub fn add_monitor(&mut self, client: usize) {
        self.clients.get_mut(client).monitor = true;
        self.monitors.push(client);
        self.note_special();
    }

    /// It is shown none any more.
    pub fn remove_monitor(&mut self, client: usize) {
        self.clients.get_mut(client).monitor = false;
        self.monitors.retain(|&monitor| monitor != client);
        self.note_special();
    }

    /// Shows a command that `client` has run, or a script of its. What administers the server is not
    /// shown.
    #[inline]
    pub(super) fn feed_monitors(
        &mut self,
        client: usize,
        command: &Command,
        args: &Args<'_>,
        origin: Origin,
    ) {
        if !self.monitors.is_empty() && !command.has(Flags::ADMIN) {
            self.show(client, command, args, origin);
        }
    }

    /// Before a command runs whose own commands are to be shown behind it.
    #[inline]
    pub(super) fn feed_first(&mut self, client: usize, command: &Command, args: &Args<'_>, origin: Origin) {
        if !self.monitors.is_empty() && command.has(Flags::SKIP_MONITOR) {
            self.show(client, command, args, origin);
        }
    }

    #[cold]
    fn show(&mut self, client: usize, command: &Command, args: &Args<'_>, origin: Origin) {
        let session = self.clients.get(client);
        let micros = self.turn.micros();
        let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        let who = match origin {
            Origin::Script => "lua".to_owned(),
            _ if session.unix => format!("unix:{}", session.addr.trim_end_matches(":0")),
            _ => session.addr.clone(),
        };
        let mut line = format!("+{seconds}.{micros:06} [{} {who}]", session.db).into_bytes();
        for (i, arg) in args.all().iter().enumerate() {
            line.push(b' ');
            quote(&mut line, if command.is_secret(args, i) { REDACTED } else { arg });
        }
        line.extend_from_slice(b"\r\n");
        for monitor in self.monitors.clone() {
            self.push(monitor, &line);
        }
    }
}

/// Appends `text` in double quotes, as redis-cli can read it back.
fn quote(line: &mut Vec<u8>, text: &[u8]) {
    line.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x07 => line.extend_from_slice(b"\\a"),
            0x08 => line.extend_from_slice(b"\\b"),
            b' '..=b'~' => line.push(byte),
            _ => write!(line, "\\x{byte:02x}").expect("a Vec takes all that is written to it"),
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn every_byte_is_readable() {
        let mut line = Vec::new();
        quote(&mut line, b"a \"\\\n\r\t\x07\x08\x00\x7f\xff~");
        assert_eq!(line, br#""a \"\\\n\r\t\a\b\x00\x7f\xff~""#);
    }
}
