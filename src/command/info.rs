//! INFO: which sections there are and what stands in them, in the order of Redis 7.0.15. Not here:
//! the counting (`engine::stats`).

use std::fmt::{self, Write};

use crate::base::chance::Chance;
use crate::base::clock::UnixMs;
use crate::base::process::{self, Whose};
use crate::base::{memory, number_text};
use crate::engine::core::Core;
use crate::engine::spec::{Arity, Context, Flags, Group, Handler, Outcome, Spec};
use crate::keyspace::Db;
use crate::resp::{Args, Reply};

/// The entry.
pub const COMMANDS: &[Spec] = &[Spec {
    name: "info",
    group: Group::Server,
    since: "1.0.0",
    summary: "Gives figures about the server: all sections, or those that are named.",
    synopsis: "[section [section ...]]",
    arity: Arity::AtLeast(1),
    flags: Flags::LOADING.or(Flags::STALE),
    acl: &["dangerous"],
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    history: &[("7.0.0", "Takes several sections.")],
    handler: Handler::Server(|ctx, args, reply| info(ctx, args, reply)),
    ..Spec::NONE
}];

/// One section: its title, whether it is shown unasked, what writes it.
struct Section {
    title: &'static str,
    default: bool,
    write: fn(&mut Page<'_>) -> fmt::Result,
}

/// In the order in which they are shown.
const SECTIONS: &[Section] = &[
    Section { title: "Server", default: true, write: server },
    Section { title: "Clients", default: true, write: clients },
    Section { title: "Memory", default: true, write: memory_figures },
    Section { title: "Persistence", default: true, write: persistence },
    Section { title: "Stats", default: true, write: stats },
    Section { title: "Replication", default: true, write: replication },
    Section { title: "CPU", default: true, write: cpu },
    Section { title: "Modules", default: true, write: |_| Ok(()) },
    Section { title: "Commandstats", default: false, write: commandstats },
    Section { title: "Errorstats", default: true, write: errorstats },
    Section { title: "Latencystats", default: false, write: latencystats },
    Section { title: "Cluster", default: true, write: cluster },
    Section { title: "Keyspace", default: true, write: keyspace },
];

fn info(
    ctx: &mut Context<'_>,
    args: &Args<'_>,
    reply: &mut dyn Reply,
) -> Result<Outcome, crate::base::error::CommandError> {
    let asked = args.rest(1);
    let named = |name: &str| asked.iter().any(|arg| arg.eq_ignore_ascii_case(name.as_bytes()));
    let all = named("all") || named("everything");
    let default = asked.is_empty() || named("default");
    let chosen = |section: &&Section| all || (default && section.default) || named(section.title);
    ctx.core.note_memory();
    let mut page = Page { core: ctx.core, now: ctx.now, text: String::with_capacity(4096) };
    for section in SECTIONS.iter().filter(chosen) {
        if !page.text.is_empty() {
            page.text.push_str("\r\n");
        }
        let written = write!(page.text, "# {}\r\n", section.title).and_then(|()| (section.write)(&mut page));
        written.expect("a String takes all that is written to it");
    }
    reply.verbatim(b"txt", page.text.as_bytes());
    Ok(Outcome::Done)
}

/// The text so far, and what it is made from.
struct Page<'a> {
    core: &'a Core,
    now: UnixMs,
    text: String,
}

impl Page<'_> {
    /// One field.
    fn line(&mut self, name: &str, value: impl fmt::Display) -> fmt::Result {
        write!(self.text, "{name}:{value}\r\n")
    }

    /// Fields that are always 0 here, because what they count is not there.
    fn zeros(&mut self, names: &[&str]) -> fmt::Result {
        names.iter().try_for_each(|name| self.line(name, 0))
    }

    /// Bytes, plain and for people.
    fn bytes(&mut self, name: &str, bytes: u64) -> fmt::Result {
        self.line(name, bytes)?;
        self.line(&format!("{name}_human"), number_text::human_bytes(bytes))
    }
}

