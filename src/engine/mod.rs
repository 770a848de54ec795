//! Room `engine`: who may do what, and what follows. It is given the table of commands; it names
//! none of them.

pub mod core;
pub mod spec;
