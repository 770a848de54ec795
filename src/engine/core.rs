//! `Core`: the server's state. (Being written.)

/// The server's state.
pub struct Core {}

/// Through which door a command came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Client,
    Script,
    Transaction,
}