fn server(page: &mut Page<'_>) -> fmt::Result {
    let core = page.core;
    let (config, identity) = (&core.config, &core.identity);
    let uptime = page.now.since(identity.started_at).max(0) / 1000;
    let supervised = if std::env::var_os("NOTIFY_SOCKET").is_some() { "systemd" } else { "no" };
    page.line("redis_version", &config.compat_version.text)?;
    page.line("redis_git_sha1", "00000000")?;
    page.line("redis_git_dirty", 0)?;
    page.line("redis_build_id", concat!("keylatch-", env!("CARGO_PKG_VERSION")))?;
    page.line("redis_mode", if config.cluster_enabled { "cluster" } else { "standalone" })?;
    page.line("os", process::kernel())?;
    page.line("arch_bits", usize::BITS)?;
    page.line("monotonic_clock", "POSIX clock_gettime")?;
    page.line("multiplexing_api", "epoll")?;
    page.line("atomicvar_api", "none")?;
    page.line("gcc_version", "0.0.0")?;
    page.line("process_id", std::process::id())?;
    page.line("process_supervised", supervised)?;
    page.line("run_id", &identity.run_id)?;
    page.line("tcp_port", identity.port)?;
    page.line("server_time_usec", core.turn.micros())?;
    page.line("uptime_in_seconds", uptime)?;
    page.line("uptime_in_days", uptime / 86_400)?;
    page.line("hz", config.hz)?;
    page.line("configured_hz", config.hz)?;
    page.line("lru_clock", lru_clock(page.now))?;
    page.line("executable", &identity.executable)?;
    page.line("config_file", &identity.config_file)?;
    page.line("io_threads_active", 0)
}

/// Seconds as Redis keeps them with a key: 24 bits.
pub fn lru_clock(now: UnixMs) -> i64 {
    (now.0 / 1000) & 0x00ff_ffff
}

fn clients(page: &mut Page<'_>) -> fmt::Result {
    let core = page.core;
    let figures = core.client_figures();
    page.line("connected_clients", core.clients.len())?;
    page.line("cluster_connections", 0)?;
    page.line("maxclients", core.config.maxclients)?;
    page.line("client_recent_max_input_buffer", figures.largest_input)?;
    page.line("client_recent_max_output_buffer", figures.largest_output)?;
    page.line("blocked_clients", figures.blocked)?;
    page.line("tracking_clients", figures.tracking)?;
    page.line("clients_in_timeout_table", figures.blocked_with_timeout)
}

fn memory_figures(page: &mut Page<'_>) -> fmt::Result {
    let core = page.core;
    let (own, resident, total) = (memory::figures(), process::resident(), process::total_memory());
    let used = own.allocated;
    let peak = core.peak_memory.max(used);
    let start = core.memory_at_start.min(used);
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    let clients: u64 = core.client_figures().buffers;
    let lua = core.lua;
    page.bytes("used_memory", used)?;
    page.bytes("used_memory_rss", resident)?;
    page.bytes("used_memory_peak", peak)?;
    page.line("used_memory_peak_perc", format_args!("{:.2}%", share(used, peak)))?;
    page.line("used_memory_overhead", start + clients)?;
    page.line("used_memory_startup", start)?;
    let dataset = used.saturating_sub(start + clients);
    page.line("used_memory_dataset", dataset)?;
    page.line("used_memory_dataset_perc", format_args!("{:.2}%", share(dataset, used - start)))?;
    page.line("allocator_allocated", own.allocated)?;
    page.line("allocator_active", own.active)?;
    page.line("allocator_resident", own.resident)?;
    page.bytes("total_system_memory", total)?;
    page.line("used_memory_lua", lua.memory)?;
    page.line("used_memory_vm_eval", lua.memory)?;
    page.line("used_memory_lua_human", number_text::human_bytes(lua.memory))?;
    page.line("used_memory_scripts_eval", lua.script_bytes)?;
    page.line("number_of_cached_scripts", lua.scripts)?;
    page.line("number_of_functions", lua.functions)?;
    page.line("number_of_libraries", lua.libraries)?;
    page.line("used_memory_vm_functions", 0)?;
    page.bytes("used_memory_vm_total", lua.memory)?;
    page.line("used_memory_functions", 0)?;
    page.bytes("used_memory_scripts", lua.script_bytes)?;
    page.bytes("maxmemory", core.config.maxmemory)?;
    page.line("maxmemory_policy", "noeviction")?;
    // How much more the second is than the first: as a ratio, and in bytes.
    let mut overhead = |name: &str, part: u64, whole: u64| {
        let (ratio, bytes) = name.split_once(' ').unwrap_or((name, ""));
        let times = if part == 0 { 0.0 } else { whole as f64 / part as f64 };
        page.line(ratio, format_args!("{times:.2}"))?;
        page.line(bytes, whole.cast_signed() - part.cast_signed())
    };
    overhead("allocator_frag_ratio allocator_frag_bytes", own.allocated, own.active)?;
    overhead("allocator_rss_ratio allocator_rss_bytes", own.active, own.resident)?;
    overhead("rss_overhead_ratio rss_overhead_bytes", own.resident, resident)?;
    overhead("mem_fragmentation_ratio mem_fragmentation_bytes", used, resident)?;
    page.zeros(&[
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
    ])?;
    page.line("mem_clients_normal", clients)?;
    page.zeros(&["mem_cluster_links", "mem_aof_buffer"])?;
    page.line("mem_allocator", memory::ALLOCATOR)?;
    page.line("active_defrag_running", 0)?;
    page.line("lazyfree_pending_objects", core.reaper.iter().map(|db| db.len()).sum::<usize>())?;
    page.line("lazyfreed_objects", 0)
}

