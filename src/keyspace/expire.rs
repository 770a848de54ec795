//! The active expire cycle. (Being written.)
