//! `Plan`: a script that does no more than call commands and compare what they answer, as nearly every
//! release and renewal of a lock does, run as a tree and without Lua. What a script answers, changes and
//! fails with is the same either way (`plan_tests`); only the time differs. Not here: which scripts have
//! a plan and how it is read from their text (`plan_text`).
//!
//! Nothing in a plan can fail but `redis.call`, and nothing in it repeats: so it needs no look at the
//! time and no account of memory.

use super::Redis;
use super::api;
use super::convert::{ErrorLine, one_line};
use super::lua::{argument, to_i64};
use crate::base::error::CommandError;
use crate::base::number;
use crate::resp::{Args, Protocol, Reply, Tree, TreeReply};
use smallvec::SmallVec;
use std::ops::Range;

/// A script's statements.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub body: Vec<Statement>,
    /// How many places its locals take.
    pub locals: usize,
}

#[derive(Debug, PartialEq)]
pub(super) enum Statement {
    /// The values go to the places from `first` on; missing ones are nil, one too many is only worked out.
    Local {
        first: usize,
        names: usize,
        values: Vec<Expression>,
    },
    Assign(usize, Expression),
    Call(Call),
    /// The first block whose condition holds, or the last.
    If(Vec<(Expression, Vec<Statement>)>, Vec<Statement>),
    Return(Option<Expression>),
}

#[derive(Debug, PartialEq)]
pub(super) enum Expression {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Box<[u8]>),
    Local(usize),
    /// KEYS and ARGV at a place, from 0 on; `None`: outside, so nil.
    Key(Option<usize>),
    Argument(Option<usize>),
    Call(Call),
    Equal(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
}

/// `redis.call(…)`.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub args: Vec<Expression>,
    /// Where Lua says an error of it was raised.
    pub line: u32,
}

/// A Lua value.
#[derive(Clone, Debug)]
enum Value<'a> {
    Nil,
    Boolean(bool),
    Number(f64),
    /// A text of the script or of its caller.
    Given(&'a [u8]),
    /// A text that a command answered: its place in `Room::texts`.
    Heard(Range<usize>),
    /// A table that a command answered: its place in `Room::answers`.
    Answer(usize),
}

impl Value<'_> {
    /// The bytes of a text; `texts` are the room's.
    fn text<'b>(&'b self, texts: &'b [u8]) -> Option<&'b [u8]> {
        match self {
            Value::Given(text) => Some(text),
            Value::Heard(range) => Some(&texts[range.clone()]),
            _ => None,
        }
    }

    fn holds(&self) -> bool {
        !matches!(self, Value::Nil | Value::Boolean(false))
    }
}

/// What a run ends with before its end.
enum End<'a> {
    Returned(Value<'a>),
    /// With the line of the call.
    Failed(ErrorLine, u32),
}

/// The memory of a run, kept for the next.
#[derive(Default)]
pub(super) struct Room {
    texts: Vec<u8>,
    heard: Vec<u8>,
    answers: Vec<Tree>,
}

impl Room {
    /// Keeps what is cheap to keep.
    fn tidy(&mut self) {
        self.answers.clear();
        for text in [&mut self.texts, &mut self.heard] {
            if text.capacity() > super::host::SCRATCH_BYTES_MAX {
                *text = Vec::new();
            }
            text.clear();
        }
    }
}

impl Plan {
    /// Runs it and says its result; an error, which has not been said, comes with the line of its call.
    pub fn run(
        &self,
        core: &mut dyn Redis,
        room: &mut Room,
        keys: &[&[u8]],
        argv: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Result<(), (ErrorLine, u32)> {
        let mut run = Run { core, room, keys, argv, locals: SmallVec::from_elem(Value::Nil, self.locals) };
        let result = match run.block(&self.body) {
            Ok(()) => Ok(Value::Nil),
            Err(End::Returned(value)) => Ok(value),
            Err(End::Failed(error, line)) => Err((error, line)),
        };
        let said = result.map(|value| run.say(&value, reply));
        run.room.tidy();
        said
    }
}

struct Run<'a> {
    core: &'a mut dyn Redis,
    room: &'a mut Room,
    keys: &'a [&'a [u8]],
    argv: &'a [&'a [u8]],
    locals: SmallVec<[Value<'a>; 4]>,
}

