//! Starts the server. Not here: anything else (`lib.rs`).

fn main() {}
