//! A command as the book keeps it: a token and the arguments around it in one small piece, made into
//! text only for those who ask. Most of what is kept is never asked for. Not here: whose they are and
//! when (`hold`, `book`).

use crate::engine::core::Origin;
use crate::engine::monitor::REDACTED;
use crate::engine::table::Command;
use crate::resp::Args;
use smallvec::SmallVec;

/// A key: that of a lock has place in it, as a rule, without an allocation.
pub type Key = SmallVec<[u8; 40]>;

/// The longest command that is kept, and the longest argument in it, bytes.
const COMMAND_MAX: usize = 400;
const ARG_MAX: usize = 120;

/// An argument is packed as its length and its bytes, or as one of these.
const CUT: u8 = ARG_MAX as u8 + 1; // longer: its first ARG_MAX bytes follow
const THE_KEY: u8 = CUT + 1;
const THE_TOKEN: u8 = CUT + 2;
const MORE: u8 = CUT + 3; // what the line has no place for
const IN_SCRIPT: u8 = CUT + 4;
const _: () = assert!(ARG_MAX < 250);

/// The command that runs.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub command: &'a Command,
    pub args: Args<'a>,
    pub origin: Origin,
}

impl Call<'_> {
    /// The command as it could be typed, cut where it is long.
    pub fn text(&self) -> String {
        Words::new(b"", b"", self).command(b"")
    }
}

/// A token and the command that offered or took it. The key is left out: who asks for the text
/// knows it.
#[derive(Debug)]
pub struct Words {
    /// The token, then the arguments.
    bytes: SmallVec<[u8; 64]>,
    token: usize,
}

impl Clone for Words {
    fn clone(&self) -> Words {
        // Not `bytes.clone()`, which goes byte by byte.
        Words { bytes: SmallVec::from_slice(&self.bytes), token: self.token }
    }
}

impl Words {
    /// A token, and no command: an expiry, or what nobody saw.
    pub fn silent(token: &[u8]) -> Words {
        Words { bytes: SmallVec::from_slice(token), token: token.len() }
    }

    /// A token, and a command of one word, or of none.
    pub fn one(token: &[u8], word: &[u8]) -> Words {
        let mut words = Words::silent(token);
        if !word.is_empty() {
            words.push(word);
        }
        words
    }

    /// `call` with `token`, on `key`.
    pub fn new(token: &[u8], key: &[u8], call: &Call<'_>) -> Words {
        let mut words = Words::silent(token);
        // How long the line is at least: no argument is shown by less than its bytes.
        let mut line = 0;
        for (i, &arg) in call.args.all().iter().enumerate() {
            if line > COMMAND_MAX {
                words.bytes.push(MORE);
                break;
            }
            line += 1 + arg.len().min(ARG_MAX);
            if call.command.is_secret(&call.args, i) {
                words.push(REDACTED);
            } else if arg.len() > 1 && arg == key {
                words.bytes.push(THE_KEY);
            } else if arg.len() > 1 && arg == token {
                words.bytes.push(THE_TOKEN);
            } else {
                words.push(arg);
            }
        }
        if call.origin == Origin::Script {
            words.bytes.push(IN_SCRIPT);
        }
        words
    }

    fn push(&mut self, arg: &[u8]) {
        if arg.len() > ARG_MAX {
            self.bytes.push(CUT);
            self.bytes.extend_from_slice(&arg[..ARG_MAX]);
        } else {
            self.bytes.push(arg.len() as u8);
            self.bytes.extend_from_slice(arg);
        }
    }

    /// What tells one holder from another.
    #[inline]
    pub fn token(&self) -> &[u8] {
        &self.bytes[..self.token]
    }

