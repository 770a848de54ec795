//! Turns an entry's synopsis line into the arguments that COMMAND DOCS tells. Not here: how they are
//! told (`command::introspect`).

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Key,
    Text,
    Integer,
    Double,
    Pattern,
    UnixTime,
    /// A word that says something by being there.
    Token,
    OneOf,
    Block,
}

impl Kind {
    /// Its name in COMMAND DOCS.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Key => "key",
            Kind::Text => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::Token => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        }
    }

    fn of(name: &str) -> Kind {
        match name {
            "key" | "newkey" | "source" | "destination" | "destkey" | "sourcekey" | "key1" | "key2" => {
                Kind::Key
            }
            "bits" | "seconds" | "milliseconds" | "count" | "index" | "index1" | "index2" | "offset"
            | "start" | "end" | "increment" | "decrement" | "cursor" | "numkeys" | "db"
            | "destination-db" | "protover" | "bit" | "client-id" | "min-match-len" | "version"
            | "frequency" | "ttl" => Kind::Integer,
            "pattern" | "by-pattern" | "get-pattern" => Kind::Pattern,
            _ if name.starts_with("unix-time") => Kind::UnixTime,
            _ => Kind::Text,
        }
    }
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub kind: Kind,
    /// The word before it, or the word that it is; empty: none.
    pub token: String,
    pub optional: bool,
    pub multiple: bool,
    /// The word stands before each of them.
    pub multiple_token: bool,
    pub parts: Vec<Argument>,
}

impl Argument {
    fn new(name: &str, kind: Kind) -> Self {
        Argument {
            name: name.to_owned(),
            kind,
            token: String::new(),
            optional: false,
            multiple: false,
            multiple_token: false,
            parts: Vec::new(),
        }
    }

    fn group(name: &str, kind: Kind, parts: Vec<Argument>) -> Self {
        Argument { parts, ..Argument::new(name, kind) }
    }
}

/// The arguments of a synopsis line.
pub fn arguments(synopsis: &str) -> Vec<Argument> {
    let spaced = ["[", "]", "<", ">", "|"]
        .iter()
        .fold(synopsis.to_owned(), |line, mark| line.replace(mark, &format!(" {mark} ")));
    let words: Vec<&str> = spaced.split_whitespace().collect();
    Reader { words: &words, at: 0 }.sequence()
}

struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
}

fn is_token(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_uppercase()) && !word.bytes().any(|byte| byte.is_ascii_lowercase())
}

