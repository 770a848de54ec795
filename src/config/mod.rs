//! Room `config`: the one table of parameters, and the file and command-line syntax.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allow {
    No,
    Local,
    Yes,
}
impl Allow {
    pub fn allows(self, local: bool) -> bool {
        match self {
            Allow::No => false,
            Allow::Local => local,
            Allow::Yes => true,
        }
    }
}

pub struct Config {
    pub databases: usize,
    pub enable_debug_command: Allow,
    pub maxmemory: u64,
    pub proto_max_bulk_len: u64,
    pub timeout: u64,
}