fn persistence(page: &mut Page<'_>) -> fmt::Result {
    page.zeros(&[
        "loading",
        "async_loading",
        "current_cow_peak",
        "current_cow_size",
        "current_cow_size_age",
    ])?;
    page.line("current_fork_perc", "0.00")?;
    page.zeros(&["current_save_keys_processed", "current_save_keys_total"])?;
    page.line("rdb_changes_since_last_save", page.core.effects.dirty)?;
    page.line("rdb_bgsave_in_progress", 0)?;
    page.line("rdb_last_save_time", page.core.identity.started_at.0 / 1000)?;
    page.line("rdb_last_bgsave_status", "ok")?;
    page.line("rdb_last_bgsave_time_sec", -1)?;
    page.line("rdb_current_bgsave_time_sec", -1)?;
    page.zeros(&[
        "rdb_saves",
        "rdb_last_cow_size",
        "rdb_last_load_keys_expired",
        "rdb_last_load_keys_loaded",
    ])?;
    page.zeros(&["aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled"])?;
    page.line("aof_last_rewrite_time_sec", -1)?;
    page.line("aof_current_rewrite_time_sec", -1)?;
    page.line("aof_last_bgrewrite_status", "ok")?;
    page.zeros(&["aof_rewrites", "aof_rewrites_consecutive_failures"])?;
    page.line("aof_last_write_status", "ok")?;
    page.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"])
}

fn stats(page: &mut Page<'_>) -> fmt::Result {
    let core = page.core;
    let (stats, effects) = (&core.stats, &core.effects);
    page.line("total_connections_received", stats.connections_received)?;
    page.line("total_commands_processed", stats.commands_processed)?;
    page.line("instantaneous_ops_per_sec", stats.ops_per_second(page.now.0))?;
    page.line("total_net_input_bytes", stats.net_input)?;
    page.line("total_net_output_bytes", stats.net_output)?;
    page.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"])?;
    let (input, output) = stats.bytes_per_second(page.now.0);
    page.line("instantaneous_input_kbps", format_args!("{:.2}", input as f64 / 1024.0))?;
    page.line("instantaneous_output_kbps", format_args!("{:.2}", output as f64 / 1024.0))?;
    page.line("instantaneous_input_repl_kbps", "0.00")?;
    page.line("instantaneous_output_repl_kbps", "0.00")?;
    page.line("rejected_connections", stats.connections_rejected)?;
    page.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"])?;
    page.line("expired_keys", effects.expired)?;
    page.line("expired_stale_perc", format_args!("{:.2}", stats.expired_stale_share * 100.0))?;
    page.line("expired_time_cap_reached_count", stats.expire_cap_reached)?;
    page.line("expire_cycle_cpu_milliseconds", stats.expire_cycle_micros / 1000)?;
    page.zeros(&["evicted_keys", "evicted_clients"])?;
    page.zeros(&["total_eviction_exceeded_time", "current_eviction_exceeded_time"])?;
    page.line("keyspace_hits", effects.hits)?;
    page.line("keyspace_misses", effects.misses)?;
    let heard = core.pubsub_figures();
    page.line("pubsub_channels", heard.channels)?;
    page.line("pubsub_patterns", heard.patterns)?;
    page.line("pubsubshard_channels", heard.shard_channels)?;
    page.zeros(&["latest_fork_usec", "total_forks", "migrate_cached_sockets", "slave_expires_tracked_keys"])?;
    page.zeros(&["active_defrag_hits", "active_defrag_misses"])?;
    page.zeros(&["active_defrag_key_hits", "active_defrag_key_misses"])?;
    page.zeros(&["total_active_defrag_time", "current_active_defrag_time"])?;
    let tracked = core.tracking_figures();
    page.line("tracking_total_keys", tracked.keys)?;
    page.line("tracking_total_items", tracked.items)?;
    page.line("tracking_total_prefixes", tracked.prefixes)?;
    page.line("unexpected_error_replies", stats.unexpected_errors)?;
    page.line("total_error_replies", stats.error_replies)?;
    page.line("dump_payload_sanitizations", 0)?;
    page.line("total_reads_processed", stats.reads)?;
    page.line("total_writes_processed", stats.writes)?;
    page.zeros(&["io_threaded_reads_processed", "io_threaded_writes_processed"])?;
    page.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"])
}

