//! `cjson.decode`. Like `json_encode` it nests by a stack of frames, as deep as `decode_max_depth` and
//! Lua's own stack allow, and takes the slots there that cjson takes.
//!
//! SAFETY of all of it: the rules at the head of `lua`; each function is called by Lua with its own state.

use super::json::{Config, Frame, config};
use super::lua::{Answer, Raise, Shared, State, bad_arg, check_bytes, fail, fail_with, ffi, push, shared};
use super::out::Out;
use std::ffi::{c_char, c_int};

pub(super) unsafe fn decode(l: State) -> Answer {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            return bad_arg(l, 1, c"expected 1 argument");
        }
        let text = check_bytes(l, 1);
        if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
            return fail(l, "JSON parser does not support UTF-16 or UTF-32");
        }
        let shared: *mut Shared = shared(l);
        (*shared).json.clear();
        let mut decoder = Decoder { l, config: config(l), shared, out: Out::new(l), text, at: 0, begin: 0 };
        decoder.run()?;
        match decoder.token() {
            Token::End => Ok(1),
            token => decoder.unexpected("the end", token),
        }
    }
}

#[derive(Clone, Copy)]
enum Token<'a> {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// Without escapes: it stands in the text.
    Plain(&'a [u8]),
    /// Unescaped into `out`.
    Escaped,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
    /// Memory is short.
    Raised,
}

impl Token<'_> {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Plain(_) | Token::Escaped => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(what) => what,
            Token::Raised => "",
        }
    }
}

struct Decoder<'a> {
    l: State,
    config: Config,
    shared: *mut Shared,
    out: Out,
    /// Lua's string: a zero byte follows it.
    text: &'a [u8],
    /// Where the next token is looked for.
    at: usize,
    /// Where the last one begins, or what is wrong with it stands.
    begin: usize,
}

impl<'a> Decoder<'a> {
    fn frames(&mut self) -> &mut Vec<Frame> {
        // SAFETY: the VM's `Shared`; nothing else uses the frames while this function runs.
        unsafe { &mut (*self.shared).json }
    }

    /// Pushes one value.
    unsafe fn run(&mut self) -> Result<(), Raise> {
        let mut token = self.token();
        loop {
            unsafe {
                let complete = self.value(&mut token)?;
                if complete && !self.continued(&mut token)? {
                    return Ok(());
                }
            }
            self.out.step()?;
        }
    }

    /// Pushes the value that `token` is or begins. False: it is a table that has content, whose first
    /// value `token` is now.
    unsafe fn value(&mut self, token: &mut Token<'a>) -> Result<bool, Raise> {
        let l = self.l;
        unsafe {
            match *token {
                Token::Plain(_) | Token::Escaped => self.push_string(*token),
                Token::Number(x) => ffi::lua_pushnumber(l, x),
                Token::Boolean(yes) => ffi::lua_pushboolean(l, c_int::from(yes)),
                Token::Null => ffi::lua_pushlightuserdata(l, std::ptr::null_mut()),
                Token::ObjectBegin => {
                    self.descend(3)?;
                    ffi::lua_createtable(l, 0, 0);
                    *token = self.token();
                    if !matches!(token, Token::ObjectEnd) {
                        self.frames().push(Frame::Object { comma: false });
                        self.key(token)?;
                        return Ok(false);
                    }
                }
                Token::ArrayBegin => {
                    self.descend(2)?;
                    ffi::lua_createtable(l, 0, 0);
                    *token = self.token();
                    if !matches!(token, Token::ArrayEnd) {
                        self.frames().push(Frame::Array { at: 0, len: 0 });
                        return Ok(false);
                    }
                }
                other => return self.unexpected("value", other),
            }
        }
        Ok(true)
    }

    /// A value is complete: puts it where it belongs and closes what ends with it. True: `token`
    /// begins the next value; false: all is read.
    unsafe fn continued(&mut self, token: &mut Token<'a>) -> Result<bool, Raise> {
        let l = self.l;
        loop {
            unsafe {
                match self.frames().last_mut() {
                    None => return Ok(false),
                    Some(Frame::Array { at, .. }) => {
                        *at += 1;
                        let at = *at;
                        ffi::lua_rawseti_(l, -2, at);
                        match self.token() {
                            Token::ArrayEnd => {}
                            Token::Comma => {
                                *token = self.token();
                                return Ok(true);
                            }
                            other => return self.unexpected("comma or array end", other),
                        }
                    }
                    Some(Frame::Object { .. }) => {
                        ffi::lua_rawset(l, -3);
                        match self.token() {
                            Token::ObjectEnd => {}
                            Token::Comma => {
                                *token = self.token();
                                self.key(token)?;
                                return Ok(true);
                            }
                            other => return self.unexpected("comma or object end", other),
                        }
                    }
                }
            }
            self.frames().pop();
        }
    }

    /// Pushes the key that `token` must be; `token` begins its value then.
    unsafe fn key(&mut self, token: &mut Token<'a>) -> Result<(), Raise> {
        unsafe {
            match *token {
                Token::Plain(_) | Token::Escaped => self.push_string(*token),
                other => return self.unexpected("object key string", other),
            }
            match self.token() {
                Token::Colon => {
                    *token = self.token();
                    Ok(())
                }
                other => self.unexpected("colon", other),
            }
        }
    }

    unsafe fn push_string(&mut self, token: Token<'a>) {
        unsafe {
            match token {
                Token::Plain(text) => push(self.l, text),
                _ => self.out.push(),
            }
        }
    }

