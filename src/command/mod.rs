//! Room `command`: one file a family; each is a list of entries and the handlers under it.

pub mod config;
pub mod connection;
pub mod counter;
pub mod debug;
pub mod expiry;
pub mod generic;
pub mod help;
pub mod info;
pub mod keylatch;
pub mod lolwut;
pub mod object;
pub mod options;
pub mod scan;
pub mod server;
pub mod string;
pub mod table;
#[cfg(test)]
mod testing;