    /// The command as it could be typed, cut where it is long; `key` is that of its lock. Empty:
    /// there was none.
    pub fn command(&self, key: &[u8]) -> String {
        let mut text = String::with_capacity(96);
        let (token, mut rest) = self.bytes.split_at(self.token);
        let mut first = true;
        while let Some((&tag, behind)) = rest.split_first() {
            if tag == IN_SCRIPT {
                text.push_str("  (in a script)");
                break;
            }
            let taken = if tag <= CUT { usize::from(tag).min(ARG_MAX) } else { 0 };
            let (literal, next) = behind.split_at(taken);
            rest = next;
            if text.len() > COMMAND_MAX {
                text.push_str(" …");
                // The rest is not shown, but for where it ran.
                rest = if self.bytes.last() == Some(&IN_SCRIPT) { &[IN_SCRIPT] } else { &[] };
                continue;
            }
            if !std::mem::take(&mut first) {
                text.push(' ');
            }
            match tag {
                THE_KEY => show(&mut text, key),
                THE_TOKEN => show(&mut text, token),
                _ => show(&mut text, literal),
            }
            if tag == CUT {
                text.push('…');
            }
        }
        text
    }
}

/// Appends one argument: quoted where it is more than a word.
fn show(text: &mut String, arg: &[u8]) {
    let shown = &arg[..arg.len().min(ARG_MAX)];
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    match std::str::from_utf8(shown) {
        Ok(word) if !word.is_empty() && shown.iter().all(plain) => text.push_str(word),
        _ => {
            text.push('"');
            text.push_str(&shown.escape_ascii().to_string().replace("\\'", "'"));
            text.push('"');
        }
    }
    if shown.len() < arg.len() {
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::spec::Spec;

    /// What HISTORY shows of a SET with these arguments, of the lock `key` and its `token`.
    fn told(args: &[&[u8]], key: &[u8], token: &[u8], origin: Origin) -> String {
        let full_name = String::new();
        let (parent, first_key, children) = (None, None, Vec::new());
        let command = Command { id: 0, spec: &Spec::NONE, parent, full_name, first_key, children };
        let words = Words::new(token, key, &Call { command: &command, args: Args::new(args), origin });
        assert_eq!(words.token(), token);
        assert_eq!(words.clone().command(key), words.command(key));
        words.command(key)
    }

    #[test]
    fn a_command_is_told_as_it_was_sent() {
        let told_plainly = |args: &[&[u8]]| told(args, b"lock:1", b"token", Origin::Client);
        assert_eq!(
            told_plainly(&[b"SET", b"lock:1", b"token", b"NX", b"", b"lock:2", b"a b", b"\"\\'\xff\n"]),
            r#"SET lock:1 token NX "" lock:2 "a b" "\"\\'\xff\n""#
        );
        // The same word twice, and a token that is the key.
        assert_eq!(told(&[b"x", b"k1", b"k1", b"k1"], b"k1", b"k1", Origin::Client), "x k1 k1 k1");
        assert_eq!(told(&[b"get", b"k1"], b"k1", b"", Origin::Script), "get k1  (in a script)");
        assert_eq!(Words::silent(b"token").command(b"k"), "");
        assert_eq!(Words::one(b"token", b"").command(b"k"), "");
        assert_eq!(Words::one(b"token", b"FLUSHALL").command(b"k"), "FLUSHALL");
    }

    #[test]
    fn what_is_long_is_cut_wherever_it_stands() {
        let (long, fits) = (vec![b'x'; 121], vec![b'x'; 120]);
        let cut = format!("{}…", "x".repeat(120));
        for (key, token) in [(&b"k1"[..], &b"t1"[..]), (&long[..], b"t1"), (b"k1", &long)] {
            let args = [b"SET", &fits[..], &long];
            assert_eq!(told(&args, key, token, Origin::Client), format!("SET {} {cut}", "x".repeat(120)));
        }
        // Four of them are more than a line has: what comes behind is left out, but for where it ran.
        let args = [&b"SET"[..], &long, &fits, &long, &fits, b"NX", b"PX"];
        let line = told(&args, b"k1", b"t1", Origin::Script);
        let x = "x".repeat(120);
        assert_eq!(line, format!("SET {cut} {x} {cut} {x} …  (in a script)"));
        // As long by what must be escaped: 150 bytes that are told as 600.
        let (odd, many) = ([b'\x01'; 75], [&b"SET"[..], &[b'\x01'; 75], &[b'\x01'; 75], b"NX", b"PX"]);
        let odd = format!("\"{}\"", odd.escape_ascii());
        assert_eq!(told(&many, b"k1", b"t1", Origin::Client), format!("SET {odd} {odd} …"));
        assert_eq!(told(&many, b"k1", b"t1", Origin::Script), format!("SET {odd} {odd} …  (in a script)"));
    }
}
