//! LOLWUT: a drawing of our own, and the version. Not here: anything useful.
//!
//! The drawing is a keyhole plate: rows of pin tumblers at heights that the arguments decide, with
//! the shear line through them. The same arguments give the same lock.

use crate::base::chance::Chance;
use crate::base::error::CommandError;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::resp::{Args, Reply};

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "lolwut",
    complexity: "",
    group: Group::Server,
    since: "5.0.0",
    summary: "Draws something, and tells the version.",
    synopsis: "[VERSION version]",
    arity: Arity::AtLeast(1),
    flags: Flags::READONLY.or(Flags::FAST),
    handler: Handler::Server(lolwut),
    ..Spec::NONE
}];

/// Pins in a row, rows, and how high a pin can stand.
const PINS: (i64, i64) = (9, 60);
const ROWS: (i64, i64) = (1, 20);
const HEIGHT: u64 = 5;

fn lolwut(ctx: &mut Context<'_>, args: &Args<'_>, reply: &mut dyn Reply) -> Result<Outcome, CommandError> {
    // `VERSION n` chooses a drawing in Redis. There is one here; its numbers follow.
    let first = if args.len() > 2 && args.is(1, "version") {
        args.int(2)?;
        3
    } else {
        args.len()
    };
    let mut numbers = Vec::new();
    for at in first..args.len() {
        numbers.push(args.int(at)?);
    }
    let version = &ctx.core.config.compat_version.text;
    let mut text = draw(&numbers);
    text.push_str(&format!(
        "\nA lock with its key out. Redis ver. {version} (keylatch {})\n",
        env!("CARGO_PKG_VERSION")
    ));
    reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

/// The lock that `numbers` decide: pins in a row, rows, and any more for another combination.
fn draw(numbers: &[i64]) -> String {
    let pick = |at: usize, bounds: (i64, i64), default: i64| {
        numbers.get(at).map_or(default, |number| (*number).clamp(bounds.0, bounds.1))
    };
    let (pins, rows) = (pick(0, PINS, 24), pick(1, ROWS, 2));
    let seed = numbers.iter().fold(7_u64, |seed, n| seed.wrapping_mul(31).wrapping_add(n.cast_unsigned()));
    let mut chance = Chance::from_seed(seed);
    let mut text = String::new();
    for _ in 0..rows {
        let heights: Vec<u64> = (0..pins).map(|_| chance.below(HEIGHT)).collect();
        let edge = "─".repeat(heights.len() * 2 + 1);
        text.push_str(&format!("┌{edge}┐\n"));
        for level in (0..HEIGHT).rev() {
            // The middle level is the shear line: a pin that ends there does not block.
            let gap = if level == HEIGHT / 2 { '╌' } else { ' ' };
            text.push('│');
            for height in &heights {
                text.push(gap);
                text.push(if *height > level {
                    '┃'
                } else if *height == level {
                    '╻'
                } else {
                    gap
                });
            }
            text.push(gap);
            text.push_str("│\n");
        }
        text.push_str(&format!("└{edge}┘\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_numbers_draw_the_same_lock() {
        assert_eq!(draw(&[30, 3, 1]), draw(&[30, 3, 1]));
        assert_ne!(draw(&[30, 3, 1]), draw(&[30, 3, 2]));
        assert_eq!(draw(&[i64::MAX, i64::MIN]).lines().count(), 7);
        let widths: Vec<usize> = draw(&[]).lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == 51), "{widths:?}");
    }
}
