//! Reads a plan from a script's text. Lua has compiled the script before, so what is read here is Lua;
//! what is not read, for whatever reason, simply has no plan. Not here: what a plan does (`plan`).

use super::plan::{Call, Expression, Plan, Statement};

/// A longer script has no plan.
const TEXT_BYTES_MAX: usize = 4096;
/// Nor has one that nests deeper.
const DEPTH_MAX: u32 = 24;
/// Nor has one with more `and`, `or`, `==` and `~=`: a row of them is a deep tree.
const OPERATORS_MAX: u32 = 100;

/// The plan of `text`, if it has one: locals, `if`, `return`, comparisons by `==` and `~=`, `and`,
/// `or`, `not`, KEYS and ARGV at a number, and `redis.call`.
pub(super) fn read(text: &[u8]) -> Option<Plan> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut reader = Reader {
        text,
        at: 0,
        line: 1,
        token: Token::End,
        token_line: 1,
        scope: Vec::new(),
        locals: 0,
        depth: 0,
        operators: 0,
    };
    reader.step()?;
    let body = reader.block()?;
    (reader.token == Token::End).then_some(Plan { body, locals: reader.locals })
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Name(&'a [u8]),
    Number(u32),
    Text(Vec<u8>),
    /// `(`, `)`, `[`, `]`, `.`, `,`, `;`, `=`.
    Mark(u8),
    Equal,
    Unequal,
    End,
}

/// Names that are no one's to give.
const RESERVED: &[&[u8]] = &[
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];
/// The globals that plans know. A local of that name would hide one.
const GLOBALS: &[&[u8]] = &[b"redis", b"KEYS", b"ARGV"];

struct Reader<'a> {
    text: &'a [u8],
    /// Behind `token`.
    at: usize,
    line: u32,
    token: Token<'a>,
    /// The line on which `token` ends.
    token_line: u32,
    /// The locals that can be seen, the newest last.
    scope: Vec<&'a [u8]>,
    /// The most that could be seen at once.
    locals: usize,
    depth: u32,
    operators: u32,
}

