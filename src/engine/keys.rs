//! Which arguments of a request are keys, and what the command does with each. Not here: the
//! specifications (`command::*`), and who asks (COMMAND GETKEYS, admission).

use super::spec::{Begin, Find, Key, KeySpec, Spec, VARIABLE};
use crate::base::number;
use crate::resp::Args;

/// The keys of `args`, whose arity fits, in order. `None`: the arguments do not fit together.
pub fn of(spec: &Spec, args: &Args<'_>) -> Option<Vec<Key>> {
    let varies = spec.keys.iter().any(|keys| keys.flags.contains(&VARIABLE));
    let specified = if varies && spec.key_reader.is_some() { None } else { as_specified(spec, args) };
    specified.or_else(|| spec.key_reader.map(|read| read(args)))
}

/// As the specifications say. `None`: they do not, or they point behind the last argument.
fn as_specified(spec: &Spec, args: &Args<'_>) -> Option<Vec<Key>> {
    let mut found = Vec::new();
    for keys in spec.keys {
        let begin = match begin(keys, args) {
            Some(begin) => begin,
            // An option that is not given.
            None if matches!(keys.begin, Begin::Keyword(..)) => continue,
            None => return None,
        };
        let (first, last, step) = match keys.find {
            Find::Range(last, step, limit) => {
                let last = match usize::try_from(last) {
                    Ok(last) => begin + last,
                    // -1 is the last argument; a limit halves (or the like) what lies before it.
                    Err(_) if limit > 1 && last == -1 => {
                        begin + ((args.len() - begin) / limit).checked_sub(1)?
                    }
                    Err(_) => args.len().checked_sub(last.unsigned_abs() as usize)?,
                };
                (begin, last, step)
            }
            Find::KeyNum(count, first, step) => {
                let wanted = number::parse_i64(args.try_get(begin + count)?)?;
                // More than there are arguments is too many, and would not be good to reckon with.
                let wanted = usize::try_from(wanted).ok().filter(|&wanted| wanted <= args.len())?;
                (begin + first, begin + first + wanted.checked_sub(1)? * step, step)
            }
            Find::Unknown => return None,
        };
        if last < first || last >= args.len() {
            return None;
        }
        found.extend((first..=last).step_by(step.max(1)).map(|at| Key { at, flags: keys.flags }));
    }
    Some(found)
}

fn begin(keys: &KeySpec, args: &Args<'_>) -> Option<usize> {
    match keys.begin {
        Begin::Index(at) => (at < args.len()).then_some(at),
        Begin::Keyword(word, from) => {
            let at = |i: &usize| args.is(*i, word);
            let found = match usize::try_from(from) {
                Ok(from) => (from..args.len()).find(at),
                Err(_) => (1..=args.len().saturating_sub(from.unsigned_abs() as usize)).rev().find(at),
            };
            found.map(|at| at + 1).filter(|&at| at < args.len())
        }
        Begin::Unknown => None,
    }
}
