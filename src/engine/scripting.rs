//! The engine's side of scripts: what `script::Redis` asks is answered by `Core`, and the host is
//! lent the core for the length of a run. Not here: Lua (`script`).

use super::core::Core;
use super::spec::ScriptRequest;
use crate::base::error::CommandError;
use crate::resp::{Args, Reply};

/// The script host and what it needs of the engine.
pub struct ScriptHost {}

impl ScriptHost {
    /// A host with nothing cached.
    pub fn new(_core: &Core) -> Self {
        ScriptHost {}
    }

    /// Does what a script command asked for.
    pub fn run(
        &mut self,
        _core: &mut Option<Box<Core>>,
        _client: usize,
        _request: ScriptRequest,
        _args: &Args<'_>,
        _reply: &mut dyn Reply,
    ) -> Result<(), CommandError> {
        Err(CommandError::NoScript)
    }
}
