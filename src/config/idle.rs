//! Parameters of Redis that a stock redis.conf or a test's command line may hold and that have no
//! effect here, each with the reason. Only what is a detail of something that keylatch either does
//! without being told or does not have (and refuses where it would matter). Not here: anything
//! that works (`params.rs`).

use super::params::{Change, Hooks, Param, Store};
use super::value::Kind;

const INT_MAX: i64 = i32::MAX as i64;

const PERSISTENCE: &str = "No effect: nothing is kept on disk.";
const TYPES: &str = "No effect: tunes a type that keylatch does not have.";
const EVICTION: &str = "No effect: nothing is evicted.";
const FREEING: &str = "No effect: a string is freed in constant time.";
const REPLICAS: &str = "No effect: there are no replicas.";
const CLUSTER: &str = "No effect: the cluster is one node.";
const ALLOCATOR: &str = "No effect: the allocator is tuned by keylatch itself.";
const HOST: &str = "No effect: keylatch does not touch this setting of the host.";

const fn idle(
    name: &'static str,
    alias: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> Param {
    Param { name, alias, kind, default, change: Change::Mutable, hooks: Hooks::NONE, doc, store: Store::Idle }
}

/// The same, where CONFIG SET may not change it.
const fn fixed(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Param {
    Param { change: Change::Fixed, ..idle(name, "", kind, default, doc) }
}

const SIZE: Kind = Kind::Memory(0, i64::MAX as u64);
const COUNT: Kind = Kind::Int(0, i64::MAX);

/// The table's part without effect.
pub(super) const IDLE: &[Param] = &[
    idle("dynamic-hz", "", Kind::YesNo, "yes", "No effect: with nothing to do, the process sleeps."),
    fixed("always-show-logo", Kind::YesNo, "no", "No effect: there is no logo."),
    fixed("set-proc-title", Kind::YesNo, "yes", "No effect: the process keeps its title."),
    fixed("crash-log-enabled", Kind::YesNo, "yes", "No effect: a crash is reported by the system."),
    fixed(
        "supervised",
        Kind::Choice(&["upstart", "systemd", "auto", "no"]),
        "no",
        "No effect: systemd is told whenever NOTIFY_SOCKET is set.",
    ),
    fixed("io-threads", Kind::Int(1, 128), "1", "No effect: one thread serves all clients."),
    fixed("io-threads-do-reads", Kind::YesNo, "no", "No effect: one thread serves all clients."),
    idle("acllog-max-len", "", COUNT, "128", "No effect: there is one user, and no log of refusals."),
    idle("shutdown-timeout", "", Kind::Int(0, INT_MAX), "10", REPLICAS),
    idle("activerehashing", "", Kind::YesNo, "yes", "No effect: a table grows bucket by bucket."),
    idle("activedefrag", "", Kind::OnlyNo("keylatch does not defragment memory"), "no", ALLOCATOR),
    idle("jemalloc-bg-thread", "", Kind::YesNo, "yes", ALLOCATOR),
    fixed("disable-thp", Kind::YesNo, "yes", HOST),
    idle("oom-score-adj", "", Kind::Choice(&["no", "yes", "relative", "absolute"]), "no", HOST),
    idle("oom-score-adj-values", "", Kind::Words("three integers"), "0 200 800", HOST),
    idle("maxmemory-samples", "", Kind::Int(1, INT_MAX), "5", EVICTION),
    idle("maxmemory-eviction-tenacity", "", Kind::Int(0, 100), "10", EVICTION),
    idle("lfu-log-factor", "", Kind::Int(0, INT_MAX), "10", EVICTION),
    idle("lfu-decay-time", "", Kind::Int(0, INT_MAX), "1", EVICTION),
    idle("lazyfree-lazy-eviction", "", Kind::YesNo, "no", EVICTION),
    idle("lazyfree-lazy-expire", "", Kind::YesNo, "no", FREEING),
    idle("lazyfree-lazy-server-del", "", Kind::YesNo, "no", FREEING),
    idle("lazyfree-lazy-user-del", "", Kind::YesNo, "no", FREEING),
    idle(
        "lazyfree-lazy-user-flush",
        "",
        Kind::YesNo,
        "no",
        "No effect: a flushed database is always dropped bit by bit in the background.",
    ),
    idle("hash-max-listpack-entries", "hash-max-ziplist-entries", COUNT, "512", TYPES),
    idle("hash-max-listpack-value", "hash-max-ziplist-value", SIZE, "64", TYPES),
    idle("list-max-listpack-size", "list-max-ziplist-size", Kind::Int(-5, INT_MAX), "-2", TYPES),
    idle("list-compress-depth", "", Kind::Int(0, INT_MAX), "0", TYPES),
    idle("set-max-intset-entries", "", COUNT, "512", TYPES),
    idle("set-max-listpack-entries", "", COUNT, "128", TYPES),
    idle("set-max-listpack-value", "", SIZE, "64", TYPES),
    idle("zset-max-listpack-entries", "zset-max-ziplist-entries", COUNT, "128", TYPES),
    idle("zset-max-listpack-value", "zset-max-ziplist-value", SIZE, "64", TYPES),
    idle("stream-node-max-bytes", "", SIZE, "4096", TYPES),
    idle("stream-node-max-entries", "", COUNT, "100", TYPES),
    idle("stop-writes-on-bgsave-error", "", Kind::YesNo, "yes", PERSISTENCE),
    idle("rdbcompression", "", Kind::YesNo, "yes", PERSISTENCE),
    fixed("rdbchecksum", Kind::YesNo, "yes", PERSISTENCE),
    idle("rdb-save-incremental-fsync", "", Kind::YesNo, "yes", PERSISTENCE),
    fixed("rdb-del-sync-files", Kind::YesNo, "no", PERSISTENCE),
    Param { change: Change::Protected, ..idle("dbfilename", "", Kind::Text, "dump.rdb", PERSISTENCE) },
    fixed("appendfilename", Kind::Text, "appendonly.aof", PERSISTENCE),
    fixed("appenddirname", Kind::Text, "appendonlydir", PERSISTENCE),
    idle("appendfsync", "", Kind::Choice(&["everysec", "always", "no"]), "everysec", PERSISTENCE),
    idle("no-appendfsync-on-rewrite", "", Kind::YesNo, "no", PERSISTENCE),
    idle("auto-aof-rewrite-percentage", "", Kind::Int(0, INT_MAX), "100", PERSISTENCE),
    idle("auto-aof-rewrite-min-size", "", SIZE, "67108864", PERSISTENCE),
    idle("aof-load-truncated", "", Kind::YesNo, "yes", PERSISTENCE),
    idle("aof-use-rdb-preamble", "", Kind::YesNo, "yes", PERSISTENCE),
    idle("aof-timestamp-enabled", "", Kind::YesNo, "no", PERSISTENCE),
    idle("aof-rewrite-incremental-fsync", "", Kind::YesNo, "yes", PERSISTENCE),
    idle("replica-serve-stale-data", "slave-serve-stale-data", Kind::YesNo, "yes", REPLICAS),
    idle("replica-read-only", "slave-read-only", Kind::YesNo, "yes", REPLICAS),
    idle("replica-priority", "slave-priority", Kind::Int(0, INT_MAX), "100", REPLICAS),
    idle("replica-lazy-flush", "slave-lazy-flush", Kind::YesNo, "no", REPLICAS),
    idle("repl-diskless-sync", "", Kind::YesNo, "yes", REPLICAS),
    idle("repl-diskless-sync-delay", "", Kind::Int(0, INT_MAX), "5", REPLICAS),
    idle("repl-diskless-sync-max-replicas", "", Kind::Int(0, INT_MAX), "0", REPLICAS),
    idle(
        "repl-diskless-load",
        "",
        Kind::Choice(&["disabled", "on-empty-db", "swapdb"]),
        "disabled",
        REPLICAS,
    ),
    idle("repl-disable-tcp-nodelay", "", Kind::YesNo, "no", REPLICAS),
    idle("repl-backlog-size", "", Kind::Memory(1, i64::MAX as u64), "1048576", REPLICAS),
    idle("repl-backlog-ttl", "", Kind::Int(0, i64::MAX), "3600", REPLICAS),
    idle("repl-timeout", "", Kind::Int(1, INT_MAX), "60", REPLICAS),
    fixed("cluster-config-file", Kind::Text, "nodes.conf", CLUSTER),
    idle("cluster-node-timeout", "", Kind::Int(0, i64::MAX), "15000", CLUSTER),
    idle("cluster-require-full-coverage", "", Kind::YesNo, "yes", CLUSTER),
    idle("cluster-allow-reads-when-down", "", Kind::YesNo, "no", CLUSTER),
];
