//! What a million locks weigh, what growing to ten million pauses for, what sweeping a flood of
//! stale keys takes, and how much of it comes back: `cargo bench --bench growth [millions]`. Times are CPU time
//! of this thread: on a shared machine the wall clock measures the neighbours. Not here: time per
//! operation (`keyspace`), a server under load (`versus`).

use keylatch::base::chance::Chance;
use keylatch::base::clock::{Stopwatch, UnixMs};
use keylatch::base::{memory, process};
use keylatch::keyspace::expire::{self, Effort, Progress};
use keylatch::keyspace::{Db, Effects, Encoding, Keyspace};
use std::io::Write;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// As the server has it.
#[allow(non_upper_case_globals)]
// the allocator's own name for it
// SAFETY: the allocator looks for a pointer to a C string under this name, and this is one.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: Option<&'static std::ffi::c_char> = Some({
    // SAFETY: the literal lives for ever and has a first byte.
    unsafe { &*c"narenas:1,dirty_decay_ms:300".as_ptr() }
});

const TOKEN: &[u8; 36] = b"0c2f9a64-7d3b-4b8e-9f10-5a6e7c8d9b01";
const DUE: UnixMs = UnixMs(1_700_000_030_000);
const NOW: UnixMs = UnixMs(1_700_000_000_000);

fn put(db: &mut Db, key: &mut Vec<u8>, n: u64) {
    key.clear();
    write!(key, "lock:{n:015}").expect("memory can be written");
    let slot = db.find(key);
    db.put(slot, key, TOKEN, Encoding::Auto, Some(DUE), NOW);
}

/// CPU time of this thread, nanoseconds.
fn cpu_nanos() -> u64 {
    // SAFETY: a timespec is two numbers, and the call fills the one that it is given.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn resident_mb() -> f64 {
    process::resident() as f64 / 1e6
}

/// How long single steps took.
#[derive(Default)]
struct Steps {
    count: u64,
    total: u64,
    longest: u64,
    over_50_us: u64,
    over_1_ms: u64,
    over_2_ms: u64,
}

impl Steps {
    fn measure(count: u64, mut step: impl FnMut(u64)) -> Steps {
        let mut steps = Steps { count, ..Steps::default() };
        let mut before = cpu_nanos();
        for n in 0..count {
            step(n);
            let after = cpu_nanos();
            let took = after - before;
            before = after;
            steps.total += took;
            steps.longest = took.max(steps.longest);
            steps.over_50_us += u64::from(took > 50_000);
            steps.over_1_ms += u64::from(took > 1_000_000);
            steps.over_2_ms += u64::from(took > 2_000_000);
        }
        steps
    }

    fn say(&self, what: &str) {
        println!(
            "{what}: {} ns each, longest {} us; over 50 us: {} ({:.5} %, {:.0} a second), over 1 ms: {}, over 2 ms: {}",
            self.total / self.count.max(1),
            self.longest / 1000,
            self.over_50_us,
            self.over_50_us as f64 * 100.0 / self.count as f64,
            self.over_50_us as f64 * 1e9 / self.total as f64,
            self.over_1_ms,
            self.over_2_ms,
        );
    }
}

/// Inserts up to `to` keys and says what each took; then what the clock alone says of a loop that does
/// nothing, for as long: the machine's own interruptions count as CPU time too.
fn grow(db: &mut Db, to: u64) {
    let from = db.len() as u64;
    let mut key = Vec::with_capacity(64);
    let inserts = Steps::measure(to - from, |n| put(db, &mut key, from + n));
    inserts.say(&format!("inserts {from} to {to}"));
    let probe = Steps::measure(100_000, |_| ());
    let nothing = Steps::measure(inserts.total * probe.count / probe.total.max(1), |_| ());
    nothing.say("as long, with nothing done");
}

fn main() {
    let millions = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(10);
    memory::purge_in_background();
    let empty = process::resident();
    println!("empty: {:.1} MB resident", resident_mb());

    let mut keyspace = Keyspace::new(16, 7);
    let mut key = Vec::with_capacity(64);
    (0..1_000_000).for_each(|n| put(keyspace.db_mut(0), &mut key, n));
    let (all, own) = (process::resident(), process::resident() - empty);
    println!(
        "1,000,000 locks: {:.1} MB resident, {:.1} bytes each (without the empty process {:.1}); allocated {:.1}",
        resident_mb(),
        all as f64 / 1e6,
        own as f64 / 1e6,
        memory::allocated() as f64 / 1e6,
    );

    let db = keyspace.db(0);
    let (mut cursor, mut bytes, start) = (0, 0, cpu_nanos());
    loop {
        cursor = db.scan(cursor, 10, |slot| bytes += db.key(slot).len());
        if cursor == 0 {
            break;
        }
    }
    println!("SCAN by tens: {} ns a key ({bytes} bytes seen)", (cpu_nanos() - start) / 1_000_000);

    let (mut chance, mut effects, mut progress) =
        (Chance::from_seed(1), Effects::default(), Progress::default());
    let effort = Effort::new(1);
    let (start, wall) = (cpu_nanos(), Stopwatch::start());
    let (mut runs, mut longest) = (0, 0);
    loop {
        let before = cpu_nanos();
        let budget = effort.budget(10);
        let report =
            expire::cycle(&mut keyspace, DUE, budget, effort, &mut progress, &mut chance, &mut effects);
        longest = longest.max(cpu_nanos() - before);
        runs += 1;
        if !report.behind {
            break;
        }
    }
    println!(
        "sweeping them: {} ms of CPU, {} ms by the clock, {runs} runs, the longest {} us; {} are left",
        (cpu_nanos() - start) / 1_000_000,
        wall.micros() / 1000,
        longest / 1000,
        keyspace.db(0).len(),
    );
    for _ in 0..8 {
        print!("{:.1} MB at {} ms; ", resident_mb(), wall.micros() / 1000);
        std::thread::sleep(Duration::from_millis(150));
    }
    println!("resident");

    grow(keyspace.db_mut(0), millions * 1_000_000);
    let own = process::resident() as f64;
    println!("{:.1} bytes each", own / (millions as f64 * 1e6));

    let mut old = keyspace.take(0);
    let (start, mut slices, mut longest) = (cpu_nanos(), 1, 0);
    loop {
        let before = cpu_nanos();
        let more = old.drop_some(2000);
        longest = longest.max(cpu_nanos() - before);
        if !more {
            break;
        }
        slices += 1;
    }
    println!(
        "dropping them: {} ms in {slices} slices, the longest {} us",
        (cpu_nanos() - start) / 1_000_000,
        longest / 1000
    );
    std::thread::sleep(Duration::from_secs(1));
    println!("after: {:.1} MB resident", resident_mb());
}
