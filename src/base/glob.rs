//! The glob matcher, as Redis's `stringmatchlen` decides. (Placeholder: being written.)

/// Whether `text` matches `pattern`; `nocase` folds ASCII case.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let _ = nocase;
    pattern == b"*" || pattern == text
}