fn is_name(word: &str) -> bool {
    !is_token(word) && !["[", "]", "<", ">", "|", "..."].contains(&word)
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    /// Up to a closing bracket, a `|` or the end.
    fn sequence(&mut self) -> Vec<Argument> {
        let mut found: Vec<Argument> = Vec::new();
        while let Some(word) = self.peek() {
            match word {
                "]" | ">" | "|" => break,
                "..." => {
                    self.at += 1;
                    if let Some(last) = found.last_mut() {
                        last.multiple = true;
                    }
                }
                "[" if self.repeats(&mut found) => {}
                "[" | "<" => {
                    self.at += 1;
                    let mut inner = self.alternatives();
                    self.at += 1; // the closing bracket
                    inner.optional |= word == "[";
                    found.push(inner);
                }
                _ if is_token(word) => {
                    self.at += 1;
                    found.push(self.after_token(word));
                }
                _ => {
                    self.at += 1;
                    found.push(Argument::new(word, Kind::of(word)));
                }
            }
        }
        found
    }

    /// `KEY`, `KEY value`, `KEY value value` or `KEY <A | B>`.
    fn after_token(&mut self, token: &str) -> Argument {
        if self.peek() == Some("<") {
            self.at += 1;
            let choice = Argument { token: token.to_owned(), ..self.alternatives() };
            self.at += 1; // the closing bracket
            return choice;
        }
        let mut parts = Vec::new();
        while let Some(word) = self.peek().filter(|word| is_name(word)) {
            self.at += 1;
            parts.push(Argument::new(word, Kind::of(word)));
        }
        let mut argument = match parts.len() {
            0 => Argument::new(&token.to_ascii_lowercase(), Kind::Token),
            1 => parts.remove(0),
            _ => Argument::group(&joined(&parts), Kind::Block, parts),
        };
        argument.token = token.to_owned();
        argument
    }

    /// `x [x ...]`, `k v [k v ...]`, `GET p [GET p ...]`: what came before repeats.
    fn repeats(&mut self, found: &mut Vec<Argument>) -> bool {
        let inside = &self.words[self.at + 1..];
        let Some(len) = inside.iter().position(|word| *word == "]") else { return false };
        let (inside, before) = (&inside[..len], &self.words[..self.at]);
        let Some((&"...", again)) = inside.split_last() else { return false };
        if again.is_empty() || !before.ends_with(again) {
            return false;
        }
        self.at += len + 2;
        let with_token = is_token(again[0]);
        let names = again.iter().filter(|word| is_name(word)).count();
        if with_token || names == 1 {
            if let Some(last) = found.last_mut() {
                last.multiple = true;
                last.multiple_token = with_token;
            }
        } else {
            let parts = found.split_off(found.len().saturating_sub(names));
            let mut block = Argument::group(&joined(&parts), Kind::Block, parts);
            block.multiple = true;
            found.push(block);
        }
        true
    }

    /// What stands in a bracket.
    fn alternatives(&mut self) -> Argument {
        let mut all = vec![self.sequence()];
        while self.peek() == Some("|") {
            self.at += 1;
            all.push(self.sequence());
        }
        let one = |mut parts: Vec<Argument>| match parts.len() {
            1 => parts.remove(0),
            _ => Argument::group(&joined(&parts), Kind::Block, parts),
        };
        if all.len() == 1 {
            return one(all.remove(0));
        }
        let parts: Vec<Argument> = all.into_iter().map(one).collect();
        Argument::group(&choice_name(&parts), Kind::OneOf, parts)
    }
}

/// Redis names a group by its parts, where it has no name of its own.
fn joined(parts: &[Argument]) -> String {
    parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join("_")
}

/// The names that Redis gives to the choices that come up most.
fn choice_name(parts: &[Argument]) -> String {
    let has = |token: &str| parts.iter().any(|part| part.token == token);
    if has("EX") || has("PX") {
        "expiration".to_owned()
    } else if has("NX") || has("XX") {
        "condition".to_owned()
    } else if has("ASYNC") {
        "async".to_owned()
    } else if has("BYTE") {
        "index_unit".to_owned()
    } else {
        joined(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &[Argument]) -> String {
        let one = |argument: &Argument| {
            let mut line = format!("{}:{}", argument.name, argument.kind.name());
            if !argument.token.is_empty() {
                line += &format!("={}", argument.token);
            }
            let marks = [(argument.optional, "?"), (argument.multiple, "+"), (argument.multiple_token, "t")];
            line.extend(marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark));
            if !argument.parts.is_empty() {
                line += &format!("({})", shown(&argument.parts));
            }
            line
        };
        arguments.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines_become_arguments() {
        for (line, wanted) in [
            ("", ""),
            ("key [key ...]", "key:key+"),
            ("key value [key value ...]", "key_value:block+(key:key value:string)"),
            ("[key [key ...]]", "key:key?+"),
            (
                "key [EX seconds | PERSIST] [GET]",
                "key:key expiration:oneof?(seconds:integer=EX persist:pure-token=PERSIST) get:pure-token=GET?",
            ),
            ("key [LIMIT offset count]", "key:key offset_count:block=LIMIT?(offset:integer count:integer)"),
            ("[GET pattern [GET pattern ...]]", "pattern:pattern=GET?+t"),
            ("<A | B> x", "a_b:oneof(a:pure-token=A b:pure-token=B) x:string"),
        ] {
            assert_eq!(shown(&arguments(line)), wanted, "{line}");
        }
    }
}
