//! The families joined. Not here: the entries (one file a family), lookup (`engine::table`).

use crate::engine::table::Table;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&[
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