    /// One level deeper, which needs `slots` of Lua's stack.
    unsafe fn descend(&mut self, slots: c_int) -> Result<(), Raise> {
        let depth = self.frames().len() + 1;
        let deepest = usize::try_from(self.config.decode_max_depth).unwrap_or(0);
        unsafe {
            if depth > deepest || ffi::lua_checkstack(self.l, slots) == 0 {
                let at = self.at;
                let text = format_args!("Found too many nested data structures ({depth}) at character {at}");
                ffi::lua_settop(self.l, 1); // room for the text
                return Err(fail_with(self.l, text));
            }
        }
        Ok(())
    }

    unsafe fn unexpected<T>(&mut self, expected: &str, found: Token<'_>) -> Result<T, Raise> {
        if matches!(found, Token::Raised) {
            return Err(Raise);
        }
        let (found, at) = (found.name(), self.begin + 1);
        let text = format_args!("Expected {expected} but found {found} at character {at}");
        unsafe {
            ffi::lua_settop(self.l, 1); // room for the text
            Err(fail_with(self.l, text))
        }
    }

    /// The byte at `at`; zero past the end, as in C.
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    /// Cuts out the next token. One that is wrong is not gone past.
    fn token(&mut self) -> Token<'a> {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.begin = self.at;
        let token = match self.byte(self.at) {
            0 => return Token::End,
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' if !self.config.decode_invalid && self.is_no_json_number() => {
                return Token::Error("invalid number");
            }
            b'-' | b'0'..=b'9' => return self.number(),
            b'+' | b'i' | b'I' | b'n' | b'N' | b't' | b'f' => return self.word(),
            _ => return Token::Error("invalid token"),
        };
        self.at += 1;
        token
    }

    fn word(&mut self) -> Token<'a> {
        let rest = &self.text[self.at..];
        for (word, token) in
            [("true", Token::Boolean(true)), ("false", Token::Boolean(false)), ("null", Token::Null)]
        {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        if self.config.decode_invalid && self.is_no_json_number() {
            return self.number();
        }
        Token::Error("invalid token")
    }

    /// Whether a number begins here that C's `strtod` knows and JSON does not: a plus sign, a leading
    /// zero, hexadecimal digits, infinity, NaN.
    fn is_no_json_number(&self) -> bool {
        let mut at = self.at;
        match self.byte(at) {
            b'+' => return true,
            b'-' => at += 1,
            _ => {}
        }
        match self.byte(at) {
            b'0' => matches!(self.byte(at + 1), b'x' | b'X' | b'0'..=b'9'),
            0..=b'9' => false,
            _ => {
                let word = [at, at + 1, at + 2].map(|at| self.byte(at).to_ascii_lowercase());
                word == *b"inf" || word == *b"nan"
            }
        }
    }

    fn number(&mut self) -> Token<'a> {
        let begin: *const c_char = self.text[self.at..].as_ptr().cast();
        let mut end = std::ptr::null_mut();
        // SAFETY: a zero byte ends the text.
        let (x, len) = unsafe {
            let x = libc::strtod(begin, &mut end);
            (x, end.cast_const().offset_from(begin))
        };
        if len <= 0 {
            return Token::Error("invalid number");
        }
        self.at += len.unsigned_abs();
        Token::Number(x)
    }

    fn string(&mut self) -> Token<'a> {
        self.at += 1;
        let rest = &self.text[self.at..];
        match memchr::memchr3(b'"', b'\\', 0, rest) {
            Some(len) if rest[len] == b'"' => {
                self.at += len + 1;
                Token::Plain(&rest[..len])
            }
            _ => {
                self.out.clear();
                match self.unescape() {
                    Ok(Token::Error(what)) => {
                        self.begin = self.at;
                        Token::Error(what)
                    }
                    Ok(token) => token,
                    Err(Raise) => Token::Raised,
                }
            }
        }
    }

    fn unescape(&mut self) -> Result<Token<'a>, Raise> {
        loop {
            let rest = &self.text[self.at..];
            let len = memchr::memchr3(b'"', b'\\', 0, rest).unwrap_or(rest.len());
            self.out.put(&rest[..len])?;
            self.at += len;
            match self.byte(self.at) {
                b'"' => {
                    self.at += 1;
                    return Ok(Token::Escaped);
                }
                b'\\' => {}
                _ => return Ok(Token::Error("unexpected end of string")),
            }
            let plain = match self.byte(self.at + 1) {
                byte @ (b'"' | b'\\' | b'/') => byte,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 12,
                b'r' => b'\r',
                b'u' => {
                    let Some((character, len)) = self.character() else {
                        return Ok(Token::Error("invalid unicode escape code"));
                    };
                    let mut utf8 = [0; 4];
                    self.out.put(character.encode_utf8(&mut utf8).as_bytes())?;
                    self.at += len;
                    continue;
                }
                _ => return Ok(Token::Error("invalid escape code")),
            };
            self.out.byte(plain)?;
            self.at += 2;
        }
    }

    /// The character of the `\u` escape here (two of them for a pair), and how many bytes it takes.
    fn character(&self) -> Option<(char, usize)> {
        let first = self.four_digits(self.at + 2)?;
        if !(0xD800..0xE000).contains(&first) {
            return Some((char::from_u32(first)?, 6));
        }
        if self.byte(self.at + 6) != b'\\' || self.byte(self.at + 7) != b'u' {
            return None;
        }
        let second = self.four_digits(self.at + 8)?;
        if first >= 0xDC00 || !(0xDC00..0xE000).contains(&second) {
            return None;
        }
        Some((char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))?, 12))
    }

    fn four_digits(&self, at: usize) -> Option<u32> {
        (at..at + 4).try_fold(0, |n, at| Some(n << 4 | char::from(self.byte(at)).to_digit(16)?))
    }
}
