//! LATENCY GRAPH's drawing and LATENCY DOCTOR's words. Not here: the command (`latency`).

use crate::base::clock::UnixMs;
use crate::engine::core::Core;
use crate::engine::latency::Event;

/// The drawing's width and height.
const COLUMNS: usize = 80;
const ROWS: usize = 4;

/// A column's top within a row, from low to high; below it is filled.
const TOPS: [char; 3] = ['_', 'o', '#'];

/// How long ago, in the largest unit that gives a whole number above 0: a label of one column.
fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The drawing: a headline, then each sample as a column of `ROWS` rows in three steps each, with its
/// age below, letter under letter. Samples above a page's width go to a next one.
pub fn graph(name: &str, event: &Event, now: UnixMs) -> String {
    let values = || event.samples.iter().map(|sample| sample.ms);
    let (low, high) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.worst_ms,
        "-".repeat(COLUMNS)
    );
    let steps = (ROWS * TOPS.len()) as u64;
    let range = if high == low { 1 } else { high - low };
    let columns: Vec<(u64, String)> = event
        .samples
        .iter()
        .map(|sample| {
            let step = ((sample.ms - low) * steps / range).min(steps - 1);
            (step, age(now.0.div_euclid(1000) - sample.at))
        })
        .collect();
    for (page, columns) in columns.chunks(COLUMNS).enumerate() {
        if page > 0 {
            text.push('\n');
        }
        draw(&mut text, columns);
    }
    text
}

fn draw(text: &mut String, columns: &[(u64, String)]) {
    let tops = TOPS.len() as u64;
    for row in (0..ROWS as u64).rev() {
        text.extend(columns.iter().map(|(step, _)| match step.checked_sub(row * tops) {
            None => ' ',
            Some(top) => TOPS.get(top as usize).copied().unwrap_or('|'),
        }));
        text.push('\n');
    }
    text.extend(columns.iter().map(|_| ' '));
    text.push('\n');
    let longest = columns.iter().map(|(_, label)| label.len()).max().unwrap_or(0);
    for line in 0..longest {
        text.extend(columns.iter().map(|(_, label)| label.chars().nth(line).unwrap_or(' ')));
        text.push('\n');
    }
}

/// What took long, in words.
pub fn report(core: &Core) -> String {
    let threshold = core.config.latency_monitor_threshold;
    if threshold == 0 {
        return "Nothing is noted: latency-monitor-threshold is 0. CONFIG SET latency-monitor-threshold \
                <milliseconds> has events noted that take as long.\n"
            .to_owned();
    }
    let events = core.latency.iter();
    if events.len() == 0 {
        return format!("Nothing has taken {threshold} milliseconds or more.\n");
    }
    let mut text = format!("Events that took {threshold} milliseconds or more:\n\n");
    for (number, (name, event)) in events.enumerate() {
        let count = event.samples.len() as u64;
        let sum: u64 = event.samples.iter().map(|sample| sample.ms).sum();
        let mean = sum / count.max(1);
        let deviation =
            event.samples.iter().map(|sample| sample.ms.abs_diff(mean)).sum::<u64>() / count.max(1);
        text.push_str(&format!(
            "{}. {name}: {count} noted, {mean} ms on average (mean deviation {deviation} ms), the worst {} ms.\n",
            number + 1,
            event.worst_ms
        ));
    }
    let known = |name: &[u8]| core.latency.find(name).is_some();
    text.push('\n');
    if known(b"command") {
        text.push_str(
            "- Commands: SLOWLOG GET shows which. Those that look at every key (KEYS, FLUSHALL SYNC, a long \
             script) hold up everybody; SCAN and shorter scripts do not.\n",
        );
        let slower = core.config.slowlog_log_slower_than;
        if slower < 0 || slower.cast_unsigned() > threshold.saturating_mul(1000) {
            text.push_str(
                "- The slow log notes less than is noted here: lower slowlog-log-slower-than to see more.\n",
            );
        }
    }
    if known(b"fast-command") {
        text.push_str(
            "- Fast commands: they take constant time, so the machine itself was late. Look for other \
             processes, swapping, and the hypervisor.\n",
        );
    }
    if known(b"expire-cycle") {
        text.push_str("- The expire cycle: many keys end at the same time. Spread their deadlines.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::latency::Sample;

    #[test]
    fn a_graph_of_some_samples() {
        let samples = [(100, 1), (160, 12), (170, 6)].map(|(at, ms)| Sample { at, ms });
        let event = Event { samples: samples.into(), worst_ms: 12 };
        let graph = graph("command", &event, UnixMs(171_000));
        let lines: Vec<&str> = graph.lines().collect();
        assert_eq!(lines[0], "command - high 12 ms, low 1 ms (all time high 12 ms)");
        assert_eq!(lines[1].len(), 80);
        assert_eq!(lines[2..], [" # ", " | ", " |#", "_||", "   ", "111", "m1s", " s "]);
    }
}