impl<'a> Run<'a> {
    fn block(&mut self, statements: &'a [Statement]) -> Result<(), End<'a>> {
        for statement in statements {
            match statement {
                Statement::Local { first, names, values } => {
                    // All of them are worked out before the first name is there.
                    let mut worked_out: SmallVec<[Value<'a>; 4]> = SmallVec::new();
                    for value in values {
                        worked_out.push(self.value(value)?);
                    }
                    worked_out.resize(*names, Value::Nil);
                    for (place, value) in self.locals[*first..].iter_mut().zip(worked_out) {
                        *place = value;
                    }
                }
                Statement::Assign(place, value) => self.locals[*place] = self.value(value)?,
                Statement::Call(call) => {
                    self.call(call)?;
                }
                Statement::If(branches, otherwise) => {
                    let mut chosen = otherwise;
                    for (condition, block) in branches {
                        if self.value(condition)?.holds() {
                            chosen = block;
                            break;
                        }
                    }
                    self.block(chosen)?;
                }
                Statement::Return(None) => return Err(End::Returned(Value::Nil)),
                Statement::Return(Some(value)) => return Err(End::Returned(self.value(value)?)),
            }
        }
        Ok(())
    }

    fn value(&mut self, expression: &'a Expression) -> Result<Value<'a>, End<'a>> {
        let given = |list: &'a [&'a [u8]], at: &Option<usize>| {
            at.and_then(|at| list.get(at)).map_or(Value::Nil, |text| Value::Given(text))
        };
        Ok(match expression {
            Expression::Nil => Value::Nil,
            Expression::Boolean(yes) => Value::Boolean(*yes),
            Expression::Number(n) => Value::Number(*n),
            Expression::Text(text) => Value::Given(text),
            Expression::Local(place) => self.locals[*place].clone(),
            Expression::Key(at) => given(self.keys, at),
            Expression::Argument(at) => given(self.argv, at),
            Expression::Call(call) => self.call(call)?,
            Expression::Equal(a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                Value::Boolean(self.equal(&a, &b))
            }
            Expression::Not(a) => Value::Boolean(!self.value(a)?.holds()),
            Expression::And(a, b) => {
                let a = self.value(a)?;
                if a.holds() { self.value(b)? } else { a }
            }
            Expression::Or(a, b) => {
                let a = self.value(a)?;
                if a.holds() { a } else { self.value(b)? }
            }
        })
    }

    fn equal(&self, a: &Value<'a>, b: &Value<'a>) -> bool {
        match (a, b) {
            (Value::Nil, Value::Nil) => true,
            (Value::Boolean(a), Value::Boolean(b)) => a == b,
            (Value::Number(a), Value::Number(b)) => a == b,
            (Value::Answer(a), Value::Answer(b)) => a == b, // tables are the same or are not
            _ => {
                let texts = &self.room.texts;
                a.text(texts).is_some_and(|a| b.text(texts) == Some(a))
            }
        }
    }

    fn call(&mut self, call: &'a Call) -> Result<Value<'a>, End<'a>> {
        let mut values: SmallVec<[Value<'a>; 8]> = SmallVec::new();
        for arg in &call.args {
            let mut value = self.value(arg)?;
            if let Value::Number(n) = value {
                value = self.keep(argument(n).as_bytes());
            }
            values.push(value);
        }
        if values.is_empty() {
            return Err(refused(api::NO_ARGUMENT, call.line));
        }
        let mut heard = std::mem::take(&mut self.room.heard);
        heard.clear();
        let Some((answered, what, tree)) = ask(self.core, &self.room.texts, &values, &mut heard) else {
            return Err(refused(api::BAD_ARGUMENT, call.line));
        };
        if let Err(error) = answered {
            return Err(failed(&error.line(), call.line));
        }
        Ok(match what {
            Heard::Nothing => match tree {
                Some(tree) => {
                    self.room.answers.extend(tree.finish().pop());
                    Value::Answer(self.room.answers.len() - 1)
                }
                None => Value::Nil,
            },
            Heard::Null => Value::Boolean(false),
            Heard::Integer(n) => Value::Number(n as f64),
            Heard::Error => return Err(failed(&heard, call.line)),
            Heard::Text => {
                let value = if self.room.texts.is_empty() {
                    std::mem::swap(&mut self.room.texts, &mut heard);
                    Value::Heard(0..self.room.texts.len())
                } else {
                    self.keep(&heard)
                };
                self.room.heard = heard;
                value
            }
        })
    }

    fn keep(&mut self, text: &[u8]) -> Value<'a> {
        let begin = self.room.texts.len();
        self.room.texts.extend_from_slice(text);
        Value::Heard(begin..self.room.texts.len())
    }

    fn say(&self, value: &Value<'a>, reply: &mut dyn Reply) {
        match value {
            Value::Nil | Value::Boolean(false) => reply.null(),
            Value::Boolean(true) => reply.integer(1),
            Value::Number(n) => reply.integer(to_i64(*n)),
            Value::Given(text) => reply.bulk(text),
            Value::Heard(range) => reply.bulk(&self.room.texts[range.clone()]),
            Value::Answer(at) => say_tree(&self.room.answers[*at], reply),
        }
    }
}

/// Has `core` run the command that `values` are, unless one of them is no text: `None`. A plain answer's
/// bytes go to `heard`.
fn ask(
    core: &mut dyn Redis,
    texts: &[u8],
    values: &[Value<'_>],
    heard: &mut Vec<u8>,
) -> Option<(Result<(), CommandError>, Heard, Option<TreeReply>)> {
    let parts: SmallVec<[&[u8]; 8]> = values.iter().map(|value| value.text(texts)).collect::<Option<_>>()?;
    let mut hearing = Hearing { text: heard, what: Heard::Nothing, tree: None };
    let answered = core.call(&Args::new(&parts), &mut hearing);
    Some((answered, hearing.what, hearing.tree))
}

/// An error of the script's own.
fn refused<'a>(text: &str, line: u32) -> End<'a> {
    End::Failed(ErrorLine { line: format!("ERR {text}").into_bytes(), counted: false }, line)
}

/// An error of a command.
fn failed<'a>(text: &[u8], line: u32) -> End<'a> {
    let end = text.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |at| at + 1);
    let end = memchr::memchr(0, &text[..end]).unwrap_or(end); // Redis takes it for a C string
    End::Failed(ErrorLine { line: text[..end].to_vec(), counted: true }, line)
}

/// Says an answer as it comes out of a script that speaks RESP2: what a Lua table keeps of it.
fn say_tree(tree: &Tree, reply: &mut dyn Reply) {
    match tree {
        Tree::Simple(text) => {
            let text = &text[..memchr::memchr(0, text).unwrap_or(text.len())];
            reply.simple(&one_line(text));
        }
        Tree::Error(line) => reply.error_line(line),
        Tree::Integer(n) => reply.integer(to_i64(*n as f64)),
        Tree::Bulk(text) | Tree::BigNumber(text) | Tree::Verbatim(_, text) => reply.bulk(text),
        Tree::Null | Tree::NullArray => reply.null(),
        Tree::Double(x) => reply.bulk(number::format_double(*x).as_bytes()),
        Tree::Boolean(yes) => reply.integer(i64::from(*yes)),
        Tree::Array(items) | Tree::Set(items) | Tree::Push(items) => {
            reply.array(items.len());
            items.iter().for_each(|item| say_tree(item, reply));
        }
        Tree::Map(pairs) => {
            reply.array(2 * pairs.len());
            for (key, value) in pairs {
                say_tree(key, reply);
                say_tree(value, reply);
            }
        }
    }
}

/// What a command has answered.
#[derive(Clone, Copy)]
enum Heard {
    Nothing,
    Null,
    Integer(i64),
    /// Its bytes are in `Hearing::text`, as are an error's.
    Text,
    Error,
}

/// Takes one answer: a plain one as it is, anything else as a tree.
struct Hearing<'a> {
    text: &'a mut Vec<u8>,
    what: Heard,
    tree: Option<TreeReply>,
}

