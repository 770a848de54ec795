//! The families joined. Not here: the entries (one file a family), lookup (`engine::table`).

use crate::engine::table::Table;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&[
        super::acl::COMMANDS,
        super::bitfield::COMMANDS,
        super::bitmap::COMMANDS,
        super::bitop::COMMANDS,
        super::cas::COMMANDS,
        super::client::COMMANDS,
        super::cluster::COMMANDS,
        super::config::COMMANDS,
        super::connection::COMMANDS,
        super::counter::COMMANDS,
        super::debug::COMMANDS,
        super::dump::COMMANDS,
        super::eval::COMMANDS,
        super::expiry::COMMANDS,
        super::generic::COMMANDS,
        super::hyperloglog::COMMANDS,
        super::increx::COMMANDS,
        super::info::COMMANDS,
        super::introspect::COMMANDS,
        super::keylatch::COMMANDS,
        super::latency::COMMANDS,
        super::lcs::COMMANDS,
        super::lolwut::COMMANDS,
        super::monitor::COMMANDS,
        super::object::COMMANDS,
        super::pubsub::COMMANDS,
        super::replication::COMMANDS,
        super::scan::COMMANDS,
        super::memory::COMMANDS,
        super::server::COMMANDS,
        super::slowlog::COMMANDS,
        super::sort::COMMANDS,
        super::string::COMMANDS,
        super::transaction::COMMANDS,
    ])
});

/// All commands.
pub fn table() -> &'static Table {
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that locks stand on must not meet in the quick table.
    #[test]
    fn hot_names_are_found_at_once() {
        for name in
            ["get", "set", "del", "pttl", "ttl", "eval", "evalsha", "pexpire", "exists", "delex", "ping"]
        {
            assert!(table().is_quick(name.as_bytes()), "{name}");
        }
        for wrong in [&b"g\x05t"[..], b"ge", b"gett", b"\x07ET", b"get\0", b""] {
            assert!(table().find(wrong).is_none(), "{wrong:?}");
        }
        for command in table().all().iter().filter(|command| command.parent.is_none()) {
            let upper = command.spec.name.to_ascii_uppercase();
            assert_eq!(table().find(upper.as_bytes()).map(|found| found.id), Some(command.id));
        }
    }
}
