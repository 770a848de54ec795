//! When two replies are the same: by bytes, save where time, chance or the server's own name speaks
//! out of them. Each exception says why. Not here: which command is checked how (the families).

use crate::common::resp::Value;

/// How the replies to one command are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// By bytes.
    Exact,
    /// Integers count seconds: both servers answered within a few of each other.
    Seconds,
    /// Integers count milliseconds.
    Millis,
    /// The order of elements is the server's own.
    Unordered,
    /// A walk that visits everything in one call: the cursor is 0, the order free.
    WholeScan,
    /// A walk in parts: which keys come first is the server's own. Errors and shape count.
    PartScan,
    /// A key at random: there is one, or there is none.
    AnyKey,
    /// The kind of reply counts, not the words: texts that are ours to write.
    Kind,
    /// INFO: the sections asked for, and the keyspace lines without the average TTL.
    Info,
    /// HELLO: fields and order; the connection's id is each server's own.
    Hello,
    /// A line of CLIENT LIST: Redis 7.0's fields are there, in order.
    ClientLine,
    /// DEBUG OBJECT: addresses and memory sizes are each server's own.
    DebugObject,
    /// COMMAND DOCS: summaries and histories are in our own words.
    Docs,
    /// COMMAND INFO: order inside the sets of flags, categories and specifications is free.
    CommandInfo,
    /// SLOWLOG GET and LATENCY HISTOGRAM, in a transaction's reply too: what was run, how often and
    /// by whom, not when and for how long.
    Timed,
    /// Only that there is a reply.
    Any,
}

/// How far apart two answers that count time may be: a busy machine may stop between them.
const SLACK_SECONDS: u64 = 10;

impl Check {
    /// Whether `ours` is as good as `theirs`.
    pub fn same(self, ours: &[u8], theirs: &[u8]) -> bool {
        if ours == theirs || self == Check::Any {
            return true;
        }
        if self == Check::Exact {
            return false;
        }
        let (Some((a, _)), Some((b, _))) = (Value::parse(ours), Value::parse(theirs)) else { return false };
        match self {
            Check::Exact | Check::Any => false,
            Check::Seconds => near(&a, &b, SLACK_SECONDS),
            Check::Millis => near(&a, &b, SLACK_SECONDS * 1000),
            Check::Unordered => same_set(&a, &b),
            Check::WholeScan => match (a.items(), b.items()) {
                (Some([c, x]), Some([d, y])) => c == d && same_set(x, y),
                _ => false,
            },
            Check::PartScan => match (a.items(), b.items()) {
                (Some([c, x]), Some([d, y])) => {
                    c.int().is_some() && d.int().is_some() && x.items().is_some() && y.items().is_some()
                }
                _ => false,
            },
            Check::AnyKey => matches!((&a, &b), (Value::Bulk(_), Value::Bulk(_))),
            Check::Kind => same_kind(&a, &b),
            Check::Info => info(&a) == info(&b) && a.bytes().is_some(),
            Check::Hello => match (a.pairs(), b.pairs()) {
                (Some(x), Some(y)) => hello(&x) == hello(&y),
                _ => false,
            },
            Check::ClientLine => match (a.bytes(), b.bytes()) {
                (Some(x), Some(y)) => has_fields(&client_fields(x), &client_fields(y)),
                _ => false,
            },
            Check::DebugObject => match (a.bytes(), b.bytes()) {
                (Some(x), Some(y)) => debug_fields(x) == debug_fields(y),
                _ => false,
            },
            Check::Docs => docs(&a) == docs(&b),
            Check::CommandInfo => sorted(&a) == sorted(&b),
            Check::Timed => untimed(&a) == untimed(&b),
        }
    }
}

/// Equal but for integers above a minute, which may be `slack` apart.
fn near(a: &Value, b: &Value, slack: u64) -> bool {
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => x == y || (*x > 60 && *y > 60 && x.abs_diff(*y) <= slack),
        _ => match (a.items(), b.items()) {
            (Some(x), Some(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| near(x, y, slack)),
            _ => a == b,
        },
    }
}

fn same_set(a: &Value, b: &Value) -> bool {
    match (a.items(), b.items()) {
        (None, None) => match (a, b) {
            (Value::Map(x), Value::Map(y)) => {
                let (mut x, mut y) = (x.clone(), y.clone());
                x.sort();
                y.sort();
                x == y
            }
            _ => false,
        },
        (Some(x), Some(y)) => {
            let (mut x, mut y) = (x.to_vec(), y.to_vec());
            x.sort();
            y.sort();
            x == y
        }
        _ => false,
    }
}

