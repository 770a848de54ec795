//! (Being written.)

use super::lua::{State, ffi};

pub(super) unsafe fn push_library(l: State) {
    unsafe { ffi::lua_createtable(l, 0, 0) };
}
