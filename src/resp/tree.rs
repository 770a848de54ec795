//! `Tree`: a `Reply` as a value, for tests and the embedded API. Not here: bytes (`encode`).

use super::encode::Protocol;
use super::reply::Reply;
use std::fmt;

/// One reply. What RESP2 cannot say apart is apart here all the same.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Simple(Vec<u8>),
    /// The line after the `-`, code first.
    Error(Vec<u8>),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    /// Nothing, where RESP2 says the null array.
    NullArray,
    Array(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    Set(Vec<Tree>),
    Push(Vec<Tree>),
    Double(f64),
    Boolean(bool),
    BigNumber(Vec<u8>),
    Verbatim([u8; 3], Vec<u8>),
}

impl Tree {
    /// The bytes of a string of any kind.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Tree::Simple(b) | Tree::Bulk(b) | Tree::BigNumber(b) | Tree::Verbatim(_, b) => Some(b),
            _ => None,
        }
    }

    /// The number of an integer.
    pub fn integer(&self) -> Option<i64> {
        if let Tree::Integer(n) = self { Some(*n) } else { None }
    }

    /// The error's line.
    pub fn error(&self) -> Option<&[u8]> {
        if let Tree::Error(line) = self { Some(line) } else { None }
    }

    /// Whether it is nothing, of either kind.
    pub fn is_null(&self) -> bool {
        matches!(self, Tree::Null | Tree::NullArray)
    }

    /// The elements of an array, a set or a push.
    pub fn items(&self) -> Option<&[Tree]> {
        match self {
            Tree::Array(items) | Tree::Set(items) | Tree::Push(items) => Some(items),
            _ => None,
        }
    }

    /// Says this reply to `reply`.
    pub fn say(&self, reply: &mut dyn Reply) {
        let all = |items: &[Tree], reply: &mut dyn Reply| items.iter().for_each(|item| item.say(reply));
        match self {
            Tree::Simple(text) => reply.simple(text),
            Tree::Error(line) => reply.error_line(line),
            Tree::Integer(n) => reply.integer(*n),
            Tree::Bulk(bytes) => reply.bulk(bytes),
            Tree::Null => reply.null(),
            Tree::NullArray => reply.null_array(),
            Tree::Array(items) => {
                reply.array(items.len());
                all(items, reply);
            }
            Tree::Map(pairs) => {
                reply.map(pairs.len());
                for (key, value) in pairs {
                    key.say(reply);
                    value.say(reply);
                }
            }
            Tree::Set(items) => {
                reply.set(items.len());
                all(items, reply);
            }
            Tree::Push(items) => {
                reply.push(items.len());
                all(items, reply);
            }
            Tree::Double(x) => reply.double(*x),
            Tree::Boolean(b) => reply.boolean(*b),
            Tree::BigNumber(digits) => reply.big_number(digits),
            Tree::Verbatim(format, text) => reply.verbatim(format, text),
        }
    }
}

/// As `redis-cli --no-raw` prints it.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

impl Tree {
    fn print(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        match self {
            Tree::Simple(text) => f.write_str(&String::from_utf8_lossy(text)),
            Tree::Error(line) => write!(f, "(error) {}", String::from_utf8_lossy(line)),
            Tree::Integer(n) => write!(f, "(integer) {n}"),
            Tree::Bulk(bytes) | Tree::BigNumber(bytes) => {
                // The same escapes as C's, but for the single quote.
                let text = bytes.escape_ascii().to_string().replace("\\'", "'");
                write!(f, "\"{text}\"")
            }
            Tree::Null | Tree::NullArray => f.write_str("(nil)"),
            Tree::Array(items) if items.is_empty() => f.write_str("(empty array)"),
            Tree::Array(items) | Tree::Set(items) | Tree::Push(items) => {
                let width = items.len().to_string().len();
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        write!(f, "\n{:indent$}", "")?;
                    }
                    write!(f, "{:width$}) ", i + 1)?;
                    item.print(f, indent + width + 2)?;
                }
                Ok(())
            }
            Tree::Map(pairs) => {
                for (i, (key, value)) in pairs.iter().enumerate() {
                    if i > 0 {
                        write!(f, "\n{:indent$}", "")?;
                    }
                    write!(f, "{}# ", i + 1)?;
                    key.print(f, indent)?;
                    f.write_str(" => ")?;
                    value.print(f, indent)?;
                }
                Ok(())
            }
            Tree::Double(x) => write!(f, "(double) {x}"),
            Tree::Boolean(b) => write!(f, "({b})"),
            Tree::Verbatim(_, text) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

/// What an aggregate is to become.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
}

