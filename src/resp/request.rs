//! The incremental request parser, multibulk and inline. (Being written.)