impl<'a> Reader<'a> {
    /// Reads the next token.
    fn step(&mut self) -> Option<()> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let (token, len) = match *rest {
            [] => (Token::End, 0),
            [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {
                let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
                (Token::Name(&rest[..len]), len)
            }
            [b'0'..=b'9', ..] => {
                // `0x10`, `1e3` and `1.5` are numbers too, but for Lua alone.
                let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'.').count();
                (Token::Number(std::str::from_utf8(&rest[..len]).ok()?.parse().ok()?), len)
            }
            [quote @ (b'"' | b'\''), ..] => quoted(rest, quote)?,
            [b'=', b'=', ..] => (Token::Equal, 2),
            [b'~', b'=', ..] => (Token::Unequal, 2),
            [b'.', b'.', ..] | [b'[', b'[' | b'=', ..] => return None,
            [mark @ (b'(' | b')' | b'[' | b']' | b'.' | b',' | b';' | b'='), ..] => (Token::Mark(mark), 1),
            _ => return None,
        };
        self.at += len;
        self.token = token;
        self.token_line = self.line;
        Some(())
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            match *rest {
                // CR, LF and the two together, in either order, are each one end of a line.
                [first @ (b'\n' | b'\r'), ref rest @ ..] => {
                    let pair = matches!(*rest, [second @ (b'\n' | b'\r'), ..] if second != first);
                    self.line += 1;
                    self.at += 1 + usize::from(pair);
                }
                [b' ' | b'\t', ..] => self.at += 1,
                // `--[` may begin a comment of several lines: its dashes stay, and are no token.
                [b'-', b'-', b'[', ..] => return,
                [b'-', b'-', ..] => self.at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
                _ => return,
            }
        }
    }

    fn is_name(&self, name: &str) -> bool {
        self.token == Token::Name(name.as_bytes())
    }

    /// The token is `mark`: goes on to the next.
    fn mark(&mut self, mark: u8) -> Option<()> {
        if self.token == Token::Mark(mark) { self.step() } else { None }
    }

    fn word(&mut self, name: &str) -> Option<()> {
        if self.is_name(name) { self.step() } else { None }
    }

    /// A name that is given to a local.
    fn new_name(&mut self) -> Option<&'a [u8]> {
        match self.token {
            Token::Name(name) if !RESERVED.contains(&name) && !GLOBALS.contains(&name) => {
                self.step()?;
                Some(name)
            }
            _ => None,
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Statements up to a word that ends a block, which stays.
    fn block(&mut self) -> Option<Vec<Statement>> {
        let seen = self.scope.len();
        let mut statements = Vec::new();
        loop {
            if self.token == Token::End || ["end", "else", "elseif"].iter().any(|word| self.is_name(word)) {
                break;
            }
            let statement = self.deeper(Self::statement)?;
            let ends = matches!(statement, Statement::Return(_));
            statements.push(statement);
            if self.token == Token::Mark(b';') {
                self.step()?;
            }
            if ends {
                break;
            }
        }
        self.scope.truncate(seen);
        Some(statements)
    }

    fn statement(&mut self) -> Option<Statement> {
        let Token::Name(name) = self.token else { return None };
        match name {
            b"local" => {
                self.step()?;
                self.local()
            }
            b"if" => {
                self.step()?;
                self.branches()
            }
            b"return" => {
                self.step()?;
                let ends = matches!(self.token, Token::End | Token::Mark(b';'))
                    || ["end", "else", "elseif"].iter().any(|word| self.is_name(word));
                Some(Statement::Return(if ends { None } else { Some(self.expression()?) }))
            }
            b"redis" => Some(Statement::Call(self.call()?)),
            _ => {
                let place = self.scope.iter().rposition(|known| *known == name)?;
                self.step()?;
                self.mark(b'=')?;
                Some(Statement::Assign(place, self.expression()?))
            }
        }
    }

    fn local(&mut self) -> Option<Statement> {
        let mut names = vec![self.new_name()?];
        while self.token == Token::Mark(b',') {
            self.step()?;
            names.push(self.new_name()?);
        }
        let mut values = Vec::new();
        if self.token == Token::Mark(b'=') {
            loop {
                self.step()?;
                values.push(self.expression()?);
                if self.token != Token::Mark(b',') {
                    break;
                }
            }
        }
        let (first, count) = (self.scope.len(), names.len());
        self.scope.extend(names);
        self.locals = self.locals.max(self.scope.len());
        Some(Statement::Local { first, names: count, values })
    }

    fn branches(&mut self) -> Option<Statement> {
        let mut branches = Vec::new();
        loop {
            let condition = self.expression()?;
            self.word("then")?;
            branches.push((condition, self.block()?));
            if !self.is_name("elseif") {
                break;
            }
            self.step()?;
        }
        let mut otherwise = Vec::new();
        if self.is_name("else") {
            self.step()?;
            otherwise = self.block()?;
        }
        self.word("end")?;
        Some(Statement::If(branches, otherwise))
    }

    fn expression(&mut self) -> Option<Expression> {
        self.deeper(|reader| {
            let mut left = reader.conjunction()?;
            while reader.is_name("or") {
                reader.operator()?;
                left = Expression::Or(Box::new(left), Box::new(reader.conjunction()?));
            }
            Some(left)
        })
    }

    /// Goes on behind an operator.
    fn operator(&mut self) -> Option<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX { None } else { self.step() }
    }

    fn conjunction(&mut self) -> Option<Expression> {
        let mut left = self.comparison()?;
        while self.is_name("and") {
            self.operator()?;
            left = Expression::And(Box::new(left), Box::new(self.comparison()?));
        }
        Some(left)
    }

    fn comparison(&mut self) -> Option<Expression> {
        let mut left = self.operand()?;
        while matches!(self.token, Token::Equal | Token::Unequal) {
            let unequal = self.token == Token::Unequal;
            self.operator()?;
            left = Expression::Equal(Box::new(left), Box::new(self.operand()?));
            if unequal {
                left = Expression::Not(Box::new(left));
            }
        }
        Some(left)
    }

    fn operand(&mut self) -> Option<Expression> {
        if self.is_name("not") {
            self.step()?;
            return Some(Expression::Not(Box::new(self.deeper(Self::operand)?)));
        }
        let constant = match &mut self.token {
            Token::Number(n) => Expression::Number(f64::from(*n)),
            Token::Text(text) => Expression::Text(std::mem::take(text).into()),
            Token::Name(b"nil") => Expression::Nil,
            Token::Name(b"true") => Expression::Boolean(true),
            Token::Name(b"false") => Expression::Boolean(false),
            Token::Mark(b'(') => {
                self.step()?;
                let inner = self.expression()?;
                self.mark(b')')?;
                return Some(inner);
            }
            Token::Name(b"redis") => return Some(Expression::Call(self.call()?)),
            Token::Name(b"KEYS") => return Some(Expression::Key(self.place()?)),
            Token::Name(b"ARGV") => return Some(Expression::Argument(self.place()?)),
            Token::Name(name) => Expression::Local(self.scope.iter().rposition(|known| known == name)?),
            _ => return None,
        };
        self.step()?;
        Some(constant)
    }

    /// `KEYS[n]`, `n` a number: the place from 0 on.
    fn place(&mut self) -> Option<Option<usize>> {
        self.step()?;
        self.mark(b'[')?;
        let Token::Number(n) = self.token else { return None };
        self.step()?;
        self.mark(b']')?;
        Some((n as usize).checked_sub(1))
    }

    fn call(&mut self) -> Option<Call> {
        self.step()?;
        self.mark(b'.')?;
        let line = self.token_line;
        self.word("call")?;
        if self.token_line != line {
            return None; // Lua refuses a bracket on the next line
        }
        self.mark(b'(')?;
        let mut args = Vec::new();
        while self.token != Token::Mark(b')') {
            args.push(self.expression()?);
            if self.token != Token::Mark(b',') {
                break;
            }
            self.step()?;
        }
        self.mark(b')')?;
        Some(Call { args, line })
    }
}

/// A string on one line, with the escapes that need no thought.
fn quoted<'a>(text: &[u8], quote: u8) -> Option<(Token<'a>, usize)> {
    let mut value = Vec::new();
    let mut at = 1;
    loop {
        match *text.get(at)? {
            byte if byte == quote => return Some((Token::Text(value), at + 1)),
            b'\n' => return None,
            b'\\' => {
                value.push(match *text.get(at + 1)? {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    same @ (b'\\' | b'\'' | b'"') => same,
                    _ => return None,
                });
                at += 2;
            }
            byte => {
                value.push(byte);
                at += 1;
            }
        }
    }
}
