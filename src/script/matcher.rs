//! Lua 5.1's patterns, matched without recursion and in steps that can be interrupted: in Lua's own
//! matcher a long pattern overflows the C stack, and a bad one cannot be stopped. Not here: the functions
//! that scripts call (`patterns`).
//!
//! A pattern is a list of items without loops, so at most one choice an item is open at any moment: the
//! stack of choices is no longer than the pattern. What fails goes back to the last choice.

use super::lua::{Raise, Shared, State, fail, ffi, push};
use super::out::{Steps, out_of_memory};

const CAPTURES_MAX: usize = 32;
const ESCAPE: u8 = b'%';

/// How long a capture is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Len {
    /// It is open still.
    Open,
    /// It is a position, `()`.
    Position,
    Known(usize),
}

/// What may be tried instead once something has failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// Go on with the pattern here: an item that was taken is left out.
    Skip { text: usize, pattern: usize },
    /// The item was taken `more` times from `text` on: take it once less.
    Fewer { text: usize, more: usize, pattern: usize },
    /// Take the item once more, if it fits.
    Again { text: usize, item: usize, end: usize },
    /// No choice: the capture that was opened is none.
    Unopen,
    /// No choice: the capture that was closed is open again.
    Unclose { capture: usize },
}

/// One text and one pattern.
pub(super) struct Matcher<'a> {
    l: State,
    shared: *mut Shared,
    pub text: &'a [u8],
    /// Up to its first zero byte, where it ends for Lua 5.1.
    pattern: &'a [u8],
    captures: [(usize, Len); CAPTURES_MAX],
    level: usize,
    steps: Steps,
}