fn replication(page: &mut Page<'_>) -> fmt::Result {
    page.line("role", "master")?;
    page.line("connected_slaves", 0)?;
    page.line("master_failover_state", "no-failover")?;
    page.line("master_replid", &page.core.identity.replication_id)?;
    page.line("master_replid2", "0000000000000000000000000000000000000000")?;
    page.line("master_repl_offset", 0)?;
    page.line("second_repl_offset", -1)?;
    page.line("repl_backlog_active", 0)?;
    page.line("repl_backlog_size", 1_048_576)?;
    page.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"])
}

fn cpu(page: &mut Page<'_>) -> fmt::Result {
    let seconds = |micros: i64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    for (whose, suffix) in
        [(Whose::Process, ""), (Whose::Children, "_children"), (Whose::Thread, "_main_thread")]
    {
        let time = process::cpu_time(whose);
        page.line(&format!("used_cpu_sys{suffix}"), seconds(time.system_micros))?;
        page.line(&format!("used_cpu_user{suffix}"), seconds(time.user_micros))?;
    }
    Ok(())
}

fn commandstats(page: &mut Page<'_>) -> fmt::Result {
    let core = page.core;
    for command in core.table.all() {
        let stats = &core.stats.commands[command.id];
        if stats.calls == 0 && stats.rejected == 0 && stats.failed == 0 {
            continue;
        }
        let each = if stats.calls == 0 { 0.0 } else { stats.micros as f64 / stats.calls as f64 };
        write!(
            page.text,
            "cmdstat_{}:calls={},usec={},usec_per_call={each:.2},rejected_calls={},failed_calls={}\r\n",
            command.full_name, stats.calls, stats.micros, stats.rejected, stats.failed
        )?;
    }
    Ok(())
}

fn errorstats(page: &mut Page<'_>) -> fmt::Result {
    let core = page.core;
    core.stats.errors.iter().try_for_each(|(code, count)| {
        // A script chooses its codes; they must not look like lines of INFO's.
        let code = code.replace(['#', ':'], "_");
        write!(page.text, "errorstat_{code}:count={count}\r\n")
    })
}

fn latencystats(page: &mut Page<'_>) -> fmt::Result {
    let core = page.core;
    if !core.config.latency_tracking {
        return Ok(());
    }
    for command in core.table.all() {
        let times = &core.stats.times[command.id];
        if times.is_empty() {
            continue;
        }
        write!(page.text, "latency_percentiles_usec_{}:", command.full_name)?;
        for (at, percentile) in core.config.latency_tracking_info_percentiles.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(page.text, "{comma}p{percentile}={:.3}", times.percentile(*percentile))?;
        }
        page.text.push_str("\r\n");
    }
    Ok(())
}

fn cluster(page: &mut Page<'_>) -> fmt::Result {
    page.line("cluster_enabled", u8::from(page.core.config.cluster_enabled))
}

fn keyspace(page: &mut Page<'_>) -> fmt::Result {
    let core = page.core;
    for index in 0..core.keyspace.count() {
        let db = core.keyspace.db(index);
        let (keys, expires) = (db.len(), db.volatile_len());
        if keys > 0 {
            let ttl = average_ttl_ms(db, page.now);
            write!(page.text, "db{index}:keys={keys},expires={expires},avg_ttl={ttl}\r\n")?;
        }
    }
    Ok(())
}

/// An estimate from a few keys, as Redis's is. It draws on chance of its own, so that looking at
/// the figures changes nothing.
fn average_ttl_ms(db: &Db, now: UnixMs) -> i64 {
    const SAMPLE: usize = 16;
    let mut chance = Chance::from_seed(now.0.cast_unsigned());
    let ttls: Vec<i64> = (0..SAMPLE)
        .filter_map(|_| db.deadline(db.random_volatile(&mut chance)?))
        .map(|deadline| deadline.since(now).max(0))
        .collect();
    let sum: i128 = ttls.iter().map(|&ttl| i128::from(ttl)).sum();
    if ttls.is_empty() { 0 } else { (sum / ttls.len() as i128) as i64 }
}
