//! LCS: the longest common subsequence of two strings. Not here: other commands on strings
//! (`string`).

use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Flags, Group, Handler, KeySpec, Spec};
use crate::keyspace::Access;
use crate::resp::{Args, Reply};

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "lcs",
    group: Group::String,
    since: "7.0.0",
    complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
    summary: "Gives the longest common subsequence of two strings, its length, or where it lies.",
    synopsis: "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
    arity: Arity::AtLeast(3),
    flags: Flags::READONLY,
    keys: &[KeySpec::range(1, 1, 1, &["RO", "access"])],
    handler: Handler::Keys(lcs),
    ..Spec::NONE
}];

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Text,
    Length,
    Ranges,
}

struct Options {
    wanted: Wanted,
    min_match_len: i64,
    with_match_len: bool,
}

fn options(args: &Args<'_>) -> Result<Options, CommandError> {
    let (mut length, mut ranges) = (false, false);
    let mut options = Options { wanted: Wanted::Text, min_match_len: 0, with_match_len: false };
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "idx") {
            ranges = true;
        } else if args.is(at, "len") {
            length = true;
        } else if args.is(at, "withmatchlen") {
            options.with_match_len = true;
        } else if args.is(at, "minmatchlen") && at + 1 < args.len() {
            at += 1;
            options.min_match_len = args.int(at)?.max(0);
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    options.wanted = match (length, ranges) {
        (true, true) => {
            return Err(CommandError::fixed(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        (true, false) => Wanted::Length,
        (false, true) => Wanted::Ranges,
        (false, false) => Wanted::Text,
    };
    Ok(options)
}

/// The lengths for all pairs of prefixes.
struct Table<'a> {
    a: &'a [u8],
    b: &'a [u8],
    lengths: Vec<u32>,
}

impl<'a> Table<'a> {
    /// Fills it in; refuses to use more memory than a string may have, as Redis does.
    fn new(a: &'a [u8], b: &'a [u8], max_bytes: u64) -> Result<Self, CommandError> {
        let longest = (u32::MAX - 1) as usize;
        if a.len() >= longest || b.len() >= longest {
            return Err(CommandError::fixed("ERR String too long for LCS"));
        }
        let cells = (a.len() as u64 + 1) * (b.len() as u64 + 1);
        if cells > max_bytes / 4 {
            return Err(CommandError::fixed(
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
            ));
        }
        let mut lengths = vec![0_u32; cells as usize];
        let width = b.len() + 1;
        for (i, x) in a.iter().enumerate() {
            let (above, row) = lengths[i * width..].split_at_mut(width);
            for (j, y) in b.iter().enumerate() {
                row[j + 1] = if x == y { above[j] + 1 } else { above[j + 1].max(row[j]) };
            }
        }
        Ok(Table { a, b, lengths })
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * (self.b.len() + 1) + j]
    }

    fn length(&self) -> u32 {
        self.at(self.a.len(), self.b.len())
    }

    /// The pairs of positions that match, from the back.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        let mut pairs = Vec::with_capacity(self.length() as usize);
        while i > 0 && j > 0 {
            if self.a[i - 1] == self.b[j - 1] {
                i -= 1;
                j -= 1;
                pairs.push((i, j));
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        pairs
    }
}

/// Equal parts: where each begins in both strings, and how long it is. From the back, as Redis
/// lists them.
fn ranges(pairs: &[(usize, usize)]) -> Vec<(usize, usize, usize)> {
    let mut ranges: Vec<(usize, usize, usize)> = Vec::new();
    for &(i, j) in pairs {
        match ranges.last_mut() {
            Some((a, b, len)) if *a == i + 1 && *b == j + 1 => (*a, *b, *len) = (i, j, *len + 1),
            _ => ranges.push((i, j, 1)),
        }
    }
    ranges
}

fn lcs(keys: &mut Access<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Result<(), CommandError> {
    let max_bytes = keys.limits().max_bulk_len;
    let names = [args.get(1), args.get(2)];
    for name in names {
        keys.look(name);
    }
    let [a, b] = names.map(|name| keys.find(name));
    let [a, b] = [a, b].map(|slot| if slot.is_some() { keys.value(slot) } else { &[] });
    let options = options(args)?;
    let table = Table::new(a, b, max_bytes)?;
    match options.wanted {
        Wanted::Length => reply.integer(i64::from(table.length())),
        Wanted::Text => {
            let text: Vec<u8> = table.pairs().iter().rev().map(|&(i, _)| a[i]).collect();
            reply.bulk(&text);
        }
        Wanted::Ranges => {
            let mut ranges = ranges(&table.pairs());
            ranges.retain(|&(_, _, len)| len as i64 >= options.min_match_len);
            reply.map(2);
            reply.text("matches");
            reply.array(ranges.len());
            for (in_a, in_b, len) in ranges {
                reply.array(2 + usize::from(options.with_match_len));
                for start in [in_a, in_b] {
                    reply.array(2);
                    reply.integer(start as i64);
                    reply.integer((start + len - 1) as i64);
                }
                if options.with_match_len {
                    reply.integer(len as i64);
                }
            }
            reply.text("len");
            reply.integer(i64::from(table.length()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn text_length_and_ranges() {
        check(
            r#"
            > MSET a ohmytext b mynewtext
            OK
            > LCS a b
            "mytext"
            > LCS a b LEN
            (integer) 6
            > LCS a b IDX
            1# "matches" => 1) 1) 1) (integer) 4
                     2) (integer) 7
                  2) 1) (integer) 5
                     2) (integer) 8
               2) 1) 1) (integer) 2
                     2) (integer) 3
                  2) 1) (integer) 0
                     2) (integer) 1
            2# "len" => (integer) 6
            > LCS a b IDX MINMATCHLEN 4
            1# "matches" => 1) 1) 1) (integer) 4
                     2) (integer) 7
                  2) 1) (integer) 5
                     2) (integer) 8
            2# "len" => (integer) 6
            > LCS a b idx minmatchlen 4 withmatchlen
            1# "matches" => 1) 1) 1) (integer) 4
                     2) (integer) 7
                  2) 1) (integer) 5
                     2) (integer) 8
                  3) (integer) 4
            2# "len" => (integer) 6
            > LCS a b IDX MINMATCHLEN -5 WITHMATCHLEN
            1# "matches" => 1) 1) 1) (integer) 4
                     2) (integer) 7
                  2) 1) (integer) 5
                     2) (integer) 8
                  3) (integer) 4
               2) 1) 1) (integer) 2
                     2) (integer) 3
                  2) 1) (integer) 0
                     2) (integer) 1
                  3) (integer) 2
            2# "len" => (integer) 6
            > LCS a none
            ""
            > LCS none none2 LEN
            (integer) 0
            > LCS a none IDX
            1# "matches" => (empty array)
            2# "len" => (integer) 0
            "#,
        );
    }

    #[test]
    fn refusals() {
        check(
            r#"
            > MSET a ohmytext b mynewtext
            OK
            > LCS a b IDX LEN
            (error) ERR If you want both the length and indexes, please just use IDX.
            > LCS a b NONSENSE
            (error) ERR syntax error
            > LCS a b MINMATCHLEN
            (error) ERR syntax error
            > LCS a b MINMATCHLEN x
            (error) ERR value is not an integer or out of range
            "#,
        );
    }
}
