//! `Tree`: a `Reply` as a value, for tests and the embedded API. (Being written.)
