//! Reading a process's CPU time and memory, and putting figures into tables. Not here: what is done
//! meanwhile.

use std::fmt::Display;

/// CPU time of a process, all its threads, in nanoseconds. The process's own CPU clock is read:
/// /proc/PID/stat counts in hundredths of a second, too coarse for one round.
pub fn cpu_ns(pid: u32) -> u64 {
    let pid = libc::pid_t::try_from(pid).expect("a process id fits");
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write to the places given, which live here and are of the types asked for.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) != 0 || libc::clock_gettime(clock, &raw mut time) != 0
    };
    assert!(!failed, "process {pid} has no CPU clock");
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Resident memory of a process in bytes.
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("Linux says");
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("kilobytes") * 1024
}

/// The machine, in a line.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or(": unknown");
    let count = cpus.lines().filter(|l| l.starts_with("processor")).count();
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("Machine: {count} x {}, Linux {}", model.trim_start_matches([' ', '\t', ':']), kernel.trim())
}

/// The middle of the values; they are sorted by it.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Begins a table.
pub fn table(title: &str, columns: &[&str]) {
    println!("\n## {title}\n");
    row(columns);
    row(&vec!["---"; columns.len()]);
}

/// One row of it.
pub fn row<T: Display>(cells: &[T]) {
    let cells: Vec<String> = cells.iter().map(T::to_string).collect();
    println!("| {} |", cells.join(" | "));
}

/// A figure of ours and one of theirs, and the ratio.
pub fn pair(name: &str, unit: &str, ours: f64, theirs: f64) {
    let ratio = if theirs > 0.0 { format!("{:.2}", ours / theirs) } else { "-".to_owned() };
    row(&[name.to_owned(), format!("{ours:.2} {unit}"), format!("{theirs:.2} {unit}"), ratio]);
}
