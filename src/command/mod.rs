//! Room `command`: one file a family; each is a list of entries and the handlers under it.

pub mod acl;
pub mod bitfield;
pub mod bitmap;
pub mod bitop;
pub mod cas;
pub mod client;
pub mod client_list;
pub mod client_wait;
pub mod cluster;
pub mod config;
pub mod connection;
pub mod counter;
pub mod debug;
pub mod digest;
pub mod dump;
pub mod eval;
pub mod expiry;
pub mod fault;
#[cfg(test)]
mod fault_tests;
pub mod generic;
pub mod help;
pub mod hyperloglog;
pub mod increx;
pub mod info;
pub mod introspect;
pub mod keylatch;
pub mod latency;
pub mod latency_text;
pub mod lcs;
mod listing;
#[cfg(test)]
mod lock_loss_tests;
pub mod locks;
#[cfg(test)]
mod locks_tests;
pub mod lolwut;
pub mod matching;
pub mod memory;
pub mod monitor;
pub mod object;
pub mod options;
pub mod pubsub;
pub mod replication;
pub mod scan;
pub mod server;
#[cfg(test)]
mod several;
pub mod slowlog;
pub mod sort;
pub mod string;
pub mod table;
#[cfg(test)]
mod testing;
pub mod tracking;
pub mod transaction;
#[cfg(test)]
mod watching_tests;
