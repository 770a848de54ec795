//! keylatch: a Redis-compatible server for distributed locks and for the tests of code that
//! takes them.

pub mod base;
pub mod command;
pub mod config;
pub mod daemon;
pub mod embed;
pub mod engine;
pub mod exec;
pub mod keyspace;
pub mod logging;
pub mod net;
pub mod nodes;
pub mod resp;
pub mod script;
pub mod server;
pub mod sight;

pub use embed::{Builder, Server, StartError, faults};
pub use engine::locks::findings::Mistake;
pub use engine::locks::view::{Finding, HeldLock, LockEvent, What, Who};
pub use nodes::{Nodes, NodesBuilder};

/// The examples of docs/testing.md, run with the others.
#[cfg(doctest)]
#[doc = include_str!("../docs/testing.md")]
struct TestingPage;
