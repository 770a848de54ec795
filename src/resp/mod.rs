//! Room `resp`: bytes and meanings. Requests are cut out of the input here, replies become
//! bytes here; nothing here knows a command.

pub mod args;
pub mod encode;
pub mod reply;
pub mod request;
pub mod tree;

pub use args::Args;
pub use encode::{Protocol, RespWriter};
pub use reply::Reply;
pub use tree::{Tree, TreeReply};
