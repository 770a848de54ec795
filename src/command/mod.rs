//! Room `command`: one file a family; each is a list of entries and the handlers under it.

pub mod config;
pub mod connection;
pub mod debug;
pub mod help;
pub mod info;
pub mod keylatch;
pub mod lolwut;
pub mod server;
pub mod table;