impl Hearing<'_> {
    /// A plain answer, unless it is part of a tree: that is given back.
    fn plain(&mut self, what: Heard) -> Option<&mut TreeReply> {
        if self.tree.is_none() {
            self.what = what;
        }
        self.tree.as_mut()
    }

    fn tree(&mut self) -> &mut TreeReply {
        self.tree.get_or_insert_with(|| TreeReply::new(Protocol::Resp2))
    }
}

impl Reply for Hearing<'_> {
    fn simple(&mut self, text: &[u8]) {
        self.tree().simple(text);
    }
    fn error_line(&mut self, line: &[u8]) {
        match self.plain(Heard::Error) {
            Some(tree) => tree.error_line(line),
            None => self.text.extend_from_slice(line),
        }
    }
    fn integer(&mut self, n: i64) {
        if let Some(tree) = self.plain(Heard::Integer(n)) {
            tree.integer(n);
        }
    }
    fn bulk(&mut self, bytes: &[u8]) {
        match self.plain(Heard::Text) {
            Some(tree) => tree.bulk(bytes),
            None => self.text.extend_from_slice(bytes),
        }
    }
    fn null(&mut self) {
        if let Some(tree) = self.plain(Heard::Null) {
            tree.null();
        }
    }
    fn null_array(&mut self) {
        self.null();
    }
    fn array(&mut self, n: usize) {
        self.tree().array(n);
    }
    fn map(&mut self, n: usize) {
        self.tree().map(n);
    }
    fn set(&mut self, n: usize) {
        self.tree().set(n);
    }
    fn push(&mut self, n: usize) {
        self.tree().push(n);
    }
    fn double(&mut self, x: f64) {
        self.bulk(number::format_double(x).as_bytes());
    }
    fn boolean(&mut self, b: bool) {
        self.integer(i64::from(b));
    }
    fn big_number(&mut self, digits: &[u8]) {
        self.bulk(digits);
    }
    fn verbatim(&mut self, _: &[u8; 3], text: &[u8]) {
        self.bulk(text);
    }
    fn is_resp3(&self) -> bool {
        false
    }
}