impl<'a> Matcher<'a> {
    /// SAFETY: `l` is a VM's state, and both strings stay where they are.
    pub unsafe fn new(l: State, text: &'a [u8], pattern: &'a [u8]) -> Matcher<'a> {
        let end = memchr::memchr(0, pattern).unwrap_or(pattern.len());
        let shared: *mut Shared = unsafe { super::lua::shared(l) };
        let steps = unsafe { Steps::new(l) };
        let captures = [(0, Len::Open); CAPTURES_MAX];
        Matcher { l, shared, text, pattern: &pattern[..end], captures, level: 0, steps }
    }

    fn choices(&mut self) -> &mut Vec<Choice> {
        // SAFETY: the VM's `Shared`; the stack is in use only within `at`, which calls no script.
        unsafe { &mut (*self.shared).choices }
    }

    fn choose(&mut self, choice: Choice) -> Result<(), Raise> {
        let choices = self.choices();
        if choices.len() == choices.capacity() {
            let more = choices.capacity().max(8);
            // SAFETY: as above; a plain read.
            let memory = unsafe { &(*self.shared).memory };
            if memory.limit.saturating_sub(memory.used) < 2 * more * size_of::<Choice>() {
                // SAFETY: `new`'s promise.
                return Err(unsafe { out_of_memory(self.l) });
            }
            self.choices().reserve_exact(more);
        }
        self.choices().push(choice);
        Ok(())
    }

    fn complain<T>(&self, text: &str) -> Result<T, Raise> {
        let _ = unsafe { fail(self.l, text) };
        Err(Raise)
    }

    /// The pattern's byte; zero at its end, as in C.
    fn p(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// Where the item that begins at `at` ends.
    fn item_end(&self, at: usize) -> Result<usize, Raise> {
        match self.p(at) {
            ESCAPE if self.p(at + 1) == 0 => self.complain("malformed pattern (ends with '%')"),
            ESCAPE => Ok(at + 2),
            b'[' => {
                let mut at = at + 1;
                if self.p(at) == b'^' {
                    at += 1;
                }
                loop {
                    // The first byte is part of the set, even if it is a bracket.
                    if self.p(at) == 0 {
                        return self.complain("malformed pattern (missing ']')");
                    }
                    at += if self.p(at) == ESCAPE && self.p(at + 1) != 0 { 2 } else { 1 };
                    if self.p(at) == b']' {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at + 1),
        }
    }

    /// Whether `byte` is in the set whose brackets stand at `open` and `close`.
    fn in_set(&self, byte: u8, open: usize, close: usize) -> bool {
        let mut at = open + 1;
        let wanted = self.p(at) != b'^';
        if !wanted {
            at += 1;
        }
        while at < close {
            if self.p(at) == ESCAPE {
                if in_class(byte, self.p(at + 1)) {
                    return wanted;
                }
                at += 2;
            } else if self.p(at + 1) == b'-' && at + 2 < close {
                if (self.p(at)..=self.p(at + 2)).contains(&byte) {
                    return wanted;
                }
                at += 3;
            } else {
                if self.p(at) == byte {
                    return wanted;
                }
                at += 1;
            }
        }
        !wanted
    }

    /// Whether the item at `item..end` fits the text at `at`.
    fn fits(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(at) else { return false };
        match self.p(item) {
            b'.' => true,
            ESCAPE => in_class(byte, self.p(item + 1)),
            b'[' => self.in_set(byte, item, end - 1),
            plain => plain == byte,
        }
    }

    /// Matches at `start`, with the pattern from `from` on; gives the end of the match.
    pub fn at(&mut self, start: usize, from: usize) -> Result<Option<usize>, Raise> {
        self.level = 0;
        self.choices().clear();
        let mut here = Some((start, from));
        loop {
            self.steps.step()?;
            match here {
                Some((text, pattern)) => match self.advance(text, pattern)? {
                    Next::Go(text, pattern) => here = Some((text, pattern)),
                    Next::Fail => here = None,
                    Next::End(text) => return Ok(Some(text)),
                },
                None => match self.choices().pop() {
                    None => return Ok(None),
                    Some(choice) => here = self.instead(choice)?,
                },
            }
        }
    }

    /// What `choice` leads to; `None`: nothing, go further back.
    fn instead(&mut self, choice: Choice) -> Result<Option<(usize, usize)>, Raise> {
        Ok(match choice {
            Choice::Skip { text, pattern } => Some((text, pattern)),
            Choice::Fewer { text, more, pattern } => {
                if more > 0 {
                    self.choose(Choice::Fewer { text, more: more - 1, pattern })?;
                }
                Some((text + more, pattern))
            }
            Choice::Again { text, item, end } => {
                if self.fits(text, item, end) {
                    self.choose(Choice::Again { text: text + 1, item, end })?;
                    Some((text + 1, end + 1))
                } else {
                    None
                }
            }
            Choice::Unopen => {
                self.level -= 1;
                None
            }
            Choice::Unclose { capture } => {
                self.captures[capture].1 = Len::Open;
                None
            }
        })
    }

    /// One item of the pattern.
    fn advance(&mut self, text: usize, pattern: usize) -> Result<Next, Raise> {
        if pattern >= self.pattern.len() {
            return Ok(Next::End(text));
        }
        match self.p(pattern) {
            b'(' => self.open(text, pattern),
            b')' => self.close(text, pattern),
            ESCAPE if self.p(pattern + 1) == b'b' => self.balanced(text, pattern + 2),
            ESCAPE if self.p(pattern + 1) == b'f' => self.frontier(text, pattern + 2),
            ESCAPE if self.p(pattern + 1).is_ascii_digit() => self.back_reference(text, pattern),
            b'$' if pattern + 1 == self.pattern.len() => {
                Ok(if text == self.text.len() { Next::Go(text, pattern + 1) } else { Next::Fail })
            }
            _ => self.single(text, pattern),
        }
    }

    fn open(&mut self, text: usize, pattern: usize) -> Result<Next, Raise> {
        if self.level >= CAPTURES_MAX {
            return self.complain("too many captures");
        }
        let (len, next) = if self.p(pattern + 1) == b')' { (Len::Position, 2) } else { (Len::Open, 1) };
        self.captures[self.level] = (text, len);
        self.level += 1;
        self.choose(Choice::Unopen)?;
        Ok(Next::Go(text, pattern + next))
    }

    fn close(&mut self, text: usize, pattern: usize) -> Result<Next, Raise> {
        let Some(capture) = (0..self.level).rev().find(|&i| self.captures[i].1 == Len::Open) else {
            return self.complain("invalid pattern capture");
        };
        self.captures[capture].1 = Len::Known(text - self.captures[capture].0);
        self.choose(Choice::Unclose { capture })?;
        Ok(Next::Go(text, pattern + 1))
    }

    /// `%bxy`, its two bytes at `pair`.
    fn balanced(&mut self, text: usize, pair: usize) -> Result<Next, Raise> {
        let (open, close) = (self.p(pair), self.p(pair + 1));
        if open == 0 || close == 0 {
            return self.complain("unbalanced pattern");
        }
        if self.text.get(text) != Some(&open) {
            return Ok(Next::Fail);
        }
        let mut depth = 1;
        for at in text + 1..self.text.len() {
            self.steps.step()?;
            let byte = self.text[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Next::Go(at + 1, pair + 2));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(Next::Fail)
    }

    /// `%f[set]`, the set at `set`. Outside of the text there are zero bytes.
    fn frontier(&mut self, text: usize, set: usize) -> Result<Next, Raise> {
        if self.p(set) != b'[' {
            return self.complain("missing '[' after '%f' in pattern");
        }
        let end = self.item_end(set)?;
        let before = if text == 0 { 0 } else { self.text[text - 1] };
        let after = self.text.get(text).copied().unwrap_or(0);
        let here = !self.in_set(before, set, end - 1) && self.in_set(after, set, end - 1);
        Ok(if here { Next::Go(text, end) } else { Next::Fail })
    }

    /// `%1` to `%9`.
    fn back_reference(&mut self, text: usize, pattern: usize) -> Result<Next, Raise> {
        let capture = usize::from(self.p(pattern + 1)).wrapping_sub(usize::from(b'1'));
        if capture >= self.level || self.captures[capture].1 == Len::Open {
            return self.complain("invalid capture index");
        }
        // A position is no text: nothing is like it.
        let (from, Len::Known(len)) = self.captures[capture] else { return Ok(Next::Fail) };
        let again = self.text[text..].starts_with(&self.text[from..from + len]);
        Ok(if again { Next::Go(text + len, pattern + 2) } else { Next::Fail })
    }

    /// An item for one byte, and how often it is taken.
    fn single(&mut self, text: usize, item: usize) -> Result<Next, Raise> {
        let end = self.item_end(item)?;
        match self.p(end) {
            b'?' => {
                if self.fits(text, item, end) {
                    self.choose(Choice::Skip { text, pattern: end + 1 })?;
                    return Ok(Next::Go(text + 1, end + 1));
                }
                Ok(Next::Go(text, end + 1))
            }
            how @ (b'*' | b'+') => {
                let mut n = 0;
                while self.fits(text + n, item, end) {
                    self.steps.step()?;
                    n += 1;
                }
                let least = usize::from(how == b'+');
                if n < least {
                    return Ok(Next::Fail);
                }
                if n > least {
                    let more = n - least - 1;
                    self.choose(Choice::Fewer { text: text + least, more, pattern: end + 1 })?;
                }
                Ok(Next::Go(text + n, end + 1))
            }
            b'-' => {
                self.choose(Choice::Again { text, item, end })?;
                Ok(Next::Go(text, end + 1))
            }
            _ if self.fits(text, item, end) => Ok(Next::Go(text + 1, end)),
            _ => Ok(Next::Fail),
        }
    }

    /// Pushes capture `i`; the whole match, `start..end`, if the pattern has none and `i` is 0.
    ///
    /// SAFETY: there is a slot for it.
    pub unsafe fn push_capture(&self, i: usize, start: usize, end: usize) -> Result<(), Raise> {
        if i >= self.level {
            if i > 0 {
                return self.complain("invalid capture index");
            }
            unsafe { push(self.l, &self.text[start..end]) };
            return Ok(());
        }
        match self.captures[i] {
            (_, Len::Open) => return self.complain("unfinished capture"),
            (from, Len::Position) => unsafe { ffi::lua_pushnumber(self.l, (from + 1) as f64) },
            (from, Len::Known(len)) => unsafe { push(self.l, &self.text[from..from + len]) },
        }
        Ok(())
    }

    /// Pushes all captures, or the whole match `whole` if there are none; gives how many.
    ///
    /// SAFETY: `l` is the running function's state.
    pub unsafe fn push_captures(&self, whole: Option<(usize, usize)>) -> Result<i32, Raise> {
        let n = if self.level == 0 && whole.is_some() { 1 } else { self.level };
        let (start, end) = whole.unwrap_or_default();
        unsafe {
            ffi::luaL_checkstack_(self.l, n as i32, c"too many captures".as_ptr());
            for i in 0..n {
                self.push_capture(i, start, end)?;
            }
        }
        Ok(n as i32)
    }
}

/// Where matching goes on.
enum Next {
    Go(usize, usize),
    Fail,
    End(usize),
}

/// Whether `byte` is of the class that the letter names; a capital names the rest. What names none stands
/// for itself.
fn in_class(byte: u8, class: u8) -> bool {
    let yes = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    yes == class.is_ascii_lowercase()
}