/// Collects replies into trees.
#[derive(Debug, Default)]
pub struct TreeReply {
    protocol: Protocol,
    done: Vec<Tree>,
    /// Aggregates under way: kind, how many elements are still to come, those that have.
    open: Vec<(Kind, usize, Vec<Tree>)>,
}

impl TreeReply {
    /// A listener that speaks `protocol`.
    pub fn new(protocol: Protocol) -> Self {
        TreeReply { protocol, ..Self::default() }
    }

    /// All replies that are complete, in order.
    pub fn finish(self) -> Vec<Tree> {
        debug_assert!(self.open.is_empty(), "an aggregate lacks elements");
        self.done
    }

    fn begin(&mut self, kind: Kind, elements: usize) {
        // Memory comes with the elements, not with what is announced.
        self.open.push((kind, elements, Vec::new()));
        self.close();
    }

    fn add(&mut self, tree: Tree) {
        match self.open.last_mut() {
            Some((_, left, items)) => {
                items.push(tree);
                *left -= 1;
                self.close();
            }
            None => self.done.push(tree),
        }
    }

    /// Closes the innermost aggregates that are complete.
    fn close(&mut self) {
        while let Some((kind, _, items)) = self.open.pop_if(|(_, left, _)| *left == 0) {
            let tree = match kind {
                Kind::Array => Tree::Array(items),
                Kind::Set => Tree::Set(items),
                Kind::Push => Tree::Push(items),
                Kind::Map => {
                    let mut items = items.into_iter();
                    let mut pairs = Vec::new();
                    while let (Some(key), Some(value)) = (items.next(), items.next()) {
                        pairs.push((key, value));
                    }
                    Tree::Map(pairs)
                }
            };
            match self.open.last_mut() {
                Some((_, left, items)) => {
                    items.push(tree);
                    *left -= 1;
                }
                None => self.done.push(tree),
            }
        }
    }
}

impl Reply for TreeReply {
    fn simple(&mut self, text: &[u8]) {
        self.add(Tree::Simple(text.to_vec()));
    }
    fn error_line(&mut self, line: &[u8]) {
        let blank = |&b: &u8| if matches!(b, b'\r' | b'\n') { b' ' } else { b };
        self.add(Tree::Error(line.iter().map(blank).collect()));
    }
    fn integer(&mut self, n: i64) {
        self.add(Tree::Integer(n));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.add(Tree::Bulk(bytes.to_vec()));
    }
    fn null(&mut self) {
        self.add(Tree::Null);
    }
    fn null_array(&mut self) {
        self.add(Tree::NullArray);
    }
    fn array(&mut self, n: usize) {
        self.begin(Kind::Array, n);
    }
    fn map(&mut self, n: usize) {
        self.begin(Kind::Map, 2 * n);
    }
    fn set(&mut self, n: usize) {
        self.begin(Kind::Set, n);
    }
    fn push(&mut self, n: usize) {
        self.begin(Kind::Push, n);
    }
    fn double(&mut self, x: f64) {
        self.add(Tree::Double(x));
    }
    fn boolean(&mut self, b: bool) {
        self.add(Tree::Boolean(b));
    }
    fn big_number(&mut self, digits: &[u8]) {
        self.add(Tree::BigNumber(digits.to_vec()));
    }
    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        self.add(Tree::Verbatim(*format, text.to_vec()));
    }
    fn is_resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }
    fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trees() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Tree::Integer),
            prop::collection::vec(any::<u8>(), 0..4).prop_map(Tree::Bulk),
            Just(Tree::Null),
            Just(Tree::NullArray),
            any::<bool>().prop_map(Tree::Boolean),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::Array),
                prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::Set),
                prop::collection::vec((inner.clone(), inner), 0..3).prop_map(Tree::Map),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_said_comes_back(all in prop::collection::vec(trees(), 0..4)) {
            let mut reply = TreeReply::default();
            all.iter().for_each(|tree| tree.say(&mut reply));
            prop_assert_eq!(reply.finish(), all);
        }
    }

    #[test]
    fn prints_as_redis_cli() {
        let inner = Tree::Array(vec![Tree::Bulk(b"a\"\n\x01".to_vec()), Tree::Null]);
        let tree = Tree::Array(vec![Tree::Integer(1), inner, Tree::Array(vec![])]);
        let want = "1) (integer) 1\n2) 1) \"a\\\"\\n\\x01\"\n   2) (nil)\n3) (empty array)";
        assert_eq!(tree.to_string(), want);
    }
}
