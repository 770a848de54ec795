//! Which arguments of a request are keys, as its entry's key specifications say. Not here: the
//! specifications (`command::*`), and who asks (COMMAND GETKEYS, admission).

use super::spec::{Begin, Find, KeySpec, Spec};
use crate::base::number;
use crate::resp::Args;

/// A key of a request: its place, and the specification that found it.
#[derive(Clone, Copy)]
pub struct Found {
    pub at: usize,
    pub spec: &'static KeySpec,
}

/// The keys of `args`, in order. `None`: a count among the arguments is wrong.
pub fn of(spec: &'static Spec, args: &Args<'_>) -> Option<Vec<Found>> {
    let mut found = Vec::new();
    for keys in spec.keys {
        let Some(begin) = begin(keys, args) else { continue };
        match keys.find {
            Find::Range(last, step, limit) => {
                let end = match usize::try_from(last) {
                    Ok(last) => begin + last,
                    // -1 is the last argument; a limit halves (or the like) what lies before it.
                    Err(_) if limit > 1 && last == -1 => begin + (args.len() - begin) / limit - 1,
                    Err(_) => args.len() - last.unsigned_abs() as usize,
                };
                found.extend((begin..=end).step_by(step.max(1)).map(|at| Found { at, spec: keys }));
            }
            Find::KeyNum(count, first, step) => {
                let wanted = number::parse_i64(args.try_get(begin + count)?)?;
                let first = begin + first;
                let there = args.len().saturating_sub(first).div_ceil(step.max(1));
                let wanted = usize::try_from(wanted).ok().filter(|&wanted| wanted <= there)?;
                found.extend((0..wanted).map(|i| Found { at: first + i * step.max(1), spec: keys }));
            }
            Find::Unknown => {}
        }
    }
    found.iter().all(|key| key.at < args.len()).then_some(found)
}

fn begin(keys: &KeySpec, args: &Args<'_>) -> Option<usize> {
    match keys.begin {
        Begin::Index(at) => (at < args.len()).then_some(at),
        Begin::Keyword(word, from) => {
            let at = |i: &usize| args.is(*i, word);
            let found = match usize::try_from(from) {
                Ok(from) => (from..args.len()).find(at),
                Err(_) => (1..=args.len() - from.unsigned_abs() as usize).rev().find(at),
            };
            found.map(|at| at + 1).filter(|&at| at < args.len())
        }
        Begin::Unknown => None,
    }
}