/// The same type, down to the types of an array's first element. Errors agree in their code.
fn same_kind(a: &Value, b: &Value) -> bool {
    let word = |e: &[u8]| e.split(|c| *c == b' ').next().map(<[u8]>::to_vec);
    match (a, b) {
        (Value::Error(x), Value::Error(y)) => word(x) == word(y),
        _ => {
            std::mem::discriminant(a) == std::mem::discriminant(b)
                && match (a.items(), b.items()) {
                    (Some([x, ..]), Some([y, ..])) => std::mem::discriminant(x) == std::mem::discriminant(y),
                    _ => true,
                }
        }
    }
}

fn info(value: &Value) -> Vec<String> {
    let text = value.text();
    let kept = text.lines().filter(|line| line.starts_with('#') || line.starts_with("db"));
    kept.map(|line| line.split(",avg_ttl").next().unwrap_or(line).to_owned()).collect()
}

fn hello(pairs: &[(Value, Value)]) -> Vec<String> {
    pairs
        .iter()
        .map(|(name, value)| match name.text().as_str() {
            own @ "id" => own.to_owned(),
            name => format!("{name}={value:?}"),
        })
        .collect()
}

fn client_fields(line: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(line);
    text.split_whitespace().filter_map(|f| f.split_once('=')).map(|(name, _)| name.to_owned()).collect()
}

/// Whether `theirs` is found in `ours`, in order. Newer versions add fields (`lib-name`).
fn has_fields(ours: &[String], theirs: &[String]) -> bool {
    let mut rest = ours.iter();
    theirs.iter().all(|field| rest.any(|f| f == field))
}

fn debug_fields(line: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(line);
    let own = ["at:", "lru:", "lru_seconds_idle:", "serializedlength:"];
    text.split_whitespace().filter(|f| !own.iter().any(|o| f.starts_with(o))).map(str::to_owned).collect()
}

/// COMMAND DOCS without what is in our own words, and without what newer versions add.
fn docs(value: &Value) -> Value {
    let dropped = ["summary", "history", "display_text", "doc_flags", "deprecated_since", "replaced_by"];
    match (value, value.pairs()) {
        (_, Some(pairs)) if pairs.iter().all(|(name, _)| name.bytes().is_some()) => Value::Map(
            pairs
                .iter()
                .filter(|(name, _)| !dropped.contains(&name.text().as_str()))
                // A synopsis line does not say which release brought an argument.
                .filter(|(name, _)| name.text() != "since" || pairs.iter().all(|(n, _)| n.text() != "type"))
                .map(|(name, value)| match name.text().as_str() {
                    "complexity" => (name.clone(), Value::Null),
                    _ => (name.clone(), docs(value)),
                })
                .collect(),
        ),
        (Value::Array(items), _) => {
            Value::Array(items.iter().filter(|item| !is_newer(item)).map(docs).collect())
        }
        _ => value.clone(),
    }
}

/// Whether COMMAND DOCS shows an argument here that 7.0.15 does not have.
fn is_newer(argument: &Value) -> bool {
    let newer = ["IFEQ", "IFNE", "IFDEQ", "IFDNE", "DIFF", "DIFF1", "ANDOR", "ONE"];
    argument.pairs().is_some_and(|pairs| {
        pairs.iter().any(|(name, value)| name.text() == "token" && newer.contains(&value.text().as_str()))
    })
}

/// With each array of plain strings sorted, sets too.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) | Value::Set(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            if items.iter().all(|i| i.bytes().is_some()) {
                items.sort();
            }
            // A note on a key specification is in our own words, where there is one.
            if items.first().is_some_and(|item| item.text() == "notes") {
                items.drain(..2);
            }
            match value {
                Value::Set(_) => Value::Set(items),
                _ => Value::Array(items),
            }
        }
        Value::Map(pairs) => {
            let told = pairs.iter().filter(|(k, _)| k.text() != "notes");
            Value::Map(told.map(|(k, v)| (k.clone(), sorted(v))).collect())
        }
        _ => value.clone(),
    }
}

/// The value without the numbers, times and ports of the slow log's entries, and without the times of
/// a histogram.
fn untimed(value: &Value) -> Value {
    let pair = |(key, value): &(Value, Value)| (untimed(key), untimed(value));
    match value {
        Value::Map(pairs) => Value::Map(pairs.iter().filter(|(key, _)| !is_times(key)).map(pair).collect()),
        Value::Array(items) => match &items[..] {
            [Value::Int(_), Value::Int(_), Value::Int(_), args, address, name] => {
                let by_tcp = address.text().starts_with("127.0.0.1:");
                Value::Array(vec![args.clone(), Value::Int(by_tcp.into()), name.clone()])
            }
            [calls, count, times, _] if is_times(times) => Value::Array(vec![calls.clone(), count.clone()]),
            _ => Value::Array(items.iter().map(untimed).collect()),
        },
        other => other.clone(),
    }
}

fn is_times(key: &Value) -> bool {
    key.bytes() == Some(b"histogram_usec")
}
