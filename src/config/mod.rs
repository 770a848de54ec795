//! Room `config`: the one table of parameters, and the file and command-line syntax. Not here:
//! what takes a change into effect (the server, told by `Hooks`).

mod change;
#[cfg(test)]
mod docs;
mod file;
mod idle;
mod params;
mod rewrite;
mod special;
mod value;

pub use change::Applied;
pub use file::{ConfigError, Startup};
pub use params::{Change, Config, Hooks, Param, all, find, is_secret};
pub use special::{Bind, Directory, NotifyClasses, OutputLimit, OutputLimits, Percentiles, Version};
pub use value::{Allow, Kind, LogFormat, LogLevel, MemoryPolicy, memory};
