//! Room `command`: one file a family; each is a list of entries and the handlers under it.

pub mod config;
pub mod connection;
pub mod help;
pub mod table;
