//! The families joined. Not here: the entries (one file a family), lookup (`engine::table`).

use crate::engine::table::Table;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    Table::new(&[
        super::config::COMMANDS,
        super::connection::COMMANDS,
        super::debug::COMMANDS,
        super::info::COMMANDS,
        super::keylatch::COMMANDS,
        super::lolwut::COMMANDS,
        super::server::COMMANDS,
    ])
});

/// All commands.
pub fn table() -> &'static Table {
    &TABLE
}
