//! What the operating system knows of this process and its machine: memory, CPU time, open files,
//! the kernel's name. Not here: what the allocator knows (`memory`).

/// What the system says, without Rust's error number.
pub fn os_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Resident memory, bytes; 0 where the system does not tell.
pub fn resident() -> u64 {
    // The second field of statm counts pages.
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * page_size()
}

fn page_size() -> u64 {
    // SAFETY: sysconf takes a number and has no other precondition.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The machine's memory, bytes; 0 where the system does not tell.
pub fn total_memory() -> u64 {
    // SAFETY: as above.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }).map_or(0, |pages| pages * page_size())
}

/// CPU time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub system_micros: i64,
    pub user_micros: i64,
}

/// Whose CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Process,
    Children,
    Thread,
}

/// The CPU time used so far.
pub fn cpu_time(whose: Whose) -> CpuTime {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for the answer; it stays zeros where the call fails.
    unsafe { libc::getrusage(who, &raw mut usage) };
    let micros = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    CpuTime { system_micros: micros(usage.ru_stime), user_micros: micros(usage.ru_utime) }
}

/// The kernel as `uname` names it: `Linux 6.1.0 x86_64`.
pub fn kernel() -> String {
    // SAFETY: utsname is arrays of characters, for which zeros are valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a valid place for the answer.
    unsafe { libc::uname(&raw mut name) };
    let text = |field: &[libc::c_char]| {
        let bytes = field.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned()).collect::<Vec<u8>>();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    format!("{} {} {}", text(&name.sysname), text(&name.release), text(&name.machine))
}

/// Descriptors that the server needs beside those of its clients, as Redis reserves them.
const RESERVED_FILES: u64 = 32;

/// Makes room for `clients` connections; returns how many there is room for.
pub fn make_room_for_clients(clients: u32) -> u32 {
    let wanted = u64::from(clients) + RESERVED_FILES;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return clients;
    }
    if limit.rlim_cur < wanted {
        let raised = libc::rlimit {
            rlim_cur: wanted.min(limit.rlim_max.max(limit.rlim_cur)),
            rlim_max: limit.rlim_max.max(limit.rlim_cur),
        };
        // A privileged process may go past its hard limit; another gets as far as that.
        for try_this in [libc::rlimit { rlim_cur: wanted, rlim_max: wanted.max(limit.rlim_max) }, raised] {
            // SAFETY: `try_this` is a valid limit to read.
            if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const try_this) } == 0 {
                limit = try_this;
                break;
            }
        }
    }
    u32::try_from(limit.rlim_cur.saturating_sub(RESERVED_FILES)).unwrap_or(u32::MAX).min(clients)
}

/// A moment as the wall shows it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    pub year: i32,
    /// From 0.
    pub month: usize,
    pub day: i32,
    pub hour: i32,
    pub minute: i32,
    pub second: i32,
}

/// `seconds` of Unix time in the machine's time zone.
pub fn local_time(seconds: i64) -> LocalTime {
    // SAFETY: tm is plain numbers and a pointer, for which zeros are valid.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; the `_r` form keeps nothing.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut tm) };
    LocalTime {
        year: tm.tm_year + 1900,
        month: usize::try_from(tm.tm_mon).unwrap_or(0),
        day: tm.tm_mday,
        hour: tm.tm_hour,
        minute: tm.tm_min,
        second: tm.tm_sec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        assert!(resident() > 100_000);
        assert!(total_memory() > resident());
        assert!(cpu_time(Whose::Process).user_micros >= cpu_time(Whose::Thread).user_micros);
        assert!(kernel().starts_with("Linux "));
        assert_eq!(make_room_for_clients(1), 1);
        assert!((0..12).contains(&local_time(0).month));
    }
}
