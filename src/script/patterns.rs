//! (Being written.)

use super::lua::State;

pub(super) unsafe fn install(_: State) {}
